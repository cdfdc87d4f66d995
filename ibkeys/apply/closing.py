"""Ending the record of an apply where somebody else has changed what it set. Nothing is written but the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ibkeys.apply.apply import Permissions, last_unfinished, not_ended, plan_resume
from ibkeys.apply.apply_plan import ApplyPlan
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
    """Raise Refused (``overtaken``) if somebody else has changed a file or port of the last apply that did not end, or
    of the last undo whose own undo did not. Then it can be neither finished nor undone. *via*, *carrier*: as in
    `plan_resume`. Nothing is written.

    Raises StoreError if there is none, and what `plan_resume` and `plan_undo` raise otherwise.
    """
    record = last_unfinished(writer, not_ended)
    hindered: IbkeysError | None = None
    for plan_way in _ways(writer, record, via, carrier):
        try:
            plan = plan_way()
            found = plan.remaining.kept_in_words() + [each.message for each in plan.objections if each.is_overtaken]
        except (Refused, UsageError, FileFormatError) as error:
            # What else hinders one way may be the work of somebody who is in the way of the other one.
            hindered = hindered or error
            found = [error.message] if isinstance(error, Refused) and error.is_overtaken else []
        if found:
            raise Refused(f"{_name(record)}: somebody else has changed what it set: {named(found)}", OVERTAKEN)
    if hindered is not None:
        raise hindered


def _ways(
    writer: Writer, record: OperationRecord, via: Via | None, carrier: Carrier | None
) -> Iterator[Callable[[], ApplyPlan]]:
    """Yield what plans the ways to the end of an operation: on, and back."""
    undo = partial(plan_undo, writer, carrier=carrier, via=via, breaks=True)
    if record.undoes is None:
        yield partial(plan_resume, writer, _ANY, carrier=carrier, via=via)
    yield partial(undo, record.id)
    if record.undoes is not None:
        with Journal.read(writer.fabric.stores.journal) as journal:
            yield from (partial(undo, each.id) for each in _with_undos(journal, record) if each != record)


def close_overtaken(writer: Writer) -> str:
    """Note that what `refuse_overtaken` is about, and each undo of it that did not end, have ended; return its name.
    Raises StoreError."""
    record = last_unfinished(writer, not_ended)
    with Journal(writer.fabric.stores.journal) as journal, journal.in_one_transaction():
        for each in _with_undos(journal, record):
            journal.set_state(each.id, "undone")
    return _name(record)


def _with_undos(journal: Journal, record: OperationRecord) -> list[OperationRecord]:
    """Return an operation, the undo of it that did not end, the undo of that one, and so on."""
    found = [record]
    for each in journal.list_operations():
        if each.undoes in [undone.id for undone in found] and each.state in ("open", "failed"):
            found.append(each)
    return found


def _name(record: OperationRecord) -> str:
    return f"operation {record.id} ({record.command}, begun {record.started})"
