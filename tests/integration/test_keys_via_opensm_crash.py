"""``mkey-deploy``, ``-rotate``, ``-remove --via opensm`` die: no key is lost, and what was begun is finished or undone.

ibkeys is killed before system calls that write, and around renames and signals, under `make soak` at each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.corpus import DATA
from tests.integration.crashes import every_point, points_around, start_to_a_point
from tests.integration.keyed_crash import COMMANDS, KeyedScene
from tests.integration.keyed_opensm import keyed
from tests.integration.keyed_standbys import KeyedSite, keyed_site
from tests.integration.lowering_crash import WAYS_DOWN, LoweringScene
from tests.integration.waiting import by_method

NET = DATA / "fabrics" / "two-switch.net"
PARTS = 16
WAYS_ON = ("resume", "undo")
"""How it goes on."""
SAMPLE = (("deploy", "undo"), ("rotate", "resume"))
MIDDLE = 0.5
"""The point of these under `make test`, as a share of all. Under `make soak` all of each way, in `PARTS` tests."""
OF_STANDBYS = ("mkeys/opensm/standbys.py", "mkeys/opensm/key_files.py")
"""What has points only where there is a standby; its options file is written as that of the master is."""


def every_way_in_parts(test: Callable[..., None]) -> Callable[..., None]:
    """Let `make soak` run *test* with each command, each way on and each part of the points."""
    for name, values in (("what", COMMANDS), ("way_on", WAYS_ON), ("part", range(PARTS))):
        test = pytest.mark.parametrize(name, values)(test)
    return pytest.mark.soak(test)


@pytest.fixture
def scene(preloaded: str) -> Iterator[KeyedScene]:
    with keyed(NET) as opensm:
        yield KeyedScene(opensm.served, [opensm.conf], preloaded, opensm.assert_nothing_was_lost)


@pytest.mark.parametrize(("what", "way_on"), SAMPLE)
def test_after_a_kill_at_a_point_of_the_sample_it_is_finished_or_undone(
    scene: KeyedScene, what: str, way_on: str
) -> None:
    points = scene.points(what)
    assert points > 100
    scene.cut_off(what, int(MIDDLE * points), way_on)


def test_a_way_back_that_was_killed_at_a_point_of_the_sample_is_finished(scene: KeyedScene) -> None:
    scene.cut_off_going_back(int(MIDDLE * scene.points_going_back()))


@every_way_in_parts
def test_after_a_kill_at_any_point_it_is_finished_or_undone(
    scene: KeyedScene, what: str, way_on: str, part: int
) -> None:
    for point in every_point(scene.points(what), part, PARTS):
        scene.cut_off(what, point, way_on)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_a_way_back_that_was_killed_at_any_point_is_finished(scene: KeyedScene, part: int) -> None:
    for point in every_point(scene.points_going_back(), part, PARTS):
        scene.cut_off_going_back(point)


def test_a_lowering_that_was_killed_at_a_point_of_the_sample_is_finished(scene: KeyedScene) -> None:
    lowering = LoweringScene(scene)
    points = lowering.points()
    assert points > 50
    lowering.cut_off(int(MIDDLE * points), WAYS_DOWN[0])


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way_on", WAYS_DOWN)
def test_a_lowering_that_was_killed_at_any_point_is_finished_or_the_run_is(
    scene: KeyedScene, way_on: str, part: int
) -> None:
    lowering = LoweringScene(scene)
    for point in every_point(lowering.points(), part, PARTS):
        lowering.cut_off(point, way_on)


# --- with a standby ---------------------------------------------------------------------------------------------------


class StandbyScene(KeyedScene):
    """With a standby, which who reads ibkeys' standard error starts again when that asks for it."""

    def __init__(self, site: KeyedSite, preloaded: str) -> None:
        self.site = site
        super().__init__(site.served, [each.conf for each in site.opensms], preloaded, self.assert_one_master)

    def run(self, words: Sequence[str], mode: str = "off", point: int = 0) -> tuple[int, str]:
        """Run a command, and do what it says is to be done."""
        words = [*by_method(words), "--yes"]
        return self.site.follow(start_to_a_point(self.served, self.preloaded, self.stores, words, mode, point))

    def answer(self, line: str) -> None:
        self.site.answer(line)

    def assert_one_master(self) -> None:
        assert self.site.violations() == 0
        assert self.site.states() == ["master", "standby"]


@pytest.fixture
def standby_scene(preloaded: str) -> Iterator[StandbyScene]:
    with keyed_site(2) as site:
        yield StandbyScene(site, preloaded)


def test_after_a_kill_while_a_standby_is_there_it_is_undone(standby_scene: StandbyScene) -> None:
    standby_scene.cut_off("rotate", standby_scene.points("rotate") * 3 // 4, "undo")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way_on", WAYS_ON)
@pytest.mark.parametrize("what", ["deploy", "rotate"])  # a removal stops no standby
def test_after_a_kill_at_any_point_that_only_a_standby_brings_it_is_finished_or_undone(
    standby_scene: StandbyScene, what: str, way_on: str, part: int
) -> None:
    standby_scene.points(what)
    points = points_around(standby_scene.served, OF_STANDBYS, "change/opensm_files.py")
    assert len(points) > PARTS
    for point in points[part::PARTS]:
        standby_scene.cut_off(what, point, way_on)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way_on", WAYS_DOWN)
def test_a_lowering_that_was_killed_while_a_standby_is_there_is_finished_or_the_run_is(
    standby_scene: StandbyScene, way_on: str, part: int
) -> None:
    lowering = LoweringScene(standby_scene)
    for point in every_point(lowering.points(), part, PARTS):
        lowering.cut_off(point, way_on)
