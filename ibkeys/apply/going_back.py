"""The automatic rollback of a change that was not confirmed in time: an undo, which no interlock stops, restores the
values that the operation overwrote, except where another program or administrator has changed them since."""

from __future__ import annotations

from ibkeys.apply.apply_plan import undo_plan_of
from ibkeys.apply.carrier import Carrier, RollbackResult
from ibkeys.apply.former_values import former_in
from ibkeys.change.consent import INTERLOCKS, Consent
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError
from ibkeys.store.journal import RunningOperation


def go_back_by_plan(writer: ChangeWriter, carrier: Carrier, operation: RunningOperation) -> RollbackResult:
    """Undo *operation*, which is still open, and return the result. Entries that another program or administrator has
    written since stay. Raises IbkeysError if the undo cannot be planned, or if an error stops it before any port has
    failed."""
    journal, consent = operation.journal, writer.consent
    assert operation.id is not None
    # The restored values were there before the run began, and the user who began it asked for this.
    writer.consent = Consent(True, frozenset(INTERLOCKS))
    try:
        former = former_in(journal, journal.find(operation.id))
        undo_plan = undo_plan_of(writer, carrier, former, operation.id)
        kept = [
            (port, f"{why}; what another user or program wrote is kept")
            for port, why in undo_plan.remaining.foreign_on_fabric
        ]
        with journal.undo_of(operation.id, writer.origin) as undo:
            try:
                writer.apply_within(undo_plan, undo)
            except IbkeysError as error:
                if not undo_plan.failed:
                    raise
                return RollbackResult([*kept, *undo_plan.failed, (None, str(error))])
        return RollbackResult([*kept, *undo_plan.failed])
    finally:
        writer.consent = consent
