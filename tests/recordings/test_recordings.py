"""What every changing command sends, writes, keeps and says is as it was recorded (``tests/data/recordings``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import click
import pytest

from ibkeys.cli import COMMANDS, main
from tests.recordings.kept import FOLDER, difference, path_of
from tests.recordings.recorder import Command, Scenario, record, written
from tests.recordings.scenarios import SCENARIOS
from tests.sample import sampled

CONSENT: Final = {"--yes", "--dry-run", "--override"}
"""Who has one of these options changes something, or says what it would do."""
WITHOUT_CONSENT: Final = {"keystore import", "keystore export", "keystore encrypt"}
"""Commands that change the key store, or files with keys, and do not ask."""
NOT_RECORDED: Final = {
    "sm-show": "it changes nothing: with --dry-run it says which hosts it would ask",
    "doctor": "with --write-loopback it changes two ports of this very host (tests/hardware)",
    "rehearse": "it changes nothing but its own copy of the fabric (tests/integration/test_rehearse.py)",
}


def commands(name: str, command: Any) -> Iterator[tuple[str, set[str]]]:
    """Yield a command, or those of a group, with the options of each."""
    if not isinstance(command, click.Group):
        yield name, {word for each in command.params for word in each.opts}
        return
    with click.Context(command) as context:
        for each in command.list_commands(context):
            yield from commands(f"{name} {each}", command.get_command(context, each))


def changing() -> set[str]:
    """Return the commands that change something."""
    with click.Context(main) as context:
        found = {name: given for each in COMMANDS for name, given in commands(each, main.get_command(context, each))}
    return {name for name, given in found.items() if given & CONSENT or name in WITHOUT_CONSENT}


MORE_STOPS: Final = re.compile(
    r"-before-(signal-[2-4]|sleep-\d)(-|$)|-of-dual-home|^mkey-remove-(interrupted|killed|aborted)$|^harden-killed-"
    r"|^mkey-remove-by-opensm-|^smkey-rotate-killed$|^apply-by-ufm-killed$"
)
"""Scenarios that end at one more place, or are on one more fabric, than others: made again by `make soak` only."""


@pytest.mark.parametrize("name", sampled(SCENARIOS, [name for name in SCENARIOS if not MORE_STOPS.search(name)]))
def test_what_commands_do_is_as_it_was_recorded(name: str) -> None:
    found = difference(SCENARIOS[name])
    assert not found, found


def test_every_changing_command_has_a_recording() -> None:
    recorded = {each.name for scenario in SCENARIOS.values() for each in scenario.commands if each.is_recorded}
    assert changing() - recorded == set(NOT_RECORDED)


def test_there_is_no_recording_without_a_scenario() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {path_of(name).name for name in SCENARIOS}


def test_a_difference_names_scenario_command_and_line() -> None:
    scenario = SCENARIOS["keystore"]
    changed = replace(scenario, commands=[*scenario.commands[:-1], Command("pkey-add 2 0x10 --yes")])
    found = difference(changed)
    assert found.startswith("keystore, `ibkeys pkey-add 2 0x10 --yes`: keystore.json:"), found
    assert "\n- " in found
    assert "\n+ " in found


def test_a_stop_that_never_comes_is_an_error() -> None:
    scenario = SCENARIOS["pkey-add"]
    stopped = [replace(each, stop=replace(each.stop, number=9)) for each in scenario.commands if each.stop is not None]
    with pytest.raises(AssertionError, match="it never came to interrupted before set 9"):
        record(replace(scenario, commands=stopped))


def test_a_recording_is_read_as_it_was_written() -> None:
    recording = record(Scenario("short", [Command("pkey-add 2 0x0010 --yes")]))
    assert json.loads(written(recording)) == recording
