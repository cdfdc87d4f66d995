"""A change of many ports, from the survey to the proof, whether it applies a plan or rolls one back.

Every run starts from the tables as they are: read the fabric, work out the remaining changes
(`ibkeys.apply.remaining`), order them (`ibkeys.plan.order`), let a carrier make them (`ibkeys.apply.carrier`), and
prove them by a fresh read of every port touched. So it does not matter where the last run stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import takewhile
from typing import Any, Final

from ibkeys.apply.carrier import Assignment, Carrier, Failed, WrittenPort
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.other_indexes import OtherIndex, notes_on, other_indexes
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.apply.survey import Survey, choose_m_keys, read_again
from ibkeys.arguments import given
from ibkeys.change.interlocks.tables import objections_to_tables
from ibkeys.change.next_commands import advice_if_gone
from ibkeys.change.plan import Plan
from ibkeys.change.runner import OnStep
from ibkeys.change.subnets import refuse_other_subnet
from ibkeys.change.wanted import differences
from ibkeys.change.write_order import rank_of
from ibkeys.change.writer import ChangeWriter, name_open_operation
from ibkeys.errors import IbkeysError, Incomplete, NotStored, Refused
from ibkeys.mad.attributes import PortInfo
from ibkeys.plan.model import Break, PartitionPlan
from ibkeys.plan.order import ADDING, OF_SETS, PHASES, Phase, PlanStep, sets_of
from ibkeys.port_text import at_port
from ibkeys.printable import counted, named
from ibkeys.store.journal import PLAN_COMMANDS, Journal, RehearsalRecord, RunningOperation
from ibkeys.store.origin import Origin
from ibkeys.topology.port_id import IDENTITY, PortKey

APPLY: Final = "apply"
NEW_PLAN: Final = "make a new plan (`ibkeys plan`)"
_ADVICE_BY_KIND: Final = {
    "no-room": "free an index first",
    "circle": "first apply a policy that reuses no partition",
}
"""Kind of a break → how to avoid it."""


@dataclass(slots=True)
class ApplyHooks:
    """Functions that a run calls. ``check``: called often, raises to stop; ``progress``: see `OnStep`; ``on_begin``:
    called before the first Set; ``on_end``: called when all is written and proven, or writing failed, while the
    operation is still open; None if the change needs no confirmation. ``confirm_within``: the seconds within which the
    change has to be confirmed."""

    check: Callable[[], None] = lambda: None
    progress: OnStep = lambda step, done, whole: None
    on_begin: Callable[[RunningOperation], None] = lambda operation: None
    on_end: Callable[[FinishedApply], None] | None = None
    confirm_within: float | None = None


@dataclass(slots=True)
class ApplyPlan(Plan):
    """A change of many ports. ``phases``: the phases of this run; ``later``: steps that are left for a later run;
    ``removed``: the number of P_Keys that the plan removes; ``failed``: the ports that could not be written or read,
    with the reason.

    ``changes`` stays empty, so that the writer looks at no link: the engine does, port by port.

    ``carrier``: the backend that makes the change; ``survey``: the ports as they were read. ``document`` and
    ``options``: for a new apply, its plan and the permissions, for the journal. ``operation_id``: known once the run
    began, or from the start if an operation is continued. ``undoes``: the operation that is undone, None otherwise.
    ``makes_again``: the operation that is undone is an undo itself, so this plan makes a change again, as in
    `FormerValues`. ``gone_back``: the run was rolled back, because it was not confirmed in time or because the carrier
    found that necessary; ``is_rollback_refused``: that rollback was refused, and nothing was undone. ``digest``: the
    digest of the plan, if there is one; ``rehearsal``: the last rehearsal of a new plan with this digest.
    ``late_notes``: notes that are shown at the end. ``can_be_closed``: `ibkeys resume --overtaken` can end its record
    if only absent ports are left. ``waiting``: flags of the policy that the subnet manager may not take over at once,
    and members that are not on the fabric. ``wanted``: the plan, or the former values; ``other_indexes``: the P_Keys
    that are at other indexes after the change than ``wanted`` has them at.
    """

    carrier: Carrier = field(kw_only=True)
    survey: Survey = field(kw_only=True)
    hooks: ApplyHooks = field(default_factory=ApplyHooks)
    document: str = ""
    options: str = ""
    remaining: RemainingChanges = field(kw_only=True)
    phases: list[Phase] = field(default_factory=list)
    later: tuple[PlanStep, ...] = ()
    breaks: tuple[Break, ...] = ()
    removed: int = 0
    operation_id: int | None = None
    undoes: int | None = None
    makes_again: bool = False
    digest: str | None = None
    rehearsal: RehearsalRecord | None = None
    gone_back: bool = False
    is_rollback_refused: bool = False
    failed: list[Failed] = field(default_factory=list)
    late_notes: list[str] = field(default_factory=list)
    can_be_closed: bool = False
    waiting: tuple[str, ...] = ()
    wanted: PartitionPlan | FormerValues | None = None
    other_indexes: list[OtherIndex] = field(default_factory=list)

    @property
    def rest(self) -> int:
        """The number of steps that are left for a later run."""
        return len(self.later)

    @property
    def lacks_only_ports(self) -> bool:
        """Whether only ports that are absent, or cannot be read, are left."""
        return bool(self.remaining.absent) and not (self.phases or self.rest or self.remaining.foreign_on_fabric)

    @property
    def pending(self) -> bool:
        """Whether there is anything to write, or an earlier operation to be closed."""
        return bool(self.phases) or self.operation_id is not None or self.undoes is not None

    def begin(self, journal: Journal, origin: Origin) -> RunningOperation:
        """Return the operation of the journal: an undo, the operation that is continued, or a new one with its plan."""
        if self.undoes is not None:
            return journal.undo_of(self.undoes, origin)
        if self.operation_id is not None:
            return journal.reopen(self.operation_id, origin)
        command = self.command if self.command in PLAN_COMMANDS else APPLY
        return journal.begin(command, self.document, self.options, origin)

    def perform(self, writer: ChangeWriter, operation: RunningOperation) -> None:
        """Let the carrier make the change, and prove it. The operation is done if nothing is left, else open.

        Raises Incomplete if a port could not be written, GoneBack if the carrier rolled back by itself, and the errors
        of the carrier and the hooks. The operation is open after all of these but GoneBack. If ``on_end`` rolled the
        change back, no error is raised.
        """
        self.operation_id = operation.id
        self.hooks.on_begin(operation)
        error: IbkeysError | KeyboardInterrupt | None = None
        try:
            if self.hooks.confirm_within is not None:
                self.carrier.arm(operation, self.hooks.confirm_within)
            hooks, targets, empties = self.hooks, self.survey.targets, self.remaining.empties
            assignment = Assignment(self.phases, targets, empties, operation, hooks.check, hooks.progress)
            carried = self.carrier.carry_out(assignment)
            errors = dict(carried.failed)
            try:
                if carried.problem is None:
                    fine = {key: each for key, each in carried.written.items() if key not in carried.failed}
                    errors |= find_differences(writer, fine)
            finally:  # also if the proof is interrupted
                self.failed += [(self.survey.targets[key].id, str(each)) for key, each in errors.items()]
            self.late_notes += carried.notes
            if carried.went_back is not None:
                self.gone_back, self.is_rollback_refused = True, carried.went_back.is_refused
                self.failed, operation.keeps_state = carried.went_back.failed, True
                if not self.failed:  # else the guard on the other host may still restore the rest
                    self.late_notes += self.carrier.disarm(confirmed=False)
                raise GoneBack(carried.rollback_reason)
            if carried.problem is not None:
                raise carried.problem
            if errors:
                raise _incomplete(operation, errors, carried.stopped)
            self._note_other_indexes()
        except GoneBack:
            raise
        except (IbkeysError, KeyboardInterrupt) as problem:
            error = problem
        operation.outcome = "open" if error is not None or self.rest or self.remaining.absent else "done"
        if self.hooks.on_end is not None:
            self.hooks.on_end(FinishedApply(self, operation, error))
        elif error is None and operation.id is not None:
            operation.journal.leave_stage(operation.id, "running", "ended")
        if error is not None and not self.gone_back:
            raise error

    def _note_other_indexes(self) -> None:
        if self.wanted is not None and not self.rest:
            self.other_indexes = list(other_indexes(self.wanted, self.survey.targets))
            self.late_notes += notes_on(self.other_indexes, self.undoes is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the operation, the digest of the plan, its last rehearsal, the name of the carrier, the phases with
        their numbers of ports and Sets, the number of steps left for a later run, the number of P_Keys that the plan
        removes, the pairs that it disconnects briefly, the flags that the subnet manager may take over later, the
        P_Keys at other indexes, the notes, the names of the interlocks triggered, and the errors."""
        return {
            "operation": self.operation_id,
            "digest": self.digest,
            "rehearsal": asdict(self.rehearsal) if self.rehearsal is not None else None,
            "carrier": self.carrier.name,
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
            "waiting": list(self.waiting),
            "other_indexes": [each.to_json() for each in self.other_indexes],
            "notes": [*self.notes, *self.late_notes],
            "interlocks": [objection.interlock for objection in self.objections],
            "errors": [
                {**(port.to_json() if port is not None else dict.fromkeys(IDENTITY)), "error": error}
                for port, error in self.failed
            ],
        }


