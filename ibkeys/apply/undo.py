"""Going back: what an operation of the journal overwrote is given back, wherever it stopped.

An undo is an operation of its own, which says what it undid, and a change as any other: it meets the interlocks that a
fresh change would meet. What was there before may cut a port off today. To undo an undo is to redo.
"""

from __future__ import annotations

from functools import partial

from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan, FinishedApply, apply_plan_of, perform
from ibkeys.apply.remaining import Former, former_in, remaining_of_undo
from ibkeys.apply.survey import look
from ibkeys.change.consent import INTERLOCKS, Consent
from ibkeys.change.interlocks import counted
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, StoreError, UsageError
from ibkeys.plan.breaks import find_breaks
from ibkeys.store.journal import Journal


def plan_undo(writer: Writer, operation: int | None = None, hooks: ApplyHooks | None = None) -> ApplyPlan:
    """Plan to give back what an operation overwrote: P_Key tables byte for byte, and enforcement bits.

    *operation*: by default the last one that was not undone and is no undo itself. Raises StoreError when there is
    none, UsageError for one that changed M_Keys or only cleared counters.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        if operation is None:
            records = journal.list_operations()
            found = [record.id for record in records if record.state != "undone" and record.undoes is None]
            if not found:
                raise StoreError("there is nothing to undo: the journal has no operation that was not undone")
            operation = found[-1]
        record = journal.find(operation)
        if record.state == "undone":
            by = f" by operation {record.undone_by}; `ibkeys undo {record.undone_by}` brings it back"
            raise StoreError(
                f"operation {operation} ({record.command}) was undone already{by if record.undone_by else ''}"
            )
        former = former_in(journal, record)
    if former.counters and not former.ports:
        raise UsageError(
            f"operation {operation} ({record.command}) cleared violation counters of "
            f"{counted(former.counters, 'port')}: a counter cannot be given back; `ibkeys journal` has what they had "
            "counted"
        )
    return _work_of_undo(writer, former, operation, hooks or ApplyHooks())


def _work_of_undo(writer: Writer, former: Former, operation: int, hooks: ApplyHooks) -> ApplyPlan:
    survey = look(writer, former.ports)
    remaining = remaining_of_undo(former, survey)
    work = apply_plan_of(writer, remaining, survey, False, "what somebody else wrote is kept, all else goes back")
    work.breaks = find_breaks([*remaining.others, *remaining.tables], remaining.enforcement)
    work.undoes = operation
    work.open_operation = lambda journal: journal.undo_of(operation, writer.origin)
    work.perform = partial(perform, writer, work, survey, hooks)
    return work


def go_back(run: FinishedApply) -> None:
    """Undo a run that is still open. Nothing is asked and no interlock stops it: what it goes back to was there before
    the run began, and whoever began it asked for this.

    ``work.gone_back`` says that it was tried; what could not be given back is in ``work.failed``.
    """
    writer, operation = run.writer, run.operation
    assert operation.id is not None
    run.work.gone_back = True
    run.work.failed.clear()
    journal, origin, kept = operation.journal, writer.origin, writer.consent
    writer.consent = Consent(True, frozenset(INTERLOCKS))
    try:
        former = former_in(journal, journal.find(operation.id))
        back = _work_of_undo(writer, former, operation.id, ApplyHooks())
        with journal.undo_of(operation.id, origin) as undo, writer.recording(undo):
            back.perform()
        run.work.failed += back.failed
    except IbkeysError as error:
        run.work.failed.append((None, f"{error}; `ibkeys undo {operation.id}` tries again"))
    finally:
        writer.consent = kept
