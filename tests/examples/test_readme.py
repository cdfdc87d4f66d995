"""The README's three questions: what it shows is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.corpus import DATA
from tests.pictures.site import small, snapshots

README = DATA.parent.parent / "README.md"


def shown() -> list[tuple[str, str]]:
    """Return the commands of the section, each with the output below it."""
    section = README.read_text().split("\n## Three questions\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, re.S)
    return [
        (command, output)
        for block in blocks
        for command, output in re.findall(r"^\$ ibkeys (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    ]


def test_the_answers_are_those_of_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    snapshots(small(), Path("monday.db"), Path("tuesday.db"))
    assert len(shown()) == 4
    for command, output in shown():
        done = run(*shlex.split(command))
        assert (done.out, done.err) == (output, "")