class GoneBack(Incomplete):
    """The carrier has rolled back the change, so no confirmation is asked for."""


@dataclass(slots=True)
class FinishedApply:
    """A run that has ended, for `ApplyHooks.on_end`. ``error``: why it stopped early, None when all was written."""

    plan: ApplyPlan
    operation: RunningOperation
    error: BaseException | None


def apply_plan_of(
    writer: ChangeWriter,
    carrier: Carrier,
    remaining: RemainingChanges,
    survey: Survey,
    wanted: PartitionPlan | FormerValues,
    advice: str,
    hooks: ApplyHooks | None = None,
    can_be_closed: int | None = None,
) -> ApplyPlan:
    """Return the plan of the *remaining* changes, with the interlocks that they trigger. *advice*: advice to the user
    for ``stale``; *can_be_closed*: the operation whose record can be ended. Raises MKeyNeeded, and the errors of the
    carrier."""
    phases = carrier.phases(remaining, survey)
    plan = ApplyPlan(writer.command, carrier=carrier, survey=survey, remaining=remaining, phases=phases)
    plan.notes, plan.hooks = list(survey.notes), hooks or ApplyHooks()
    changing = {step.port.key for phase in plan.phases for step in phase.steps}
    if carrier.sends_sets:
        choose_m_keys(survey.targets[key] for key in changing)
    plan.objections = remaining.stale_objections(
        f"{advice}; {advice_if_gone(can_be_closed)}" if can_be_closed and plan.lacks_only_ports else advice
    )
    if plan.phases:
        tables, enforcement = remaining.tables, remaining.enforcement
        disconnecting = isinstance(wanted, PartitionPlan) and wanted.options.disconnect_unconfigured
        plan.objections += objections_to_tables(writer, tables, enforcement, survey.targets, disconnecting)
        plan.objections += carrier.objections()
    plan.failed = list(remaining.absent)
    plan.breaks = carrier.breaks(wanted, remaining)
    plan.waiting, plan.wanted = carrier.waiting, wanted
    return plan


