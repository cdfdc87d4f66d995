"""mkey-deploy and mkey-rotate: planning first or new M_Keys for every port of a subnet."""

from __future__ import annotations

from typing import Literal

from ibkeys.arguments import given
from ibkeys.change.interlocks.m_keys import first_keys_at_level_0, objections_to_key
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import UsageError
from ibkeys.keys.key_setting import check_level_and_lease
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.planning_options import NO_OPTIONS, PlanningOptions
from ibkeys.mkeys.rollout.new_run import plan_new_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.mkeys.rollout.run_plan import describe
from ibkeys.store.journal.runs import RunOptions

KeyCommand = Literal["mkey-deploy", "mkey-rotate"]


def plan_run(
    writer: ChangeWriter,
    command: KeyCommand,
    options: RunOptions,
    new_key: MKey | None = None,
    planning: PlanningOptions = NO_OPTIONS,
) -> PlannedRun:
    """Plan a new run over every end port of the fabric: first keys (mkey-deploy), or new ones (mkey-rotate).

    *new_key*: the key for all ports, which needs ``options.same``; None generates keys.

    Raises UsageError for options or a key that cannot be used; FileFormatError if ``planning.opensm_conf`` cannot be
    read; Refused (``open-run``) while another run is not finished; StoreError, and the errors of `Fabric.sweep`.
    """
    _check(options, new_key)
    shared = (new_key or MKey.generate()) if options.same else None
    run = plan_new_run(
        writer,
        command,
        options,
        lambda old: old.with_values(shared or MKey.generate(), options.protect, options.lease),
        lambda job: why_left_alone(command, job),
        planning.order,
        planning.progress,
        waits_for_absent=command == "mkey-rotate",
    )
    describe(writer, run, planning.key_file, planning.opensm_conf, generated=new_key is None)
    object_to_user_key(writer, run, new_key)
    if command == "mkey-deploy" and options.protect is None:
        open_ports = sum(not job.wanted.protect for job in run.jobs)
        whose = "port gets its first M_Key" if open_ports == 1 else "ports get their first M_Keys"
        run.plan.questions = [first_keys_at_level_0(f"{open_ports} {whose}")] if open_ports else []
    return run


def _check(options: RunOptions, new_key: MKey | None) -> None:
    if new_key is not None and not options.same:
        raise UsageError(
            f"{given('--new-m-key')} sets the same key on every port, so it needs {given('--same')}; without "
            f"{given('--new-m-key')} keys are generated"
        )
    if new_key is not None and new_key.is_zero:
        raise UsageError(
            "M_Key 0 means no protection: mkey-remove removes keys, `ibkeys undo` restores the former state"
        )
    check_level_and_lease(options.protect, options.lease)


def object_to_user_key(writer: ChangeWriter, run: PlannedRun, new_key: MKey | None) -> None:
    """Add the objections to a key that the user gave for all ports of *run*."""
    if new_key is not None and run.jobs:
        guids = {node.guid for node in run.found.nodes} | {port.guid for port in run.found.end_ports()}
        run.plan.objections += objections_to_key(writer, new_key, guids)


def why_left_alone(command: str, job: PortJob) -> str:
    """Return the reason why a new run of *command* leaves a port alone that could be read, "" if there is none."""
    if command == "mkey-deploy" and not job.old.key.is_zero and not job.keeps_key:
        return "it has an M_Key already: mkey-rotate gives it a new one"
    if command == "mkey-rotate" and job.old.key.is_zero:
        return "no M_Key: mkey-deploy gives the first one"
    return ""
