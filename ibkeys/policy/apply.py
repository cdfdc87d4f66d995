"""Applying a plan to a fabric, resuming one that was interrupted, and going back.

All three are the same work: look at the fabric, work out what is left (`ibkeys.policy.goal`), order it
(`ibkeys.policy.order`), make it (`ibkeys.policy.execute`), and prove it by a fresh read of every port touched. Each
starts from the tables as they are, so it does not matter where the last run stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Final

from ibkeys.change.consent import INTERLOCKS, Consent
from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer, way_on
from ibkeys.errors import IbkeysError, Incomplete, Refused, StoreError, UsageError
from ibkeys.policy.breaks import find_breaks
from ibkeys.policy.execute import Executor, Progress
from ibkeys.policy.goal import Former, Goal, former_of, goal_of, goal_of_undo, ports_of
from ibkeys.policy.objections import counted, named, objections
from ibkeys.policy.order import ADDING, EnforcementStep, Phase, Step, order_of, removals
from ibkeys.policy.planfile import IDENTITY, Break, PlanFile, PortId, PortKey, dumps
from ibkeys.policy.planread import loads
from ibkeys.policy.survey import Survey, find_keys, look
from ibkeys.store.journal import Journal, Operation, OperationRecord, OperationState, PlanRecord

APPLY: Final = "apply"
NEW_PLAN: Final = "make a new plan"


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the user allows an apply to do. ``first``: at most so many leaf switches in this run, None for all."""

    removals: bool = False
    breaks: bool = False
    first: int | None = None


@dataclass(slots=True)
class Work(Plan):
    """A change of many ports. ``phases``: what this run does; ``rest``: steps that are left for a later one.

    ``operation_id`` is known once it began. ``gone_back``: it was undone because nobody confirmed it.
    """

    goal: Goal = field(default_factory=Goal)
    phases: list[Phase] = field(default_factory=list)
    rest: int = 0
    breaks: tuple[Break, ...] = ()
    removed: int = 0
    operation_id: int | None = None
    gone_back: bool = False
    refusals: list[Refused] = field(default_factory=list)
    failed: list[tuple[PortId | None, str]] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether there is anything to write, or an earlier operation to be closed."""
        return bool(self.phases) or self.operation_id is not None

    def to_json(self) -> dict[str, Any]:
        """Return what is done in which phase, and the names of the interlocks set off."""
        return {
            "operation": self.operation_id,
            "phases": [
                {
                    "phase": phase.name,
                    "ports": len({step.port.key for step in phase.steps}),
                    "sets": sum(sets_of(step) for step in phase.steps),
                }
                for phase in self.phases
            ],
            "left_for_later": self.rest,
            "removals": self.removed,
            "breaks": [each.message for each in self.breaks],
            "notes": list(self.notes),
            "interlocks": [objection.interlock for objection in self.objections],
            "errors": [
                {**(port.to_json() if port is not None else dict.fromkeys(IDENTITY)), "error": error}
                for port, error in self.failed
            ],
        }


def sets_of(step: Step) -> int:
    """Return the number of Sets of a step."""
    return 1 if isinstance(step, EnforcementStep) else len(step.blocks)


Hook = Callable[["Run"], None]
"""Called when all is written and proven, or writing failed; see `Run`."""


@dataclass(slots=True)
class Conduct:
    """How a run goes. ``check``: called between batches, raises to stop; ``progress``: see `Executor`; ``began``:
    called before the first Set; ``ended``: called after the last, while the operation is still open; None where nobody
    needs to confirm it."""

    check: Callable[[], None] = lambda: None
    progress: Progress | None = None
    began: Callable[[Operation], None] = lambda operation: None
    ended: Hook | None = None


@dataclass(slots=True)
class Run:
    """A run at its end, for `Conduct.ended`. ``error``: why it stopped early, None when all was written."""

    writer: Writer
    work: Work
    operation: Operation
    error: BaseException | None


# --- apply -----------------------------------------------------------------------------------------------------------


def plan_apply(
    writer: Writer, plan: PlanFile, permissions: Permissions | None = None, conduct: Conduct | None = None
) -> Work:
    """Plan to make a plan document true.

    SMPs: a sweep, and ``ceil(capacity / 32)`` Gets for each port that the plan touches, which with one more for
    PortInfo are read again at the end; what each Set costs stands in `ibkeys.policy.execute`. Raises MKeyNeeded, and
    Refused for removals and breaks that are not permitted.
    """
    survey = look(writer, ports_of(plan))
    goal = goal_of(plan, survey)
    work = _work(writer, goal, survey, plan.options.disconnect_unconfigured, NEW_PLAN)
    unchanged = [table for table in plan.tables if not table.differs]
    work.breaks = _all_breaks(plan.breaks, find_breaks([*unchanged, *goal.tables]))
    permissions = permissions or Permissions()
    _permit(writer, work, permissions)
    work.notes += [*_problem_notes(plan), *_unfinished_notes(writer)]
    if work.phases:
        found = {table.port.key: table for table in goal.tables}
        kept = replace(plan, tables=tuple(found.get(table.port.key, table) for table in plan.tables))
        memory = json.dumps({**asdict(permissions), "overrides": sorted(writer.consent.overrides)})
        work.open_operation = lambda journal: journal.begin(APPLY, dumps(kept), memory)
        work.perform = partial(_perform, writer, work, survey, conduct or Conduct(), "done")
    return work


def _all_breaks(planned: Sequence[Break], found: Sequence[Break]) -> tuple[Break, ...]:
    """What the plan names, and what it does not; the planner knew more pairs than the plan's tables tell."""
    known = {frozenset(port.key for port in each.ports) for each in planned}
    return (*planned, *(each for each in found if frozenset(port.key for port in each.ports) not in known))


