"""``apply --via opensm`` and its undo die, or OpenSM does: what was begun can be finished, and can be undone.

ibkeys is killed before system calls that write, and around renames and signals, under `make soak` at each of them.
OpenSM is killed at each of its Sets, and started again with the same arguments.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.store.journal import Journal, OperationRecord
from tests.corpus import DATA
from tests.integration.crashes import SetCount, every_point, run_to_a_point
from tests.integration.hosted import (
    BLUNT,
    File,
    Hosted,
    RunningOpensm,
    Wire,
    facts,
    left_over,
    opensm,
    plan_for,
    planned,
)
from tests.integration.tenants import GREEN, TENANTS
from tests.owners import give_away
from tests.sample import sampled

SAMPLE = (0.5,)
SAMPLE_OF_SETS = (0.6,)
"""Points, and Sets of OpenSM, of each way under `make test`, as shares of all. Under `make soak` all, in `PARTS`
tests."""
PARTS = 16
WAYS = ("apply, resume", "apply, undo", "undo, undo")
"""What is cut off, and what comes after it."""


class Scene:
    """A fabric under OpenSM with a policy, a plan of another one, and what there was before."""

    def __init__(self, served: Hosted, running: RunningOpensm, preloaded: str) -> None:
        self.served, self.running, self.preloaded = served, running, preloaded
        self.serial = 0
        running.policy.chmod(0o640)
        give_away(running.policy)
        running.sweep()
        self.exact = True
        self.look()

    def look(self) -> None:
        """Take what there is for the former state, and plan."""
        plan = plan_for(self.served, GREEN)
        self.former: tuple[Wire, File] = self.state()
        self.planned = planned(plan, self.former[0])

    def state(self) -> tuple[Wire, File]:
        return self.served.wire(), facts(self.running.policy)

    # --- ibkeys ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take a new journal. A lock that a command of the former one left would refuse what has another journal."""
        self.serial += 1
        for name in self.locks():
            self.running.policy.with_name(name).unlink()
        self.assert_former()

    @property
    def stores(self) -> Path:
        return self.served.folder / f"stores-{self.serial}"

    def run(self, words: list[Any], mode: str = "off", point: int = 0) -> tuple[subprocess.CompletedProcess[str], int]:
        """Run ibkeys; returns how it ended and how many points it passed."""
        return run_to_a_point(self.served, self.preloaded, self.stores, words, mode, point)

    def must(self, words: list[Any]) -> None:
        done, _ = self.run(words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    @property
    def apply(self) -> list[Any]:
        return ["apply", self.served.folder / "plan.json", "--via", "opensm", "--allow-removals", "--yes", *BLUNT]

    resume = ("resume", "--yes")

    @property
    def undo(self) -> list[Any]:
        """The undo of the last operation that is no undo and was not undone."""
        stands = [each.id for each in self.operations() if each.undoes is None and each.state != "undone"]
        return ["undo", stands[-1], "--yes", *BLUNT]

    def operations(self) -> list[OperationRecord]:
        with Journal(self.stores / "journal.db", create=False) as journal:
            return sorted(journal.list_operations(), key=lambda each: each.id)

    # --- what must hold ----------------------------------------------------------------------------------------------

    def locks(self) -> list[str]:
        """Return what killed commands left of their locks: the next change with the same journal takes them over."""
        return [name for name in left_over(self.running.policy) if ".ibkeys-lock" in name]

    def assert_planned(self) -> None:
        assert self.former[1] is not None
        assert facts(self.running.policy) == (GREEN.encode(), *self.former[1][1:])
        assert self.like(self.served.wire()) == self.like(self.planned)
        assert left_over(self.running.policy) == self.locks()

    def assert_former(self) -> None:
        assert facts(self.running.policy) == self.former[1]
        assert self.like(self.served.wire()) == self.like(self.former[0])
        assert left_over(self.running.policy) == self.locks()

    def like(self, wire: Wire) -> Any:
        """A wire as it is compared: an OpenSM that was started again does not know where a P_Key was before."""
        return wire if self.exact else {key: (sorted(table.values()), bits) for key, (table, bits) in wire.items()}

    def follow(self, second: str) -> None:
        """Finish or go back from wherever it is, and look at all of it; the former state is there again."""
        found = self.operations()
        if not found:
            self.assert_former()
            return
        if second == "undo":
            if found[0].state != "undone":
                self.must(["undo", found[0].id, "--yes", *BLUNT])
        else:
            if found[-1].is_unfinished:
                self.must([*self.resume])
            self.assert_planned()
            assert [each.state for each in self.operations()] == ["done"]
            self.must([*self.undo])
        self.assert_former()
        assert [each.state for each in self.operations()] == ["undone", "done"]


@pytest.fixture
def scene(preloaded: str) -> Iterator[Scene]:
    with ExitStack() as stack:
        served = stack.enter_context(Hosted(DATA / "fabrics" / "two-switch.net"))
        running = stack.enter_context(opensm(served, TENANTS))
        yield Scene(served, running, preloaded)


# --- ibkeys dies ------------------------------------------------------------------------------------------------------


def count_points(scene: Scene, way: str) -> int:
    """How many points the first command of *way* has."""
    scene.begin()
    if way.startswith("undo"):
        scene.must(scene.apply)
    done, points = scene.run([*scene.undo] if way.startswith("undo") else scene.apply, "count")
    assert done.returncode == 0, done.stderr
    assert points > 100
    if way.startswith("apply"):
        scene.must([*scene.undo])
    return points


def cut_off(scene: Scene, way: str, point: int) -> None:
    """Let the first command of *way* die at a point, and the second one mend it."""
    first, second = way.split(", ")
    scene.begin()
    if first == "undo":
        scene.must(scene.apply)
    done, _ = scene.run([*scene.undo] if first == "undo" else scene.apply, "kill", point)
    assert done.returncode in (-signal.SIGKILL, 0), done.stderr
    assert scene.running.process.poll() is None
    scene.follow(second)


@pytest.mark.parametrize("way", sampled(WAYS, ["apply, resume", "undo, undo"]))
def test_after_a_kill_at_a_point_of_the_sample_it_is_finished_or_undone(scene: Scene, way: str) -> None:
    points = count_points(scene, way)
    for share in SAMPLE:
        cut_off(scene, way, int(share * points))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way", WAYS)
def test_after_a_kill_at_any_point_it_is_finished_or_undone(scene: Scene, way: str, part: int) -> None:
    for point in every_point(count_points(scene, way), part, PARTS):
        cut_off(scene, way, point)


# --- OpenSM dies ------------------------------------------------------------------------------------------------------


def until_it_ends(scene: Scene, way: str, count: SetCount) -> int:
    """Make the first command of *way* and return how it ends."""
    scene.begin()
    if way.startswith("undo"):
        scene.must(scene.apply)
    scene.served.watchers = [count]
    done, _ = scene.run([*scene.undo] if way.startswith("undo") else scene.apply)
    scene.served.watchers = []
    return done.returncode


def count_sets(scene: Scene, way: str) -> int:
    """How many Sets OpenSM makes in the first command of *way*."""
    whole = SetCount()
    assert until_it_ends(scene, way, whole) == 0
    assert whole.passed > 4
    if way.startswith("apply"):
        scene.must([*scene.undo])
    return whole.passed


def lose_opensm_at(scene: Scene, way: str, number: int) -> None:
    """Let OpenSM die at a Set of the first command of *way*, start it again, and let the second mend what was begun."""
    scene.exact = True
    scene.look()
    code = until_it_ends(scene, way, SetCount(scene.running.process, number))
    assert code in (0, 2, 3, 4)
    scene.running.kill()
    scene.running.start()
    scene.exact = False
    scene.follow(way.split(", ")[1])


@pytest.mark.parametrize("way", sampled(WAYS, ["apply, undo"]))
def test_after_opensm_died_and_was_started_again_it_is_finished_or_undone(scene: Scene, way: str) -> None:
    sets = count_sets(scene, way)
    for share in SAMPLE_OF_SETS:
        lose_opensm_at(scene, way, int(share * sets))


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
def test_after_opensm_died_at_any_of_its_sets(scene: Scene, way: str) -> None:
    for number in range(count_sets(scene, way)):
        lose_opensm_at(scene, way, number)
