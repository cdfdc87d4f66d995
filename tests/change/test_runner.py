"""A step through a subnet manager: in which order it is made, when the manager is told again, what the journal says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ibkeys.change.clock import Clock
from ibkeys.change.course import Course
from ibkeys.change.runner import ObservedPorts, Runner, Step, Verdict
from ibkeys.errors import IbkeysError, NotStored, Refused
from ibkeys.store.journal import FileEntry, FileImage, Image, Journal, RunningOperation
from ibkeys.store.origin import this_process

WAIT = 5.0
IMAGE = Image(1, 2, "node01", "ca", 1, 3, "PortInfo", 1, bytes(64), bytes(64))
PATH = "/etc/opensm/opensm.conf"


Judge = Callable[[ObservedPorts[int]], Verdict]


def proven(found: ObservedPorts[int]) -> Verdict:
    return Verdict(is_proven=True)


@dataclass
class MadeUp:
    """A kind of step and its proof: what is done is told in ``story``; ``shown``: how many ports are wrong in one look
    after the other, the last one again and again."""

    may_signal_again: bool = True
    shown: list[int] = field(default_factory=lambda: [0])
    refusal: Exception | None = None
    writes: bool = True
    story: list[str] = field(default_factory=list)
    now: float = 0.0

    def check(self) -> None:
        """Nobody asks to stop."""

    def verify(self) -> None:
        self.story.append("verify")

    def write(self, contents: str, operation: RunningOperation) -> list[FileEntry]:
        self.story.append(f"write {contents}")
        if self.refusal is not None:
            raise self.refusal
        return [operation.record_file(FileImage(PATH, b"before", b"after"))] if self.writes else []

    def signal_sm(self) -> None:
        self.story.append("tell")

    def look(self) -> ObservedPorts[int]:
        self.story.append("look")
        wrong = self.shown.pop(0) if len(self.shown) > 1 else self.shown[0]
        return ObservedPorts(dict.fromkeys(range(wrong), "wrong"))

    def begin_again(self, found: ObservedPorts[int]) -> None:
        self.story.append(f"again after {found.remaining_count}")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def runner(self, operation: RunningOperation) -> Runner:
        return Runner(operation, Clock(lambda: self.now, self.sleep), WAIT)

    def make(
        self, operation: RunningOperation, *, must_signal: bool = True, judge: Judge = proven
    ) -> ObservedPorts[int]:
        _, found = Step("a step", self, "it", self, [IMAGE], must_signal, judge).make(self.runner(operation))
        assert isinstance(found, ObservedPorts)
        return found

    def step(self, name: str) -> Step[str, ObservedPorts[int]] | None:
        return None if name == "nothing" else Step(name, self, name, self, [IMAGE])


class Left(IbkeysError):
    """What stops a step where it is."""


def leave(found: ObservedPorts[int]) -> Verdict:
    raise Left("stopped")


@pytest.fixture
def operation(tmp_path: Path) -> Iterator[RunningOperation]:
    with Journal(tmp_path / "journal.db") as journal, journal.operation("apply", this_process()) as begun:
        yield begun


def statuses(operation: RunningOperation) -> tuple[list[str], list[str]]:
    """Return what the journal says of the ports, and of the files."""
    assert operation.id is not None
    ports, files = operation.journal.entries(operation.id), operation.journal.files(operation.id)
    return [each.status for each in ports], [each.status for each in files]


def steps(operation: RunningOperation) -> list[tuple[str, str]]:
    """Return the steps in the journal, and how they ended."""
    assert operation.id is not None
    return [(each.name, each.status) for each in operation.journal.steps(operation.id)]


def test_a_step_is_verified_written_told_and_looked_at(operation: RunningOperation) -> None:
    kind = MadeUp(shown=[2, 1, 0])
    assert kind.make(operation).remaining_count == 0
    assert kind.story == ["verify", "write it", "tell", "look", "look", "look"]


def test_what_stops_a_step_leaves_it_as_begun(operation: RunningOperation) -> None:
    with pytest.raises(Left):
        MadeUp().make(operation, judge=leave)
    assert statuses(operation) == (["pending"], ["pending"])


@pytest.mark.parametrize(("may_signal_again", "told"), [(True, 2), (False, 1)])
def test_where_nothing_comes_nearer_it_is_told_once_more_if_that_does_no_harm(
    operation: RunningOperation, may_signal_again: bool, told: int
) -> None:
    kind = MadeUp(may_signal_again, [3])
    assert kind.make(operation).remaining_count == 3
    assert kind.story.count("tell") == told
    assert kind.story.count("again after 3") == told - 1
    assert kind.now == pytest.approx(told * WAIT)


@pytest.mark.parametrize(("writes", "must_signal", "told"), [(True, False, 1), (False, True, 1), (False, False, 0)])
def test_it_is_told_where_there_is_something_to_read(
    operation: RunningOperation, writes: bool, must_signal: bool, told: int
) -> None:
    kind = MadeUp(writes=writes)
    kind.make(operation, must_signal=must_signal)
    assert kind.story.count("tell") == told


def test_without_news_it_is_told_where_something_is_wrong_all_the_same(operation: RunningOperation) -> None:
    kind = MadeUp(shown=[1], writes=False)
    kind.make(operation, must_signal=False)
    assert kind.story.count("tell") == 1


@pytest.mark.parametrize(("error", "status"), [(NotStored("not taken"), "failed"), (Refused("no", "stale"), "pending")])
def test_what_is_certain_not_to_be_taken_has_failed_at_the_ports(
    operation: RunningOperation, error: Exception, status: str
) -> None:
    kind = MadeUp(refusal=error)
    with pytest.raises(type(error)):
        kind.make(operation)
    assert statuses(operation) == ([status], [])
    assert steps(operation) == [("a step", status)]
    assert "tell" not in kind.story


def test_where_the_manager_is_another_nothing_is_recorded(
    operation: RunningOperation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: MadeUp) -> None:
        raise Refused("another process", "stale")

    monkeypatch.setattr(MadeUp, "verify", refuse)
    with pytest.raises(Refused):
        MadeUp().make(operation)
    assert operation.id is None


def test_each_step_is_listed_and_the_last_one_is_the_one_under_way(operation: RunningOperation) -> None:
    MadeUp().make(operation)
    with pytest.raises(Left):
        MadeUp().make(operation, judge=leave)
    assert steps(operation) == [("a step", "done"), ("a step", "pending")]
    assert [each.step for each in operation.journal.list_operations()] == ["a step"]


def test_a_step_is_on_disk_with_the_first_file_where_nothing_else_is_recorded(operation: RunningOperation) -> None:
    kind = MadeUp()
    with pytest.raises(Left):
        Step("files only", kind, "it", kind, judge=leave).make(kind.runner(operation))
    assert steps(operation) == [("files only", "pending")]


@pytest.mark.parametrize(
    ("is_proven", "files_stay", "ports", "files"),
    [
        (True, False, "done", "done"),
        (True, True, "done", "done"),
        (False, False, "failed", "failed"),
        (False, True, "failed", "pending"),
    ],
)
def test_the_journal_says_how_a_step_ended(
    operation: RunningOperation, is_proven: bool, files_stay: bool, ports: str, files: str
) -> None:
    MadeUp().make(operation, judge=lambda found: Verdict(is_proven, files_stay=files_stay))
    assert statuses(operation) == ([ports], [files])
    assert steps(operation) == [("a step", ports)]


def test_what_came_out_otherwise_is_in_the_journal_of_a_step_that_is_proven(operation: RunningOperation) -> None:
    MadeUp().make(operation, judge=lambda found: Verdict(is_proven=True, images=[replace(IMAGE, attribute_modifier=2)]))
    assert statuses(operation) == (["done", "done"], ["done"])


# --- the steps of a course -------------------------------------------------------------------------------------------


def test_the_steps_are_made_in_order_and_what_there_is_nothing_to_do_for_is_passed_over(
    operation: RunningOperation,
) -> None:
    kind = MadeUp()
    ended = kind.runner(operation).run(Course(["one", "nothing", "two"]), kind.step)
    assert [(each.step, each.is_proven) for each in ended] == [("one", True), ("nothing", True), ("two", True)]
    assert steps(operation) == [("one", "done"), ("two", "done")]


def test_none_is_made_after_one_that_is_not_proven(operation: RunningOperation) -> None:
    kind = MadeUp(shown=[1])
    ended = kind.runner(operation).run(Course(["one", "two"]), kind.step)
    assert [(each.step, each.is_proven, each.error) for each in ended] == [("one", False, None)]
    assert steps(operation) == [("one", "failed")]


def test_what_stops_it_is_raised_when_the_way_back_is_made(operation: RunningOperation) -> None:
    kind = MadeUp()

    def step(name: str) -> Step[str, ObservedPorts[int]]:
        return Step(name, kind, name, kind, judge=leave if name == "two" else proven)

    with pytest.raises(Left):
        kind.runner(operation).run(Course(["one", "two", "three"], lambda failed: ["back"]), step)
    assert steps(operation) == [("one", "done"), ("two", "failed"), ("back", "done")]


def test_an_error_on_the_way_back_is_raised_in_place_of_that_of_the_step(operation: RunningOperation) -> None:
    kind, error = MadeUp(), Refused("the file is another one", "stale")

    def step(name: str) -> Step[str, ObservedPorts[int]]:
        return Step(
            name, kind, name, kind, judge=lambda found: Verdict(name == "back", error if name == "back" else Left())
        )

    with pytest.raises(Refused, match="the file is another one"):
        kind.runner(operation).run(Course(["one"], lambda failed: ["back"]), step)
    assert steps(operation) == [("one", "failed"), ("back", "done")]


def test_a_step_that_cannot_be_begun_leaves_the_one_before_it_as_it_ended(operation: RunningOperation) -> None:
    kind = MadeUp()

    def step(name: str) -> Step[str, ObservedPorts[int]]:
        if name == "two":
            raise Left("not begun")
        return Step(name, kind, name, kind)

    with pytest.raises(Left):
        kind.runner(operation).run(Course(["one", "two"], lambda failed: ["back"]), step)
    assert steps(operation) == [("one", "done"), ("back", "done")]


def test_an_error_with_which_a_step_ends_stops_the_course_when_the_journal_has_it(operation: RunningOperation) -> None:
    kind, error = MadeUp(), Refused("a newcomer", "stale")

    def step(name: str) -> Step[str, ObservedPorts[int]]:
        return Step(name, kind, name, kind, judge=lambda found: Verdict(is_proven=True, error=error))

    assert [each.error for each in kind.runner(operation).follow(Course(["one", "two"]), step)] == [error]
    assert steps(operation) == [("one", "done")]


def test_an_interrupt_stops_it_where_it_is_and_nothing_goes_back(operation: RunningOperation) -> None:
    kind = MadeUp()

    def stop(found: ObservedPorts[int]) -> Verdict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kind.runner(operation).run(
            Course(["one"], lambda failed: ["back"]), lambda name: Step(name, kind, name, kind, judge=stop)
        )
    assert steps(operation) == [("one", "pending")]
