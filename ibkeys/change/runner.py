"""Carrying out the steps of a change. Every change and every rollback does this here. Its course
(`ibkeys.change.course`) returns the next step.

A step of Sets is in `ibkeys.change.sets_step`. A step through a subnet manager is made in this order:

1. Check that the subnet manager is still the one that was examined.
2. Record the step, and its changes of ports, in the journal, on disk.
3. Write the files, or make the calls.
4. Signal the subnet manager.
5. Read the ports until they prove the step, or nothing has improved for ``wait`` seconds. In the second case, signal
   and read once more, if a second signal does no harm.
6. Judge the result of the step, and record it in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from ibkeys.change.clock import REAL_TIME, Clock, look_until
from ibkeys.change.course import Course, EndedStep, Planned
from ibkeys.errors import IbkeysError, NotStored
from ibkeys.store.journal import FileEntry, Image, JournalEntry, RunningOperation

WAIT: Final = 60.0
"""Seconds without progress after which a subnet manager is signalled once more, if that does no harm, and then given
up."""
Place = TypeVar("Place")
Contents = TypeVar("Contents")
ContentsOf = TypeVar("ContentsOf", contravariant=True)
OnStep = Callable[[str, int, int], None]
"""A function called with (the step in words or, for an apply, the name of its phase; ports that are as wanted; ports in
total)."""


class Observation(Protocol):
    """The result of one look at ports, files or the SA."""

    @property
    def remaining_count(self) -> int:
        """The number of differences that may still disappear; 0 if there is nothing to wait for."""


AnyObservation = TypeVar("AnyObservation", bound=Observation)


@dataclass(slots=True)
class ObservedPorts(Generic[Place]):
    """The result of one look at ports. ``wrong``: the ports that are not as they should be, and the difference;
    ``silent``: the ports that did not answer and are not waited for, and the error."""

    wrong: dict[Place, str] = field(default_factory=dict)
    silent: dict[Place, IbkeysError] = field(default_factory=dict)

    @property
    def remaining_count(self) -> int:
        """The number of ports that are waited for."""
        return len(self.wrong)


class StepKind(Protocol[ContentsOf]):
    """The interface by which the steps of one kind are written and the subnet manager is signalled."""

    @property
    def may_signal_again(self) -> bool:
        """Whether a second signal does no harm."""

    def check(self) -> None:
        """Raise if the user asked to stop, or if no subnet manager is left that could make progress."""
        return

    def verify(self) -> None:
        """Raise if the files, or the subnet manager, have changed since they were examined."""
        return

    def write(self, contents: ContentsOf, operation: RunningOperation) -> list[FileEntry]:
        """Write the contents of a step, each part after it is in the journal, and return the entries. Raises NotStored
        if it is certain that the contents did not take effect."""

    def signal_sm(self) -> None:
        """Signal the subnet manager to read the new contents."""
        return


class Proof(Protocol[AnyObservation]):
    """The proof of a step: it reads ports, files or the SA and compares them with the values that the step should
    give."""

    def look(self) -> AnyObservation:
        """Read once, and compare."""

    def begin_again(self, found: AnyObservation) -> None:
        """Prepare for further looks after a second signal to the subnet manager. *found*: the result of the last
        look."""
        return


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a step. ``error``: stops the change after the journal has recorded the step; ``files_stay``: the
    files of a step that is not proven stay as written, and their entries pending, so that an undo finds and restores
    them; ``images``: for the journal, tables that differ from those of the step."""

    is_proven: bool
    error: IbkeysError | None = None
    files_stay: bool = False
    images: Iterable[Image] = ()


class AnyStep(Protocol):
    """The interface of a step of any kind to the runner."""

    def make(self, runner: Runner) -> tuple[Verdict, object]:
        """Make the step, record its result in the journal, and return it with the result of the last look. If an error
        is raised, the journal still has the step as begun."""


