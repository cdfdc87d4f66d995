"""Finish an operation of the journal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ibkeys.change.next_commands import next_commands_of
from ibkeys.cli import changing, options
from ibkeys.cli.help.command import command
from ibkeys.cli.listing.folding import gives_each
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.opening import journal_of
from ibkeys.cli.operations import asked
from ibkeys.cli.operations.asked import ALLOW, AT_ONCE, FORWARD, OF_KEYS, OF_UFM, Asked
from ibkeys.cli.options import Changing, Folding, SmHosts, ViaOptions, Where
from ibkeys.cli.sm.ufm import UfmOptions, ufm_options
from ibkeys.cli.types import Number
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.store.journal import OperationRecord


@dataclass(frozen=True, slots=True)
class _Choices:
    """How it goes on."""

    first: int | None
    allow_removals: bool
    allow_break: bool
    at_once: int | None
    max_failures: int | None
    opensm_conf: Path | None
    sm_wait: int
    standby_wait: int
    open_while_rotating: bool
    confirm_within: int | None
    overtaken: bool


_choices: Final = options.group(
    "choices",
    _Choices,
    click.option(
        "--first",
        type=Number(1, 1_000_000),
        metavar="N",
        help="Of an operation begun with --first: only the next N leaf switches, or of M_Keys the next N ports.",
    ),
    options.allow_removals,
    options.allow_break,
    click.option("--at-once", type=Number(1, 1024), metavar="N", help="Of M_Keys: as in mkey-rotate."),
    click.option("--max-failures", type=Number(1, 1_000_000), metavar="N", help="Of M_Keys: stop at N failed ports."),
    rollout_options.opensm_conf,
    options.wait_for_sm,
    rollout_options.standby_wait,
    rollout_options.open_while_rotating,
    options.confirm_within("Roll back unless confirmed within S seconds; of M_Keys only the level is lowered."),
    options.option(
        "--overtaken",
        env=False,
        is_flag=True,
        help="Only end its record, where others have changed what it set or its ports are gone: nothing is written.",
    ),
)


@command("resume")
@click.argument("operation", required=False, type=Number(1, 2**31), metavar="[ID]")
@_choices
@options.sm_hosts
@ufm_options
@options.changing
@options.folding
@options.format
@options.fabric
def resume(
    where: Where,
    ufm: UfmOptions,
    consent: Changing,
    sm_hosts: SmHosts,
    folding: Folding,
    format: str,
    operation: int | None,
    choices: _Choices,
) -> int:
    """Finish an operation that was interrupted or stopped.

    An operation is open too where ports failed, or wait after --first. ID is the number that `ibkeys journal` shows;
    without it, the only open operation is meant. It goes on as it was begun: directly, through OpenSM or through UFM,
    with the same plan or keys and the same permissions. After --first the others follow, once the first are done. An
    undo that was interrupted is finished as an undo. The output is that of the command that began the operation.
    """
    from ibkeys.change.open_operations import to_end, to_resume

    target, last = asked.find(where, consent.dry_run, operation, to_end if choices.overtaken else to_resume)
    wanted = Asked(where, ufm, consent, sm_hosts, folding, format, target, last)
    if choices.overtaken:
        wanted.refuse(ALLOW | FORWARD | AT_ONCE, "only has its record ended with --overtaken: omit {}")
    if target.kind == "keys":
        return _resume_keys(wanted, choices)
    if target.kind == "sm-keys":
        return _resume_sm_keys(wanted, choices)
    if target.kind == "enforcement":
        return _resume_enforcement(wanted, choices)
    return _resume_partitions(wanted, choices)


def _resume_keys(wanted: Asked, choices: _Choices) -> int:
    from ibkeys.change.open_operations import not_open
    from ibkeys.cli.mkeys.earlier_run import end_record, finish_run, roll_back_run

    wanted.refuse(ALLOW | OF_UFM)
    if choices.overtaken and not wanted.target.is_last_run:
        return _end_earlier(wanted)
    times = choices.sm_wait, choices.standby_wait, choices.open_while_rotating
    request = wanted.run_request(*times, choices.confirm_within)
    if choices.overtaken and next_commands_of(wanted.target.record) is None:
        raise _has_ended(wanted.target.record)
    if choices.overtaken:
        return end_record(request)
    if wanted.target.goes_back:
        wanted.refuse(FORWARD, "is being undone: omit {}")
        return roll_back_run(request, choices.at_once, choices.max_failures)
    record = wanted.target.record
    if record.state in ("done", "undone") and not record.goes_back:
        raise not_open(record)
    return finish_run(request, choices.at_once, choices.max_failures, choices.first, choices.opensm_conf)


def _resume_sm_keys(wanted: Asked, choices: _Choices) -> int:
    wanted.refuse(OF_KEYS | ALLOW | FORWARD | AT_ONCE | OF_UFM)
    request = wanted.sm_key_request(choices.sm_wait)
    return request.end_record() if choices.overtaken else request.finish()


def _resume_enforcement(wanted: Asked, choices: _Choices) -> int:
    wanted.refuse(OF_KEYS | ALLOW | FORWARD | AT_ONCE | OF_UFM)
    request = wanted.enforcement_request(choices.sm_wait)
    if choices.overtaken:
        return request.end_record()
    return request.take_back() if wanted.target.goes_back else request.finish()


def _has_ended(record: OperationRecord) -> UsageError:
    return UsageError(f"operation {record.id} ({record.command}) has ended")


def _end_earlier(wanted: Asked) -> int:
    """End the record of a run of M_Keys that another one has followed. Only the journal is written."""
    from ibkeys.store.journal import Journal

    record = wanted.target.record
    if next_commands_of(record) is None:
        raise _has_ended(record)

    def close() -> str:
        with Journal(journal_of(wanted.where)) as journal:
            journal.end_undos(record.id)
            journal.set_state(record.id, "undone")
        return f"operation {record.id} ({record.command})"

    return changing.end_record(wanted.consent, close)


def _resume_partitions(wanted: Asked, choices: _Choices) -> int:
    from ibkeys.apply.apply import Permissions
    from ibkeys.change.open_operations import what_else
    from ibkeys.cli.partitions.apply import ApplyRequest, carry_out, end_record

    wanted.refuse(OF_KEYS | AT_ONCE)
    record = wanted.target.record
    if wanted.target.goes_back and not choices.overtaken:
        wanted.refuse({"--allow-removals": "allow_removals"} | FORWARD, "is being undone: omit {}")
        return wanted.restore(choices.sm_wait, allow_break=choices.allow_break)
    if wanted.target.kind == "other":
        raise UsageError(what_else(record))
    request = ApplyRequest(
        *(wanted.where, wanted.consent, gives_each(wanted.folding, wanted.format), wanted.format),
        *(Permissions(choices.allow_removals, choices.allow_break, choices.first), ViaOptions(None, choices.sm_wait)),
        *(wanted.sm_hosts, wanted.ufm),
        operation=record.id,
    )
    return end_record(request) if choices.overtaken else carry_out(request, choices.confirm_within)