def undo_plan_of(
    writer: ChangeWriter,
    carrier: Carrier,
    former: FormerValues,
    operation: int,
    hooks: ApplyHooks | None = None,
    can_be_closed: bool = False,
    is_undo: bool = False,
) -> ApplyPlan:
    """Return the plan that restores the values that *operation* overwrote. *can_be_closed*: its record can be ended;
    *is_undo*: the operation is an undo itself. Raises MKeyNeeded, Refused (``overtaken``) if the operation belongs to
    another subnet, and the errors of a sweep."""
    survey = carrier.survey(former.ports)
    refuse_other_subnet(writer, operation, survey.topology, former.peers)
    remaining = carrier.find_remaining(former, survey)
    kept = "what another user or program wrote is kept, everything else is rolled back"
    advice = f"OpenSM would overwrite it; see `ibkeys journal {operation}`" if carrier.rewrites_tables else kept
    advice = f"{advice}, or {NEW_PLAN}" if is_undo else advice
    plan = apply_plan_of(
        writer, carrier, remaining, survey, former, advice, hooks, operation if can_be_closed else None
    )
    plan.undoes, plan.makes_again = operation, former.makes_again
    return plan


def refuse_breaks(plan: ApplyPlan) -> None:
    """Add a refusal to a plan that temporarily disconnects pairs of ports. Called if the user gave no permission for
    that."""
    if not plan.breaks:
        return
    messages = named([each.message for each in plan.breaks])
    kinds = {each.kind for each in plan.breaks}
    advice = " or ".join(text for kind, text in _ADVICE_BY_KIND.items() if kind in kinds)
    permits = given("--allow-break")
    plan.refusals.append(Refused(f"{messages}; {permits} permits it, or {advice}", "breaks"))


