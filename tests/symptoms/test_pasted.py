"""Pasted texts: the right cause is among the first two, and its command runs as printed and shows the fault."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest

from ibkeys.sim.state.file import StateFile
from ibkeys.symptoms.explain import explain
from tests.cli.conftest import TWO_SWITCH, Result, run
from tests.fabricsim import subnet
from tests.symptoms.faults import FAULTS, SYSFS
from tests.symptoms.texts import Pasted, pasted_texts

TEXTS = list(pasted_texts())


def test_there_are_enough() -> None:
    assert len(TEXTS) >= 60


@pytest.fixture
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.cli.site.file.DEFAULT_SITE", Path("/nowhere/ibkeys.toml"))


def place(pasted: Pasted, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make the fault, and return what a command needs beside what is printed to see it."""
    if pasted.fault:
        with closing(StateFile(folder / "fabric", subnet("two-switch"))) as state:
            if pasted.fault != "no-sm":
                state.subnet.set_sm("node01 mlx4_0")
            FAULTS[pasted.fault](state.subnet)
        monkeypatch.setenv("IBKEYS_BACKEND", f"{TWO_SWITCH},state={folder / 'fabric'}")
        monkeypatch.setenv("IBKEYS_TIMEOUT", "10")
        return []
    tree = SYSFS[pasted.host](folder / "sys")
    return ["--sysfs", str(tree.root)]


@pytest.mark.usefixtures("_no_variables")
@pytest.mark.parametrize("pasted", TEXTS, ids=str)
def test_the_cause_is_among_the_first_two_and_its_command_shows_it(
    pasted: Pasted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_JOURNAL", str(tmp_path / "journal"))
    answers = run("explain", "-f", "json", "-", stdin=pasted.text).json["answers"]
    causes = answers[0]["causes"][:2]
    named = {each["cause"]: each for each in causes}
    assert pasted.cause in named, [each["symptom"] for each in answers] + list(named)
    command = named[pasted.cause]["command"]
    if not pasted.shows:
        return
    more = place(pasted, tmp_path, monkeypatch)
    program, *words = shlex.split(command)
    assert program == "ibkeys"
    ended: Result = run(*words, *(more if words[0] == "host-show" else ()))
    assert ended.code in (0, 1, 3)
    assert re.search(pasted.shows, ended.out + ended.err), ended.out + ended.err


@pytest.mark.parametrize("pasted", TEXTS, ids=str)
@pytest.mark.parametrize("change", [str.lower, str.upper, lambda text: text.replace("\n", " ")], ids=["a", "A", "line"])
def test_case_and_line_breaks_do_not_matter(pasted: Pasted, change: object) -> None:
    assert callable(change)
    causes = explain(change(pasted.text)).answers[0].causes[:2]
    assert pasted.cause in {each.cause.name for each in causes}
