"""SMs that the journal knows, whatever the operations were that found them, and that are absent now."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change.former_managers import check_managers_elsewhere, known_managers, managers_away
from ibkeys.managers.report import HostReport
from ibkeys.store.journal import Journal
from ibkeys.store.origin import Origin

ONE, TWO, THREE = (f"0x{0x2C903000A1000 + number:016x}" for number in (1, 2, 3))
PORTS = {ONE: "node01 port 1", TWO: "node02 port 1", THREE: "node03 port 1"}


@pytest.fixture
def journal() -> Iterator[Journal]:
    with Journal(None) as journal:
        yield journal


def began(journal: Journal, command: str, *guids: str, **options: Any) -> int:
    """Let an operation begin that found the SMs *guids*, and end."""
    origin = Origin("root", "head1", managers={guid: PORTS[guid] for guid in guids})
    with journal.operation(command, origin, options or None) as operation:
        number = operation.put_on_disk()
    return number


def away(journal: Journal, *present: str) -> tuple[list[str], list[str]]:
    """Return the GUIDs of the absent SMs: those that nobody left out yet, and the others."""
    found = managers_away(journal, {guid: PORTS[guid] for guid in present}, "policy")
    unaccepted, accepted = (
        [guid for guid in PORTS for text in each if guid in text] for each in (found.unaccepted, found.accepted)
    )
    return unaccepted, accepted


@pytest.mark.parametrize("command", ["mkey-rotate", "smkey-rotate", "harden", "apply", "replace"])
def test_an_sm_that_any_change_found_is_remembered(journal: Journal, command: str) -> None:
    number = began(journal, command, ONE, TWO)
    assert away(journal, ONE) == ([TWO], [])
    assert away(journal, ONE, TWO) == ([], [])
    assert away(journal, THREE) == ([], []), "that is another subnet"
    (text,) = managers_away(journal, {ONE: PORTS[ONE]}, "keys").unaccepted
    assert text == (
        f"the SM at node02 port 1 (port GUID {TWO}), seen in operation {number}, is not there now, and would bring its "
        "own keys when it comes back"
    )


def test_an_operation_that_left_one_out_on_purpose_is_named(journal: Journal) -> None:
    began(journal, "mkey-rotate", ONE, TWO)
    number = began(journal, "apply", ONE, overrides=["standby-differs"])
    began(journal, "smkey-rotate", ONE)
    assert away(journal, ONE) == ([], [TWO])
    (text,) = managers_away(journal, {ONE: PORTS[ONE]}, "policy").accepted
    assert text.endswith(f"; operation {number} left it out on purpose")


def test_an_operation_of_an_absent_sm_alone_is_of_the_same_subnet(journal: Journal) -> None:
    """It was made while the SM that is present now was off."""
    began(journal, "apply", ONE, TWO)
    number = began(journal, "apply", ONE, overrides=["standby-differs"])
    (text,) = managers_away(journal, {TWO: PORTS[TWO]}, "policy").unaccepted
    assert f"(port GUID {ONE}), seen in operation {number}, is not there now" in text


def test_an_undo_and_a_resume_add_those_that_they_found(journal: Journal) -> None:
    number = began(journal, "apply", ONE)
    with journal.undo_of(number, Origin("root", "head1", managers={ONE: "node01 port 1", TWO: "node02 port 1"})):
        pass
    with journal.reopen(number, Origin("root", "head1", managers={THREE: "node03 port 1"})):
        pass
    assert known_managers(journal) == {1: {ONE: PORTS[ONE], THREE: PORTS[THREE]}, 2: {ONE: PORTS[ONE], TWO: PORTS[TWO]}}
    assert away(journal, ONE) == ([TWO, THREE], [])


def test_what_an_earlier_version_kept_among_the_options_counts(journal: Journal) -> None:
    options = json.dumps({"managers": {ONE: PORTS[ONE], TWO: PORTS[TWO]}})
    with journal.begin("apply", "{}", options):
        pass
    assert away(journal, ONE) == ([TWO], [])


def test_a_command_that_looked_for_no_sm_is_left_out(journal: Journal) -> None:
    began(journal, "pkey-set")
    assert known_managers(journal) == {}


def test_doctor_names_the_managers_whose_policy_is_not_known_here(journal: Journal, tmp_path: Path) -> None:
    here = HostReport("", (cast(Any, SimpleNamespace(port_guid=int(ONE, 16))),))
    began(journal, "apply", ONE, TWO)
    [check] = check_managers_elsewhere(here, journal)
    assert (check.ok, "is not on this host" in check.detail) == (None, True)
    assert f"node02 port 1 (port GUID {TWO})" in check.detail
    assert "sm-show --sm-host" in check.advice
    assert len(list(check_managers_elsewhere(HostReport(""), journal))) == 2
    untold = cast(Any, SimpleNamespace(port_guid=None, name="OpenSM (process 9)"))
    for check in check_managers_elsewhere(HostReport("", (untold,)), journal):
        assert "may be OpenSM (process 9), which does not show its port" in check.detail
        assert "not on this host" not in check.detail
    with Journal(tmp_path / "empty.db") as empty:
        assert list(check_managers_elsewhere(here, empty)) == []
