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
from ibkeys.cli.operations.asked import (
    ALLOW,
    AT_ONCE,
    FORWARD,
    OF_KEYS,
    OF_OTHERS,
    OF_UFM,
    FoundOperation,
    find_operation,
)
from ibkeys.cli.options import ViaOptions
from ibkeys.cli.partitions.many_ports import AskedOfManyPorts, asked_of_many_ports
from ibkeys.cli.sm.asked import ended_error
from ibkeys.cli.types import NumberType

if TYPE_CHECKING:
    from ibkeys.store.journal import OperationRecord


@dataclass(frozen=True, slots=True)
class _Choices:
    """The options of `resume`: limits, permissions and method."""

    first: int | None = options.field(
        "--first",
        env=False,
        type=NumberType(1, 1_000_000),
        metavar="N",
        help="Of an operation begun with --first: only the next N leaf switches, or of M_Keys the next N ports.",
    )
    allow_removals: bool = options.taken(options.allow_removals, default=False)
    allow_break: bool = options.taken(options.allow_break, default=False)
    at_once: int | None = options.number_field("--at-once", 1, 1024, "N", "Of M_Keys: as in mkey-rotate.", env=False)
    max_failures: int | None = options.number_field(
        "--max-failures", 1, 1_000_000, "N", "Of M_Keys: stop at N failed ports.", env=False
    )
    opensm_conf: Path | None = options.taken(rollout_options.opensm_conf)
    opensm: OpensmOptions = options.taken(rollout_options.opensm)
    confirm_within: int | None = options.taken(
        options.confirm_within("Roll back unless confirmed within S seconds; of M_Keys only the level is lowered.")
    )
    overtaken: bool = options.flag_field(
        "--overtaken",
        help="Only end its record, where others have changed what it set or its ports are gone: nothing is written.",
    )


@command("resume")
@options.operation
@asked_of_many_ports(_Choices)
def resume(asked: AskedOfManyPorts, choices: _Choices, operation: int | None) -> int:
    """Finish an operation that was interrupted or stopped.

    An operation is open too where ports failed, or wait after --first. ID is the number that `ibkeys journal` shows;
    without it, the only open operation is meant. It goes on as it was begun: directly, through OpenSM or through UFM,
    with the same plan or keys and the same permissions. After --first the others follow, once the first are done. An
    undo that was interrupted is finished as an undo. The output is that of the command that began the operation.
    """
    from ibkeys.change.open_operations import resumes_back, to_end, to_resume

    wanted = find_operation(asked, operation, to_end if choices.overtaken else to_resume)
    if choices.overtaken:
        wanted.refuse((*ALLOW, *FORWARD, *AT_ONCE), "only has its record ended with --overtaken: omit {}")
    if wanted.target.kind == "keys":
        return _resume_keys(wanted, choices)
    if wanted.target.kind in ("sm-keys", "enforcement"):
        wanted.refuse(OF_OTHERS)
        request = wanted.files_request(choices.opensm.sm_wait)
        if choices.overtaken:
            return request.end_record()
        return request.take_back() if resumes_back(wanted.target) else request.finish()
    return _resume_partitions(wanted, choices)


def _resume_keys(wanted: FoundOperation, choices: _Choices) -> int:
    from ibkeys.change.open_operations import resumes_back
    from ibkeys.cli.mkeys.earlier_run import end_record, finish_run, roll_back_run

    wanted.refuse((*ALLOW, *OF_UFM))
    if choices.overtaken and not wanted.target.is_last_run:
        return _end_earlier(wanted)
    request = wanted.run_request(choices.opensm, choices.confirm_within)
    if choices.overtaken:
        _refuse_ended(wanted.target.record)
        return end_record(request)
    if resumes_back(wanted.target):
        wanted.refuse(FORWARD, "is being undone: omit {}")
        return roll_back_run(request, choices.at_once, choices.max_failures)
    return finish_run(request, choices.at_once, choices.max_failures, choices.first, choices.opensm_conf)


def _refuse_ended(record: OperationRecord) -> None:
    """Raise UsageError for a run of M_Keys that has ended."""
    if next_commands_of(record) is None:
        raise ended_error(record)


def _end_earlier(wanted: FoundOperation) -> int:
    """Close a run of M_Keys that another run has followed; only the journal is written."""
    from ibkeys.store.journal import Journal

    record = wanted.target.record
    _refuse_ended(record)

    def close() -> str:
        with Journal(journal_of(wanted.asked.where)) as journal:
            journal.end_undos(record.id)
            journal.set_state(record.id, "undone")
        return f"operation {record.id} ({record.command})"

    return changing.end_record(wanted.asked.consent, close)


def _resume_partitions(wanted: FoundOperation, choices: _Choices) -> int:
    from ibkeys.apply.apply import Permissions
    from ibkeys.change.open_operations import not_resumed, resumes_back
    from ibkeys.cli.partitions.apply import ApplyRequest, carry_out, end_record

    wanted.refuse((*OF_KEYS, *AT_ONCE))
    record, asked = wanted.target.record, wanted.asked
    if choices.overtaken and wanted.target.kind == "other":
        raise not_resumed(record)
    if not choices.overtaken and resumes_back(wanted.target):
        wanted.refuse(("--allow-removals", *FORWARD), "is being undone: omit {}")
        return wanted.restore(choices.opensm.sm_wait, allow_break=choices.allow_break)
    request = ApplyRequest(
        asked,
        gives_each(asked.folding, asked.format),
        Permissions(choices.allow_removals, choices.allow_break, choices.first),
        ViaOptions(None, choices.opensm.sm_wait),
        operation=record.id,
    )
    return end_record(request) if choices.overtaken else carry_out(request, choices.confirm_within)