@dataclass(frozen=True, slots=True)
class Step(Generic[Contents, AnyObservation]):
    """One step through a subnet manager. ``name``: its name in the journal; ``contents``: the contents to be written;
    ``images``: its changes of ports, for the journal; ``must_signal``: the subnet manager has something to read, even
    if nothing had to be written; ``judge``: returns the verdict on the result, or raises the error that stops the
    change and leaves the step as begun; ``wait``: in place of the runner's ``wait``; None: the runner's."""

    name: str
    kind: StepKind[Contents]
    contents: Contents
    proof: Proof[AnyObservation]
    images: Iterable[Image] = ()
    must_signal: bool = True
    judge: Callable[[AnyObservation], Verdict] = lambda found: Verdict(not found.remaining_count)
    wait: float | None = None

    def make(self, runner: Runner) -> tuple[Verdict, AnyObservation]:
        """Make the step as the module says; see `AnyStep`."""
        kind, operation = self.kind, runner.operation
        kind.verify()
        images = operation.record_all(self.images, also=partial(operation.begin_step, self.name))
        try:
            files = kind.write(self.contents, operation)
        except NotStored:
            operation.record_all((), failed=images, also=partial(operation.end_step, "failed"))
            raise
        if files or self.must_signal:
            kind.signal_sm()
        found = runner.look(self.proof, kind.check, self.wait)
        if found.remaining_count and kind.may_signal_again:
            kind.signal_sm()
            self.proof.begin_again(found)
            found = runner.look(self.proof, kind.check, self.wait)
        verdict = self.judge(found)
        images += operation.record_all(verdict.images)
        _record_end(operation, verdict, images, files)
        return verdict, found


def _record_end(
    operation: RunningOperation, verdict: Verdict, images: Sequence[JournalEntry], files: Iterable[FileEntry]
) -> None:
    """Record the end of a step in the journal. Raises StoreError."""
    if verdict.is_proven:
        operation.record_all((), done=images, also=partial(operation.end_step, "done"))
    else:
        operation.record_all((), failed=images, also=partial(operation.end_step, "failed"))
    for entry in files:
        if verdict.is_proven:
            entry.done()
        elif not verdict.files_stay:
            entry.failed()


@dataclass(frozen=True, slots=True)
class Runner:
    """Makes the steps of a course. ``wait``: seconds without progress after which the subnet manager is signalled
    again, or given up."""

    operation: RunningOperation
    clock: Clock = REAL_TIME
    wait: float = WAIT

    def run(self, course: Course[Planned], step_of: Callable[[Planned], AnyStep | None]) -> list[EndedStep[Planned]]:
        """Make the steps as `follow` does. Raises the last error, after all rollback steps were made."""
        ended = self.follow(course, step_of)
        for each in reversed(ended):
            if each.error is not None:
                raise each.error
        return ended

    def follow(self, course: Course[Planned], step_of: Callable[[Planned], AnyStep | None]) -> list[EndedStep[Planned]]:
        """Make one step of *course* after the other, and return the result of each. *step_of*: returns the step to
        make; None if there is nothing to do. An error of a step is in its result. Raises StoreError if the end of a
        failed step cannot be recorded."""
        ended: list[EndedStep[Planned]] = []
        while (planned := course.next(tuple(ended))) is not None:
            if ended and ended[-1].error is not None:
                self.operation.end_step("failed")  # the rollback steps follow
            try:
                step = step_of(planned)
                verdict, found = step.make(self) if step is not None else (Verdict(is_proven=True), None)
                is_proven, error = verdict.is_proven and verdict.error is None, verdict.error
            except IbkeysError as problem:
                is_proven, error, found = False, problem, None
            ended.append(EndedStep(planned, is_proven, found, error))
        return ended

    def look(
        self, proof: Proof[AnyObservation], check: Callable[[], None], wait: float | None = None
    ) -> AnyObservation:
        """Read the ports until nothing is left to wait for, or nothing has improved for ``wait`` seconds; return the
        last result."""
        return look_until(
            proof.look, lambda found: found.remaining_count, self.clock, self.wait if wait is None else wait, check
        )
