"""What the runs of both carriers that go through a subnet manager do alike: how a step that is proven is noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from ibkeys.apply.carrier import Carried, OnStep
from ibkeys.apply.opensm.images import images_as_found
from ibkeys.apply.opensm.steps import PolicyStep, Prediction
from ibkeys.apply.opensm.watch import Watched
from ibkeys.change.wanted import Entries
from ibkeys.printable import named
from ibkeys.store.journal import Entry, FileEntry, Operation
from ibkeys.topology.port_id import PortKey


class SteppedCourse(Protocol):
    """What is done, step by step; both carriers have a course of their own."""

    steps: list[PolicyStep]

    def before(self, number: int) -> Mapping[PortKey, Entries]:
        """Return the tables before a step."""
        ...


class SteppedRun:
    """The common part of a run over the steps of a course; who inherits it has these attributes."""

    __slots__ = ()
    prediction: Prediction
    operation: Operation
    progress: OnStep | None
    carried: Carried

    def report_of(self, step: PolicyStep) -> Callable[[int, int], None]:
        """Return what is told how far a step is."""
        progress = self.progress
        return (lambda done, whole: None) if progress is None else lambda done, whole: progress(step.name, done, whole)

    def note_silent(self, seen: Watched, is_last: bool) -> None:
        """Keep who did not answer: a failure after the last step, a note before."""
        if is_last:
            self.carried.failed.update(seen.silent)
        elif seen.silent:
            names = named([str(self.prediction.survey.targets[key].id) for key in seen.silent])
            self.carried.notes.append(f"no answer while an intermediate step took effect: {names}")

    def settle(self, course: SteppedCourse, number: int, entries: list[Entry], written: list[FileEntry]) -> None:
        """Note in the journal that a step is proven; tables that came out with other indexes are noted as they are."""
        step, targets = course.steps[number], self.prediction.survey.targets
        late = images_as_found(step.tables, course.before(number), targets, self._counts)
        entries += self.operation.record_all(late)
        self.operation.record_all((), done=entries)
        for entry in written:
            entry.done()
        # What comes next begins at what is there.
        course.steps[number] = replace(step, tables={key: targets[key].table for key in step.tables})

    def _counts(self, key: PortKey) -> bool:
        return key not in self.carried.failed and not self.prediction.is_aside(key)
