"""Finding the operation of the journal that a command continues: the one that the user names, or the only one that is
open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.change.next_commands import OPENSM_COMMANDS, close_command, commands_of_open, next_commands_of
from ibkeys.errors import StoreError, UsageError
from ibkeys.store.journal import Journal, OperationRecord
from ibkeys.store.journal.records import KEY_COMMANDS, PLAN_COMMANDS
from ibkeys.store.journal.runs import MKeyRun, Runs
from ibkeys.store.moving_runs import move_run_between
from ibkeys.store.paths import StorePaths

OperationKind = Literal["partitions", "keys", "sm-keys", "enforcement", "values", "other"]
_KINDS: Final[dict[str, OperationKind]] = {
    "smkey-rotate": "sm-keys",
    "harden": "enforcement",
    "harden --abort": "enforcement",
}
"""Kinds by the command of an operation."""
_IF_JOURNAL_IS_LOST: Final = (
    "If the journal was lost: every M_Key is in the key store, and mkey-deploy or mkey-rotate begins a new run, which "
    "finds what the ports have; smkey-rotate finishes a change of sm_key and sa_key."
)


@dataclass(frozen=True, slots=True)
class OperationTarget:
    """An operation that a command continues. ``goes_back``: it is to be undone, or its undo is to be finished.
    ``is_last_run``: False for a run of M_Keys that is not the last one on its subnet, so that it can be neither resumed
    nor undone."""

    record: OperationRecord
    goes_back: bool
    kind: OperationKind
    is_last_run: bool = True

    @property
    def id(self) -> int:
        """Its number in the journal."""
        return self.record.id


def find_to_resume(journal: Journal, operation: int | None) -> OperationTarget:
    """Return the operation that `ibkeys resume` finishes: *operation*, or, for None, the only open one. For an undo
    that was cut off, that is the operation that is undone.

    Raises StoreError for an unknown *operation* and if none is open; UsageError if several are open and none is named.
    """
    operations = _Operations(journal)
    if operation is not None:
        return operations.as_resumed(operations.find(operation))
    found = operations.list_unfinished()
    if not found and (awaiting := operations.list_awaiting()):
        raise not_open(awaiting[-1].record)
    if not found:
        raise StoreError(
            f"no operation is open in {journal.in_words}: see `ibkeys journal`, or make a new plan (`ibkeys plan`)"
        ).explained(_IF_JOURNAL_IS_LOST)
    can_go_on = [each for each in found if each.goes_back or each.kind != "other"]
    return _require_one(can_go_on or found)


def find_to_end(journal: Journal, operation: int | None) -> OperationTarget:
    """Return the operation whose record `ibkeys resume --overtaken` ends. Unlike `find_to_resume`, it may also be an
    operation that awaits its confirmation or its rollback. Raises as `find_to_resume`."""
    operations = _Operations(journal)
    if operation is not None:
        return operations.as_resumed(operations.find(operation))
    found = list(dict.fromkeys([*operations.list_unfinished(), *operations.list_awaiting()]))
    if not found:
        raise StoreError(
            f"no operation is open in {journal.in_words}, so there is no record to end: see `ibkeys journal`"
        )
    return _require_one(found)


def find_to_undo(journal: Journal, operation: int | None) -> OperationTarget:
    """Return the operation that `ibkeys undo` restores: *operation*, or, for None, the only one that is open or awaits
    its confirmation. An operation that has ended has to be named.

    Raises StoreError for an unknown *operation* and if there is nothing to undo; UsageError if an operation has to be
    named.
    """
    operations = _Operations(journal)
    if operation is not None:
        return operations.as_undone(operations.find(operation))
    found = list(dict.fromkeys([*operations.list_unfinished(True), *operations.list_awaiting()]))
    ended = [each for each in operations.records.values() if each.state != "undone" and each.undoes is None]
    can_go_back = (
        each for each in reversed(ended) if commands_of_open(each).roll_back and operations.as_undone(each).is_last_run
    )
    if not found and (newest := next(can_go_back, None)) is not None:
        raise UsageError(
            f"no operation is open, and one that has ended has to be named: the last one is operation {newest.id} "
            f"({newest.command}), and `ibkeys undo {newest.id}` rolls it back"
        )
    if not found:
        raise StoreError(
            f"nothing to undo: {journal.in_words} has no operation that can still be undone (`ibkeys journal`); "
            "`ibkeys plan` makes a new plan"
        ).explained(_IF_JOURNAL_IS_LOST)
    return _require_one(found)


def open_beside(journal: Journal, command: str) -> list[OperationRecord]:
    """Return the operations that are unfinished or await their confirmation, the oldest first; for an undo that was cut
    off, the operation that is undone. For a command of partitions, M_Keys or SM keys, the operations of its own kind
    are left out: the command names them itself when it knows the subnet. Every other command gets all. So does
    `harden`, which may find nothing to change, and would not name its own."""
    operations, kind = _Operations(journal), "partitions" if command in PLAN_COMMANDS else _kind_of(command)
    found = {each.id: each for each in [*operations.list_unfinished(), *operations.list_awaiting()]}
    all_kinds = kind in ("other", "enforcement")
    return [found[number].record for number in sorted(found) if all_kinds or found[number].kind != kind]


def notes_on_open(journal: Journal, command: str, continued: int | None = None) -> list[str]:
    """Return a note on each open operation. *continued*: the operation that *command* continues, which is left out.
    None: *command* begins a new operation, and open operations of the same kind are left out, as in `open_beside`."""
    return [
        f"operation {each.id} ({each.command}) is open: {commands.in_short}"
        for each in open_beside(journal, command if continued is None else "")
        if each.id != continued and (commands := next_commands_of(each)) is not None
    ]


def find_target(
    stores: StorePaths,
    operation: int | None,
    find: Callable[[Journal, int | None], OperationTarget],
    dry_run: bool = False,
) -> tuple[OperationTarget, MKeyRun | None]:
    """Return the operation that *find* (`find_to_resume`, `find_to_end` or `find_to_undo`) finds, and its run of M_Keys
    or None. *operation*: its number, None for the only one that is open. *dry_run*: nothing is written. Raises
    StoreError; UsageError as *find*, and if a dry run would have to move a run of M_Keys of an earlier version of
    ibkeys to the journal."""
    move_run_between(stores.keystore, stores.journal, dry_run)
    with Journal.read(stores.journal) as journal:
        target = find(journal, operation)
        return target, Runs(journal).find(target.record.undoes or target.id)


def is_finished_by_undo(target: OperationTarget) -> bool:
    """Return whether an operation is finished by rolling it back. Raises UsageError for an operation that another
    command finishes, and as `refuse_earlier_run`; StoreError for one of M_Keys, SM keys or enforcement that is done or
    undone."""
    record = target.record
    refuse_earlier_run(target)
    if target.goes_back:
        return True
    if target.kind == "other":
        raise not_resumed(record)
    if target.kind != "partitions" and record.state in ("done", "undone") and not record.goes_back:
        raise not_open(record)
    return False


def not_resumed(record: OperationRecord) -> UsageError:
    """Return the error for an operation that `ibkeys resume` does not finish."""
    commands = next_commands_of(record)
    text = "has ended"
    if commands is not None:
        again = "finished by typing its command again, with the same arguments"
        text = f"is {again if commands.finish else 'not resumed'}: {commands}"
    return UsageError(f"operation {record.id} ({record.command}) {text}")


def refuse_undo(target: OperationTarget) -> None:
    """Raise StoreError for a run of M_Keys that was undone already, UsageError for an operation that undid one, and as
    `refuse_earlier_run`. For other kinds the plan of the undo refuses this."""
    refuse_earlier_run(target)
    record = target.record
    if target.kind == "keys" and record.state == "undone":
        raise already_undone(record)
    if target.kind == "keys" and record.undoes is not None:
        raise UsageError(
            f"operation {record.id} restored former M_Keys, and this cannot be undone: `ibkeys resume` finishes it "
            "where it is open; `ibkeys mkey-rotate` gives new keys"
        )


def refuse_earlier_run(target: OperationTarget) -> None:
    """Raise UsageError for a run of M_Keys that is not the last one on its subnet."""
    record = target.record
    if not target.is_last_run:
        ends = "this one has ended"
        if record.state == "failed" or record.is_unfinished:
            ends = f"`{close_command(record.id)}` ends the record of this one"
        raise UsageError(
            f"operation {record.id} ({record.command}) is not the last run of M_Keys on its subnet: only the last "
            f"one can be finished or undone; {ends}"
        )


def not_open(record: OperationRecord) -> StoreError:
    """Return the error for an operation that `ibkeys resume` would finish, and that is not open."""
    back = commands_of_open(record).roll_back
    ended = "it was undone" if record.state == "undone" else f"`{back}` rolls it back" if back else "it has ended"
    return StoreError(f"operation {record.id} ({record.command}) is not open: {next_commands_of(record) or ended}")


def already_undone(record: OperationRecord) -> StoreError:
    """Return the error for an operation that was undone, or whose record was ended: the journal has one state for both.
    Undoing the undo makes the change again, unless it was one of M_Keys, SM keys or enforcement."""
    by = record.undone_by
    what = "makes the change again" if record.undoes is None else "repeats the undo"
    repeats = f"; `ibkeys undo {by}` {what}" if _kind(record) in ("partitions", "values", "other") else ""
    how = ", or `ibkeys resume --overtaken` ended its record" if by is None else f" by operation {by}{repeats}"
    return StoreError(f"operation {record.id} ({record.command}) has already been undone{how}")


class _Operations:
    """The operations of a journal."""

    def __init__(self, journal: Journal) -> None:
        self.records = {each.id: each for each in journal.list_operations()}
        self._runs = Runs(journal)
        self._journal = journal.in_words

    def find(self, operation: int) -> OperationRecord:
        """Return the record of *operation*. Raises StoreError if the journal has none."""
        if operation not in self.records:
            known = "; `ibkeys journal` lists its operations, and" if self.records else ", nor any other;"
            raise StoreError(f"{self._journal} has no operation {operation}{known} `ibkeys plan` makes a new plan")
        return self.records[operation]

    def list_unfinished(self, goes_back: bool = False) -> list[OperationTarget]:
        """Return the operations that are unfinished: cut off, paused, or waiting for ports; also the last run of M_Keys
        on a subnet if it had failures. *goes_back*: return them as operations to be undone."""
        found = [
            self.as_resumed(each)
            for each in self.records.values()
            if each.is_unfinished
            or (each.state == "failed" and each.is_of_keys and self._runs.is_last(each.id))
            or (
                each.state == "failed" and each.began in OPENSM_COMMANDS
            )  # only an earlier version of ibkeys left these
        ]
        return list(dict.fromkeys(self.as_undone(each.record) if goes_back else each for each in found))

    def list_awaiting(self) -> list[OperationTarget]:
        """Return the operations that await their confirmation, and those that are being rolled back without it."""
        return [
            self.as_undone(each) for each in self.records.values() if each.awaits_confirmation or each.is_going_back
        ]

    def as_resumed(self, record: OperationRecord) -> OperationTarget:
        """Return the operation to resume for *record*. If *record* is an unfinished undo, or has an unfinished undo,
        that is the operation to be undone; else *record* itself."""
        if record.is_half_undone:
            return self.as_undone(record)
        if record.undoes is not None and record.state in ("open", "failed"):
            return self.as_resumed(self.records[record.undoes])
        return OperationTarget(record, False, _kind(record), self._is_last_run(record))

    def as_undone(self, record: OperationRecord) -> OperationTarget:
        """Return the operation as one to be undone."""
        return OperationTarget(record, True, _kind(record), self._is_last_run(record))

    def _is_last_run(self, record: OperationRecord) -> bool:
        return not record.is_of_keys or self._runs.is_last(record.undoes or record.id)


def _kind(record: OperationRecord) -> OperationKind:
    return "partitions" if record.is_of_plan else "values" if record.has_values else _kind_of(record.began)


def _kind_of(command: str) -> OperationKind:
    return "keys" if command in KEY_COMMANDS else _KINDS.get(command, "other")


def _require_one(found: Sequence[OperationTarget]) -> OperationTarget:
    if len(found) > 1:
        names = [f"operation {each.record.id} ({each.record.command})" for each in found]
        raise UsageError(f"more than one operation fits: {', '.join(names)}: give the number of one")
    return found[0]
