"""Planning a new run of M_Keys over a fabric: one sweep, and for each end port a job, or the reason why the port is
left alone. A port whose key is not known is skipped, without an SMP that could count a violation.
`ibkeys.mkeys.rollout.rollout` carries out the jobs.
"""

from __future__ import annotations

from collections.abc import Callable

from ibkeys.change.plan import Plan
from ibkeys.change.target import PortTarget
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import LINKS, OnFound, Wanted
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mkeys.planning_options import Order
from ibkeys.mkeys.rollout.absent_ports import name_absent_in_new_run
from ibkeys.mkeys.rollout.earlier_run import refuse_while_open
from ibkeys.mkeys.rollout.found_ports import candidate_ports, has_wanted_setting, present_setting, put_in_stages
from ibkeys.mkeys.rollout.planned_run import NewRun, PlannedRun
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.rollout import SetsOfIbkeys
from ibkeys.store.journal.runs import RunOptions


def plan_new_run(
    writer: ChangeWriter,
    command: str,
    options: RunOptions,
    wanted: Callable[[KeySetting], KeySetting],
    why_left_alone: Callable[[PortJob], str],
    order: Order = "farthest",
    progress: OnFound | None = None,
    reading: Wanted = LINKS,
    waits_for_absent: bool = True,
) -> PlannedRun:
    """Sweep, and plan a run over every end port of the fabric. The plan has no changes and objections yet; `describe`
    adds them.

    *wanted*: returns the wanted setting of a port from its present one; *why_left_alone*: returns the reason why the
    run leaves a port alone that could be read, "" if there is none; *order*: which ports are changed first; *progress*:
    called with the progress of the sweep; *reading*: the attributes that the sweep reads; *waits_for_absent*: whether
    absent ports with a key get their setting when the run is resumed. Raises Refused (``open-run``) while another run
    is not finished, StoreError, and the errors of `Fabric.sweep`.
    """
    # This is also checked before any port is read, because an open run may have set keys that the key ring does not
    # have as the ports' current ones.
    refuse_while_open(writer, writer.keystore, {writer.fabric.own_guid})
    found = writer.sweep(reading, progress)
    notes = refuse_while_open(writer, writer.keystore, {port.port_guid for port in found.end_ports()})
    everything: list[PortJob] = []
    run = PlannedRun(
        Plan(command, notes=notes), options, found, method=SetsOfIbkeys(), beginning=NewRun(command, everything)
    )
    jobs: list[PortJob] = []
    for port, reason in candidate_ports(writer, found):
        if reason:
            run.skipped.append(PortResult(port.identity(), "skipped", reason, unread=True))
            continue
        info = port.port_info
        assert info is not None
        old = present_setting(info)
        job = PortJob(PortTarget(writer.fabric.handle(port), old.key), info, old, wanted(old))
        if reason := why_left_alone(job):
            run.skipped.append(PortResult(port.identity(), "skipped", reason))
        else:
            (run.already_set if has_wanted_setting(job) else jobs).append(job)
    jobs.sort(key=lambda job: len(job.port.agent_path), reverse=order == "farthest")
    put_in_stages(writer, run, jobs)
    everything += run.jobs + run.already_set
    for sequence, job in enumerate(everything):
        job.sequence = sequence
    name_absent_in_new_run(writer, run, waits_for_absent)
    if options.first is not None:
        _keep_first(run, options.first)
    return run


def _keep_first(run: PlannedRun, first: int) -> None:
    kept = []
    for stage in run.stages:
        kept.append(stage[:first])
        run.later += len(stage) - len(kept[-1])
        first -= len(kept[-1])
    run.stages = kept
