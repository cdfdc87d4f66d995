"""``apply --via ufm:URL`` and its undo are interrupted or killed: what was begun can be finished, and can be undone
right afterwards.

The row: each question to UFM, when it comes and when it is made but not answered; MADs of the fabric; each system call
that writes (`crashes`). A named sample of it is in the suite, the whole row is soak.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from ibkeys.sim.server.outbox import PassedMad
from ibkeys.store.journal import Journal, OperationRecord
from tests.integration.crashes import crash_command, crash_environment, points_passed
from tests.integration.tenants import tables
from tests.integration.ufmed import Ufmed, policy, stored, ufmed
from tests.sample import sampled

BEFORE = {0x10: {2: "full", 3: "full"}, 0x20: {4: "full", 5: "limited"}}
AFTER = {0x11: {2: "full", 3: "full"}, 0x20: {4: "full", 5: "full", 6: "limited"}}
"""Two steps on the way, with POST, PUT and DELETE."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
PARTS = 16
MADS = 6


@dataclass(frozen=True)
class Cut:
    """What ends the run. ``kind``: ``comes`` and ``made`` (of a question to UFM), ``mad``, or ``point`` (a system call
    that writes); ``at``: of how many, from 0 to 1; ``by``: the signal; ``then``: what the user does; ``first``: what is
    cut off."""

    kind: str
    at: float
    by: signal.Signals = signal.SIGKILL
    then: str = "undo"
    first: str = "apply"


SAMPLE = {
    "killed as the first list is read": Cut("comes", 0.0, signal.SIGKILL, "undo"),
    "killed after the first change, unanswered": Cut("made", 0.2, signal.SIGKILL, "undo"),
    "interrupted in the middle": Cut("made", 0.5, signal.SIGINT, "resume"),
    "terminated in the middle": Cut("comes", 0.6, signal.SIGTERM, "undo"),
    "killed after the last change": Cut("made", 0.9, signal.SIGKILL, "resume"),
    "killed while the wire follows": Cut("mad", 0.7, signal.SIGKILL, "undo"),
    "killed as the journal is written": Cut("point", 0.5, signal.SIGKILL, "resume"),
    "an undo is killed after a change, unanswered": Cut("made", 0.3, signal.SIGKILL, "undo", "undo"),
}


