"""A planned run of M_Keys over a fabric: what it would do, what is said of it, and making it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ibkeys.change.interrupts import Explained, Interrupts
from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer
from ibkeys.host.opensm_here import known_sweep_interval
from ibkeys.keys.mkey import PROTECTION_TEXT
from ibkeys.mkeys.interlocks import objections_to_links, objections_to_opensm
from ibkeys.mkeys.rollout import beside_sm
from ibkeys.mkeys.rollout.engine import Rollout
from ibkeys.mkeys.rollout.port_job import Job
from ibkeys.mkeys.rollout.result import Account, PortResult, Report
from ibkeys.mkeys.set import changes_of, objections_to_lease
from ibkeys.store.keys.runs import RunOptions, Runs
from ibkeys.topology.model import Topology


@dataclass(slots=True)
class PlannedRun:
    """What a run would do. ``plan`` has its changes, notes and interlocks, as every plan.

    ``stages``: the jobs in the order of change; a stage begins when the one before is done with. ``settled``: ports
    that have what they shall have, of which only the store is to be told. ``skipped``: ports that are left alone, and
    why. ``later``: ports of the run whose turn it is not yet (``--first``). ``procedure``: under a subnet manager, what
    to do instead. ``is_open``: the store does not know yet that the run has ended. ``account``: what became of the
    ports, while it is carried out and afterwards.
    """

    plan: Plan
    options: RunOptions
    found: Topology
    stages: list[list[Job]] = field(default_factory=list)
    settled: list[Job] = field(default_factory=list)
    skipped: list[PortResult] = field(default_factory=list)
    later: int = 0
    procedure: list[str] = field(default_factory=list)
    goes_back: bool = False
    is_open: bool = False
    account: Account = field(default_factory=Account)
    begin: Callable[[], int] = lambda: 0

    @property
    def jobs(self) -> list[Job]:
        """All jobs in the order of change."""
        return [job for stage in self.stages for job in stage]

    @property
    def pending(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.settled) or any(self.stages) or (self.is_open and not self.later)


def describe(
    writer: Writer, run: PlannedRun, key_file: str = "", opensm_conf: Path | None = None, generated: bool = False
) -> None:
    """Fill in the plan of *run*: its changes, notes and interlocks. *key_file*: where its key came from; *generated*:
    it is new, and in no file yet. *opensm_conf*: the configuration that an SM of this subnet starts with.

    Raises FileFormatError and StoreError where *opensm_conf* cannot be read.
    """
    jobs, plan = run.jobs, run.plan
    plan.notes += _not_asked(run.found)
    if not jobs:
        return
    plan.changes = [change for job in jobs for change in changes_of(job.port, job.old, job.wanted)]
    managers = beside_sm.sm_ports(run.found.end_ports())
    writer.note_master_sm_lids([job.port for job in jobs], managers)
    plan.objections = beside_sm.objection(writer, managers)
    if plan.objections:
        run.procedure = beside_sm.procedure(managers, run.options.protect, run.options.lease, key_file)
    interval = known_sweep_interval(writer.fabric, writer.subnet_manager)
    groups: dict[tuple[bool, int, int], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.wanted.key.is_zero, job.wanted.protect, job.wanted.lease), []).append(job)
    for group in groups.values():
        who = f"each of {len(group)} ports" if len(group) > 1 else str(group[0].port)
        plan.objections += objections_to_lease(who, group[0].wanted, interval)
    if not run.goes_back:
        key = jobs[0].wanted.key if run.options.same else None
        plan.objections += objections_to_opensm(writer.fabric, key, opensm_conf, generated)
        plan.objections += objections_to_links(
            ((job.port, job.old, job.wanted) for job in jobs), writer.fabric.local().port_guid
        )
    levels = sorted({job.wanted.protect for job in jobs if not job.wanted.key.is_zero})
    plan.notes += [f"level {level}: {PROTECTION_TEXT[level]}" for level in levels]
    if not run.goes_back:
        plan.notes.append(beside_sm.ONE_KEY if run.options.same else beside_sm.OVERWRITTEN)
        plan.notes.append(beside_sm.AFTERWARDS)


def _not_asked(found: Topology) -> list[str]:
    """Return a note where the sweep asked nobody because a protected port may be there: ports may be missing."""
    places = [trouble for trouble in found.troubles if trouble.reading == "not-asked"]
    if not places:
        return []
    more = f" (and {len(places) - 1} more places)" if len(places) > 1 else ""
    return [f"{places[0].port}{more}: {places[0].error}"]


def carry_out(writer: Writer, run: PlannedRun, report: Report) -> None:
    """Make the changes of *run*; *report* hears of each port as it is done with, those that are left alone first.

    Raises Refused, StoreError (nothing was sent whose key is not safe, and all that was sent is proven as far as it
    answers), what *report* raised, and KeyboardInterrupt: a signal ends the run after the ports in change, a second
    SIGINT at once. After any of these the run can be resumed or go back.
    """
    account = run.account

    def tell(result: PortResult) -> None:
        account.add(result)
        report(result)

    def waiting() -> int:
        return len(run.jobs) + len(run.settled) + run.later - account.done - account.failed

    def perform() -> None:
        account.waiting = waiting()
        for result in run.skipped:
            tell(result)
        number = run.begin()
        try:
            with Interrupts() as interrupts:
                rollout = Rollout(writer, number, run.options, report, account, interrupts)
                rollout.carry_out(run.stages, run.settled)
        except KeyboardInterrupt as interrupt:
            raise Explained(
                f"{interrupt or 'in the middle'}: run {number} is not finished, and every key is in the key store; "
                "--resume finishes it, --abort goes back"
            ) from None
        finally:
            account.waiting = waiting()
        if not account.waiting:
            Runs(writer.keystore).finish(number, "undone" if run.goes_back else "ended")

    run.plan.perform = perform
    run.plan.looks_itself = writer.sends_keys = True
    if run.plan.pending:
        writer.apply(run.plan)
    else:
        perform()  # nothing is sent: only the store is told
