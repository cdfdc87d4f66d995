"""The README's three questions: what it shows is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.cli import main
from tests.cli.conftest import run
from tests.corpus import DATA
from tests.examples.pages import commands, named
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


def test_it_counts_the_rules_of_the_audit() -> None:
    assert f"Audits it with {len(CATALOGUE)} rules." in README.read_text()


def test_each_command_line_can_be_typed_as_it_stands() -> None:
    """With all that it requires; tests/examples/test_site_file.py tries those that change with a site file."""
    lines = [each for each in commands(README) if each.is_whole]
    assert len(lines) > 25
    for line in lines:
        command, rest = named(line)
        command.make_context(line.words[0], rest, parent=click.Context(main, **main.context_settings))
