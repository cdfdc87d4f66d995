"""The commands that finish an open operation of the journal or roll it back, for every command that may have begun
it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ibkeys.store.journal import PLAN_COMMANDS, OperationRecord, Rollback

_RESUME: Final = "ibkeys resume {id}"
_UNDO: Final = "ibkeys undo {id}"
_IF_NEITHER_WORKS: Final = "if others have changed what it set or its ports are gone"
_BY_COMMAND: Final[Mapping[str, tuple[str | None, str | None]]] = {
    "pkey-set": ("ibkeys pkey-set", _UNDO),
    "pkey-add": ("ibkeys pkey-add", _UNDO),
    "pkey-remove": ("ibkeys pkey-remove", _UNDO),
    "enforce-set": ("ibkeys enforce-set", _UNDO),
    **dict.fromkeys(PLAN_COMMANDS, (_RESUME, _UNDO)),
    "mkey-deploy": (_RESUME, _UNDO),
    "mkey-rotate": (_RESUME, _UNDO),
    "mkey-remove": (_RESUME, _UNDO),
    "mkey-set": ("ibkeys mkey-set", None),
    "mkey-recover": ("ibkeys mkey-recover", None),
    **dict.fromkeys(("keystore list --settle", "mkey-list --settle"), ("ibkeys keystore list --settle", None)),
    "sm-repair": ("ibkeys sm-repair", None),
    "smkey-rotate": (_RESUME, None),
    "harden": (_RESUME, _UNDO),
    "harden files": ("ibkeys harden --via opensm", None),
    "harden --abort": (_RESUME, None),
    "counters-clear": ("ibkeys counters-clear", None),
}
"""Command of an operation → the command that finishes it, and the command that rolls it back. ``mkey-list`` was the
name of ``keystore list`` in an earlier version of ibkeys."""
OPENSM_COMMANDS: Final = ("smkey-rotate", "harden", "harden --abort")
"""Further commands whose operations `ibkeys resume` finishes, besides those of a plan and of M_Keys. ``harden --abort``
was a command of an earlier version of ibkeys; it is an undo now."""

ROLLBACKS: Final[Mapping[Rollback, str]] = {
    "unfinished": "is not rolled back yet",
    "refused": "its rollback was refused, because another user or program has changed what it wrote",
}
"""State of the rollback of an operation that was not confirmed in time → words."""


@dataclass(frozen=True, slots=True)
class NextCommands:
    """The commands that finish an operation or roll it back. ``finish`` and ``roll_back``: commands without the options
    that name fabric and ports, or None. ``close``: the command that only ends the record, for the case that another
    program or administrator has changed values that the operation set, or that only absent ports are left."""

    finish: str | None
    roll_back: str | None
    close: str | None = None

    def __str__(self) -> str:
        close = f"`{self.close}` only ends its record, {_IF_NEITHER_WORKS}" if self.close else ""
        return ", ".join(filter(None, (self.in_short, close)))

    @property
    def in_short(self) -> str:
        """The commands that finish it and roll it back, as text."""
        finish = f"`{self.finish}` finishes it" if self.finish else ""
        roll_back = f"`{self.roll_back}` rolls it back" if self.roll_back else ""
        return ", ".join(filter(None, (finish, roll_back)))


def next_commands(command: str, operation: int, undoes: int | None) -> NextCommands:
    """Return the commands that finish an open *operation* of *command* or roll it back. *undoes*: the operation that it
    undoes, None if it is no undo. To undo an undo makes the change again."""
    finish, roll_back = (_RESUME, _UNDO) if undoes is not None else _BY_COMMAND.get(command, (None, _UNDO))
    return NextCommands(finish and finish.format(id=operation), roll_back and roll_back.format(id=operation))


def commands_of_open(record: OperationRecord) -> NextCommands:
    """Return the commands that finish an open operation of the journal or roll it back. An operation that is being
    undone is only finished by its undo. An undo of a run of M_Keys, or of one of `OPENSM_COMMANDS`, cannot be
    undone."""
    commands = next_commands(record.command, record.id, record.undoes)
    if record.has_values:
        commands = replace(commands, finish=_RESUME.format(id=record.id))
    if record.undoes is not None and (record.is_of_keys or record.began in OPENSM_COMMANDS):
        commands = replace(commands, roll_back=None)
    return replace(commands, finish=None) if record.is_half_undone else commands


def next_commands_of(record: OperationRecord) -> NextCommands | None:
    """Return the commands that confirm an operation of the journal, finish it, or roll it back; None if it is done or
    undone, awaits no confirmation, and is not being rolled back."""
    commands = commands_of_open(record)
    if record.awaits_confirmation:
        return NextCommands(f"ibkeys confirm {record.id}", commands.roll_back)
    if record.state == "failed" or record.is_unfinished:
        # The record of an undo that did not end is ended together with that of the operation that it undoes.
        is_named = record.undoes is None or (record.being_undone and record.state == "done")
        is_known = record.is_of_plan or record.is_of_keys or record.has_values or record.began in OPENSM_COMMANDS
        can_close = record.is_unfinished and is_known and is_named
        return replace(commands, close=close_command(record.id)) if can_close else commands
    return NextCommands(None, commands.roll_back) if record.is_going_back else None


def close_command(operation: int) -> str:
    """Return the command that only ends the record of *operation*, or of the operation that it undoes."""
    return f"ibkeys resume {operation} --overtaken"


def advice_to_keep(operation: int) -> str:
    """Return the advice when an apply did not end, and another program or administrator has changed a value that it
    set."""
    return f"to keep what is there: `{close_command(operation)}`, which only ends the record of the operation"


def advice_if_gone(operation: int) -> str:
    """Return the advice when only absent ports are left of an apply, or of an undo of an apply."""
    return f"if they do not come back: `{close_command(operation)}`, which only ends the record of the operation"


def open_elsewhere(records: Iterable[OperationRecord]) -> list[str]:
    """Return a note on each of *records*, operations of other subnets, that can still be finished or rolled back."""
    return [
        f"operation {each.id} ({each.command}) is open on another subnet: {commands.in_short}"
        for each in records
        if (commands := next_commands_of(each)) is not None
    ]