def _permit(writer: Writer, work: Work, permissions: Permissions) -> None:
    lost = list(removals(work.goal.tables))
    work.removed = len(lost)
    if lost and not permissions.removals:
        ports = list(dict.fromkeys(port for port, _ in lost))
        work.refusals.append(
            Refused(
                f"the plan removes {counted(len(lost), 'P_Key')} (full to limited counts) from "
                f"{counted(len(ports), 'port')}: {named([f'{port} loses {key}' for port, key in lost])}; "
                "--allow-removals goes ahead",
                "removals",
            )
        )
    if work.breaks and not permissions.breaks:
        messages = named([each.message for each in work.breaks])
        work.refusals.append(Refused(f"{messages}; --allow-break goes ahead, or free an index first", "breaks"))
    if work.refusals and not writer.dry_run:
        raise work.refusals[0]
    if permissions.first is not None:
        _keep_first(work, permissions.first)


def _problem_notes(plan: PlanFile) -> list[str]:
    if not plan.problems:
        return []
    return [f"the plan names {counted(len(plan.problems), 'problem')}, the first: {plan.problems[0].message}"]


def _unfinished_notes(writer: Writer) -> list[str]:
    with Journal(writer.fabric.stores.journal, create=False) as journal:
        return [
            f"operation {record.id} of the journal ({record.command}) was never finished: `ibkeys apply --resume` "
            f"or `ibkeys undo {record.id}`"
            for record in unfinished(journal)
        ]


def unfinished(journal: Journal) -> list[OperationRecord]:
    """Return the operations that follow a plan and are open."""
    operations = journal.list_operations()
    return [record for record in operations if record.state == "open" and journal.plan_of(record.id) is not None]


