"""Which operation of the journal a command goes on with: the one that is named, or the only one that may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.change.next_commands import THROUGH_OPENSM, going_on, next_commands_of
from ibkeys.errors import StoreError, UsageError
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.keys.runs import Run

Kind = Literal["partitions", "keys", "sm-keys", "enforcement", "other"]
_KINDS: Final[Mapping[str, Kind]] = {
    "smkey-rotate": "sm-keys",
    "harden": "enforcement",
    "harden --abort": "enforcement",
}
"""Kinds by the command of an operation."""


@dataclass(frozen=True, slots=True)
class Target:
    """An operation, and whether it is, or goes on to be, undone. ``record``: None for a run of M_Keys, or a change of
    the keys of subnet managers, that the journal does not have. ``is_last_run``: of M_Keys, whether it is the last run
    of the key store, which alone goes on or back.
    """

    record: OperationRecord | None
    goes_back: bool
    kind: Kind
    is_last_run: bool = True

    @property
    def id(self) -> int | None:
        """Its number in the journal."""
        return None if self.record is None else self.record.id


def to_resume(journal: Journal, last: Run | None, operation: int | None, pending: bool = False) -> Target:
    """Return what `ibkeys resume` finishes: *operation*, None: the only open one. Of an undo that was cut off it is the
    operation that is undone. *last*: the last run of the key store; *pending*: whether that has keys of a change of
    sm_key and sa_key that has not ended.

    Raises StoreError for an unknown *operation* and where none is open, UsageError where several are and none is named,
    and where the only open one is finished by another command.
    """
    known = _Known(journal, last, pending)
    if operation is not None:
        return known.going_on(known.named(operation))
    found = known.left()
    if not found:
        raise StoreError("no operation is open: see `ibkeys journal`, or make a new plan (`ibkeys plan`)")
    can_go_on = [each for each in found if each.goes_back or each.kind != "other"]
    return _only(can_go_on or found)


def to_end(journal: Journal, last: Run | None, operation: int | None, pending: bool = False) -> Target:
    """Return the operation whose record `ibkeys resume --overtaken` ends. As `to_resume`; one that waits to be
    confirmed, or to be rolled back, may be meant too."""
    known = _Known(journal, last, pending)
    if operation is not None:
        return known.going_on(known.named(operation))
    found = list(dict.fromkeys([*known.left(), *known.waiting()]))
    if not found:
        raise StoreError("no operation is open, so there is no record to end: see `ibkeys journal`")
    return _only(found)


def to_undo(journal: Journal, last: Run | None, operation: int | None, pending: bool = False) -> Target:
    """Return what `ibkeys undo` restores: *operation*, None: the only one that is open or waits to be confirmed. One
    that has ended has to be named. A run that the journal does not have cannot be, and is meant where the journal has
    nothing else.

    Raises StoreError for an unknown *operation* and where there is nothing to undo, UsageError where none is named that
    has to be.
    """
    known = _Known(journal, last, pending)
    if operation is not None:
        return known.back(known.named(operation))
    found = list(dict.fromkeys([*known.left(True), *known.waiting()]))
    ended = [each for each in known.records.values() if each.state != "undone" and each.undoes is None]
    can_go_back = [each for each in ended if going_on(each).roll_back is not None]
    if can_go_back and not found:
        newest = can_go_back[-1]
        raise UsageError(
            f"no operation is open, and one that has ended has to be named: the last one is operation {newest.id} "
            f"({newest.command}), and `ibkeys undo {newest.id}` rolls it back"
        )
    if not found and known.is_elsewhere("open", "ended"):
        return Target(None, True, "keys")
    if not found:
        raise StoreError("nothing to undo: the journal has no operation that can still be undone (`ibkeys journal`)")
    return _only(found)


class _Known:
    """The operations of a journal, and what the key store has: its last run, and whether keys of subnet managers are
    *pending*."""

    def __init__(self, journal: Journal, last: Run | None, pending: bool) -> None:
        self.records = {each.id: each for each in journal.list_operations()}
        self._last = last
        self._pending = pending
        self._of_last = last and last.find_operation(self.records.values(), journal.identity())

    def named(self, operation: int) -> OperationRecord:
        """Return one of them. Raises StoreError."""
        if operation not in self.records:
            none = "" if self.records else ", nor any other"
            raise StoreError(
                f"the journal has no operation {operation}{none}; `ibkeys journal` lists them, and `ibkeys plan` makes "
                "a new plan"
            )
        return self.records[operation]

    def left(self, goes_back: bool = False) -> list[Target]:
        """Return the operations that something was left of: cut off, held, waiting for ports. The last run of M_Keys
        counts where it had failures, and where the key store has it open. *goes_back*: they are to be undone."""
        is_open = self._last is not None and self._last.state == "open"
        left = [
            each
            for each in self.records.values()
            if each.is_unfinished
            or ((is_open or each.state == "failed") and each.is_of_keys and each == self._of_last)
            or (each.state == "failed" and each.began in THROUGH_OPENSM)  # of an earlier version of ibkeys
        ]
        found = [self.going_on(each) for each in left]
        if self.is_elsewhere("open"):
            found.append(Target(None, goes_back, "keys"))
        if self._pending and not any(each.kind == "sm-keys" for each in found):
            found.append(Target(None, goes_back, "sm-keys"))
        return list(dict.fromkeys(self.back(each.record) if goes_back and each.record else each for each in found))

    def waiting(self) -> list[Target]:
        """Return those that wait to be confirmed, and those that are rolled back because nobody confirmed them."""
        return [self.back(each) for each in self.records.values() if each.awaits_confirmation or each.is_going_back]

    def going_on(self, record: OperationRecord) -> Target:
        """Return the operation itself, or what it, or its undo, undoes where that was cut off."""
        if record.being_undone and record.state != "undone":
            return self.back(record)
        if record.undoes is not None and record.state in ("open", "failed"):
            return self.going_on(self.records[record.undoes])
        return Target(record, False, _kind(record), self._is_last_run(record))

    def back(self, record: OperationRecord) -> Target:
        """Return the operation, to be undone."""
        return Target(record, True, _kind(record), self._is_last_run(record))

    def is_elsewhere(self, *states: str) -> bool:
        """Whether the last run of the key store is in one of these *states*, and none that the journal has, as after
        its loss."""
        return self._last is not None and self._last.state in states and self._of_last is None

    def _is_last_run(self, record: OperationRecord) -> bool:
        if not record.is_of_keys or self._last is None:  # without a run the key store was lost, and that is said
            return True
        return self._of_last is not None and self._of_last.id == (record.undoes or record.id)


def _kind(record: OperationRecord) -> Kind:
    if record.is_of_keys:
        return "keys"
    return "partitions" if record.is_of_plan else _KINDS.get(record.began, "other")


def _only(found: Sequence[Target]) -> Target:
    if len(found) > 1:
        raise UsageError(f"{', '.join(_names(found))} may be meant: name one")
    return found[0]


def _names(found: Iterable[Target]) -> Iterable[str]:
    for each in found:
        if each.record is not None:
            yield f"operation {each.record.id} ({each.record.command})"
        else:
            what = "a run of M_Keys" if each.kind == "keys" else "a change of sm_key and sa_key"
            yield f"{what} that this journal does not have (`ibkeys resume` takes it up, and gives it a number)"


def what_else(record: OperationRecord) -> str:
    """Return what goes on with an operation that `ibkeys resume` does not finish."""
    return f"operation {record.id} ({record.command}) is not resumed: {next_commands_of(record) or 'it has ended'}"
