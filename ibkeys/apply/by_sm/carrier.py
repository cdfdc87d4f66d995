"""The base class of carriers through a subnet manager."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Generic, TypeVar

from ibkeys.apply.by_sm.course import CarrierSettings, TablesCourse
from ibkeys.apply.by_sm.run import TablesSteps
from ibkeys.apply.by_sm.steps import Prediction, phases_of
from ibkeys.apply.carrier import Assignment, Carrier
from ibkeys.apply.former import Former
from ibkeys.apply.remaining import Remaining
from ibkeys.apply.survey import Survey, look_at_all
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

    way_back = "in one step, which may briefly disconnect or connect pairs"

    def __init__(self, writer: ChangeWriter, course: CourseOf, settings: CarrierSettings | None, clock: Clock) -> None:
        self._writer, self._course = writer, course
        self._settings, self._clock = settings or CarrierSettings(), clock
        self._prediction: Prediction

    def survey(self, ports: Collection[PortKey], *, by_port_guid: bool = False) -> Survey:
        """Read all end ports and leaf ports: the subnet manager writes all of them."""
        return look_at_all(self._writer, ports, by_port_guid=by_port_guid)

    def objections(self) -> list[Objection]:
        """Return the objections to the change: contents that the subnet manager would accept now and that go wrong
        later."""
        return list(self._course.objections)

    def phases(self, remaining: Remaining, survey: Survey) -> list[Phase]:
        """Return one phase for each step."""
        return phases_of(self._course, survey)

    def breaks(self, wanted: PartitionPlan | Former, remaining: Remaining) -> tuple[Break, ...]:
        """Return the ports that are disconnected because ports wait for each other in a cycle; for a rollback only a
        note that it may disconnect ports."""
        return self._course.breaks

    def _remaining(self) -> Remaining:
        """Return the changes that are still to be made, up to the tables after the last step."""
        remaining = self._course.remaining
        remaining.tables += [each for each in self._prediction.changed_to(self._course.end) if each.differs]
        remaining.enforcement += self._course.enforcement
        return remaining

    def _steps(self, assignment: Assignment, kind: StepKind[Any], in_vain: str) -> TablesSteps[Any]:
        """Return the steps of the course; *in_vain*: as in `TablesSteps`."""
        runner = self._runner(assignment.operation)
        return TablesSteps(self._course, self._prediction, assignment, runner, kind, self._writer, in_vain)

    def _runner(self, operation: RunningOperation) -> Runner:
        return Runner(operation, self._clock, self._settings.wait)
