"""The garbage collector runs seldom while much is made that stays, and as before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ibkeys.collecting import few_collections


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds, on = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*thresholds)
    (gc.enable if on else gc.disable)()


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def test_what_stays_is_not_looked_at_again_and_again() -> None:
    gc.set_threshold(700, 10, 10)
    gc.collect()  # what ran before may have made one due
    before = full_collections()
    with few_collections():
        kept = [[number] for number in range(500_000)]
    assert full_collections() == before
    assert len(kept) == 500_000
    assert gc.get_threshold() == (700, 10, 10)


def test_what_refers_to_itself_is_freed_before_long() -> None:
    class Node:
        def __init__(self) -> None:
            self.own = self

    with few_collections():
        for _ in range(1_000_000):
            Node()
        left = sum(isinstance(each, Node) for each in gc.get_objects())
    assert left <= 200_000


@pytest.mark.parametrize("thresholds", [(0, 10, 10), (200_000, 3, 3)], ids=["never", "seldom"])
def test_a_program_that_wants_fewer_collections_has_its_way(thresholds: tuple[int, int, int]) -> None:
    gc.set_threshold(*thresholds)
    with few_collections():
        assert gc.get_threshold() == thresholds
    assert gc.get_threshold() == thresholds


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with few_collections():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_thresholds_come_back_after_an_error() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ValueError, match="of the caller"), few_collections():
        raise ValueError("of the caller")
    assert gc.get_threshold() == (700, 10, 10)
