"""Going on with an apply through OpenSM: only where each port holds what the apply found or wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from ibkeys.apply.apply import plan_apply
from ibkeys.errors import Refused
from ibkeys.partitions.opensm_tables import place_leaf
from ibkeys.sim.nodes import SimPort
from tests.apply.opensm.bench import ALL, GREEN, Bench
from tests.apply.opensm.madeup import put, valid
from tests.fabricsim import tool


@pytest.fixture
def port(bench: Bench) -> SimPort:
    """A port that GREEN moves from one partition to another."""
    return bench.opensm.net.port("node02 mlx4_0", 1)


@pytest.mark.parametrize(("word", "number"), [("look", 2), ("signal", 1), ("signal", 2)])
def test_a_port_that_lost_a_p_key_since_is_not_given_it_again(
    bench: Bench, port: SimPort, word: str, number: int
) -> None:
    """Somebody else took it out of its partition: what it has is a part of what the apply found and wrote."""
    bench.cut_off(word, number, partial(bench.apply, GREEN))
    put(port, {0: 0x7FFF})
    bench.opensm.host.log.clear()
    with pytest.raises(Refused, match=r"node02.*to keep what is there: `ibkeys resume 1 --overtaken`") as refused:
        bench.resume()
    assert refused.value.interlock == "stale"
    assert valid(port) == {0: 0x7FFF}
    assert not {"replace", "signal"} & {*bench.opensm.host.log}
    bench.assert_overtaken("node02.*(it has 0x7fff, which the operation neither found nor wrote|index 1 is empty)")
    bench.close()
    assert valid(port) == {0: 0x7FFF}
    assert bench.states() == {1: "undone"}


@contextmanager
def away(bench: Bench, port: SimPort) -> Iterator[None]:
    """Let a host be away. When it is back, OpenSM gives it and its leaf port what the policy of the moment says."""
    leaf = bench.opensm.net.unplug(port.node, port.number)
    assert leaf is not None
    yield
    bench.opensm.net.plug(port.node, port.number, leaf.node, leaf.number)
    put(leaf, place_leaf(valid(leaf), valid(port), leaf.p_key_capacity).entries)


def apply_without(bench: Bench, port: SimPort, text: str = GREEN, *, until_signal: int = 0) -> None:
    """Apply *text* while a host is away that its plan names, up to a signal."""
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, text)
    run = partial(bench.run, lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier), "stale")
    with away(bench, port):
        if until_signal:
            bench.cut_off("signal", until_signal, run)
        else:
            run()


def test_a_host_that_came_back_to_a_policy_on_the_way_goes_on_with_the_others(bench: Bench, port: SimPort) -> None:
    apply_without(bench, port, GREEN.replace("Blue=0x20", "Cyan=0x21"), until_signal=2)
    assert {*valid(port).values()} == {0x7FFF}  # which a policy on the way gives to whom nobody could read
    bench.resume()
    assert {*valid(port).values()} == {0x7FFF, 0x8011}
    assert bench.states() == {1: "done"}


def test_a_host_that_came_back_to_the_new_policy_needs_nothing_more(bench: Bench, port: SimPort) -> None:
    apply_without(bench, port)
    assert bench.states() == {1: "open"}
    assert {*valid(port).values()} == {0x7FFF, 0x8011}
    bench.resume()
    assert bench.states() == {1: "done"}


def test_a_host_that_was_away_and_has_what_no_policy_gives_it_is_named(bench: Bench, port: SimPort) -> None:
    apply_without(bench, port)
    put(port, {0: 0x7FFF, 2: 0x8020})
    with pytest.raises(Refused, match=r"node02.*index 1 is empty, not 0x8010"):
        bench.resume()
    assert {*valid(port).values()} == {0x7FFF, 0x8020}


def test_an_apply_that_lacks_only_a_host_that_left_is_ended_as_done(bench: Bench, port: SimPort) -> None:
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, GREEN)
    bench.opensm.net.unplug(port.node, port.number)
    bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier), "stale")
    assert bench.states() == {1: "open"}
    bench.assert_overtaken("only absent ports are left: 'node02 mlx4_0' .*not found on the fabric")
    bench.close()
    assert bench.states() == {1: "done"}
    bench.undo(1)
    assert bench.states() == {1: "undone", 2: "done"}
