"""part_enforce is being changed through OpenSM when ibkeys or OpenSM dies: the change goes on or back."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from ibkeys.store.journal import Journal
from tests.integration.crashes import SetCount, points_in, run_to_a_point
from tests.integration.enforcing import enforcement, open_fabric
from tests.integration.keyed_opensm import KeyedOpensm


@pytest.fixture
def opensm() -> Iterator[KeyedOpensm]:
    with open_fabric() as running:
        yield running


@pytest.mark.parametrize(
    ("way", "value", "bits"), [pytest.param("resume", "both", 3, marks=pytest.mark.soak), ("undo", "off", 0)]
)
def test_part_enforce_that_was_cut_off_goes_on_or_back(
    opensm: KeyedOpensm, preloaded: str, way: str, value: str, bits: int
) -> None:
    stores = opensm.served.folder / "stores"
    words = ("harden", "--via", "opensm", "--yes")
    assert opensm.served.ibkeys("smkey-rotate", "--yes").returncode == 0
    done, _ = run_to_a_point(opensm.served, preloaded, stores, words, "kill", "before the first signal")
    assert done.returncode == -signal.SIGKILL, done.stderr
    told = opensm.served.ibkeys("journal").stdout
    commands = "`ibkeys resume 3` finishes it, `ibkeys undo 3` rolls it back"
    assert f"operation 3 is open, interrupted in step part_enforce: {commands}" in told
    dry = opensm.served.ibkeys(way, "--dry-run")
    assert (dry.returncode, dry.stdout.endswith("dry run: nothing was changed\n")) == (1, True), dry.stderr
    finished = opensm.served.ibkeys(way, "--yes")
    assert (finished.returncode, finished.stdout.endswith("done, verified by a fresh read\n")) == (0, True), told
    assert f"\npart_enforce {value}\n" in opensm.conf.read_text()
    assert set(enforcement(opensm.served)) == {bits}
    with Journal.read(stores / "journal.db") as journal:
        assert [each for each in journal.list_operations() if each.is_unfinished] == []
    opensm.assert_nothing_was_lost()


# --- part_enforce, at every point -------------------------------------------------------------------------------------

PARTS = 8
ENDS = {"resume": ("both", 3), "undo": ("off", 0)}
"""How it goes on; what the options file says then, and what leaf ports enforce."""
HARDEN = ("harden", "--via", "opensm", "--yes")


class Enforcing:
    """A fabric that is hardened but for part_enforce, which is all that `harden` does then."""

    def __init__(self, opensm: KeyedOpensm, preloaded: str) -> None:
        self.opensm, self.preloaded = opensm, preloaded
        self.stores = opensm.served.folder / "stores"
        self.run(*HARDEN)
        self.back()

    def run(self, *words: str, mode: str = "off", point: int = 0) -> tuple[int, str]:
        """Run a command; return its exit code, and what it said."""
        done, _ = run_to_a_point(self.opensm.served, self.preloaded, self.stores, words, mode, point)
        return done.returncode, done.stdout + done.stderr

    def last(self) -> tuple[str, str]:
        """Return the number of the last hardening, and its state."""
        with Journal.read(self.stores / "journal.db") as journal:
            last = [each for each in journal.list_operations() if each.command == "harden"][-1]
        return str(last.id), last.state

    def back(self) -> None:
        """Let no leaf port enforce."""
        number, state = self.last()
        if state != "undone":
            code, said = self.run("undo", number, "--yes")
            assert code == 0, said
        assert set(enforcement(self.opensm.served)) == {0}

    def finish(self, way: str) -> None:
        """Finish what was cut off, or go back, and look at what it leaves."""
        _, state = self.last()
        if state == "open":
            code, said = self.run(way, "--yes")
            assert code == 0, said
            value, bits = ENDS[way]
            assert f"\npart_enforce {value}\n" in self.opensm.conf.read_text()
            assert set(enforcement(self.opensm.served)) == {bits}
        with Journal.read(self.stores / "journal.db") as journal:
            assert [each for each in journal.list_operations() if each.is_unfinished] == []
        self.back()


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way", ENDS)
def test_part_enforce_that_was_killed_at_any_point_goes_on_or_back(
    opensm: KeyedOpensm, preloaded: str, way: str, part: int
) -> None:
    enforcing = Enforcing(opensm, preloaded)
    enforcing.run(*HARDEN, mode="count")
    points = points_in(opensm.served, ("harden/enforcement",))
    assert len(points) > 60
    enforcing.back()
    for point in points[part::PARTS]:
        code, said = enforcing.run(*HARDEN, mode="kill", point=point)
        assert code in (0, 1, 3, -signal.SIGKILL), said
        enforcing.finish(way)
    opensm.assert_nothing_was_lost()


@pytest.mark.soak
@pytest.mark.parametrize("way", ENDS)
def test_after_opensm_died_at_any_of_its_sets_part_enforce_goes_on_or_back(
    opensm: KeyedOpensm, preloaded: str, way: str
) -> None:
    enforcing, whole = Enforcing(opensm, preloaded), SetCount()
    opensm.served.watchers.append(whole)
    enforcing.run(*HARDEN)
    opensm.served.watchers.remove(whole)
    enforcing.back()
    assert whole.passed > 4
    for number in range(whole.passed):
        dying = SetCount(opensm.running.process, number)
        opensm.served.watchers.append(dying)
        enforcing.run(*HARDEN, "--wait", "5")
        opensm.served.watchers.remove(dying)
        opensm.running.kill()
        opensm.running.start()
        opensm.running.sweep()
        enforcing.finish(way)
