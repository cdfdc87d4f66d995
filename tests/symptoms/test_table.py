"""The table: each row is found by its example, its commands are understood, and it keeps to its own rules."""

from __future__ import annotations

import re

import click
import pytest

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.change.consent import INTERLOCKS
from ibkeys.cli import COMMANDS, main
from ibkeys.symptoms import own_texts
from ibkeys.symptoms.explain import explain
from ibkeys.symptoms.numbers import NumberKind
from ibkeys.symptoms.row import Cause, Symptom
from ibkeys.symptoms.table import TABLE
from tests.examples.pages import Shown, named

SAMPLES = {
    NumberKind.LID: "5",
    NumberKind.LID1: "5",
    NumberKind.LID2: "6",
    NumberKind.GUID: "0x0002c903000a1021",
    NumberKind.GUID2: "0x0002c903000a1031",
    NumberKind.P_KEY: "0x8010",
    NumberKind.P_KEY2: "0x0010",
    NumberKind.Q_KEY: "0x80010000",
    NumberKind.PORT: "1",
    NumberKind.ROUTE: "0,1,4",
    NumberKind.INDEX: "1",
}
READING = {
    *("pkey-show", "mkey-show", "port-show", "host-show", "discover", "sm-show", "why", "matrix", "doctor", "audit"),
    *("compare", "journal", "keystore", "pkey-explain", "qkey-explain", "decode", "sm-repair"),
}
"""Commands that change nothing; sm-repair with --dry-run, keystore with list."""
OTHERS = [
    *map(own_texts.rule_row, CATALOGUE),
    *map(own_texts.interlock_row, INTERLOCKS),
    *map(own_texts.exit_code_row, own_texts.EXIT_CODES),
]
CAUSES = {cause for row in (*TABLE, *OTHERS) for cause in row.causes}


def test_names_are_unique() -> None:
    assert len({row.name for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("row", [row for row in TABLE if row.name != "mad-in-hex"], ids=lambda row: row.name)
def test_a_row_is_the_first_answer_to_its_own_example(row: Symptom) -> None:
    assert explain(row.example).answers[0].symptom is row


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_says_where_it_is_from_and_a_cause_of_the_fabric_has_a_command(row: Symptom) -> None:
    assert row.source
    assert row.meaning.endswith((".", ")"))
    for cause in row.causes:
        assert cause.text.endswith(".")
        assert bool(cause.commands) == bool(cause.shows)


@pytest.mark.parametrize(
    "cause", sorted(CAUSES, key=lambda cause: (cause.name, cause.text)), ids=lambda each: each.name
)
def test_each_command_is_understood_and_only_reads(cause: Cause) -> None:
    for line in cause.commands:
        words = Cause("", "", (line,)).command(SAMPLES)
        assert words is not None
        assert words[0] in READING
        assert words[0] not in ("sm-repair", "keystore") or words[1] in ("--dry-run", "list")
        command, rest = named(Shown(words, is_whole=True))
        command.make_context(words[0], rest, parent=click.Context(main, **main.context_settings))


def test_the_texts_name_commands_and_options_that_there_are() -> None:
    options = {option for name in COMMANDS for option in options_of(name)}
    texts = [text for row in (*TABLE, *OTHERS) for text in (row.meaning, row.unknown, row.leaks)]
    texts += [text for cause in CAUSES for text in (cause.text, cause.shows, cause.remedy)]
    found = [option for text in texts for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)]
    assert len(found) > 20
    assert {*found} <= options
    named_commands = [word for text in texts for word in re.findall(r"\bibkeys ([a-z]+(?:-[a-z]+)?)(?![\w(])", text)]
    assert len(named_commands) > 20
    assert {word for word in named_commands if "-" in word} <= COMMANDS.keys()


def options_of(name: str) -> list[str]:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    inner = list(command.commands.values()) if isinstance(command, click.Group) else []
    return [option for each in (command, *inner) for param in each.params for option in param.opts]


def test_the_last_command_of_a_cause_needs_no_number() -> None:
    """So that a cause always has a command, whatever numbers are in the text. Values have theirs by themselves."""
    by_value = {"members", "p-key-rules", "q-key-rules", "where", "its-m-key", "its-p-keys"}
    assert {each.name for each in CAUSES if each.commands and each.command({}) is None} <= by_value


@pytest.mark.parametrize("text", ["ERR 1B99", "ERR 0A02: Sending multicast fwd. tbl. block 0x0 failed"])
def test_an_error_without_a_row_is_named_by_its_number_without_advice(text: str) -> None:
    (answer,) = explain(text).answers
    assert answer.symptom.name == f"opensm-{text[4:8]}"
    assert answer.causes == ()
    assert (answer.symptom.source == "osm_sa_mcmember_record.c") == text.startswith("ERR 1B")


def test_every_exit_code_interlock_and_rule_is_known() -> None:
    for code in own_texts.EXIT_CODES:
        assert explain(f"exit status {code}").answers[0].symptom.name == f"exit-{code}"
    for name in INTERLOCKS:
        assert explain(name).answers[0].symptom.name == f"interlock-{name}"
    for rule in CATALOGUE:
        assert explain(f"what is {rule.id}?").answers[0].symptom.name == f"rule-{rule.id}"
    assert {name for name in COMMANDS if name in READING} == READING
