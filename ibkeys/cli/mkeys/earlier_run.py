"""The last run of M_Keys: finishing it, rolling it back, lowering its level, and closing it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.changing import end_overtaken
from ibkeys.cli.changing import end_record as end_record_of
from ibkeys.cli.left_locks import remove_left_locks
from ibkeys.cli.mkeys.confirming import say_unproven
from ibkeys.cli.mkeys.run_request import RunRequest
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.mkeys.methods import KeyMethod
    from ibkeys.mkeys.planning_options import PlanningOptions
    from ibkeys.mkeys.rollout.planned_run import PlannedRun


def finish_run(
    request: RunRequest, at_once: int | None, max_failures: int | None, first: int | None, opensm_conf: Path | None
) -> int:
    """Finish the last run, and return the exit code.

    *at_once*: how many ports may change at the same time. *max_failures*: how many may fail before the run stops. None
    keeps the run's own number. *first*: change only so many of the ports that are not begun yet; None: all of them.
    *opensm_conf*: the file of --opensm-conf, or None. Raises as `RunRequest.carry_out` does.
    """
    hosts = request.hosts()

    def plan(method: KeyMethod, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        planning = replace(planning, at_once=at_once, max_failures=max_failures, first=first)
        return method.plan_rest(writer, replace(planning, opensm_conf=opensm_conf, hosts=hosts))

    return request.carry_out(plan)


def roll_back_run(
    request: RunRequest, at_once: int | None = None, max_failures: int | None = None, *, leaves_open: bool = False
) -> int:
    """Restore the former values of the ports of the last run, and return the exit code.

    *at_once*, *max_failures*: as for `finish_run`. *leaves_open*: whether the user has agreed already that ports may be
    open to everyone afterwards; else the user is asked. Raises as `RunRequest.carry_out` does.
    """
    return request.carry_out(
        lambda method, writer, planning: method.plan_return(
            writer, replace(planning, at_once=at_once, max_failures=max_failures, leaves_open=leaves_open)
        )
    )


def lower_level(request: RunRequest, operation: int) -> int:
    """Lower the level that the run of *operation* raised, because it was not confirmed in time; return the exit code.

    Raises UsageError for a dry run.
    """
    from ibkeys.mkeys.confirming import lower_unconfirmed

    if request.command_options.consent.dry_run:
        raise UsageError("--unconfirmed has no dry run: omit --dry-run")
    with request.open_writer() as writer:
        lowering = lower_unconfirmed(writer, request.through(), operation)
        if lowering is None:
            exits.write(f"operation {operation}: its level was not raised yet, so nothing has to be lowered")
            return exits.DONE
        exits.write(
            f"operation {operation}: level {lowering.level}, with the same M_Key; `ibkeys resume {operation}` "
            f"raises it again, `ibkeys undo {operation}` restores the former state"
        )
        return exits.NOT_COMPLETED if say_unproven(lowering) else exits.DONE


def end_record(request: RunRequest) -> int:
    """Close the last run, and return the exit code.

    This is for a run whose values another program or administrator has changed since, or whose keys are gone. Raises
    UsageError for any other run, and Refused without confirmation.
    """
    from ibkeys.mkeys.rollout.earlier_run import is_without_keys

    with request.open_writer() as writer:
        close = partial(_close, request, writer)
        if is_without_keys(writer):
            store = request.command_options.where.keystore or "in use"
            exits.warn(f"the key store ({store}) does not have its keys: it was lost, or is another one", "note")
            return end_record_of(request.command_options.consent, close)
        return end_overtaken(
            request.command_options.consent,
            _why_it_may_end(request, writer),
            close,
            "the last run: `ibkeys resume` finishes it, `ibkeys undo` rolls it back",
        )


def _why_it_may_end(request: RunRequest, writer: ChangeWriter) -> str | None:
    """Return why the rollback or the rest of the run is refused because another user or program changed its values.

    None if neither is refused. Plans both to find out.
    """
    from ibkeys.change.interlocks.overtaken import why_overtaken

    method, planning = request.method, replace(request.planning(), leaves_open=True, hosts=())
    assert method is not None  # that of the last run
    return why_overtaken(lambda: method.plan_return(writer, planning), lambda: method.plan_rest(writer, planning))


def _close(request: RunRequest, writer: ChangeWriter) -> str:
    """Close the run, remove the locks that it left on the hosts of OpenSMs, and return its name."""
    from ibkeys.mkeys.opensm.last_run_record import hosts_of_last_run
    from ibkeys.mkeys.rollout.earlier_run import close_overtaken

    name = close_overtaken(writer)
    if request.method is not None and not request.method.sends_sets:
        remove_left_locks(request.command_options.where, writer.command, hosts_of_last_run(writer))
    return name
