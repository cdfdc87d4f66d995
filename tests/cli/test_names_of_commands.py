"""How a command is found by what was typed: its name, with a blank for the hyphen, or a name that it had before."""

from __future__ import annotations

import shlex

import pytest

from ibkeys.cli import COMMANDS, main
from ibkeys.cli.renamed import RENAMED
from tests.cli.conftest import TWO_SWITCH, run
from tests.corpus import DATA

OLD_LINES = [shlex.split(line)[1:] for line in (DATA / "old-command-lines.txt").read_text().splitlines()]
HYPHENED = [name for name in COMMANDS if "-" in name]


@pytest.mark.parametrize("name", HYPHENED)
def test_a_blank_stands_for_the_hyphen(name: str) -> None:
    assert run(*name.split("-", 1), "--help").out == run(name, "--help").out != ""


def test_no_command_is_the_first_word_of_another() -> None:
    """Else ``ibkeys NAME WORD`` could mean two things, of which one may be a change."""
    parts = [name.split("-") for name in COMMANDS]
    assert not {each[0] for each in parts if len(each) > 1} & COMMANDS.keys()
    assert max(map(len, parts)) == 2, "only two words are joined"


def test_words_after_the_second_are_arguments() -> None:
    done = run("pkey", "show", "--backend", TWO_SWITCH, "2", "-f", "json")
    assert (done.code, done.json["schema"].partition("/")[0]) == (0, "ibkeys.pkey-show")
    assert done.json == run("pkey-show", "--backend", TWO_SWITCH, "2", "-f", "json").json


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pkey",), "No such command 'pkey'; did you mean pkey-show, pkey-set, pkey-add, pkey-remove, pkey-check or "),
        (("pkey", "shwo"), "No such command 'pkey'; did you mean pkey-show?"),
        (("pkey", "--yes", "show"), "No such command 'pkey'; did you mean pkey-show, pkey-set, "),
        (("mkey", "-y", "rotate"), "No such command 'mkey'; did you mean mkey-show, "),
        (("show", "pkey"), "No such command 'show'"),
        (("--", "--yes", "pkey-show"), "No such command '--yes'"),
    ],
)
def test_nothing_else_is_joined(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.error.startswith(said)


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_free_and_answers_with_the_new_one(old: str) -> None:
    assert old not in COMMANDS
    name = RENAMED[old].split()[0]
    assert name in COMMANDS
    for words in ((old,), (old, "--help"), (*old.split("-", 1), "--backend", "sim:/nowhere")):
        done = run(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"ibkeys: error: {old} is now: ibkeys {RENAMED[old]}\n"


def test_there_are_old_lines_of_each_old_name() -> None:
    assert {line[0] for line in OLD_LINES} == RENAMED.keys()


@pytest.mark.parametrize("line", OLD_LINES, ids=" ".join)
def test_an_old_line_is_answered_before_a_command_is_looked_for(
    line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it was written, and with a blank for the hyphen."""
    looked_for: list[str] = []
    monkeypatch.setattr(type(main), "get_command", lambda _self, _context, name: looked_for.append(name))
    for words in (line, [*line[0].split("-"), *line[1:]]):
        done = run(*words)
        assert (done.code, done.out) == (2, "")
        assert done.err == f"ibkeys: error: {line[0]} is now: ibkeys {RENAMED[line[0]]}\n"
    assert looked_for == []
