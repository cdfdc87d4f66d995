"""Recovery on a subnet without end, and on one of which nothing can be read."""

from __future__ import annotations

import pytest

from ibkeys.client.limits import Limits
from ibkeys.fabric.live import LiveFabric
from ibkeys.mkeys.recovery.recover import plan_recovery
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from tests.fabricsim import subnet, writer
from tests.hostile import Answer, AnsweringPort, EndlessFabric
from tests.mkeys.recovery.lost import (
    Run,
)


def silent_behind(depth: int) -> Answer:
    """Switches without end of 30 ports each, of which those *depth* hops away and farther are silent."""
    endless = EndlessFabric(30)
    return lambda path, *what: endless(path, *what) if len(path) < depth else None


@pytest.mark.parametrize("depth", [3, 60])
def test_a_recovery_on_a_subnet_without_end_ends_and_names_the_limit(depth: int) -> None:
    with LiveFabric(AnsweringPort(silent_behind(depth)), limits=Limits(nodes=40)) as fabric:
        recovery = plan_recovery(writer(fabric), options=RecoveryOptions(wait=10))
        assert len(recovery.search.found.nodes) + len(recovery.search.waiting.silent) <= 40
        recovery.run(lambda result: None)
    [note] = recovery.limits_reached()
    assert note.endswith("the sweep found 40 nodes, its limit (Limits(nodes=N) raises it)")
    assert recovery.summary.failed == len(recovery.search.waiting.given_up) <= 40


def test_a_fabric_of_which_nothing_was_read_is_no_error() -> None:
    """The local port hides everything and never opens: there is nothing to change, and nothing to look at again."""
    net = subnet("two-switch")
    for port in (port for node in net.nodes for port in node.end_ports):
        port.m_key, port.protect_bits, port.lease_period = 0x83F1C05E9A2D7B46, 2, 0
    run = Run(net, {}, RecoveryOptions(wait=1), "mkey-under-sm")
    assert run.summary.done == 0
