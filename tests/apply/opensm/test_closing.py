"""`ibkeys resume --overtaken`: ending the record of an apply that another program has overtaken, and of no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.change.next_commands import next_commands_of
from ibkeys.errors import HostRefused, Refused, StoreError, UsageError
from tests.apply.opensm.bench import GREEN, MORE, OLD, THEIRS, Bench
from tests.apply.opensm.madeup import POLICY, put


@pytest.fixture
def cut_off(bench: Bench) -> Bench:
    """An apply of GREEN that was stopped before the first signal."""
    with pytest.raises(HostRefused):
        bench.cut_off_at_the_signal(GREEN, "no")
    return bench


def test_what_nobody_else_has_changed_is_not_closed(cut_off: Bench) -> None:
    assert cut_off.why_it_may_end() is None


def test_an_apply_whose_policy_somebody_else_edited_is_closed_and_nothing_is_written(cut_off: Bench) -> None:
    bench = cut_off
    bench.opensm.host.file.data = THEIRS
    for go in (bench.resume, lambda: bench.undo(1)):
        with pytest.raises(Refused, match="to keep what is there: `ibkeys resume 1 --overtaken`"):
            go()
    bench.opensm.host.log.clear()
    bench.assert_overtaken()
    assert bench.close().startswith("operation 1 (apply, begun ")
    assert (bench.opensm.host.file.data, bench.states()) == (THEIRS, {1: "undone"})
    assert not {"signal", "replace"} & {*bench.opensm.host.log}
    with pytest.raises(StoreError, match="no unfinished apply"):
        bench.why_it_may_end()
    with pytest.raises(StoreError, match="already been undone, or `ibkeys resume --overtaken` ended its record"):
        bench.undo(1)


def test_an_apply_that_cannot_go_on_either_is_closed_where_its_undo_is_overtaken(cut_off: Bench) -> None:
    bench = cut_off
    bench.opensm.options = replace(bench.opensm.options, part_enforce="off")
    with pytest.raises(UsageError, match="made for options that differ"):
        bench.resume()
    with pytest.raises(UsageError, match="made for options that differ"):  # undo works
        bench.why_it_may_end()
    bench.opensm.host.file.data = THEIRS
    with pytest.raises(Refused, match="to keep what is there: `ibkeys resume 1 --overtaken`"):
        bench.undo(1)
    bench.assert_overtaken("another user or program has changed what it set: .*partitions.conf")
    bench.close()
    assert (bench.opensm.host.file.data, bench.states()) == (THEIRS, {1: "undone"})


def test_one_that_a_later_apply_replaced_is_closed_alone(cut_off: Bench) -> None:
    bench = cut_off
    bench.apply(MORE, "open-operation")
    assert bench.states() == {1: "open", 2: "done"}
    bench.assert_overtaken()
    bench.close()
    assert bench.states() == {1: "undone", 2: "done"}


def test_an_interrupted_undo_is_closed_with_what_it_undid(bench: Bench) -> None:
    bench.apply(GREEN)
    bench.cut_off_undo(1)
    bench.opensm.host.file.data = THEIRS
    assert bench.states() == {1: "done", 2: "open"}
    bench.assert_overtaken()
    bench.close()
    assert bench.states() == {1: "undone", 2: "undone"}
    assert not [each for each in bench.records() if each.is_unfinished]


def test_an_interrupted_undo_can_be_closed_where_opensm_reads_a_file_that_it_did_not_write(bench: Bench) -> None:
    bench.apply(GREEN)
    bench.cut_off_undo(1)
    bench.opensm.host.leads_to = Path("/etc/opensm/other.conf")
    with pytest.raises(Refused, match=r"did not write.*`ibkeys resume 1 --overtaken`") as refused:
        bench.undo(1)
    assert (refused.value.can_be_closed, refused.value.is_overtaken) == (True, False)
    bench.assert_overtaken("reads /etc/opensm/other.conf")
    bench.close()
    assert bench.states() == {1: "undone", 2: "undone"}


def test_a_rollback_that_nobody_waits_for_goes_on_when_the_former_master_is_back(bench: Bench) -> None:
    bench.apply(GREEN)
    bench.cut_off_undo(1)
    bench.opensm.host.leads_to = Path("/etc/opensm/other.conf")
    with pytest.raises(Refused, match="did not write"):
        bench.undo_by_child(1)
    bench.opensm.host.leads_to = POLICY
    bench.undo_by_child(1)
    assert bench.states() == {1: "undone", 2: "done"}


@pytest.fixture
def cut_off_redo(bench: Bench) -> Bench:
    """An apply of GREEN that was undone, and the undo of that one, stopped before the first signal."""
    bench.apply(GREEN)
    bench.undo(1)
    bench.cut_off("signal", 1, lambda: bench.undo(2))
    return bench


def commands_of(bench: Bench, operation: int) -> str:
    return str(next_commands_of(next(each for each in bench.records() if each.id == operation)))


def test_an_interrupted_undo_of_an_undo_is_finished_and_rolled_back_as_it_is_said(cut_off_redo: Bench) -> None:
    bench = cut_off_redo
    rolls_back, closes = "`ibkeys undo 2` rolls it back", "`ibkeys resume 2 --overtaken` only ends its record"
    assert commands_of(bench, 2).startswith(f"{rolls_back}, {closes}")
    assert commands_of(bench, 3) == "`ibkeys resume 3` finishes it, `ibkeys undo 3` rolls it back"
    assert bench.why_it_may_end() is None
    before = bench.opensm.host.file.data
    bench.undo(3)
    assert bench.opensm.host.file.data == OLD.encode() != before
    assert not [each for each in bench.records() if each.is_unfinished]


def test_one_that_somebody_else_overtook_is_closed(cut_off_redo: Bench) -> None:
    bench = cut_off_redo
    bench.opensm.host.file.data = THEIRS
    for operation in (2, 3):
        with pytest.raises(Refused, match=f"to keep what is there: `ibkeys resume {operation} --overtaken`"):
            bench.undo(operation)
    bench.assert_overtaken(r"operation 2 \(undo, .*another user or program has changed what it set")
    assert bench.close().startswith("operation 2 (undo, begun ")
    assert (bench.opensm.host.file.data, bench.states()) == (THEIRS, {1: "undone", 2: "undone", 3: "undone"})
    assert not [each for each in bench.records() if next_commands_of(each) is not None]
    with pytest.raises(StoreError, match="no unfinished apply"):
        bench.why_it_may_end()


def test_it_is_named_when_another_apply_begins(cut_off_redo: Bench) -> None:
    bench = cut_off_redo
    with pytest.raises(Refused, match=r"open-operation: operation 2 \(undo\) is open: `ibkeys undo 2` rolls it back"):
        bench.apply(MORE)


def test_a_port_that_somebody_else_set_counts_too(cut_off: Bench) -> None:
    put(cut_off.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8099})
    cut_off.assert_overtaken("node02.*0x8099")
