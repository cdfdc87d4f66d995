"""Rolling back: the values that an operation of the journal overwrote are restored, wherever it stopped. An undo is an
operation of its own, which names the operation that it undid. It triggers the same interlocks as any other change: the
former values may cut a port off today. To undo an undo makes the change again.
"""

from __future__ import annotations

from dataclasses import replace

from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan, refuse_breaks, undo_plan_of
from ibkeys.apply.by_sm.wanted import overwrite_refusal
from ibkeys.apply.carrier import Carrier
from ibkeys.apply.carriers import CarrierChoice, carrier_of
from ibkeys.apply.confirm import note_refused
from ibkeys.apply.former_values import FormerValues, former_in
from ibkeys.apply.opensm.guards import end_guards
from ibkeys.apply.remaining import in_words
from ibkeys.change.next_commands import advice_to_keep, next_commands
from ibkeys.change.open_operations import already_undone
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused, StoreError, UsageError
from ibkeys.printable import counted
from ibkeys.store.journal import Journal, OperationRecord


def plan_undo(
    writer: ChangeWriter,
    operation: int | None = None,
    hooks: ApplyHooks | None = None,
    carrier: Carrier | None = None,
    via: CarrierChoice | None = None,
    *,
    breaks: bool = False,
    unconfirmed: bool = False,
) -> ApplyPlan:
    """Plan to restore the values that an operation overwrote: P_Key tables byte for byte, and enforcement bits.

    *operation*: by default the last one that was not undone and is not an undo itself. *carrier*: by default that of
    the operation, with the settings of *via*. *breaks*: pairs may temporarily lose connectivity if there is no other
    way; the permissions of the operation do not count. *unconfirmed*: the operation is rolled back because it was not
    confirmed in time, so no user has agreed to overwrite a port that another program or administrator has changed.

    Raises StoreError if there is no such operation, it is undone already, or it is not to be rolled back
    (*unconfirmed*); UsageError for an operation that changed M_Keys or files with keys, or only cleared counters;
    Refused for breaks that are not permitted (a dry run only notes these), and (``stale``, ``overtaken``) if another
    program or administrator has changed its values; and the errors of `carrier_of` and `undo_plan_of`.
    """
    with Journal.read(writer.fabric.stores.journal) as journal:
        records = journal.list_operations()
        if operation is None or not records:
            found = [record.id for record in records if record.state != "undone" and record.undoes is None]
            if not found:
                which = "that can still be undone" if operation is None else f"{operation}, nor any other"
                raise StoreError(
                    f"nothing to undo: {journal.in_words} has no operation {which}; `ibkeys plan` makes a new plan"
                )
            operation = found[-1]
        record = journal.find(operation)
        if record.state == "undone":
            raise already_undone(record)
        if unconfirmed and not record.is_going_back:
            why = f"can still be confirmed: `ibkeys undo {operation}` rolls it back now"
            why = why if record.awaits_confirmation else "is not to be rolled back"
            raise StoreError(f"operation {operation} ({record.command}) {why}").unchanged()
        former = former_in(journal, record)
        _refuse_key_files(record, former)
        later = _later_writers(journal, record, former)
        overwritten_by = _last_writer_after(journal, record, former) if unconfirmed else None
        via = replace(via or CarrierChoice(), may_leave_out=not unconfirmed)
        carrier = carrier or carrier_of(writer, via, former.plan_record)
    if former.counters and not former.ports:
        raise UsageError(
            f"operation {operation} ({record.command}) cleared violation counters of "
            f"{counted(former.counters, 'port')}: counters cannot be restored; `ibkeys journal` has their former values"
        )
    can_end = record.is_unfinished and record.is_of_plan
    try:
        if overwritten_by is not None:
            raise Refused(
                f"nothing was rolled back, because operation {overwritten_by} of the journal changed the same ports or "
                f"files later: `ibkeys undo {overwritten_by}` first, then `ibkeys undo {operation}`",
                "stale",
                is_overtaken=True,
            )
        plan = undo_plan_of(writer, carrier, former, operation, hooks, can_end, record.undoes is not None)
        plan.can_be_closed = record.is_of_plan
        if unconfirmed and carrier.rewrites_tables and plan.remaining.foreign_on_fabric and not writer.dry_run:
            raise overwrite_refusal(in_words(plan.remaining.foreign_on_fabric), operation)
    except Refused as error:
        if later and error.interlock == "stale":
            error.going_on(*_ways_past(later))
        elif error.can_be_closed and can_end:
            error.going_on(advice_to_keep(operation))
        if error.is_overtaken and unconfirmed and not writer.dry_run:
            # A guard sees neither ports nor the files of other hosts, so it might roll back only a part.
            error.going_on(*end_guards(former.plan_record.kept if former.plan_record is not None else {}))
        # If an undo has begun, the user may have started it, after he confirmed the operation.
        if error.is_overtaken and not writer.dry_run and (unconfirmed or not record.being_undone):
            with Journal(writer.fabric.stores.journal) as journal:
                note_refused(journal, operation)
        raise
    if not breaks:
        refuse_breaks(plan)
    if plan.refusals and not writer.dry_run:
        raise plan.refusals[0]
    return plan


