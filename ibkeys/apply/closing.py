"""Ending the record of an apply where somebody else has changed what it set. Nothing is written but the journal."""

from __future__ import annotations

from typing import Final

from ibkeys.apply.apply import Permissions, last_unfinished, plan_resume
from ibkeys.apply.carrier import Carrier
from ibkeys.apply.carriers import Via
from ibkeys.apply.undo import plan_undo
from ibkeys.change.interlocks.overtaken import OVERTAKEN
from ibkeys.change.writer import Writer
from ibkeys.errors import FileFormatError, IbkeysError, Refused, UsageError
from ibkeys.printable import named
from ibkeys.store.journal import Journal, OperationRecord

_ANY: Final = Permissions(removals=True, breaks=True)


def refuse_overtaken(writer: Writer, via: Via | None = None, carrier: Carrier | None = None) -> None:
    """Raise Refused (``overtaken``) if somebody else has changed a file or port of the last unfinished apply since.
    Then it can be neither finished nor undone. *via*, *carrier*: as in `plan_resume`. Nothing is written.

    Raises StoreError if there is no unfinished apply, and what `plan_resume` and `plan_undo` raise otherwise.
    """
    record = last_unfinished(writer)
    found, hindered = list[str](), None
    try:
        plan = plan_resume(writer, _ANY, carrier=carrier, via=via)
        found = plan.remaining.kept_in_words() + [each.message for each in plan.objections if each.is_overtaken]
    except (Refused, UsageError, FileFormatError) as error:
        hindered = error  # what hinders it may be the work of somebody else too
    if not found:
        found = _overtaken_on_the_way_back(writer, record, via, carrier, hindered)
    if found:
        raise Refused(f"{_name(record)}: somebody else has changed what it set: {named(found)}", OVERTAKEN)
    if hindered is not None:
        raise hindered


def _overtaken_on_the_way_back(
    writer: Writer, record: OperationRecord, via: Via | None, carrier: Carrier | None, hindered: IbkeysError | None
) -> list[str]:
    """Return what somebody else has changed, by which `undo` is refused. Raises *hindered*, if that is given, or what
    `plan_undo` raises for another reason."""
    try:
        plan = plan_undo(writer, record.id, carrier=carrier, via=via, breaks=True)
    except (Refused, UsageError, FileFormatError) as error:
        if isinstance(error, Refused) and error.is_overtaken:
            return [error.message]
        raise hindered or error from None
    return plan.remaining.kept_in_words()


def close_overtaken(writer: Writer) -> str:
    """Note that the last apply that did not end, and an undo of it, have ended; return its name. Raises StoreError."""
    record = last_unfinished(writer)
    with Journal(writer.fabric.stores.journal) as journal, journal.in_one_transaction():
        for each in journal.list_operations():
            if each.id == record.id or (each.undoes == record.id and each.state in ("open", "failed")):
                journal.set_state(each.id, "undone")
    return _name(record)


def _name(record: OperationRecord) -> str:
    return f"operation {record.id} ({record.command}, begun {record.started})"
