"""Steps between two policies: after every single Set, in whatever order they are made, no gap and no bridge."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.keys.pkey import PKey
from ibkeys.plan.steps import TableSteps, one_partition_at_a_time, steps_between
from tests.plan.walking import Keys, Policy, Rules, on_the_way, parts, passing


def policy(**ports: str) -> dict[str, Keys]:
    """``a="1 -2"``: a is a full member of partition 1 and a limited one of 2."""
    return {
        name: frozenset(PKey(int(word.lstrip("-")) | (0 if word.startswith("-") else 0x8000)) for word in text.split())
        for name, text in ports.items()
    }


# --- what the rules are, from IBA 10.9.3 and nothing else -------------------------------------------------------------


def sequence(before: Policy, found: TableSteps[str]) -> list[tuple[Policy, Policy]]:
    states = [before, *found.states]
    return list(pairwise(states))


def named(found: TableSteps[str]) -> set[tuple[str, str]]:
    return {(min(pair), max(pair)) for circle in found.cycles for pair in circle.pairs}


@st.composite
def changes(draw: st.DrawFn, most_ports: int, most_partitions: int) -> tuple[dict[str, Keys], dict[str, Keys]]:
    names = "abcdefgh"[: draw(st.integers(2, most_ports))]
    partitions = range(1, draw(st.integers(1, most_partitions)) + 1)
    word = st.sampled_from(["", "", "-", "+", "+"])
    before, after = (
        policy(
            **{
                name: " ".join(sign.strip("+") + str(base) for base in partitions if (sign := draw(word)))
                for name in names
            }
        )
        for _ in range(2)
    )
    return before, after


@given(changes(4, 3))
@settings(max_examples=400, deadline=None)
def test_no_order_of_ports_makes_a_gap_or_a_bridge(case: tuple[dict[str, Keys], dict[str, Keys]]) -> None:
    before, after = case
    rules, found = Rules(before, after), steps_between(before, after)
    for old, new in sequence(before, found):
        for order in permutations([port for port in old if old[port] != new[port]]):
            for state in on_the_way(old, new, list(order)):
                assert not rules.bridges(state)
                assert rules.gaps(state) <= named(found)
    assert ([before, *found.states])[-1] == after


@given(changes(8, 5), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_nor_does_a_random_order_of_many_ports(case: tuple[dict[str, Keys], dict[str, Keys]], random: Random) -> None:
    before, after = case
    rules, found = Rules(before, after), steps_between(before, after)
    for old, new in sequence(before, found):
        order = [port for port in old if old[port] != new[port]]
        random.shuffle(order)
        for state in on_the_way(old, new, order):
            assert not rules.bridges(state)
            assert rules.gaps(state) <= named(found)


@given(changes(5, 4), st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_nor_does_one_partition_after_the_other(case: tuple[dict[str, Keys], dict[str, Keys]], random: Random) -> None:
    """Each partition of each table in an order of its own, the leaf port's table before or after."""
    before, after = case
    rules, found = Rules(before, after), steps_between(before, after)
    old: Policy = before
    for is_adding, new in one_partition_at_a_time(before, found.states):
        assert old != new
        tables = {"end": dict(old), "leaf": dict(old)}
        entries = [
            (side, port, base)
            for side in tables
            for port in old
            for base in {key.partition for key in old[port] ^ new[port]}
        ]
        random.shuffle(entries)
        for side, port, base in entries:
            stays = {key for key in tables[side][port] if key.partition != base}
            tables[side][port] = frozenset(stays | {key for key in new[port] if key.partition == base})
            state = {each: passing(tables["end"][each], tables["leaf"][each]) for each in old}
            assert not rules.bridges(state)
            assert rules.gaps(state) <= named(found)
        if is_adding:
            bases = {port: {key.partition for key in keys} for port, keys in new.items()}
            assert all(key.partition in bases[port] for port, keys in old.items() for key in keys), "nobody leaves"
        old = new
    assert old == after


