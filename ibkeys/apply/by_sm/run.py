"""Making each step of a change of partitions through a subnet manager, judging its result, and the errors that stop
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from ibkeys.apply.by_sm.course import TablesCourse
from ibkeys.apply.by_sm.images import images_of, images_of_other_indexes
from ibkeys.apply.by_sm.ports_proof import ObservedTables, PortsProof
from ibkeys.apply.by_sm.prediction import Prediction, expectations
from ibkeys.apply.carrier import Assignment, CarrierResult, WrittenPort
from ibkeys.change.course import Course
from ibkeys.change.runner import Runner, Step, StepKind, Verdict
from ibkeys.change.wanted import Entries
from ibkeys.change.writer import ChangeWriter, name_open_operation
from ibkeys.errors import FileChanged, IbkeysError, NotStored, Refused
from ibkeys.managers.site import stale_for_good
from ibkeys.printable import named
from ibkeys.store.journal import RunningOperation
from ibkeys.topology.enforcement import ENFORCEMENT_BITS
from ibkeys.topology.port_id import PortKey

Contents = TypeVar("Contents")


class PortsNotStored(NotStored):
    """Ports will certainly not get the values of a step. ``ports``: each of them, with the reason."""

    def __init__(self, ports: Mapping[PortKey, str]) -> None:
        super().__init__("; ".join(ports.values()))
        self.ports = ports


@dataclass(slots=True)
class TablesSteps(Generic[Contents]):
    """The steps of a change.

    ``signal_without_effect``: in words, the signal that had no effect on the ports. ``unread``: before the first step
    the subnet manager has not read its present files yet. ``last_look``: the result of the last look at the ports.
    """

    course: TablesCourse[Contents]
    prediction: Prediction
    assignment: Assignment
    runner: Runner
    kind: StepKind[Contents]
    writer: ChangeWriter
    signal_without_effect: str
    unread: bool = False
    carried: CarrierResult = field(default_factory=CarrierResult)
    last_look: ObservedTables = field(default_factory=ObservedTables)

    def make(self) -> bool:
        """Make the steps, and return whether all were made. Raises the error that stops them."""
        try:
            ended = self.runner.run(Course(range(len(self.assignment.phases))), self._step)
        except PortsNotStored as error:
            self.carried.failed |= {key: NotStored(text) for key, text in error.ports.items()}
            return False
        if not all(each.is_proven for each in ended):
            return False
        self.carried.stopped = None
        return True

    def note_written(self) -> None:
        """Record in ``carried`` the values that the changed ports have."""
        targets = self.prediction.survey.targets
        after = {each.port.key: each.after for each in self.course.enforcement}
        for key in (each.port.key for phase in self.assignment.phases for each in phase.steps):
            if key not in self.carried.failed:
                bits = dict(zip(ENFORCEMENT_BITS, map(int, after[key].bits), strict=True)) if key in after else {}
                self.carried.written[key] = WrittenPort(targets[key], dict(targets[key].table), bits)

    # --- one step ----------------------------------------------------------------------------------------------------

    def _step(self, number: int) -> Step[Contents, ObservedTables]:
        self.assignment.check()
        self.carried.stopped = phase = self.assignment.phases[number]
        step, targets = self.course.steps[number], self.prediction.survey.targets
        before = self.course.tables_before(number)
        if number:  # start from the present tables, which may have other indexes than planned
            before = {key: targets[key].table for key in before}
        changing = list(dict.fromkeys(each.port.key for each in phase.steps))
        enforcement = self.course.enforcement_of_step(number)
        expected = expectations(step.tables, before, enforcement, self.prediction)
        bits_before = {each.port.key: each.before for each in enforcement}
        return Step(
            phase.name,
            self.kind,
            step.contents,
            PortsProof(self.writer, targets, expected, changing, partial(self.assignment.progress, phase.name)),
            tuple(images_of(phase, targets, before, step.tables, bits_before)),
            bool(changing or (number == 0 and self.unread)),
            partial(self._judge, number, before),
        )

    def _judge(self, number: int, before: Mapping[PortKey, Entries], found: ObservedTables) -> Verdict:
        """Return the verdict on a step. Record in ``carried`` the ports with wrong values, and those that did not
        answer: as failed if the step is the last one or some port has wrong values, else in a note. The verdict on a
        proven step has images of the tables in which P_Keys got other indexes than predicted.
        """
        step, targets, self.last_look = self.course.steps[number], self.prediction.survey.targets, found
        wrong, silent = found.wrong, found.silent
        if wrong:
            why = f"{self.runner.wait:g} s without progress, although {self.signal_without_effect}"
            self.carried.failed |= {key: NotStored(f"{text} ({why})") for key, text in wrong.items()} | silent
            return Verdict(is_proven=False, files_stay=True)
        if number == len(self.course.steps) - 1:
            self.carried.failed |= silent
        elif silent:
            names = named([str(targets[key].id) for key in silent])
            self.carried.notes.append(f"no answer while an intermediate step took effect: {names}")
        counting = {
            key: table
            for key, table in step.tables.items()
            if key not in self.carried.failed and not self.prediction.is_set_aside(key)
        }
        return Verdict(is_proven=True, images=images_of_other_indexes(counting, before, targets))


@contextmanager
def stopped_by(carried: CarrierResult, operation: RunningOperation) -> Iterator[None]:
    """Catch the interrupt or error that stops the steps, and keep it in *carried*. The text of an error then says that
    *operation* is open."""
    try:
        yield
    except FileChanged as error:
        carried.problem = name_open_operation(stale_file(error), operation)
    except IbkeysError as error:
        carried.problem = name_open_operation(error, operation)
    except KeyboardInterrupt as problem:
        carried.problem = problem


def stale_file(error: FileChanged) -> Refused:
    """Return the refusal of a change whose file another program or administrator has changed. The refusal's details are
    the lines that differ."""
    return stale_for_good(str(error), error.difference, is_overtaken=True)
