"""Which operation of the journal a command goes on with: the one that is named, or the only one that is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ibkeys.change.next_commands import next_commands_of
from ibkeys.errors import StoreError, UsageError
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.keys.runs import Run

Kind = Literal["partitions", "keys", "other"]


@dataclass(frozen=True, slots=True)
class Target:
    """An operation, and whether it is, or goes on to be, undone. ``record``: None for a run of M_Keys that the journal
    does not have."""

    record: OperationRecord | None
    goes_back: bool
    kind: Kind

    @property
    def id(self) -> int | None:
        """Its number in the journal."""
        return None if self.record is None else self.record.id


def to_resume(journal: Journal, last: Run | None, operation: int | None) -> Target:
    """Return what `ibkeys resume` finishes: *operation*, None: the only open one. Of an undo that was cut off it is the
    operation that is undone. *last*: the last run of the key store.

    Raises StoreError for an unknown *operation*; UsageError where none is open, or several and none is named.
    """
    records = {each.id: each for each in journal.list_operations()}
    if operation is not None:
        return _going_on(records, _named(records, operation))
    found = [each for each in _open(records, journal, last) if each.goes_back or each.kind != "other"]
    if not found and _is_elsewhere(journal, last):
        return Target(None, False, "keys")
    if not found:
        raise StoreError("no operation is open: see `ibkeys journal`, or make a new plan (`ibkeys plan`)")
    return _only(found)


def to_undo(journal: Journal, last: Run | None, operation: int | None) -> Target:
    """Return what `ibkeys undo` restores, as `to_resume`, or what waits to be confirmed; where none is open, the last
    one that was not undone and that changed no M_Key. Where such a one was begun after one that is open, nobody guesses
    which is meant. Raises StoreError where there is none."""
    records = {each.id: each for each in journal.list_operations()}
    if operation is not None:
        record = _named(records, operation)
        return Target(record, True, _kind(record))
    waiting = [
        Target(each, True, _kind(each)) for each in records.values() if each.awaits_confirmation or each.is_going_back
    ]
    found = [Target(each.record, True, each.kind) for each in _open(records, journal, last)]
    found = list(dict.fromkeys([*waiting, *found]))
    if not found and _is_elsewhere(journal, last):
        return Target(None, True, "keys")
    newest = max((each.id or 0 for each in found), default=0)
    ended = [each for each in records.values() if each.state != "undone" and each.undoes is None]
    found += [Target(each, True, _kind(each)) for each in ended if not each.is_of_keys and each.id > newest][-1:]
    if not found:
        raise StoreError(
            "nothing to undo: no operation is open, and the journal has none of partitions that can still be undone; a "
            "finished change of M_Keys needs its number (`ibkeys journal`); `ibkeys plan` makes a new plan"
        )
    return _only(found)


def _named(records: dict[int, OperationRecord], operation: int) -> OperationRecord:
    if operation not in records:
        raise StoreError(
            f"the journal has no operation {operation}{'' if records else ', nor any other'}; `ibkeys journal` lists "
            "them, and `ibkeys plan` makes a new plan"
        )
    return records[operation]


def _is_elsewhere(journal: Journal, last: Run | None) -> bool:
    """Whether the last run of the key store is none that *journal* has, as after the loss of a journal, and was not
    rolled back."""
    if last is None or last.state == "undone":
        return False
    return last.operation is None or last.operation.journal != journal.identity()


def _open(records: dict[int, OperationRecord], journal: Journal, last: Run | None) -> list[Target]:
    """Return the operations that something was left of: cut off, held, waiting for ports. A run of M_Keys that had
    failures counts as long as it is the last one."""
    of_last = last.operation if last is not None else None
    number = of_last.id if of_last is not None and of_last.journal == journal.identity() else None
    left = [
        each
        for each in records.values()
        if each.is_unfinished or (each.state == "failed" and each.id == number and each.is_of_keys)
    ]
    return list(dict.fromkeys(_going_on(records, each) for each in left))


def _going_on(records: dict[int, OperationRecord], record: OperationRecord) -> Target:
    if record.being_undone and record.state != "undone":
        return Target(record, True, _kind(record))
    if record.undoes is not None and record.state in ("open", "failed"):
        return _going_on(records, records[record.undoes])
    return Target(record, False, _kind(record))


def _kind(record: OperationRecord) -> Kind:
    if record.is_of_keys:
        return "keys"
    return "partitions" if record.is_of_plan else "other"


def _only(found: Sequence[Target]) -> Target:
    if len(found) > 1:
        names = ", ".join(f"{each.id} ({each.record.command})" for each in found if each.record is not None)
        raise UsageError(f"operations {names} may be meant: name one")
    return found[0]


def what_else(record: OperationRecord) -> str:
    """Return what goes on with an operation that `ibkeys resume` does not finish."""
    return f"operation {record.id} ({record.command}) is not resumed: {next_commands_of(record) or 'it has ended'}"
