"""Ports that left for good: what is left of an apply, or of its undo, and the end of its record."""

from __future__ import annotations

import re

import pytest

from ibkeys.apply.closing import RecordEnding
from ibkeys.change.next_commands import next_commands_of
from ibkeys.errors import Refused
from ibkeys.store.journal import Journal, OperationState
from ibkeys.store.paths import StorePaths
from tests.apply.applying import MORE, apply, interrupted_at, opened, resume, undo
from tests.apply.lab import Lab
from tests.fabricsim import writer

LEFT = r"only absent ports are left: 'node02 mlx4_0' .*not found on the fabric\)"


def states(stores: StorePaths) -> dict[int, OperationState]:
    with Journal.read(stores.journal) as journal:
        return {each.id: each.state for each in journal.list_operations()}


def close(lab: Lab, stores: StorePaths) -> None:
    """End the record."""
    with opened(lab, stores, retries=0) as fabric, writer(fabric) as w:
        ending = RecordEnding(w)
        assert re.search(LEFT, ending.why_it_may_end() or "")
        ending.close()
    with Journal.read(stores.journal) as journal:
        assert not [each for each in journal.list_operations() if next_commands_of(each) is not None]


def take_away(lab: Lab) -> None:
    lab.net.unplug("node02 mlx4_0", 1)


def test_an_undo_that_lacks_only_a_port_that_left_is_ended_as_done(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores, retries=0) as fabric:
        apply(fabric, lab.plan(MORE))
        take_away(lab)
    with opened(lab, stores, retries=0) as fabric:
        with pytest.raises(Refused, match="node02") as refused:
            undo(fabric, 1)
        assert "--overtaken" not in refused.value.message  # there is much to undo
        assert undo(fabric, 1, "stale").can_be_closed
        with pytest.raises(Refused, match="if they do not come back: `ibkeys resume 1 --overtaken`"):
            undo(fabric, 1)
    assert states(stores) == {1: "done", 2: "open"}
    close(lab, stores)
    assert states(stores) == {1: "undone", 2: "done"}
    with opened(lab, stores, retries=0) as fabric:
        undo(fabric, 2, "stale")
    assert states(stores) == {1: "done", 2: "undone", 3: "done"}  # at the port that left the undo was not


def test_an_apply_that_lacks_only_a_port_that_left_is_ended_as_done(lab: Lab, stores: StorePaths) -> None:
    plan = lab.plan(MORE)
    take_away(lab)
    with opened(lab, stores, retries=0) as fabric:
        assert apply(fabric, plan, "stale").can_be_closed
        with pytest.raises(Refused, match="if they do not come back: `ibkeys resume 1 --overtaken`"):
            resume(fabric)
    assert states(stores) == {1: "open"}
    close(lab, stores)
    assert states(stores) == {1: "done"}
    with Journal.read(stores.journal) as journal:
        assert journal.find(1).stage == "confirmed"
    with opened(lab, stores, retries=0) as fabric:
        undo(fabric, 1, "stale")
    assert states(stores)[1] == "undone"


def test_one_that_was_resumed_after_an_undo_ends_both(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores, retries=0) as fabric:
        apply(fabric, lab.plan(MORE))
        take_away(lab)
    with opened(lab, stores, retries=0) as fabric:
        undo(fabric, 1, "stale")
        resume(fabric, "stale")
    assert states(stores) == {1: "open", 2: "open"}
    close(lab, stores)
    assert states(stores) == {1: "done", 2: "undone"}


def test_what_is_not_done_at_ports_that_are_there_is_not_ended(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores, retries=0) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, lab.plan(MORE), check=interrupted_at(12))
        take_away(lab)
    with opened(lab, stores, retries=0) as fabric, writer(fabric) as w:
        assert RecordEnding(w).why_it_may_end() is None


def test_an_undo_of_an_undo_that_lacks_only_a_port_that_left_is_ended_as_done(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores, retries=0) as fabric:
        apply(fabric, lab.plan(MORE))
        undo(fabric, 1)
        take_away(lab)
    with opened(lab, stores, retries=0) as fabric:
        undo(fabric, 2, "stale")
    assert states(stores) == {1: "undone", 2: "done", 3: "open"}
    close(lab, stores)
    assert states(stores) == {1: "done", 2: "undone", 3: "done"}
