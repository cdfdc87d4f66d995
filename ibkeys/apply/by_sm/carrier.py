"""The base class of carriers through a subnet manager."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Generic, TypeVar

from ibkeys.apply.by_sm.course import CarrierSettings, TablesCourse
from ibkeys.apply.by_sm.prediction import Prediction, phases_of
from ibkeys.apply.by_sm.run import TablesSteps
from ibkeys.apply.carrier import Assignment, Carrier
from ibkeys.apply.former_values import FormerValues
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.apply.survey import Survey, survey_all_ports
from ibkeys.change.clock import Clock
from ibkeys.change.consent import Objection
from ibkeys.change.runner import Runner, StepKind
from ibkeys.change.writer import ChangeWriter
from ibkeys.plan.model import Break, PartitionPlan
from ibkeys.plan.order import Phase
from ibkeys.store.journal import RunningOperation
from ibkeys.topology.port_id import PortKey

CourseOf = TypeVar("CourseOf", bound=TablesCourse[Any])


class CarrierBySm(Carrier, Generic[CourseOf]):
    """The part of a carrier that is the same for every subnet manager."""

    rollback_effects = "in one step, which may briefly disconnect or connect pairs"

    def __init__(self, writer: ChangeWriter, course: CourseOf, settings: CarrierSettings | None, clock: Clock) -> None:
        self._writer, self._course = writer, course
        self._settings, self._clock = settings or CarrierSettings(), clock
        self._prediction: Prediction

    def survey(self, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
        """Read all end ports and leaf ports: the subnet manager writes all of them."""
        return survey_all_ports(self._writer, ports, by_port_guid=by_port_guid)

    def objections(self) -> list[Objection]:
        """Return the objections that planning the course has found."""
        return list(self._course.objections)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Flags of multicast groups that the subnet manager may not take over at once, with their partitions."""
        return self._course.waiting

    def phases(self, remaining: RemainingChanges, survey: Survey) -> list[Phase]:
        """Return one phase for each step of the course."""
        return phases_of(self._course, survey)

    def breaks(self, wanted: PartitionPlan | FormerValues, remaining: RemainingChanges) -> tuple[Break, ...]:
        """Return the pairs that the steps disconnect, because tables are full or ports wait for each other in a cycle.
        A rollback through OpenSM has at most one break, without ports, which says that pairs may be disconnected."""
        return self._course.breaks

    def _remaining(self) -> RemainingChanges:
        """Return the changes that are still to be made, up to the tables after the last step."""
        remaining = self._course.remaining
        remaining.tables += [each for each in self._prediction.changed_to(self._course.end) if each.differs]
        remaining.enforcement += self._course.enforcement
        return remaining

    def _steps(self, assignment: Assignment, kind: StepKind[Any], signal_without_effect: str) -> TablesSteps[Any]:
        """Return the steps of the course; *signal_without_effect*: as in `TablesSteps`."""
        runner = self._runner(assignment.operation)
        return TablesSteps(
            self._course, self._prediction, assignment, runner, kind, self._writer, signal_without_effect
        )

    def _runner(self, operation: RunningOperation) -> Runner:
        return Runner(operation, self._clock, self._settings.wait)