@given(changes(3, 3))
@settings(max_examples=200, deadline=None)
def test_a_circle_is_named_only_where_no_order_of_single_changes_is_without_gap_and_bridge(
    case: tuple[dict[str, Keys], dict[str, Keys]],
) -> None:
    before, after = case
    rules = Rules(before, after)
    entries = [
        (port, base)
        for port in before
        for base in {key.partition for key in before[port] | after[port]}
        if {k for k in before[port] if k.partition == base} != {k for k in after[port] if k.partition == base}
    ]
    seen, todo = {frozenset[tuple[str, int]]()}, [frozenset[tuple[str, int]]()]
    while todo:
        made = todo.pop()
        for entry in entries:
            more = made | {entry}
            if more not in seen:
                state = {
                    port: frozenset(
                        [key for key in before[port] if (port, key.partition) not in more]
                        + [key for key in after[port] if (port, key.partition) in more]
                    )
                    for port in before
                }
                if not rules.bridges(state) and not rules.gaps(state):
                    seen.add(more)
                    todo.append(more)
    assert (frozenset(entries) in seen) == (not steps_between(before, after).cycles)


@given(changes(4, 3))
def test_where_gaps_are_allowed_a_bridge_still_is_not(case: tuple[dict[str, Keys], dict[str, Keys]]) -> None:
    before, after = case
    rules, found = Rules(before, after), steps_between(before, after, gaps=True)
    assert not found.cycles
    for old, new in sequence(before, found):
        for order in permutations([port for port in old if old[port] != new[port]]):
            for state in on_the_way(old, new, list(order)):
                assert not rules.bridges(state)


@given(changes(4, 4), st.integers(0, 2))
@settings(max_examples=200, deadline=None)
def test_no_table_has_more_than_its_room_on_the_way(case: tuple[dict[str, Keys], dict[str, Keys]], spare: int) -> None:
    before, after = case
    capacity = {port: max(len(before[port]), len(after[port])) + spare for port in before}
    found = steps_between(before, after, capacity)
    for state in found.states:
        assert all(len(state[port]) <= capacity[port] for port in state)
    rules = Rules(before, after)
    for old, new in sequence(before, found):
        for state in on_the_way(old, new, [port for port in old if old[port] != new[port]]):
            assert not rules.bridges(state)
            assert rules.gaps(state) <= named(found)


@st.composite
def changes_of_forms(
    draw: st.DrawFn, most_ports: int, most_partitions: int
) -> tuple[dict[str, Keys], dict[str, Keys], dict[str, int] | None]:
    """As `changes`, where a port may also have both P_Keys of a partition, and the rooms of all tables or None."""
    names = "abcdefgh"[: draw(st.integers(2, most_ports))]
    partitions = range(1, draw(st.integers(1, most_partitions)) + 1)
    words = st.sampled_from(["", "", "-{0}", "{0}", "{0}", "{0} -{0}"])
    before, after = (
        policy(**{name: " ".join(draw(words).format(base) for base in partitions) for name in names}) for _ in range(2)
    )
    spare = draw(st.sampled_from([None, 0, 1, 2]))
    if spare is None:
        return before, after, None
    return before, after, {port: max(len(before[port]), len(after[port])) + spare for port in before}


@given(changes_of_forms(4, 4), st.booleans())
@settings(max_examples=300, deadline=None)
def test_block_by_block_in_whatever_order_there_is_no_gap_and_no_bridge_and_always_room(
    case: tuple[dict[str, Keys], dict[str, Keys], dict[str, int] | None], gaps: bool
) -> None:
    before, after, capacity = case
    found = steps_between(before, after, capacity, gaps=gaps)
    assert ([before, *found.states])[-1] == after
    for state in found.states:
        assert capacity is None or all(len(state[port]) <= capacity[port] for port in state)
    for one, other in combinations(sorted(before), 2):
        pair = Rules(*({port: state[port] for port in (one, other)} for state in (before, after)))
        for old, new in sequence(before, found):
            for mine, its in product(parts(old[one], new[one]), parts(old[other], new[other])):
                assert not pair.bridges({one: mine, other: its})
                assert gaps or pair.gaps({one: mine, other: its}) <= named(found)


