"""Runs of M_Keys in the journal: what one is, and what became of its ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import NewRunPort, PortKeys, RunOptions, RunPort, Runs, shared_key_name

OPTIONS = RunOptions(same=True, protect=2, lease=60, at_once=7, first=1, max_failures=3)
PORTS = [NewRunPort(0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 1), NewRunPort(3, 4, 0, skipped="hidden")]
NEW, OLD = "a" * 32, "b" * 32


def begin(journal: Journal, command: str, options: RunOptions = OPTIONS, ports: list[NewRunPort] = PORTS) -> int:
    number = journal.operation(command).put_on_disk()
    Runs(journal).begin(number, options, ports)
    return number


def test_a_run_comes_back_as_it_was_begun(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.db") as journal:
        assert Runs(journal).last() is None
        number = begin(journal, "mkey-deploy")
    with Journal(tmp_path / "journal.db") as journal:
        last = Runs(journal).last()
        assert last is not None
        assert (last.id, last.command, last.is_open, last.options) == (number, "mkey-deploy", True, OPTIONS)
        assert last.operation.state == "open"
        assert Runs(journal).ports(number) == [
            RunPort(0, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF, 1, "waiting", None, None, None, None, ""),
            RunPort(1, 3, 4, 0, "skipped", None, None, None, None, "hidden"),
        ]


@pytest.mark.parametrize("is_proven", [True, False])
def test_a_run_through_opensm_counts_the_ports_that_it_changed(is_proven: bool) -> None:
    """ibkeys sends no Set for it, so the journal has no image of a port."""
    journal = Journal(None)
    run = journal.operation("mkey-rotate")
    number = run.put_on_disk()
    Runs(journal).begin(number, OPTIONS, PORTS, {"goes_back": False})
    assert [each.ports for each in journal.list_operations()] == [0]
    run.begin_step("level 1")
    run.end_step("done" if is_proven else "failed")
    Runs(journal).mark(number, 0, "done")
    assert [(each.ports, each.waiting) for each in journal.list_operations()] == [(1, 0)]
    Runs(journal).mark(number, 0, "undone")
    assert [each.ports for each in journal.list_operations()] == [int(is_proven)]


@pytest.mark.parametrize(
    ("command", "via", "removes"),
    [
        ("mkey-remove", {"goes_back": False}, True),
        ("mkey-remove", {"goes_back": True}, False),
        ("mkey-remove", None, False),
        ("mkey-deploy", {"goes_back": True}, True),
        ("mkey-deploy", {"goes_back": False}, False),
        ("mkey-rotate", {"goes_back": True}, False),
    ],
)
def test_which_runs_let_a_subnet_manager_remove_every_key(
    command: str, via: dict[str, object] | None, removes: bool
) -> None:
    journal = Journal(None)
    number = journal.operation(command).put_on_disk()
    Runs(journal).begin(number, OPTIONS, PORTS, via)
    for state, expected in (("open", removes), ("done", False)):
        journal.set_state(number, state)
        last = Runs(journal).last()
        assert last is not None
        assert last.removes_keys == expected


def test_what_became_of_a_port() -> None:
    journal = Journal(None)
    runs = Runs(journal)
    number = begin(journal, "mkey-rotate", RunOptions(), PORTS[:1])
    assert shared_key_name(runs.ports(number)) is None
    runs.note_keys(number, [PortKeys(0, None, OLD, KeySetting(MKey(1), 1, 30))])
    assert (runs.ports(number)[0].old_protect_bits, runs.ports(number)[0].key_name) == (1, None)
    runs.note_keys(number, [PortKeys(0, NEW, OLD, KeySetting(MKey(1), 1, 30))])
    assert not runs.ports(number)[0].is_begun
    runs.mark(number, 0, "sent")
    [port] = runs.ports(number)
    assert port.is_begun
    assert (port.key_name, port.old_name, port.old_protect_bits, port.old_lease_period) == (NEW, OLD, 1, 30)
    assert shared_key_name([port]) == NEW
    runs.mark(number, 0, "failed", "no reply")
    assert (runs.ports(number)[0].state, runs.ports(number)[0].reason) == ("failed", "no reply")


def test_a_run_ends_and_is_taken_up_again() -> None:
    journal = Journal(None)
    begin(journal, "mkey-deploy", RunOptions(), [])
    number = begin(journal, "mkey-rotate")
    journal.set_state(number, "done")
    last = Runs(journal).last()
    assert last is not None
    assert (last.id, last.is_open, last.is_left_over) == (number, False, False)
    journal.reopen(number)
    Runs(journal).set_bounds(number, RunOptions(at_once=1, first=None, max_failures=9))
    last = Runs(journal).last()
    assert last is not None
    assert (last.is_open, last.is_left_over) == (True, True)
    assert last.options == RunOptions(True, 2, 60, 1, None, 9)


def test_a_run_is_open_while_its_undo_is() -> None:
    journal = Journal(None)
    number = begin(journal, "mkey-rotate")
    journal.set_state(number, "done")
    with journal.undo_of(number):
        last = Runs(journal).last()
        assert last is not None
        assert last.is_open
    last = Runs(journal).last()
    assert last is not None
    assert (last.is_open, last.operation.state) == (False, "undone")


def test_a_run_and_its_operation_are_stored_together_or_not_at_all() -> None:
    journal = Journal(None)

    def fail() -> None:
        with journal.in_one_transaction():
            begin(journal, "mkey-deploy")
            Runs(journal).begin(999, OPTIONS, [])  # there is no such operation

    with pytest.raises(StoreError):
        fail()
    assert Runs(journal).last() is None
    assert journal.list_operations() == []
