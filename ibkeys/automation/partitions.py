"""Partitions by a script: the plan of a policy, and applying, finishing and undoing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ibkeys.apply.apply import Permissions, plan_apply, plan_resume
from ibkeys.apply.apply_plan import ApplyHooks, ApplyPlan
from ibkeys.apply.carriers import CarrierChoice, carrier_for
from ibkeys.apply.confirm import add_confirmation, rollback_arguments, start_guardian
from ibkeys.apply.undo import plan_undo
from ibkeys.arguments import require
from ibkeys.automation.making import ChangeArguments, PreparedChange, make_change
from ibkeys.automation.methods import carrier_via, wait_of
from ibkeys.automation.result import ChangeResult, PortOutcome, outcomes
from ibkeys.change.confirming.guardian import Guardian
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.method import MethodChoice
from ibkeys.change.wanted import PlannedChange, planned_changes
from ibkeys.change.writer import ChangeWriter
from ibkeys.plan.document_reader import read_plan
from ibkeys.plan.model import PartitionPlan


@dataclass
class _Partitions(PreparedChange):
    """A prepared change of many ports."""

    plan: ApplyPlan
    interrupts: Interrupts

    @property
    def method(self) -> str:
        """The carrier's name."""
        return self.plan.carrier.name

    @property
    def choice(self) -> MethodChoice | None:
        """The reason for the method, if ibkeys chose it."""
        return self.plan.carrier.choice

    def changes(self) -> tuple[PlannedChange, ...]:
        """Return the changes of the plan that are not made yet, those of later runs included."""
        return planned_changes(self.plan.remaining.tables, self.plan.remaining.enforcement)

    def notes(self) -> list[str]:
        """Return the notes of the plan, and the pairs that temporarily lose connectivity."""
        return [*self.plan.notes, *(each.message for each in self.plan.breaks)]

    def make(self, writer: ChangeWriter) -> None:
        """Make the change. Ports that could not be written are in the result."""
        with self.interrupts:
            writer.apply(self.plan)

    def result(self, is_made: bool) -> ChangeResult:
        """Return which ports are proven, which are not, and which are left for a later run."""
        plan, wanted = self.plan, [each.port for each in self.changes()]
        failed = tuple(PortOutcome(port, reason) for port, reason in plan.failed)
        now = {step.port.key for phase in plan.phases for step in phase.steps}
        half_done = {step.port.key for step in plan.later}
        tried, later = ([port for port in wanted if (port.key in now) is is_now] for is_now in (True, False))
        unproven = {each.port for each in failed}
        is_whole = is_made and self.problem is None and not plan.gone_back
        done = [port for port in tried if port not in unproven and port.key not in half_done] if is_whole else []
        for_later = "left for a later run"
        why = "rolled back" if plan.gone_back else "not proven: the operation is open" if is_made else "not changed"
        not_done = (port for port in tried if port not in unproven and port not in done)
        left = outcomes(not_done, for_later if is_whole else why)
        return ChangeResult(
            plan.command,
            plan.operation_id if is_made or plan.undoes is None else None,
            changed=is_made and bool(plan.phases),
            proven=not (failed or left or later or plan.rest) and not plan.gone_back,
            done=outcomes(done),
            failed=failed,
            left=left + outcomes(later, for_later),
            gone_back=plan.gone_back and not plan.is_rollback_refused,
            notes=tuple(plan.late_notes),
            waiting=plan.waiting,
        )


def apply_policy_plan(
    asked: ChangeArguments, plan: PartitionPlan | str | Path, permissions: Permissions
) -> ChangeResult:
    """Apply a plan, or the file of one. Raises the errors of `plan_apply`, FileFormatError and UsageError for a
    file."""
    via = carrier_choice(asked, permissions.breaks)
    require("plan", plan, (PartitionPlan, str, Path), "an ibkeys.PartitionPlan or the path of its file")
    document = plan if isinstance(plan, PartitionPlan) else read_plan(plan)

    def prepare(writer: ChangeWriter, hooks: ApplyHooks) -> ApplyPlan:
        carrier = carrier_for(writer, via, document)
        asked.refuse_unseen(carrier.choice)
        return plan_apply(writer, document, permissions, hooks, carrier)

    return change_partitions("apply", asked, prepare)


def resume_partitions(asked: ChangeArguments, permissions: Permissions) -> ChangeResult:
    """Finish the operation in *asked*. Raises the errors of `plan_resume`."""
    how: Any = {"via": carrier_choice(asked, permissions.breaks), "operation": asked.goes_on}
    return change_partitions("apply", asked, lambda writer, hooks: plan_resume(writer, permissions, hooks, **how))


def undo_partitions(asked: ChangeArguments, *, breaks: bool, at_once: bool) -> ChangeResult:
    """Restore the values that the operation in *asked* overwrote. Raises the errors of `plan_undo`."""
    how: Any = {"via": carrier_choice(asked, breaks, at_once), "breaks": breaks}
    return change_partitions("undo", asked, lambda writer, hooks: plan_undo(writer, asked.goes_on, hooks, **how))


def carrier_choice(asked: ChangeArguments, breaks: bool, at_once: bool = False) -> CarrierChoice:
    """Return the method of *asked* for the planning functions; *breaks*, *at_once* and errors: as in `carrier_via`."""
    fabric = asked.fabric

    def warn(text: str) -> None:
        if text not in fabric.warnings:  # it is opened for each plan
            fabric.warnings.append(text)

    return carrier_via(asked.via, warn, is_real_subnet=not fabric.is_simulated, breaks=breaks, at_once=at_once)


def change_partitions(
    command: str, asked: ChangeArguments, plan: Callable[[ChangeWriter, ApplyHooks], ApplyPlan]
) -> ChangeResult:
    """Make the change that *plan* plans, and return its result. *command*: its name in the journal. Raises the errors
    of *plan* and of `make_change`."""
    seconds = asked.seconds
    interrupts = Interrupts(survive_hangup=seconds is not None)
    with _guard(asked, seconds) if seconds is not None else nullcontext() as guardian:

        def prepare(writer: ChangeWriter) -> _Partitions:
            hooks = ApplyHooks(interrupts.check, asked.tell, asked.began)
            if seconds is not None:
                add_confirmation(hooks, seconds, guardian, asked.waiting(interrupts), asked.tell)
            return _Partitions(plan(writer, hooks), interrupts)

        return make_change(command, asked, prepare)


@contextmanager
def _guard(asked: ChangeArguments, seconds: float) -> Iterator[Guardian | None]:
    """Start the process that rolls back when this one dies, and end it on exit.

    None where the journal is in memory, because it would be lost with this process.
    """
    journal = asked.fabric.stores.journal
    if journal is None:
        yield None
        return
    command = asked.command_for_child(rollback_arguments(wait_of(asked.via)))
    with asked.guarded(start_guardian(journal, command, seconds, closes_files=True)) as guardian:
        yield guardian
