"""``mkey-deploy``, ``-rotate``, ``-remove --via opensm`` die: no key is lost, and what was begun is finished or undone.

ibkeys is killed before system calls that write, and around renames and signals: at one of each kind (`crashes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.corpus import DATA
from tests.integration.crashes import crash_command, crash_environment, first_of_each_kind, last_of_each_kind
from tests.integration.keyed_crash import COMMANDS, KeyedScene
from tests.integration.keyed_opensm import keyed
from tests.integration.keyed_standbys import KeyedSite, keyed_site
from tests.integration.lowering_crash import AGAIN, LoweringScene
from tests.integration.waiting import by_method

NET = DATA / "fabrics" / "two-switch.net"
SAMPLE = 1
"""Points of each way under `make test`. Under `make soak` one of each kind, in `PARTS` tests."""
PARTS = 4
STRIDE = 5
"""With a standby one of them in so many."""
WAYS_ON = {"resume": first_of_each_kind, "undo": last_of_each_kind}
"""How it goes on, and which point of each kind is taken for that."""
WAYS_DOWN = {AGAIN: first_of_each_kind, "undo": last_of_each_kind, "resume": last_of_each_kind}
"""The same of a lowering of the level."""


def every_way_in_parts(test: Callable[..., None]) -> Callable[..., None]:
    """Let `make soak` run *test* with each command, each way on and each part of the points."""
    for name, values in (("what", COMMANDS), ("way_on", WAYS_ON), ("part", range(PARTS))):
        test = pytest.mark.parametrize(name, values)(test)
    return pytest.mark.soak(test)


@pytest.fixture
def scene(preloaded: str) -> Iterator[KeyedScene]:
    with keyed(NET) as opensm:
        yield KeyedScene(opensm.served, [opensm.conf], preloaded, opensm.assert_nothing_was_lost)


@pytest.mark.parametrize("way_on", WAYS_ON)
@pytest.mark.parametrize("what", COMMANDS)
def test_after_a_kill_at_a_point_of_the_sample_it_is_finished_or_undone(
    scene: KeyedScene, what: str, way_on: str
) -> None:
    points = len(scene.kinds(what))
    assert points > 100
    for number in range(SAMPLE):
        scene.cut_off(what, (2 * number + 1) * points // (2 * SAMPLE), way_on)


def test_a_way_back_that_was_killed_at_a_point_of_the_sample_is_finished(scene: KeyedScene) -> None:
    points = len(scene.kinds_going_back())
    for number in range(SAMPLE):
        scene.cut_off_going_back((2 * number + 1) * points // (2 * SAMPLE))


@every_way_in_parts
def test_after_a_kill_at_a_point_of_any_kind_it_is_finished_or_undone(
    scene: KeyedScene, what: str, way_on: str, part: int
) -> None:
    for point in WAYS_ON[way_on](scene.kinds(what))[part::PARTS]:
        scene.cut_off(what, point, way_on)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_a_way_back_that_was_killed_at_a_point_of_any_kind_is_finished(scene: KeyedScene, part: int) -> None:
    for point in first_of_each_kind(scene.kinds_going_back())[part::PARTS]:
        scene.cut_off_going_back(point)


def test_a_lowering_that_was_killed_at_a_point_of_the_sample_is_finished_or_the_run_is(scene: KeyedScene) -> None:
    lowering = LoweringScene(scene)
    points = len(lowering.kinds())
    assert points > 50
    for number, way_on in enumerate(WAYS_DOWN, start=1):
        lowering.cut_off(number * points // (len(WAYS_DOWN) + 1), way_on)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way_on", WAYS_DOWN)
def test_a_lowering_that_was_killed_at_a_point_of_any_kind_is_finished_or_the_run_is(
    scene: KeyedScene, way_on: str, part: int
) -> None:
    lowering = LoweringScene(scene)
    for point in WAYS_DOWN[way_on](lowering.kinds())[part::PARTS]:
        lowering.cut_off(point, way_on)


# --- with a standby ---------------------------------------------------------------------------------------------------


class StandbyScene(KeyedScene):
    """With a standby, which who reads ibkeys' standard error starts again when that asks for it."""

    def __init__(self, site: KeyedSite, preloaded: str) -> None:
        self.site = site
        super().__init__(site.served, [each.conf for each in site.opensms], preloaded, self.assert_one_master)

    def run(self, words: Sequence[str], mode: str = "off", point: int = 0) -> tuple[int, str]:
        """Run a command, and do what it says is to be done."""
        command = crash_command(self.served, self.stores, [*by_method(words), "--yes"], mode, point)
        return self.site.follow(command, crash_environment(self.served, self.preloaded))

    def answer(self, line: str) -> None:
        self.site.answer(line)

    def assert_one_master(self) -> None:
        assert self.site.violations() == 0
        assert self.site.states() == ["master", "standby"]


@pytest.fixture
def standby_scene(preloaded: str) -> Iterator[StandbyScene]:
    with keyed_site(2) as site:
        yield StandbyScene(site, preloaded)


@pytest.mark.parametrize("way_on", WAYS_ON)
def test_after_a_kill_while_a_standby_is_there_it_is_finished_or_undone(
    standby_scene: StandbyScene, way_on: str
) -> None:
    points = standby_scene.kinds("rotate")
    standby_scene.cut_off("rotate", len(points) * 3 // 4, way_on)


@every_way_in_parts
def test_after_a_kill_at_many_points_while_a_standby_is_there_it_is_finished_or_undone(
    standby_scene: StandbyScene, what: str, way_on: str, part: int
) -> None:
    for point in WAYS_ON[way_on](standby_scene.kinds(what))[part :: PARTS * STRIDE]:
        standby_scene.cut_off(what, point, way_on)


@pytest.mark.soak
@pytest.mark.parametrize("way_on", WAYS_DOWN)
def test_a_lowering_that_was_killed_while_a_standby_is_there_is_finished_or_the_run_is(
    standby_scene: StandbyScene, way_on: str
) -> None:
    lowering = LoweringScene(standby_scene)
    for point in WAYS_DOWN[way_on](lowering.kinds())[:: 2 * STRIDE]:
        lowering.cut_off(point, way_on)
