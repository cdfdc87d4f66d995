"""Describing a planned M_Key run over a fabric for the user, and carrying it out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ibkeys.change.interlocks.m_keys import (
    objections_to_keys_under_sm,
    objections_to_lease,
    objections_to_links,
    objections_to_opensm,
    objections_to_removal_under_sm,
)
from ibkeys.change.interrupts import ExplainedInterrupt, Interrupts
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.mkey import notes_on_levels
from ibkeys.managers.opensm.on_this_host import known_sweep_interval
from ibkeys.mkeys.rollout import opensm_procedure
from ibkeys.mkeys.rollout.planned_run import PlannedRun, RunStart
from ibkeys.mkeys.rollout.port_job import PortJob
from ibkeys.mkeys.rollout.result import ReportPort
from ibkeys.mkeys.set import changes_of
from ibkeys.store.cut_off_operations import close_cut_off
from ibkeys.store.journal import KEY_COMMANDS, Journal, OperationState, RunningOperation
from ibkeys.store.journal.runs import REMOVAL
from ibkeys.store.origin import Origin
from ibkeys.topology.model import Topology


def describe(
    writer: ChangeWriter, run: PlannedRun, key_file: str = "", opensm_conf: Path | None = None, generated: bool = False
) -> None:
    """Fill in the changes, notes and interlocks of the plan of *run*, and ``run.procedure`` if an SM is or may be
    master.

    *key_file*: the name of the file with the new key, "" for none; *opensm_conf*: an options file with which an SM of
    this subnet starts; *generated*: whether the keys were generated, so that no options file can have them yet. Raises
    FileFormatError and StoreError if *opensm_conf* cannot be read.
    """
    jobs, plan = run.jobs, run.plan
    plan.notes += _note_unread_places(run.found)
    if not jobs:
        return
    plan.changes = [change for job in jobs for change in changes_of(job.port, job.old, job.wanted)]
    managers = [port for port in run.found.end_ports() if port.is_sm]
    writer.note_master_sm_lids([job.port for job in jobs], managers)
    removes = all(job.wanted.key.is_zero for job in jobs)
    objections_under_sm = objections_to_removal_under_sm if removes else objections_to_keys_under_sm
    plan.objections = objections_under_sm(writer, managers)
    if plan.objections:
        run.procedure = [f"runs an SM: {port}, LID {port.lid}" for port in managers] + _procedure(run, key_file)
    if not removes:
        _describe_keys(writer, run, opensm_conf, generated)
    elif not run.goes_back:
        plan.notes.append(opensm_procedure.SM_SETS_KEY_AGAIN)


def _describe_keys(writer: ChangeWriter, run: PlannedRun, opensm_conf: Path | None, generated: bool) -> None:
    """Add the notes and objections on the keys that ports get. Arguments as in `describe`."""
    jobs, plan = run.jobs, run.plan
    interval = known_sweep_interval(writer.fabric, writer.ask_subnet_manager())
    groups: dict[tuple[bool, int, int], list[PortJob]] = {}
    for job in jobs:
        groups.setdefault((job.wanted.key.is_zero, job.wanted.protect, job.wanted.lease), []).append(job)
    for group in groups.values():
        who = f"each of {len(group)} ports" if len(group) > 1 else str(group[0].port)
        plan.objections += objections_to_lease(who, group[0].wanted, interval)
    if not run.goes_back:
        key = jobs[0].wanted.key if run.options.same else None
        plan.objections += objections_to_opensm(writer.fabric, key, opensm_conf, generated)
        plan.objections += objections_to_links(
            ((job.port, job.old, job.wanted) for job in jobs), writer.fabric.own_guid
        )
    levels = sorted({job.wanted.protect for job in jobs if not job.wanted.key.is_zero})
    plan.notes += notes_on_levels(levels)
    if not run.goes_back:
        plan.notes.append(opensm_procedure.ONE_KEY if run.options.same else opensm_procedure.OVERWRITTEN)


def _procedure(run: PlannedRun, key_file: str) -> list[str]:
    """Return, in words, the steps to take instead of the run under a subnet manager."""
    if run.goes_back or run.is_open:
        return opensm_procedure.OF_EARLIER_RUN
    if run.plan.command == REMOVAL:
        return opensm_procedure.OF_REMOVAL
    return opensm_procedure.steps_through_opensm(run.plan.command, run.options.protect, run.options.lease, key_file)


def _note_unread_places(found: Topology) -> list[str]:
    """Return a list with a note if the sweep sent no SMP to places where a protected port may be, else an empty
    list."""
    places = [trouble for trouble in found.troubles if trouble.reading == "not-asked"]
    if not places:
        return []
    more = f" (and {len(places) - 1} more places)" if len(places) > 1 else ""
    return [f"{places[0].port}{more}: {places[0].error}"]


def carry_out(writer: ChangeWriter, run: PlannedRun, report: ReportPort) -> None:
    """Make the changes of *run*. *report*: called for each port as it is finished, first for the skipped ports.

    Raises Refused; StoreError, after which no Set was sent whose key is not stored, and the Sets that were sent are
    proven if their ports answer; the errors of *report*; and KeyboardInterrupt: a signal ends the run when the ports
    that are being changed are finished, a second SIGINT at once. After any of these the run can be resumed or rolled
    back.
    """
    writer.sends_keys = True
    planned = run.plan
    plan = RunPlan(
        planned.command, planned.changes, objections=planned.objections, rechecks_links=True, run=run, report=report
    )
    if run.plan.pending:
        writer.apply(plan)
    else:  # no SMP is sent, only the stores are updated
        with writer.journaled(plan) as operation:
            plan.perform(writer, operation)


@dataclass(slots=True, kw_only=True)
class RunPlan(Plan):
    """A run as a plan for the writer. The run itself checks the links to each port right before its change."""

    run: PlannedRun
    report: ReportPort

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Return the operation of the run, or the undo of it."""
        return self.run.beginning.operation(journal, origin, self.run.goes_back)

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Carry out the run, and set the outcome of its operation; see `carry_out`."""
        run, account = self.run, self.run.account
        account.waiting = run.waiting
        for result in run.skipped:
            account.add(result)
            self.report(result)
        number = run.beginning.begin(writer, run, operation)
        try:
            with Interrupts() as interrupts:
                run.method.carry_out(RunStart(writer, operation, number, run, self.report, interrupts))
        except KeyboardInterrupt as interrupt:
            state = f"operation {number} is not finished, and every key is in the key store"
            commands = "`ibkeys resume` finishes it, `ibkeys undo` rolls it back"
            raise ExplainedInterrupt.of(interrupt, "in the middle", f"{state}; {commands}") from None
        finally:
            account.waiting = run.waiting
        if account.waiting:
            operation.outcome = "open"
        else:
            # A port that another program or administrator has changed since is reported, and never rolled back. So it
            # does not prevent the end of a rollback.
            is_back = run.goes_back and not (account.failed or account.unread)
            operation.outcome = "done" if account.is_complete or is_back else "failed"
        if account.is_complete and not account.waiting:
            self._close_earlier_starts(operation, number)

    def _close_earlier_starts(self, operation: RunningOperation, number: int) -> None:
        """Set a run that was rolled back to undone in the journal. Set the later operations of the same run to its
        state too: an earlier version of ibkeys made an operation of each start of a run, and left them open. No other
        run has begun on this subnet since."""
        journal, record = operation.journal, operation.journal.find(number)
        state: OperationState = "undone" if self.run.goes_back else "done"
        if self.run.goes_back and record.state in ("open", "failed"):
            journal.set_state(number, state)
        close_cut_off(journal, KEY_COMMANDS, state, record.started)
