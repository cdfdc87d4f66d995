"""Ending the record of an apply that can be neither finished nor undone: another program or administrator has
changed its files or ports, the ports that are left are gone, or it belongs to another subnet. Only the journal is
written, and guards on other hosts are ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from ibkeys.apply.apply import Permissions, find_last_unfinished, list_not_ended, plan_resume
from ibkeys.apply.apply_plan import ApplyPlan
from ibkeys.apply.carrier import Carrier
from ibkeys.apply.carriers import CarrierChoice
from ibkeys.apply.former_values import plan_record_of
from ibkeys.apply.opensm.guards import end_guards
from ibkeys.apply.remaining import in_words
from ibkeys.apply.undo import plan_undo
from ibkeys.change.interlocks.overtaken import OVERTAKEN
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileFormatError, IbkeysError, Refused, UsageError
from ibkeys.printable import named
from ibkeys.store.journal import Journal, OperationRecord, OperationState

_ANY: Final = Permissions(removals=True, breaks=True)
_Outcome = tuple[int, OperationState]
"""The operation whose state is set when a record is ended, and that state."""


@dataclass(slots=True)
class RecordEnding:
    """Ends the record of an unfinished apply, or of an undo whose own undo is unfinished: *operation*, by default the
    last one. *via*, *carrier*: as in `plan_resume`; *say*: called with each guard on another host that could not be
    ended. Nothing on the fabric is written."""

    writer: ChangeWriter
    via: CarrierChoice | None = None
    carrier: Carrier | None = None
    operation: int | None = None
    say: Callable[[str], None] = lambda text: None
    _outcome: _Outcome | None = None

    def why_it_may_end(self) -> str | None:
        """Return why the operation can neither be finished nor undone: another program or administrator has changed one
        of its files or ports, or the ports that are still to be changed are gone, or it belongs to another subnet. None
        if it may still be finished or undone: then it must not be ended.

        Raises StoreError if there is no such operation, and other errors of `plan_resume` and `plan_undo`.
        """
        record = find_last_unfinished(self.writer, list_not_ended, self.operation)
        other_error: IbkeysError | None = None
        absent = list[str]()
        for make_plan, outcome in self._plans_that_end(record):
            try:
                plan = make_plan()
                found = in_words(plan.remaining.foreign_on_fabric) + [
                    each.message for each in plan.objections if each.is_overtaken
                ]
                if plan.lacks_only_ports and not absent:
                    absent, self._outcome = in_words(plan.remaining.absent), outcome
            except (Refused, UsageError, FileFormatError) as error:
                # Such an error of one plan may be the effect of a change by another program or administrator, which the
                # next plan names.
                other_error = other_error or error
                if isinstance(error, Refused) and error.interlock == OVERTAKEN:
                    return error.message
                found = [error.message] if isinstance(error, Refused) and error.can_be_closed else []
            if found:
                self._outcome = None
                return f"{_name(record)}: another user or program has changed what it set: {named(found)}"
        if absent:
            return f"{_name(record)}: only absent ports are left: {named(absent)}"
        if other_error is not None:
            raise other_error
        return None

    def close(self) -> str:
        """Note the end of the operation in the journal, and return its name. If only absent ports are left, its state
        is done, or undone; else its true state is unknown, and neither it nor an undo of it can be undone any more.
        Raises StoreError."""
        record = find_last_unfinished(self.writer, list_not_ended, self.operation)
        with Journal.read(self.writer.fabric.stores.journal) as journal:
            plan_record = plan_record_of(journal, record)
        for problem in end_guards(plan_record.kept if plan_record is not None else {}):
            self.say(problem)
        with Journal(self.writer.fabric.stores.journal) as journal, journal.in_one_transaction():
            if self._outcome is not None:
                operation, state = self._outcome
                journal.set_state(operation, state)
                if operation == record.id and state == "done" and not record.awaits_confirmation:
                    journal.leave_stage(operation, record.stage, "confirmed")
            else:
                for each in _with_undos(journal, record):
                    journal.set_state(each.id, "undone")
        return _name(record)

    def _plans_that_end(self, record: OperationRecord) -> Iterator[tuple[Callable[[], ApplyPlan], _Outcome]]:
        """Yield functions that plan how the operation could end: a resume, unless it is an undo, and an undo of it or
        of one of its undos. Each comes with the outcome to record if its plan lacks only absent ports."""
        with Journal.read(self.writer.fabric.stores.journal) as journal:
            family = _with_undos(journal, record)
        if record.undoes is None:
            plan_again = partial(plan_resume, self.writer, _ANY, as_chosen=False)
            resume = partial(plan_again, carrier=self.carrier, via=self.via, operation=record.id)
            yield resume, (record.id, "done")
        for each in family if record.undoes is not None else [record]:
            undone_by = next((undo.id for undo in reversed(family) if undo.undoes == each.id), None)
            undo_plan = partial(plan_undo, self.writer, each.id, carrier=self.carrier, via=self.via, breaks=True)
            yield undo_plan, (each.id, "undone") if undone_by is None else (undone_by, "done")


def _with_undos(journal: Journal, record: OperationRecord) -> list[OperationRecord]:
    """Return an operation, the undo of it that did not end, the undo of that one, and so on."""
    found = [record]
    for each in journal.list_operations():
        if each.undoes in [undone.id for undone in found] and each.state in ("open", "failed"):
            found.append(each)
    return found


def _name(record: OperationRecord) -> str:
    return f"operation {record.id} ({record.command}, begun {record.started})"
