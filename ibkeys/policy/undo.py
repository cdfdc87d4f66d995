"""Going back: what an operation of the journal overwrote is given back, wherever it stopped."""

from __future__ import annotations

from functools import partial

from ibkeys.change.consent import INTERLOCKS, Consent
from ibkeys.change.writer import Writer
from ibkeys.errors import IbkeysError, StoreError, UsageError
from ibkeys.policy.breaks import find_breaks
from ibkeys.policy.goal import Former, former_of, goal_of_undo
from ibkeys.policy.objections import counted
from ibkeys.policy.survey import look
from ibkeys.policy.work import Conduct, Run, Work, perform, work_of
from ibkeys.store.journal import Journal


def plan_undo(writer: Writer, operation: int | None = None, conduct: Conduct | None = None) -> Work:
    """Plan to give back what an operation overwrote: P_Key tables byte for byte, and enforcement bits.

    *operation*: by default the last one that was not undone. Raises StoreError when there is none, UsageError for one
    that changed M_Keys or only cleared counters.
    """
    with Journal(writer.fabric.stores.journal, create=False) as journal:
        if operation is None:
            found = [record.id for record in journal.list_operations() if record.state != "undone"]
            if not found:
                raise StoreError("there is nothing to undo: the journal has no operation that was not undone")
            operation = found[-1]
        record = journal.find(operation)
        if record.state == "undone":
            raise StoreError(f"operation {operation} ({record.command}) was undone already")
        former = former_of(record.command, journal.entries(operation))
    if former.counters and not former.ports:
        raise UsageError(
            f"operation {operation} ({record.command}) cleared violation counters of "
            f"{counted(former.counters, 'port')}: a counter cannot be given back; `ibkeys journal` has what they had "
            "counted"
        )
    return _work_of_undo(writer, former, operation, conduct or Conduct())


def _work_of_undo(writer: Writer, former: Former, operation: int, conduct: Conduct) -> Work:
    survey = look(writer, former.ports)
    goal = goal_of_undo(former, survey)
    work = work_of(writer, goal, survey, True, "what somebody else wrote is kept, all else goes back")
    # The way back must not need a list of options: what was there before may be there again.
    asked = [each for each in work.objections if each.interlock in ("stale", "active-sm")]
    work.notes += [each.message for each in work.objections if each not in asked]
    work.objections = asked
    work.breaks = find_breaks(goal.tables)
    work.operation_id = operation
    work.open_operation = lambda journal: journal.reopen(operation)
    work.perform = partial(perform, writer, work, survey, conduct, "undone")
    return work


def go_back(run: Run) -> None:
    """Undo a run that is still open, in the same operation. Nothing is asked and no interlock stops it.

    ``work.gone_back`` says that it was tried; what could not be given back is in ``work.failed``.
    """
    writer, operation = run.writer, run.operation
    assert operation.id is not None
    run.work.gone_back = True
    run.work.failed.clear()
    kept = writer.consent
    writer.consent = Consent(True, frozenset(INTERLOCKS))
    try:
        former = former_of(operation.command, operation.journal.entries(operation.id))
        back = _work_of_undo(writer, former, operation.id, Conduct())
        back.perform()
        run.work.failed += back.failed
    except IbkeysError as error:
        run.work.failed.append((None, f"{error}; `ibkeys undo {operation.id}` tries again"))
        operation.outcome = "open"
    finally:
        writer.consent = kept
