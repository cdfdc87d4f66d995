"""What the runs of both carriers that go through a subnet manager do alike: step by step, and what is noted of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from ibkeys.apply.by_sm.images import images_as_found, images_of
from ibkeys.apply.by_sm.steps import PolicyStep, Prediction
from ibkeys.apply.by_sm.watch import Watched
from ibkeys.apply.carrier import Assignment, Carried, Written
from ibkeys.change.clock import Clock
from ibkeys.change.wanted import Entries
from ibkeys.change.writer import left_open
from ibkeys.errors import FileChanged, IbkeysError, Refused
from ibkeys.plan.order import Phase
from ibkeys.printable import named
from ibkeys.store.journal import Entry, FileEntry, Operation
from ibkeys.topology.port_id import PortId, PortKey


class SteppedCourse(Protocol):
    """What is done, step by step; both carriers have a course of their own."""

    steps: list[PolicyStep]

    def before(self, number: int) -> Mapping[PortKey, Entries]:
        """Return the tables before a step."""
        ...


@dataclass(slots=True)
class SteppedRun(ABC):
    """One run over the steps of a course. ``wait``: seconds without progress after which a step is given up."""

    course: SteppedCourse
    prediction: Prediction
    assignment: Assignment
    clock: Clock
    wait: float
    carried: Carried = field(default_factory=Carried, kw_only=True)

    @property
    def phases(self) -> Sequence[Phase]:
        """What changes at the ports, step by step."""
        return self.assignment.change.phases

    def ports_of(self, number: int) -> list[PortKey]:
        """Return the ports that a step changes, each once."""
        return list(dict.fromkeys(each.port.key for each in self.phases[number].steps))

    def make_steps(self) -> bool:
        """Make the steps, and return whether all are made. Raises what stops it."""
        targets = self.prediction.survey.targets
        for number, (step, phase) in enumerate(zip(self.course.steps, self.phases, strict=True)):
            self.assignment.check()
            before = self.course.before(number)
            entries = self.assignment.operation.record_all(images_of(phase, targets, before, step.tables))
            if not self.make_step(number, entries):
                return False
        return True

    def note_written(self, bits_of: Callable[[PortId], Mapping[str, int]]) -> None:
        """Note what the changed ports hold. *bits_of*: the fields of PortInfo that the steps set at a port."""
        targets = self.prediction.survey.targets
        for phase in self.phases:
            for each in phase.steps:
                key, target = each.port.key, targets[each.port.key]
                if key not in self.carried.failed:
                    self.carried.written[key] = Written(target, dict(target.table), bits_of(each.port))

    @abstractmethod
    def make_step(self, number: int, entries: list[Entry]) -> bool:
        """Make one step, and return whether the next one may follow. *entries*: what the journal keeps of its ports.

        One that is proven is noted by `settle`. Raises what stops it.
        """

    def report_of(self, step: PolicyStep) -> Callable[[int, int], None]:
        """Return the function that is called with the progress of a step."""
        progress = self.assignment.progress
        return (lambda done, whole: None) if progress is None else lambda done, whole: progress(step.name, done, whole)

    def settle(self, number: int, entries: list[Entry], written: list[FileEntry], seen: Watched) -> None:
        """Note in the journal that a step is proven; tables that came out with other indexes are noted as they are."""
        self._note_silent(seen, is_last=number == len(self.course.steps) - 1)
        step, targets = self.course.steps[number], self.prediction.survey.targets
        late = images_as_found(step.tables, self.course.before(number), targets, self._counts)
        entries += self.assignment.operation.record_all(late)
        self.assignment.operation.record_all((), done=entries)
        for entry in written:
            entry.done()
        # What comes next begins at what is there.
        self.course.steps[number] = replace(step, tables={key: targets[key].table for key in step.tables})

    def _note_silent(self, seen: Watched, is_last: bool) -> None:
        """Keep who did not answer: a failure after the last step, a note before."""
        if is_last:
            self.carried.failed.update(seen.silent)
        elif seen.silent:
            names = named([str(self.prediction.survey.targets[key].id) for key in seen.silent])
            self.carried.notes.append(f"no answer while an intermediate step took effect: {names}")

    def _counts(self, key: PortKey) -> bool:
        return key not in self.carried.failed and not self.prediction.is_aside(key)


@contextmanager
def stopped_by(carried: Carried, operation: Operation) -> Iterator[None]:
    """Keep in *carried* what stops the steps: an interrupt, or an error that then says that *operation* is open."""
    try:
        yield
    except FileChanged as error:
        carried.problem = left_open(stale(error), operation)
    except IbkeysError as error:
        carried.problem = left_open(error, operation)
    except KeyboardInterrupt as problem:
        carried.problem = problem


def stale(error: FileChanged) -> Refused:
    """Return the refusal of a file that somebody else changed, with what differs."""
    message = f"refused by interlock stale, which cannot be overridden: {error}"
    return Refused(message, "stale", error.difference, is_overtaken=True)
