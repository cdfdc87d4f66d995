"""A change of many ports on its way: what it is, how it is made and proven, whether it applies a plan or goes back.

All start from the tables as they are: look at the fabric, work out what is left (`ibkeys.apply.remaining`), order it
(`ibkeys.plan.order`), make it (`ibkeys.apply.execute`), and prove it by a fresh read of every port touched. So it
does not matter where the last run stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from ibkeys.apply.execute import Executor, Progress, sets_of
from ibkeys.apply.remaining import Remaining
from ibkeys.apply.survey import Survey, read_others, set_keys
from ibkeys.change.engine import rank_of
from ibkeys.change.interlocks import counted, objections_to_tables
from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer, way_on
from ibkeys.errors import IbkeysError, Incomplete, Refused
from ibkeys.plan.model import Break
from ibkeys.plan.order import ADDING, Phase, Step, order_of
from ibkeys.plan.stages import reuses_partitions
from ibkeys.store.journal import Operation
from ibkeys.topology.port_id import IDENTITY, PortId, PortKey


@dataclass(slots=True)
class ApplyPlan(Plan):
    """A change of many ports. ``phases``: what this run does; ``rest``: steps that are left for a later one.

    ``changes`` stays empty, so that the writer looks at no link: the engine does, batch by batch.

    ``operation_id`` is known once it began. ``undoes``: the operation that it gives back, None where it goes forward.
    ``gone_back``: it was undone because nobody confirmed it. ``digest``: that of the plan that is followed, if any.
    """

    remaining: Remaining = field(default_factory=Remaining)
    phases: list[Phase] = field(default_factory=list)
    rest: int = 0
    breaks: tuple[Break, ...] = ()
    removed: int = 0
    operation_id: int | None = None
    undoes: int | None = None
    digest: str | None = None
    gone_back: bool = False
    refusals: list[Refused] = field(default_factory=list)
    failed: list[tuple[PortId | None, str]] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether there is anything to write, or an earlier operation to be closed."""
        return bool(self.phases) or self.operation_id is not None or self.undoes is not None

    def to_json(self) -> dict[str, Any]:
        """Return what is done in which phase, and the names of the interlocks set off."""
        return {
            "operation": self.operation_id,
            "digest": self.digest,
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


Hook = Callable[["FinishedApply"], None]
"""Called when all is written and proven, or writing failed; see `FinishedApply`."""


@dataclass(slots=True)
class ApplyHooks:
    """How a run goes. ``check``: called between batches, raises to stop; ``progress``: see `Executor`; ``began``:
    called before the first Set; ``ended``: called after the last, while the operation is still open; None where nobody
    needs to confirm it."""

    check: Callable[[], None] = lambda: None
    progress: Progress | None = None
    began: Callable[[Operation], None] = lambda operation: None
    ended: Hook | None = None


@dataclass(slots=True)
class FinishedApply:
    """A run at its end, for `ApplyHooks.ended`. ``error``: why it stopped early, None when all was written."""

    writer: Writer
    work: ApplyPlan
    operation: Operation
    error: BaseException | None


def apply_plan_of(writer: Writer, remaining: Remaining, survey: Survey, disconnecting: bool, advice: str) -> ApplyPlan:
    """Return the plan of what *remaining* says, with the interlocks set off. *advice*: what to do about ``stale``.

    *disconnecting*: that end ports lose all their P_Keys is wanted. Raises MKeyNeeded.
    """
    if reuses_partitions(remaining.tables, remaining.enforcement):
        remaining.others = read_others(writer, survey, {table.port.key for table in remaining.tables})
    phases = order_of([*remaining.others, *remaining.tables], remaining.enforcement)
    work = ApplyPlan(writer.command, remaining=remaining, phases=phases, notes=list(survey.notes))
    changing = {step.port.key for phase in work.phases for step in phase.steps}
    set_keys(survey.targets[key] for key in changing)
    work.objections = remaining.stale(advice)
    if work.phases:
        tables, enforcement = remaining.tables, remaining.enforcement
        work.objections += objections_to_tables(writer, tables, enforcement, survey.targets, disconnecting)
    work.failed = [(None, text) for text in remaining.absent]
    return work


def keep_first(writer: Writer, work: ApplyPlan, survey: Survey, first: int) -> None:
    """Keep of the stage at hand (adding, removing, enforcing) the ports of the first few leaf switches.

    Those of the SM's port and the own port come last.
    """
    if not work.phases:
        return
    stage = _stage(work.phases[0])
    peers = {table.port.key: table.peer for table in work.remaining.tables}

    def switch(step: Step) -> int:
        peer = None if step.port.is_external else peers.get(step.port.key)
        return step.port.node_guid if peer is None else peer[0]

    now = list(takewhile(lambda phase: _stage(phase) == stage, work.phases))
    order = {table.port.node_guid: None for table in work.remaining.tables if table.port.is_external}
    steps = [step for phase in now for step in phase.steps]
    ranks: dict[int, int] = {}
    for step in steps:
        ranks[switch(step)] = max(ranks.get(switch(step), 0), rank_of(writer, survey.targets[step.port.key].port))
    switches = [each for each in dict.fromkeys([*order, *ranks]) if each in ranks]
    chosen = set(sorted(switches, key=lambda each: ranks[each])[:first])
    whole = sum(len(phase.steps) for phase in work.phases)
    kept = [replace(phase, steps=tuple(step for step in phase.steps if switch(step) in chosen)) for phase in now]
    work.phases = [phase for phase in kept if phase.steps]
    work.rest = whole - sum(len(phase.steps) for phase in work.phases)


def _stage(phase: Phase) -> int:
    return 0 if phase.name in ADDING else 2 if phase.name == "enforcement-on" else 1


def perform(writer: Writer, work: ApplyPlan, survey: Survey, hooks: ApplyHooks) -> None:
    """Make the phases and prove them, inside `Writer.apply`. The operation is done when all is done, else open.

    Raises Incomplete when a port could not be written, and what *hooks* raise to stop; the operation is open then.
    """
    operation = writer.operation
    work.operation_id = operation.id
    executor = Executor(writer, survey.targets, work.remaining.empties, hooks.check, hooks.progress)
    hooks.began(operation)
    error: IbkeysError | KeyboardInterrupt | None = None
    try:
        stopped = executor.run(work.phases)
        wrong = {**executor.failed, **executor.prove()}
        work.failed += [(survey.targets[key].id, str(each)) for key, each in wrong.items()]
        if wrong:
            raise _incomplete(operation, wrong, stopped)
    except (IbkeysError, KeyboardInterrupt) as problem:
        error = problem
    operation.outcome = "open" if error is not None or work.rest or work.remaining.absent else "done"
    if hooks.ended is not None:
        hooks.ended(FinishedApply(writer, work, operation, error))
    elif error is None and operation.id is not None:
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
