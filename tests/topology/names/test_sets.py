"""Folded sets of names: they say what ClusterShell's say."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSet
from hypothesis import example, given
from hypothesis import strategies as st

from ibkeys.topology.names.sets import fold, ranges, unfold

MOST = 1000
NUMBERS = st.integers(0, 120).map(str) | st.integers(0, 120).map(lambda number: f"{number:03}") | st.just("00")
NAMES = st.lists(
    st.tuples(st.sampled_from(["a", "rack", "MF0;leaf"]), NUMBERS, st.sampled_from(["", "-", ":x"]), NUMBERS).map(
        "".join
    )
    | st.tuples(st.sampled_from(["a", "b-"]), NUMBERS).map("".join)
    | st.sampled_from(["login", "x", "7"]),
    min_size=1,
    max_size=40,
)
WORDS = st.text(st.sampled_from("ab0123,!&^[]-/ 9"), min_size=1, max_size=14)


def by_cluster_shell(text: str) -> list[str] | None:
    try:
        return sorted(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, ValueError):
        return None


@given(names=NAMES)
def test_a_folded_set_has_the_same_names_for_both(names: list[str]) -> None:
    text = fold(names)
    assert by_cluster_shell(text) == sorted(set(names))
    assert sorted(unfold(text, MOST)) == sorted(set(names))


@given(text=WORDS)
@example("a[1-3]!a2")
@example("a[01-10/3]b[1-2],c")
@example("a[1-3]^a[2-5]&a5")
def test_what_both_can_read_has_the_same_names(text: str) -> None:
    theirs = by_cluster_shell(text)
    try:
        ours = sorted(unfold(text, MOST))
    except (ValueError, OverflowError):
        return
    if theirs is not None:
        assert ours == theirs


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a1", "a2", "a10"], "a[1-2,10]"),
        (["a09", "a10", "a99", "a100"], "a[09-10,99-100]"),
        (["a099", "a100", "a101"], "a[099-101]"),
        (["a9", "a09", "a10"], "a[9,09-10]"),
        (["a998", "a0999", "a1000"], "a[998,0999-1000]"),
        (["r1n1", "r1n2", "r2n1", "r2n3", "r3n1", "r3n2"], "r[1,3]n[1-2],r2n[1,3]"),
        ([f"r{rack}n{node:02}" for rack in (1, 2) for node in range(1, 5)], "r[1-2]n[01-04]"),
        (["MF0;leaf001:MSB7700/U1", "MF0;leaf002:MSB7700/U1"], "MF0;leaf[001-002]:MSB7700/U1"),
        (["tank2", "stage1", "tank1", "stage1", "login"], "login,stage1,tank[1-2]"),
    ],
)
def test_folded(names: list[str], text: str) -> None:
    assert fold(names) == text
    assert set(unfold(text, MOST)) == set(names)


@pytest.mark.parametrize(
    "text", ["a[1", "a1]", "a[]", "a[x]", "a[3-1]", "a[01-3]", "a[1-003]", "a[1-3/0]", ",a", "a!", "a,,b"]
)
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is missing|is no list|is no range"):
        unfold(text, MOST)


@pytest.mark.parametrize(
    ("text", "count"),
    [("a[1-1001]", 1001), ("a[1-999999]", 999999), ("a[1-100]b[1-11]", 1100), ("a[1-600],b[1-600]", 1200)],
)
def test_more_names_than_are_allowed_are_counted_not_made(text: str, count: int) -> None:
    with pytest.raises(OverflowError, match=str(count)):
        unfold(text, MOST)


@given(numbers=st.sets(st.integers(0, 300), min_size=1))
def test_ranges_are_those_of_cluster_shell(numbers: set[int]) -> None:
    assert ranges([*map(str, numbers)]) == str(RangeSet.fromlist([*map(str, numbers)]))