def _refuse_key_files(record: OperationRecord, former: FormerValues) -> None:
    """Raise UsageError for an operation that changed files with keys, or modes of files, without a plan. The journal
    has no key lines; restored without them, such a file would remove the M_Key of every port when OpenSM starts again.
    """
    if former.files and all(image.closed_to is not None for image in former.files):
        raise UsageError(
            f"operation {record.id} ({record.command}) closed files of OpenSM to other users, which is not undone: "
            f"`ibkeys journal {record.id}` has their former modes, for chmod"
        )
    if former.files and former.plan_record is None:
        commands = next_commands(record.command, record.id, None)
        back = f"`{commands.roll_back}` rolls the last one back" if commands.roll_back else ""
        again = f"`ibkeys {record.command}` changes it again"
        raise UsageError(
            f"operation {record.id} ({record.command}) changed a file of OpenSM that holds keys: its former content is "
            f"not restored; {back or again}"
        )


def _later_writers(journal: Journal, record: OperationRecord, former: FormerValues) -> list[int]:
    """Return the operations in force that wrote the same files after *record*, the latest writer last."""
    places = {image.key for image in former.files}
    return [
        each.id
        for each in _in_force_after(journal, record)
        if any(entry.image.key in places for entry in journal.files(each.id) if entry.status != "failed")
    ]


def _last_writer_after(journal: Journal, record: OperationRecord, former: FormerValues) -> int | None:
    """Return the last operation in force that wrote the same files, or the same table or enforcement bits of a port,
    after *record*; None if there is none."""
    for each in reversed(_in_force_after(journal, record)):
        if former.is_overwritten_by(journal.entries(each.id), journal.files(each.id)):
            return each.id
    return None


def _in_force_after(journal: Journal, record: OperationRecord) -> list[OperationRecord]:
    """Return the operations that were made after *record* and are in force, in the order in which they were made.

    An undo is none of them: to undo it would make its operation again. An operation whose undo was undone is in force
    again, since the last undo in its chain.
    """
    first, made = dict[int, OperationRecord](), dict[int, int]()
    for each in journal.list_operations():
        first[each.id] = first.get(each.undoes, each) if each.undoes is not None else each
        made[first[each.id].id] = each.id
    own = first[record.id].id
    found = [each for ident, each in first.items() if ident == each.id != own and each.state != "undone"]
    return sorted((each for each in found if made[each.id] > record.id), key=lambda each: made[each.id])


def _ways_past(later: list[int]) -> tuple[str, str]:
    """Return what to do about the operations *later*, which wrote the same files after the one that is to be undone."""
    wrote = f"operation {later[-1]} of the journal"
    if later[:-1]:
        wrote = f"operations {', '.join(map(str, later[:-1]))} and {later[-1]} of the journal"
    rest = f", then {', '.join(f'`ibkeys undo {each}`' for each in later[-2::-1])}" if later[:-1] else ""
    return (
        f"{wrote} wrote it later: `ibkeys undo {later[-1]}` first{rest}",
        "to take back only this change, make the opposite edit with a partition-* command, such as "
        "`ibkeys partition-remove` after partition-add",
    )
