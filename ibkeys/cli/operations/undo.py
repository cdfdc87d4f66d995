"""The command `undo`: take back a change."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.cli import options
from ibkeys.cli.help.command import command
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.mkeys.rollout_options import OpensmOptions
from ibkeys.cli.operations.requested import (
    AT_ONCE_OPTION,
    KEY_RUN_OPTIONS,
    NOT_FOR_FILES,
    PERMISSION_OPTIONS,
    UFM_OPTIONS,
    RequestedOperation,
    find_operation,
)
from ibkeys.cli.partitions.many_ports import ManyPortsOptions, many_ports_options


@dataclass(frozen=True, slots=True)
class _UndoOptions:
    """The options of `undo`: permissions, and the time to wait for subnet managers."""

    allow_break: bool = options.flag_field(
        "--allow-break", help="Allow the temporary loss of connectivity that undo lists."
    )
    at_once: bool = options.flag_field(
        "--at-once",
        help="Through OpenSM or UFM: restore the former policy in one step, even if that briefly disconnects pairs.",
    )
    leave_open: bool = options.field_of(rollout_options.leave_open, default=False)
    opensm: OpensmOptions = options.field_of(rollout_options.opensm)
    unconfirmed: bool = options.field(
        "--unconfirmed",
        env=False,
        is_flag=True,
        hidden=True,
        help="The operation was not confirmed: no port is overwritten that another user or program has changed; of "
        "M_Keys only the level is lowered.",
    )


@command("undo")
@options.operation
@many_ports_options(_UndoOptions)
def undo(command_options: ManyPortsOptions, choices: _UndoOptions, operation: int | None) -> int:
    """Take back a change.

    Restores what an operation overwrote. ID is the number that `ibkeys journal` shows; without it, the only open
    operation is taken. An operation that has ended needs its ID. P_Key tables are restored byte for byte, enforcement
    bits, part_enforce and policies as they were, and M_Keys, levels and leases of the last mkey-deploy, mkey-rotate or
    mkey-remove. The new keys of an open smkey-rotate are given up where no file has them. The undo uses the method of
    the operation: directly, through OpenSM or through UFM. The undo is itself an operation: undoing the undo of a
    partition change makes the change again. Counters that were cleared cannot be restored.
    """
    from ibkeys.change.open_operations import find_to_undo

    requested = find_operation(command_options, operation, find_to_undo)
    kind, sm_wait = requested.target.kind, choices.opensm.sm_wait
    if kind == "keys":
        return _undo_keys(requested, choices)
    if kind in ("sm-keys", "enforcement"):
        requested.refuse(NOT_FOR_FILES)
        return requested.files_request(sm_wait).take_back()
    requested.refuse(KEY_RUN_OPTIONS)
    undo_options = {"allow_break": choices.allow_break, "at_once": choices.at_once, "unconfirmed": choices.unconfirmed}
    return requested.restore(sm_wait, **undo_options)


def _undo_keys(requested: RequestedOperation, choices: _UndoOptions) -> int:
    from ibkeys.change.open_operations import refuse_undo
    from ibkeys.cli.mkeys.earlier_run import lower_level, roll_back_run

    requested.refuse((*PERMISSION_OPTIONS, *AT_ONCE_OPTION, *UFM_OPTIONS))
    request = requested.run_request(choices.opensm)
    if choices.unconfirmed:
        return lower_level(request, requested.target.id)
    refuse_undo(requested.target)
    return roll_back_run(request, leaves_open=choices.leave_open)