def keep_first(writer: ChangeWriter, plan: ApplyPlan, first: int) -> None:
    """Limit the plan to the ports of at most *first* leaf switches, in its first stage (adding, removing, enforcing).
    The other steps go to ``later``. The switches of the SM's port and of the local port come last."""
    if not plan.phases:
        return
    stage = _stage(plan.phases[0])
    peers = {table.port.key: table.peer for table in plan.remaining.tables}

    def switch(step: PlanStep) -> int:
        peer = None if step.port.is_external else peers.get(step.port.key)
        return step.port.node_guid if peer is None else peer[0]

    now = list(takewhile(lambda phase: _stage(phase) == stage, plan.phases))
    order = {table.port.node_guid: None for table in plan.remaining.tables if table.port.is_external}
    steps = [step for phase in now for step in phase.steps]
    ranks: dict[int, int] = {}
    for step in steps:
        ranks[switch(step)] = max(ranks.get(switch(step), 0), rank_of(writer, plan.survey.targets[step.port.key].port))
    switches = [each for each in dict.fromkeys([*order, *ranks]) if each in ranks]
    chosen = set(sorted(switches, key=lambda each: ranks[each])[:first])
    kept = [replace(phase, steps=tuple(step for step in phase.steps if switch(step) in chosen)) for phase in now]
    later = [step for phase in now for step in phase.steps if switch(step) not in chosen]
    plan.later = (*later, *(step for phase in plan.phases[len(now) :] for step in phase.steps))
    plan.phases = [phase for phase in kept if phase.steps]


def _stage(phase: Phase) -> int:
    """Return the number of the stage of a phase; a run with ``--first`` makes the phases of one stage together. A swap
    adds and removes at once, so it has a stage of its own: removals wait until all swaps are made, and a swap waits for
    the removals before it."""
    if phase.name in ADDING:
        return 0
    return {"swap": 1, "enforcement-on": 3}.get(phase.name, 2)


def _incomplete(
    operation: RunningOperation, errors: Mapping[PortKey, IbkeysError], stopped: Phase | None
) -> Incomplete:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    error = Incomplete(f"{counted(len(errors), 'port')} could not be written: {next(iter(errors.values()))}{more}")
    if stopped is not None and stopped.name in OF_SETS:
        error.changed = f"no step after {PHASES[stopped.name]!r} was started"
    elif stopped is not None:
        error.changed = f"it stopped at this step, which is in place: {PHASES[stopped.name]}"
    return name_open_operation(error, operation)


def find_differences(writer: ChangeWriter, written: Mapping[PortKey, WrittenPort]) -> dict[PortKey, IbkeysError]:
    """Read the ports of *written* afresh; return those that are not as they should be, or do not answer, each with the
    error.

    SMPs: ``ceil(capacity / 32)`` Gets and one for PortInfo for each port.
    """
    wrong = read_again(writer, [each.target for each in written.values()])
    for key, each in written.items():
        if key not in wrong and (problem := _difference(each)):
            wrong[key] = NotStored(at_port(each.target.port, f"when it was read at the end, {problem}"))
    return wrong


def _difference(each: WrittenPort) -> str:
    info, parts = each.target.port.port_info, differences(each.target.table, each.table)
    parts += [
        f"{PortInfo.rows[name].name} is {getattr(info, name)} instead of {value}"
        for name, value in each.bits.items()
        if getattr(info, name) != value
    ]
    return "; ".join(parts[:4])