# --- examples ---------------------------------------------------------------------------------------------------------


def test_one_partition_is_replaced_by_another_in_two_steps_the_new_one_first() -> None:
    found = steps_between(policy(a="1", b="1"), policy(a="2", b="2"))
    assert found == TableSteps((policy(a="1 2", b="1 2"), policy(a="2", b="2")))


def test_full_and_limited_are_swapped_within_a_pair_in_two_steps() -> None:
    found = steps_between(policy(a="1", b="-1"), policy(a="-1", b="1"))
    assert found == TableSteps((policy(a="1", b="1"), policy(a="-1", b="1")))


def test_a_partition_is_reused_in_two_steps_the_former_tenant_leaves_first() -> None:
    found = steps_between(policy(a="1", b="1", c="", d=""), policy(a="", b="", c="1", d="1"))
    assert found == TableSteps((policy(a="", b="", c="", d=""), policy(a="", b="", c="1", d="1")))


def test_a_tenant_that_moves_on_from_a_partition_that_is_reused_takes_three_steps() -> None:
    found = steps_between(policy(a="1", b="1", c="", d=""), policy(a="2", b="2", c="1", d="1"))
    assert found == TableSteps(
        (
            policy(a="1 2", b="1 2", c="", d=""),
            policy(a="2", b="2", c="", d=""),
            policy(a="2", b="2", c="1", d="1"),
        )
    )


def test_what_concerns_nobody_else_takes_one_step() -> None:
    before, after = policy(a="1", b="1", c="2"), policy(a="1", b="1 3", c="")
    assert steps_between(before, after) == TableSteps((after,))


def test_equal_policies_need_no_step() -> None:
    assert steps_between(policy(a="1", b="1"), policy(a="1", b="1")) == TableSteps(())


def test_both_forms_become_the_full_one_though_no_membership_changes() -> None:
    after = policy(a="1")
    assert steps_between(policy(a="1 -1"), after) == TableSteps((after,))


def test_a_full_port_gives_up_its_limited_p_key_before_another_needs_its_room() -> None:
    before, after = policy(a="1", b="", c="2 -2"), policy(a="", b="1", c="2 3")
    found = steps_between(before, after, {"a": 1, "b": 1, "c": 2})
    assert found == TableSteps((policy(a="", b="", c="2 3"), after))


def test_two_tenants_that_change_places_are_a_circle() -> None:
    found = steps_between(policy(a="1", b="1", c="2", d="2"), policy(a="2", b="2", c="1", d="1"))
    [circle] = found.cycles
    assert {circle.partition} < {1, 2}
    assert (circle.leaving, circle.entering, circle.pairs) in (
        (("a", "b"), ("c", "d"), (("a", "b"),)),
        (("c", "d"), ("a", "b"), (("c", "d"),)),
    )
    assert "a, b must leave or be limited in partition 0x0001 before c, d may enter or be full there" in circle.message
    assert "c, d must leave or be limited in partition 0x0002 before a, b may enter or be full there" in circle.message
    assert circle.message.endswith("; 1 pair of ports cannot talk during the change")


def test_who_must_not_be_cut_from_a_port_that_stays_is_in_a_circle_and_else_is_not() -> None:
    before, after = policy(a="1", c="2", s="-1 -2"), policy(a="2", c="1", s="-1 -2")
    [circle] = steps_between(before, after).cycles
    assert circle.pairs in ((("a", "s"),), (("c", "s"),))
    without = steps_between({port: before[port] for port in "ac"}, {port: after[port] for port in "ac"})
    assert without == TableSteps((policy(a="", c=""), policy(a="2", c="1")))


@pytest.mark.parametrize("count", [1, 40])
def test_many_ports_of_one_kind_cost_no_more_than_one(count: int) -> None:
    before = {f"{name}{n}": keys for n in range(count) for name, keys in policy(a="1", b="-1", c="").items()}
    after = {f"{name}{n}": keys for n in range(count) for name, keys in policy(a="2", b="-2", c="1").items()}
    assert len(steps_between(before, after).states) == 3
