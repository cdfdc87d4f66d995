"""An apply that was killed, and a later one: the rollback of the first does not take the second back."""

from __future__ import annotations

import pytest

from ibkeys.apply.undo import plan_undo
from ibkeys.change.confirming.confirmation import block_confirmation
from ibkeys.change.consent import INTERLOCKS
from ibkeys.errors import Refused, StoreError
from ibkeys.fabric.live import LiveFabric
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.apply.applying import MORE, apply, interrupted_at, opened, undo
from tests.apply.lab import Lab
from tests.fabricsim import writer


def undo_by_child(fabric: LiveFabric, operation: int) -> None:
    """As the process does it that outlives an apply which nobody confirms: it overrides every interlock."""
    with writer(fabric, *INTERLOCKS) as changing:
        changing.apply(plan_undo(changing, operation, unconfirmed=True, breaks=True))


@pytest.mark.parametrize("moment", [8, 16, 25])
def test_a_later_apply_is_not_taken_back_with_the_one_that_was_killed(
    lab: Lab, stores: StorePaths, moment: int
) -> None:
    assert stores.journal is not None
    with opened(lab, stores) as fabric:
        with pytest.raises(KeyboardInterrupt):
            apply(fabric, lab.plan(MORE), check=interrupted_at(moment))
        apply(fabric, lab.plan(MORE), "open-operation")
        done = lab.image()
        assert block_confirmation(stores.journal, 1)  # the time of the first is over
        with pytest.raises(Refused, match=r"operation 2 of the journal changed the same .*`ibkeys undo 2` first"):
            undo_by_child(fabric, 1)
        assert lab.image() == done
        assert not block_confirmation(stores.journal, 1)
        with Journal.read(stores.journal) as journal:
            assert [each.rollback for each in journal.list_operations()] == ["refused", None]
        undo(fabric, 2)
        undo(fabric, 1)
    with Journal.read(stores.journal) as journal:
        assert [each.state for each in journal.list_operations()[:2]] == ["undone", "undone"]


def test_the_child_undoes_nothing_that_is_not_to_be_rolled_back(lab: Lab, stores: StorePaths) -> None:
    with opened(lab, stores) as fabric:
        apply(fabric, lab.plan(MORE))
        done = lab.image()
        with pytest.raises(StoreError, match=r"operation 1 .* is not to be rolled back"):
            undo_by_child(fabric, 1)
        assert lab.image() == done
