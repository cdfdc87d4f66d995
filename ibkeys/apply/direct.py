"""The direct carrier: ibkeys sets each table and each enforcement bit by an SMP, phase by phase. SMPs: those of the
engine for each Set (`ibkeys.change.engine`). A block that both gains and loses P_Keys is set twice, once in each phase;
if its table has no room to grow, only once, in the phase ``swap``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ibkeys.apply.carrier import Assignment, Carrier, CarrierResult, RollbackResult, WrittenPort
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.going_back import go_back_by_plan
from ibkeys.apply.remaining import RemainingChanges, remaining_of, remaining_of_undo
from ibkeys.apply.survey import Survey, read_others, read_partners, survey_ports
from ibkeys.arguments import given
from ibkeys.change.consent import Objection
from ibkeys.change.course import Course
from ibkeys.change.edits import PKeyBlockEdit, PortInfoEdit
from ibkeys.change.engine import Engine, EngineHooks
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.runner import Runner
from ibkeys.change.sets_step import SetsStep
from ibkeys.change.write_order import in_order, rank_of
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError, StoreError
from ibkeys.fabric.subnet_manager import BESIDE_SM
from ibkeys.keys.pkey import PKey
from ibkeys.managers.ufm.access import is_ufm, via_option
from ibkeys.plan.breaks import find_breaks
from ibkeys.plan.model import Break, PartitionPlan
from ibkeys.plan.order import EnforcementStep, Phase, PlanStep, order_of, sets_of, tables_without_room, write
from ibkeys.plan.stages import reuses_partitions
from ibkeys.store.journal import RunningOperation
from ibkeys.topology.port_id import PortKey


class DirectCarrier(Carrier):
    """Makes changes by the engine. *command*: the command that the user typed, for the advice to make the change
    through OpenSM instead."""

    name = "direct"
    sends_sets = True

    def __init__(self, writer: ChangeWriter, command: str = "") -> None:
        self._writer, self._command = writer, command
        self._is_undo, self._policy = False, ""

    def survey(self, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
        """Read the ports that are to be written, and no others."""
        return survey_ports(self._writer, ports, by_port_guid=by_port_guid)

    def objections(self) -> list[Objection]:
        """Return the objection ``active-sm`` if an SM is or may be master: it would overwrite the change with its own
        policy."""
        return self._writer.objection_to_active_sm(f"{BESIDE_SM}{self._advice_to_use_sm()}")

    def _advice_to_use_sm(self) -> str:
        """Return the end of a message, the command with the option that makes the change through the master SM; "" if
        no master answers, or the command is not known."""
        manager = self._writer.ask_subnet_manager()
        if not self._command or manager.presence != "active":
            return ""
        if is_ufm(self._policy):
            return f": {given(f'`{self._command} {via_option(self._policy)}`', 'via=ThroughUFM(URL)')}"
        is_here = manager.port_guid == self._writer.fabric.own_guid
        command = f"`{self._command} {via_option(self._policy)}{'' if is_here else ' --sm-host HOST'}`"
        return f": {given(command, 'via=ThroughOpenSM()' if is_here else 'via=ThroughOpenSM([HOST])')}"

    def find_remaining(
        self, wanted: PartitionPlan | FormerValues, survey: Survey, former: FormerValues | None = None
    ) -> RemainingChanges:
        """Return the remaining changes, by the tables alone: nothing else holds a part of the change."""
        self._is_undo = isinstance(wanted, FormerValues)
        if isinstance(wanted, FormerValues):
            return remaining_of_undo(wanted, survey)
        self._policy = wanted.policy.file
        return remaining_of(wanted, survey, former)

    def phases(self, remaining: RemainingChanges, survey: Survey) -> list[Phase]:
        """Return the phases: additions, removals, enforcement.

        The far ends of changing links are read if they matter. All other end ports are read if a partition is reused,
        or if an undo has tables without room. For an apply the plan already names the pairs that are cut, because the
        planner read all ports.
        """
        writer = self._writer
        remaining.partner_tables, remaining.unchanged_enforcement = read_partners(
            writer, survey, remaining.tables, remaining.enforcement
        )
        is_tight = self._is_undo and tables_without_room(remaining.tables)
        if is_tight or reuses_partitions(remaining.known_tables, remaining.known_enforcement):
            remaining.other_tables = read_others(writer, survey, {table.port.key for table in remaining.known_tables})
        return order_of(remaining.known_tables, remaining.known_enforcement)

    def breaks(self, wanted: PartitionPlan | FormerValues, remaining: RemainingChanges) -> tuple[Break, ...]:
        """Return the breaks that the plan names and whose tables are still to be written, and further ones that these
        tables cause. The planner read more ports than the plan has, so the plan names breaks that its tables do not
        show."""
        tables = wanted.tables if isinstance(wanted, PartitionPlan) else ()
        read = {table.port.key for table in remaining.known_tables}
        unread = [table for table in tables if not table.differs and table.port.key not in read]
        unchanged = [] if remaining.other_tables else unread
        found = find_breaks([*unchanged, *remaining.known_tables], remaining.known_enforcement)
        if not isinstance(wanted, PartitionPlan):
            return found
        pending = {table.port.key for table in remaining.tables if table.differs}
        planned = [each for each in wanted.breaks if pending & {port.key for port in each.ports}]
        known = set(map(_identity, planned))
        return (*planned, *(each for each in found if _identity(each) not in known))

    def carry_out(self, assignment: Assignment) -> CarrierResult:
        """Make the phases, one after the other. If a phase fails at some port, no later phase is begun."""
        return _Phases(self._writer, assignment).run()

    def go_back(self, operation: RunningOperation) -> RollbackResult:
        """Set the values from before the operation, as an undo of its own in the journal."""
        return go_back_by_plan(self._writer, self, operation)


def _identity(each: Break) -> tuple[str, int, frozenset[PortKey]]:
    return each.kind, each.partition, frozenset(port.key for port in each.ports)


class _Phases(EngineHooks):
    """One run of the phases of a change, with the tables and bits that each port should have at this moment."""

    def __init__(self, writer: ChangeWriter, assignment: Assignment) -> None:
        targets = assignment.targets
        self._writer = writer
        self._assignment = assignment
        self._engine = Engine(writer, assignment.operation, self)
        self._tables: dict[PortKey, dict[int, PKey]] = {key: target.table for key, target in targets.items()}
        self._bits: dict[PortKey, dict[str, int]] = {key: {} for key in targets}
        self._waiting: dict[PortKey, int] = {}
        self._phase = ""
        self._steps = self._done = 0
        self._carried = CarrierResult()

    def run(self) -> CarrierResult:
        """Make the phases, and return the result. If a hook or a store stops them, the Sets that were sent are proven
        first."""
        carried, operation = self._carried, self._assignment.operation
        try:
            for ended in Runner(operation).run(Course(self._assignment.phases), self._step):
                carried.stopped = None if ended.is_proven else ended.step
        except (IbkeysError, KeyboardInterrupt) as problem:
            carried.problem = problem
        return carried

    def _step(self, phase: Phase) -> SetsStep:
        self._phase, self._steps, self._done = phase.name, len(phase.steps), 0
        return SetsStep(phase.name, self._engine, self._sets_of(phase), stops_at_failure=phase.name == "swap")

    def _sets_of(self, phase: Phase) -> Iterator[list[PendingSet]]:
        for stage in self._stages(phase):
            self.check()
            yield [each for step in stage for each in self._sets(step)]

    def _stages(self, phase: Phase) -> Iterator[Sequence[PlanStep]]:
        """Divide a phase into stages: the SM's port and the local port with their leaf ports come last. Swaps are made
        one by one in the given order: in another order they could cut a pair that the plan does not name."""
        targets = self._assignment.targets
        if phase.name == "swap":
            yield from ([step] for step in phase.steps)
        else:
            yield from in_order((step, rank_of(self._writer, targets[step.port.key].port)) for step in phase.steps)

    def _sets(self, step: PlanStep) -> list[PendingSet]:
        key = step.port.key
        target, table, bits = self._assignment.targets[key], self._tables[key], self._bits[key]
        self._carried.written[key] = WrittenPort(target, table, bits)
        self._waiting[key] = sets_of(step)
        edits = list(self._edits(step))
        for edit in edits:
            edit.max_sends = self._writer.fabric.client.timing.retries + 1
        return [PendingSet(edit) for edit in edits]

    def _edits(self, step: PlanStep) -> Iterator[PKeyBlockEdit | PortInfoEdit]:
        key = step.port.key
        target, table, bits = self._assignment.targets[key], self._tables[key], self._bits[key]
        if isinstance(step, EnforcementStep):
            wanted = {"partition_enforcement_inbound": step.inbound, "partition_enforcement_outbound": step.outbound}
            changes = {name: int(value) for name, value in wanted.items() if value is not None}
            info = target.port.port_info
            shown = info.replace(**bits) if info is not None else None
            yield PortInfoEdit(target, changes, shown, self._writer.consent.covers("stale"))
            return
        empties: Mapping[int, int] | None = self._assignment.empties.get(key)
        for block in step.blocks:
            yield PKeyBlockEdit(target, block, dict(table), step.writes, empties)

    # --- calls of the engine -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the caller of the run wants to stop it."""
        self._assignment.check()

    def note_outcome(self, pending: PendingSet, journal_error: StoreError | None) -> None:
        """Note the outcome of a Set, and report progress."""
        key, edit = pending.target.id.key, pending.edit
        if pending.error is not None:
            self._carried.failed.setdefault(key, pending.error)
        elif isinstance(edit, PKeyBlockEdit):
            write(self._tables[key], edit.writes)
        elif isinstance(edit, PortInfoEdit):
            self._bits[key].update(edit.changes)
        self._waiting[key] -= 1
        if not self._waiting[key]:
            self._done += 1
            self._assignment.progress(self._phase, self._done, self._steps)