def plan_resume(
    writer: Writer,
    permissions: Permissions | None = None,
    conduct: Conduct | None = None,
    plan: PlanFile | None = None,
) -> Work:
    """Plan to finish the last apply that was interrupted or stopped on purpose.

    What was permitted and overridden then holds still, but for ``stale`` and ``active-sm``. *plan*: what the user takes
    it for; another plan than the operation's is a UsageError. Raises StoreError when there is nothing to resume, else
    as `plan_apply`.
    """
    with Journal(writer.fabric.stores.journal, create=False) as journal:
        found = unfinished(journal)
        if not found:
            raise StoreError("there is nothing to resume: no apply in the journal is open; see `ibkeys journal`")
        operation = found[-1].id
        memory = journal.plan_of(operation)
        assert memory is not None
        former = former_of(found[-1].command, journal.entries(operation))
    kept = loads(memory.document, f"operation {operation} of the journal")
    if plan is not None and (plan.policy, plan.fabric) != (kept.policy, kept.fabric):
        raise UsageError(f"operation {operation} follows another plan than the one given; leave it out to resume")
    permissions = _remember(writer, memory, permissions or Permissions())
    survey = look(writer, ports_of(kept))
    goal = goal_of(kept, survey, former)
    advice = f"see what happened, or go back: `ibkeys undo {operation}`"
    work = _work(writer, goal, survey, kept.options.disconnect_unconfigured, advice)
    work.breaks = find_breaks(goal.tables)
    work.operation_id = operation
    _permit(writer, work, permissions)
    work.open_operation = lambda journal: journal.reopen(operation)
    work.perform = partial(_perform, writer, work, survey, conduct or Conduct(), "done")
    return work


def _remember(writer: Writer, memory: PlanRecord, permissions: Permissions) -> Permissions:
    earlier = json.loads(memory.options)
    overrides = frozenset(earlier["overrides"]) - {"stale", "active-sm"}
    writer.consent = replace(writer.consent, overrides=writer.consent.overrides | overrides)
    return replace(
        permissions,
        removals=permissions.removals or earlier["removals"],
        breaks=permissions.breaks or earlier["breaks"],
    )


# --- going back ------------------------------------------------------------------------------------------------------


def plan_undo(writer: Writer, operation: int | None = None, conduct: Conduct | None = None) -> Work:
    """Plan to give back what an operation overwrote: P_Key tables byte for byte, and enforcement bits.

    *operation*: by default the last one that was not undone. Raises StoreError when there is none, UsageError for one
    that changed M_Keys or only cleared counters.
    """
    with Journal(writer.fabric.stores.journal, create=False) as journal:
        if operation is None:
            found = [record.id for record in journal.list_operations() if record.state != "undone"]
            if not found:
                raise StoreError("there is nothing to undo: the journal has no operation that was not undone")
            operation = found[-1]
        record = journal.find(operation)
        if record.state == "undone":
            raise StoreError(f"operation {operation} ({record.command}) was undone already")
        former = former_of(record.command, journal.entries(operation))
    if former.counters and not former.ports:
        raise UsageError(
            f"operation {operation} ({record.command}) cleared violation counters of "
            f"{counted(former.counters, 'port')}: a counter cannot be given back; `ibkeys journal` has what they had "
            "counted"
        )
    return _work_of_undo(writer, former, operation, conduct or Conduct())


def _work_of_undo(writer: Writer, former: Former, operation: int, conduct: Conduct) -> Work:
    survey = look(writer, former.ports)
    goal = goal_of_undo(former, survey)
    work = _work(writer, goal, survey, True, "what somebody else wrote is kept, all else goes back")
    # The way back must not need a list of options: what was there before may be there again.
    asked = [each for each in work.objections if each.interlock in ("stale", "active-sm")]
    work.notes += [each.message for each in work.objections if each not in asked]
    work.objections = asked
    work.breaks = find_breaks(goal.tables)
    work.operation_id = operation
    work.open_operation = lambda journal: journal.reopen(operation)
    work.perform = partial(_perform, writer, work, survey, conduct, "undone")
    return work


