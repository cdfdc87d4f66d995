"""Runs of M_Keys on two subnets with one journal and one key store: neither keeps the other from going on or back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import DUAL_HOME, TWO_SWITCH, Result, run

Typed = Callable[..., Result]
DEPLOY = ("mkey-deploy", "--per-port", "--protect", 1, "--lease", 60, "--yes")
FIRST = (*DEPLOY, "--first", 2)


@pytest.fixture
def on(tmp_path: Path) -> Typed:
    """Type a command on one of the two subnets; what it does there lasts."""
    subnets = {"one": TWO_SWITCH, "other": DUAL_HOME}
    stores = ("--journal", tmp_path / "journal.db", "--keystore", tmp_path / "keys.db")

    def typed(where: str, *words: object) -> Result:
        return run(*words, "--backend", f"{subnets[where]},state={tmp_path / where}", *stores)

    return typed


def operations(on: Typed) -> list[tuple[Any, ...]]:
    found = on("one", "journal", "-f", "json").json["operations"]
    return [(each["id"], each["command"], each["state"]) for each in found]


def test_a_run_that_is_open_keeps_none_from_beginning_on_another_subnet(on: Typed) -> None:
    assert on("one", *FIRST).code == 0
    begun = on("other", *FIRST)
    assert begun.code == 0, begun.err
    assert "operation 1 (mkey-deploy) is open on another subnet: `ibkeys resume 1` finishes it" in begun.err
    for where, number in {"one": 1, "other": 2}.items():
        refused = on(where, *DEPLOY)
        assert (refused.code, f"`ibkeys resume {number}` finishes it" in refused.err) == (4, True), refused.err
    assert operations(on) == [(1, "mkey-deploy", "open"), (2, "mkey-deploy", "open")]


@pytest.mark.parametrize("word", ["resume", "undo"])
def test_each_goes_on_and_back_by_its_number(on: Typed, word: str) -> None:
    for where in ("one", "other"):
        assert on(where, *FIRST).code == 0
    several = on("one", word, "--yes")
    assert (several.code, "operation 1 (mkey-deploy), operation 2 (mkey-deploy)" in several.error) == (2, True)
    elsewhere = on("one", word, 2, "--yes")
    assert (elsewhere.code, "that run was on a different one" in elsewhere.err) == (4, True)
    went = on("one", word, 1, "--yes")
    assert (went.code, "note: operation 2 (mkey-deploy) is open: `ibkeys resume 2`" in went.err) == (0, True), went.err
    assert "operation 1 (mkey-deploy) is open" not in went.err
    ends = "done" if word == "resume" else "undone"
    assert operations(on)[:2] == [(1, "mkey-deploy", ends), (2, "mkey-deploy", "open")]
    went = on("other", word, "--yes")
    assert went.code == 0, went.err
    assert operations(on)[1] == (2, "mkey-deploy", ends)


def test_a_finished_run_goes_back_when_a_later_one_was_on_another_subnet(on: Typed) -> None:
    for where in ("one", "other"):
        assert on(where, *DEPLOY).code == 0
    assert on("other", "mkey-rotate", "--per-port", "--yes").code == 0
    refused = on("other", "undo", 2, "--yes")
    assert (refused.code, "not the last run of M_Keys on its subnet" in refused.error) == (2, True)
    assert on("one", "undo", 1, "--yes", "--leave-open").code == 0
    assert on("other", "undo", 3, "--yes").code == 0
    assert [each[2] for each in operations(on)] == ["undone", "done", "undone", "done", "done"]


def test_what_ends_on_one_subnet_ends_nothing_on_the_other(on: Typed) -> None:
    """A run ends the record of earlier ones, and what an earlier version of ibkeys left open since it began."""
    assert on("one", *FIRST).code == 0
    assert on("other", *FIRST).code == 0
    assert on("one", "resume", 1, "--yes").code == 0
    assert on("one", "mkey-rotate", "--per-port", "--yes").code == 0
    assert on("one", "undo", 3, "--yes").code == 0
    assert operations(on)[1] == (2, "mkey-deploy", "open")


def test_doctor_names_each_run_that_is_open(on: Typed) -> None:
    for where in ("one", "other"):
        on(where, *FIRST)
    checks = on("one", "doctor", "-f", "json").json["checks"]
    told = [each["detail"] for each in checks if each["name"] == "M_Key run"]
    assert [each[:11] for each in told] == ["operation 1", "operation 2"]