class Scene:
    """A fabric below a UFM with a plan, and what there was before."""

    def __init__(self, over: Ufmed, preloaded: str) -> None:
        self.over, self.preloaded, self.serial = over, preloaded, 0
        self.plan = over.plan(policy(AFTER))
        self.former = self.wire()
        self.counts = self._count()

    def wire(self) -> dict[tuple[int, int], set[int]]:
        return {key: {*table.values()} for key, table in tables(self.over.served).items()}

    @property
    def stores(self) -> Path:
        return self.over.served.folder / f"stores-{self.serial}"

    # --- one run -----------------------------------------------------------------------------------------------------

    def begin(self, words: list[str], mode: str = "off", point: int = 0) -> subprocess.Popen[str]:
        served, token = self.over.served, f"@{self.over.token}"
        return subprocess.Popen(
            crash_command(served, self.stores, [*words, "--ufm-token", token, "--yes", "--wait", "60"], mode, point),
            cwd=served.folder,
            env=crash_environment(served, self.preloaded),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> str:
        said, _ = process.communicate(timeout=300)
        self.over.mock.seen = lambda number, when: None
        self.over.served.watchers = []
        return said

    def must(self, *words: object) -> None:
        process = self.begin([str(word) for word in words])
        said = self.end(process)
        assert process.returncode == 0, f"{words}: {said}"

    def words(self, first: str) -> list[str]:
        if first == "undo":
            return ["undo", "1"]
        return ["apply", str(self.plan), "--via", self.over.url, "--allow-removals"]

    def _count(self) -> dict[tuple[str, str], int]:
        """How many questions, MADs and points a whole run has, by what it is and what of it is counted."""
        self.serial += 1
        found = self._count_of("apply")
        self.planned = self.wire()
        found |= self._count_of("undo")
        assert (stored(self.over.mock), self.wire()) == (BEFORE, self.former)
        return found

    def _count_of(self, first: str) -> dict[tuple[str, str], int]:
        asked, mads = len(self.over.mock.log), Passed()
        self.over.served.watchers = [mads]
        process = self.begin(self.words(first), "count")
        said = self.end(process)
        assert process.returncode == 0, said
        questions = len(self.over.mock.log) - asked
        counts = {
            "comes": questions,
            "made": questions,
            "mad": mads.passed,
            "point": points_passed(self.over.served),
        }
        return {(first, kind): count for kind, count in counts.items()}

    # --- one that is cut off -----------------------------------------------------------------------------------------

    def cut_off(self, cut: Cut) -> None:
        self.serial += 1
        if cut.first == "undo":
            self.must(*self.words("apply"))
        count = self.counts[cut.first, cut.kind]
        number = min(int(cut.at * count), count - 1)
        first, process = len(self.over.mock.log), None

        def seen(each: int, when: str) -> None:
            if process is not None and (each - first, when) == (number, cut.kind):
                process.send_signal(cut.by)

        self.over.mock.seen = seen
        mads = Passed()
        self.over.served.watchers = [mads]
        process = self.begin(self.words(cut.first), "kill" if cut.kind == "point" else "off", number)
        mads.tell = lambda passed: process.send_signal(cut.by) if (passed, cut.kind) == (number, "mad") else None
        said = self.end(process)
        # How many MADs and points there are differs a little from run to run: the last ones may come when all is done.
        ends = {-cut.by} if cut.by == signal.SIGKILL and cut.kind in ("comes", "made") else {0, 3, 130, -cut.by}
        assert process.returncode in ends, f"{cut}: {process.returncode}: {said}"
        assert "Traceback" not in said, f"{cut}: {said}"
        self._follow(cut)

    def operations(self) -> list[OperationRecord]:
        if not (self.stores / "journal.db").exists():
            return []
        with Journal(self.stores / "journal.db", create=False) as journal:
            return sorted(journal.list_operations(), key=lambda each: each.id)

    def _follow(self, cut: Cut) -> None:
        found = self.operations()
        if not found:
            assert (stored(self.over.mock), self.wire()) == (BEFORE, self.former), cut
            return
        if cut.then == "resume":
            if found[-1].is_unfinished:
                self.must("resume")
            assert (stored(self.over.mock), self.wire()) == (AFTER, self.planned), cut
        if found[0].state != "undone":
            self.must("undo", found[0].id)
        assert (stored(self.over.mock), self.wire()) == (BEFORE, self.former), cut
        assert [each.state for each in self.operations()] == ["undone", "done"], cut


class Passed:
    """Counts the MADs that leave for the fabric, and tells of each."""

    def __init__(self) -> None:
        self.passed = 0

    def tell(self, passed: int) -> None:
        """Nobody is told."""

    def __call__(self, seen: PassedMad) -> None:
        if seen.out:
            self.tell(self.passed)
            self.passed += 1


@pytest.fixture(scope="module")
def scene(preloaded: str) -> Iterator[Scene]:
    with ufmed(BEFORE) as over:
        yield Scene(over, preloaded)


@pytest.mark.parametrize("name", sampled(SAMPLE, [*SAMPLE][1:8:2]))
def test_what_was_cut_off_is_finished_or_undone(scene: Scene, name: str) -> None:
    scene.cut_off(SAMPLE[name])


def whole_row(scene: Scene) -> Iterator[Cut]:
    """Every question, MADs at random, every point; signals take turns. After each of an apply comes what finishes it,
    and what goes back."""
    chance = random.Random(17)
    counts, turns = scene.counts, cycle(SIGNALS)
    cuts = [
        (first, kind, (number + 0.5) / counts[first, kind], next(turns))
        for first in ("apply", "undo")
        for kind in ("comes", "made")
        for number in range(counts[first, kind])
    ]
    cuts += [(first, "mad", chance.random(), by) for first in ("apply", "undo") for _ in range(MADS) for by in SIGNALS]
    cuts += [
        (first, "point", (number + 0.5) / counts[first, "point"], signal.SIGKILL)
        for first in ("apply", "undo")
        for number in range(counts[first, "point"])
    ]
    for first, kind, at, by in cuts:
        for then in ("undo", "resume") if first == "apply" else ("undo",):
            yield Cut(kind, at, by, then, first)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_cuts_it_off_it_is_finished_or_undone(scene: Scene, part: int) -> None:
    for cut in list(whole_row(scene))[part::PARTS]:
        scene.cut_off(cut)