def go_back(run: Run) -> None:
    """Undo a run that is still open, in the same operation. Nothing is asked and no interlock stops it.

    ``work.gone_back`` says that it was tried; what could not be given back is in ``work.failed``.
    """
    writer, operation = run.writer, run.operation
    assert operation.id is not None
    run.work.gone_back = True
    run.work.failed.clear()
    kept = writer.consent
    writer.consent = Consent(True, frozenset(INTERLOCKS))
    try:
        former = former_of(operation.command, operation.journal.entries(operation.id))
        back = _work_of_undo(writer, former, operation.id, Conduct())
        back.perform()
        run.work.failed += back.failed
    except IbkeysError as error:
        run.work.failed.append((None, f"{error}; `ibkeys undo {operation.id}` tries again"))
        operation.outcome = "open"
    finally:
        writer.consent = kept


# --- what all have in common -----------------------------------------------------------------------------------------


def _work(writer: Writer, goal: Goal, survey: Survey, disconnecting: bool, advice: str) -> Work:
    work = Work(writer.command, goal=goal, phases=order_of(goal.tables, goal.enforcement), notes=list(survey.notes))
    changing = {step.port.key for phase in work.phases for step in phase.steps}
    find_keys(writer, (survey.targets[key] for key in changing))
    work.objections = goal.stale(advice)
    if work.phases:
        work.objections += objections(writer, goal.tables, goal.enforcement, survey.targets, disconnecting)
    work.failed = [(None, text) for text in goal.absent]
    return work


def _keep_first(work: Work, first: int) -> None:
    """Keep of the stage at hand (adding, removing, enforcing) the ports of the first few leaf switches."""
    if not work.phases:
        return
    stage = _stage(work.phases[0])
    peers = {table.port.key: table.peer for table in work.goal.tables}

    def switch(step: Step) -> int:
        peer = None if step.port.is_external else peers.get(step.port.key)
        return step.port.node_guid if peer is None else peer[0]

    now = [phase for phase in work.phases if _stage(phase) == stage]
    order = {table.port.node_guid: None for table in work.goal.tables if table.port.is_external}
    steps = [step for phase in now for step in phase.steps]
    switches = {switch(step) for step in steps}
    chosen = set([each for each in dict.fromkeys([*order, *map(switch, steps)]) if each in switches][:first])
    whole = sum(len(phase.steps) for phase in work.phases)
    kept = [replace(phase, steps=tuple(step for step in phase.steps if switch(step) in chosen)) for phase in now]
    work.phases = [phase for phase in kept if phase.steps]
    work.rest = whole - sum(len(phase.steps) for phase in work.phases)


def _stage(phase: Phase) -> int:
    return 0 if phase.name in ADDING else 2 if phase.name == "enforcement-on" else 1


def _perform(writer: Writer, work: Work, survey: Survey, conduct: Conduct, outcome: OperationState) -> None:
    operation = writer.operation
    work.operation_id = operation.id
    executor = Executor(writer, survey.targets, work.goal.empties, conduct.check, conduct.progress)
    conduct.began(operation)
    error: IbkeysError | KeyboardInterrupt | None = None
    try:
        stopped = executor.run(work.phases)
        wrong = {**executor.failed, **executor.prove()}
        work.failed += [(survey.targets[key].id, str(each)) for key, each in wrong.items()]
        if wrong:
            raise _incomplete(operation, wrong, stopped)
    except (IbkeysError, KeyboardInterrupt) as problem:
        error = problem
    operation.outcome = "open" if error is not None or work.rest or work.goal.absent else outcome
    if conduct.ended is not None:
        conduct.ended(Run(writer, work, operation, error))
    elif error is None and operation.id is not None and outcome != "undone":
        operation.journal.set_stage(operation.id, "confirmed")
    if error is not None and not work.gone_back:
        raise error


def _incomplete(operation: Operation, wrong: Mapping[PortKey, IbkeysError], stopped: Phase | None) -> Incomplete:
    first = next(iter(wrong.values()))
    after = f"no step after {stopped.name} was begun; " if stopped is not None else ""
    return Incomplete(
        f"{counted(len(wrong), 'port')} could not be written: {first}{_more(len(wrong))}; {after}operation "
        f"{operation.id} of the journal is open: {way_on(operation)}"
    )


def _more(number: int) -> str:
    return f" (and {number - 1} more)" if number > 1 else ""
