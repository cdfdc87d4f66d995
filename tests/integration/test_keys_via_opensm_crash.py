"""``mkey-deploy``, ``-rotate``, ``-remove --via opensm`` die: no key is lost, and what was begun is finished or undone.

ibkeys is killed before every system call that writes, and around every rename and every signal.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.corpus import DATA
from tests.integration.keyed_crash import COMMANDS, KeyedScene
from tests.integration.keyed_opensm import keyed

NET = DATA / "fabrics" / "two-switch.net"
SAMPLE = 3
"""Points of each way under `make test`. Under `make soak` all of them, in `PARTS` tests."""
PARTS = 8
WAYS_ON = ("--resume", "--abort")


@pytest.fixture
def scene(preloaded: str) -> Iterator[KeyedScene]:
    with keyed(NET) as opensm:
        yield KeyedScene(opensm, preloaded)


@pytest.mark.parametrize("way_on", WAYS_ON)
@pytest.mark.parametrize("what", COMMANDS)
def test_after_a_kill_at_a_point_of_the_sample_it_is_finished_or_undone(
    scene: KeyedScene, what: str, way_on: str
) -> None:
    points = scene.count(what)
    assert points > 100
    for number in range(SAMPLE):
        scene.cut_off(what, (2 * number + 1) * points // (2 * SAMPLE), way_on)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("way_on", WAYS_ON)
@pytest.mark.parametrize("what", COMMANDS)
def test_after_a_kill_at_any_point_it_is_finished_or_undone(
    scene: KeyedScene, what: str, way_on: str, part: int
) -> None:
    for point in range(part, scene.count(what) + 1, PARTS):
        scene.cut_off(what, point, way_on)
