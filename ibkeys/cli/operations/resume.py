"""The command `resume`: finish an operation of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ibkeys.change.next_commands import next_commands_of
from ibkeys.cli import changing, options
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.mkeys.rollout_options import OpensmOptions
from ibkeys.cli.opening import journal_of
from ibkeys.cli.operations.requested import (
    AT_ONCE_OPTION,
    FORWARD_OPTIONS,
    KEY_RUN_OPTIONS,
    NOT_FOR_FILES,
    PERMISSION_OPTIONS,
    UFM_OPTIONS,
    RequestedOperation,
    find_operation,
)
from ibkeys.cli.options import ViaOptions
from ibkeys.cli.partitions.many_ports import ManyPortsOptions, many_ports_options
from ibkeys.cli.sm.files_request import ended_error
from ibkeys.cli.types import NumberType

if TYPE_CHECKING:
    from ibkeys.store.journal import OperationRecord


@dataclass(frozen=True, slots=True)
class _ResumeOptions:
    """The options of `resume`: limits, permissions and method."""

    first: int | None = options.field(
        "--first",
        env=False,
        type=NumberType(1, 1_000_000),
        metavar="N",
        help="After an operation with --first: change only the next N leaf switches (M_Keys: the next N ports).",
    )
    allow_removals: bool = options.field_of(options.allow_removals, default=False)
    allow_break: bool = options.field_of(options.allow_break, default=False)
    at_once: int | None = options.number_field("--at-once", 1, 1024, "N", "Of M_Keys: as in mkey-rotate.", env=False)
    max_failures: int | None = options.number_field(
        "--max-failures", 1, 1_000_000, "N", "Of M_Keys: stop at N failed ports.", env=False
    )
    opensm_conf: Path | None = options.field_of(rollout_options.opensm_conf)
    opensm: OpensmOptions = options.field_of(rollout_options.opensm)
    confirm_within: int | None = options.field_of(
        options.confirm_within("Roll back unless confirmed within S seconds; of M_Keys only the level is lowered.")
    )
    overtaken: bool = options.flag_field(
        "--overtaken",
        help="If others have changed what it set, or its ports are gone: only end its record, and write nothing.",
    )


@command("resume")
@options.operation
@many_ports_options(_ResumeOptions)
def resume(command_options: ManyPortsOptions, choices: _ResumeOptions, operation: int | None) -> int:
    """Finish an operation that was interrupted or stopped.

    An operation is also open if ports failed, or are left after --first. ID is the number that `ibkeys journal` shows;
    without it, the only open operation is meant. It goes on as it was begun: directly, through OpenSM or through UFM,
    with the same plan or keys and the same permissions. After --first the other ports follow, once the first ones are
    done. An undo that was interrupted is finished as an undo. The output is that of the command that began the
    operation.
    """
    from ibkeys.change.open_operations import find_to_end, find_to_resume, is_finished_by_undo

    requested = find_operation(command_options, operation, find_to_end if choices.overtaken else find_to_resume)
    if choices.overtaken:
        requested.refuse(
            (*PERMISSION_OPTIONS, *FORWARD_OPTIONS, *AT_ONCE_OPTION),
            "is not continued by --overtaken, which only ends its record: omit {}",
        )
    if requested.target.kind == "keys":
        return _resume_keys(requested, choices)
    if requested.target.kind in ("sm-keys", "enforcement"):
        requested.refuse(NOT_FOR_FILES)
        request = requested.files_request(choices.opensm.sm_wait)
        if choices.overtaken:
            return request.end_record()
        return request.take_back() if is_finished_by_undo(requested.target) else request.finish()
    if requested.target.kind == "values":
        return _resume_values(requested, choices)
    return _resume_partitions(requested, choices)


def _resume_keys(requested: RequestedOperation, choices: _ResumeOptions) -> int:
    from ibkeys.change.open_operations import is_finished_by_undo
    from ibkeys.cli.mkeys.earlier_run import end_record, finish_run, roll_back_run

    requested.refuse((*PERMISSION_OPTIONS, *UFM_OPTIONS))
    if choices.overtaken and not requested.target.is_last_run:
        return _end_earlier(requested)
    request = requested.run_request(choices.opensm, choices.confirm_within)
    if choices.overtaken:
        _refuse_ended(requested.target.record)
        return end_record(request)
    if is_finished_by_undo(requested.target):
        requested.refuse(FORWARD_OPTIONS, "is being undone, and the undo has no such option: omit {}")
        return roll_back_run(request, choices.at_once, choices.max_failures)
    return finish_run(request, choices.at_once, choices.max_failures, choices.first, choices.opensm_conf)


def _resume_values(requested: RequestedOperation, choices: _ResumeOptions) -> int:
    from ibkeys.change.open_operations import is_finished_by_undo
    from ibkeys.cli.operations.values import end_record, finish

    requested.refuse((*KEY_RUN_OPTIONS, *FORWARD_OPTIONS, *AT_ONCE_OPTION, *UFM_OPTIONS))
    if choices.overtaken:
        return end_record(requested)
    if is_finished_by_undo(requested.target):
        return requested.restore(choices.opensm.sm_wait, allow_break=choices.allow_break)
    requested.refuse(PERMISSION_OPTIONS)
    return finish(requested)


def _refuse_ended(record: OperationRecord) -> None:
    """Raise UsageError for a run of M_Keys that has ended."""
    if next_commands_of(record) is None:
        raise ended_error(record)


def _end_earlier(requested: RequestedOperation) -> int:
    """Close a run of M_Keys after which another run began; return the exit code. Only the journal is written."""
    _refuse_ended(requested.target.record)
    given = requested.command_options
    return changing.end_record(given.consent, lambda: requested.close_record(journal_of(given.where)))


def _resume_partitions(requested: RequestedOperation, choices: _ResumeOptions) -> int:
    from ibkeys.apply.apply import Permissions
    from ibkeys.change.open_operations import is_finished_by_undo, not_resumed
    from ibkeys.cli.partitions.apply import ApplyRequest, carry_out, end_record

    requested.refuse((*KEY_RUN_OPTIONS, *AT_ONCE_OPTION))
    record, command_options = requested.target.record, requested.command_options
    if choices.overtaken and requested.target.kind == "other":
        raise not_resumed(record)
    if not choices.overtaken and is_finished_by_undo(requested.target):
        requested.refuse(
            ("--allow-removals", *FORWARD_OPTIONS), "is being undone, and the undo has no such option: omit {}"
        )
        return requested.restore(choices.opensm.sm_wait, allow_break=choices.allow_break)
    request = ApplyRequest(
        command_options,
        gives_each(command_options.folding, command_options.format),
        Permissions(choices.allow_removals, choices.allow_break, choices.first),
        ViaOptions(None, choices.opensm.sm_wait),
        operation=record.id,
    )
    return end_record(request) if choices.overtaken else carry_out(request, choices.confirm_within)
