"""Recovery of lost M_Keys on the simulator, whose SMAs enforce keys and leases on a virtual clock: the whole of it.

The oracle is the simulator's physical side: which ports are open, what their bytes are, how many violations they have
counted.
"""

from __future__ import annotations

from math import ceil

import pytest

from ibkeys.mad.const import Method
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from tests.fabricsim import subnet
from tests.fattree import fat_tree
from tests.mkeys.recovery.lost import (
    LEASE,
    Run,
    configuration,
    end_ports,
    keys_of,
    links,
    methods,
    tree,
    violations,
)

HOPS = 6  # from a host over leaf, spine, core, spine and leaf to the farthest host


BOUND = ceil((HOPS + 1) / 2) + 1  # leases, without links


def test_with_known_links_everything_is_back_within_1_2_leases_and_the_violations_are_exact() -> None:
    net, known = tree()
    before = configuration(net)
    run = Run(net, known)
    assert run.seconds <= 1.2 * LEASE
    assert run.current == keys_of(net)
    assert (run.summary.done, run.summary.failed) == (len(end_ports(net)), 0)
    assert run.summary.violations == violations(net) <= run.outlook.violations
    assert run.summary.smps == len(run.wire)
    assert all(port.protect_bits == 0 for port in end_ports(net))
    assert configuration(net) == before
    assert {method for method, _ in methods(run)} == {Method.GET, Method.TRAP_REPRESS}


def test_a_longer_lease_that_becomes_known_adds_violations_up_to_the_most_of_one_port() -> None:
    net = subnet("two-switch")
    known = links(net)
    own, *others = [port for port in end_ports(net) if not port.node.is_switch]
    own.m_key, own.protect_bits, own.lease_period = 5, 1, 1
    for port in others:
        port.m_key, port.protect_bits, port.lease_period = 7, 2, 0
    others[0].lease_period = 100
    run = Run(net, known, None, "mkey-under-sm")
    assert run.outlook.leases == (1,)
    assert violations(net) > run.outlook.violations
    assert max(port.m_key_violations for port in others) <= run.outlook.violations_of_one


def test_without_links_two_levels_come_back_with_each_lease() -> None:
    net, _ = tree()
    before = configuration(net)
    run = Run(net, {})
    assert run.seconds <= BOUND * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)
    assert configuration(net) == before


@pytest.mark.parametrize("with_links", [True, False])
def test_a_switch_with_lease_0_is_named_with_what_hides_behind_it_and_all_else_is_back(with_links: bool) -> None:
    net, known = tree()
    dead = net.node("leaf 2-2")
    dead.ports[0].lease_period = 0
    run = Run(net, known if with_links else {}, RecoveryOptions(names={dead.guid: "leaf 2-2"}))
    expected = keys_of(net)
    del expected[dead.ports[0].guid]
    assert run.current == expected
    assert violations(net) <= run.summary.violations
    [failed] = run.of("failed")
    behind = [node.description for node in net.nodes if node.ports[1].peer and node.ports[1].peer.node is dead]
    hosts = [name for name in behind if name.startswith("node")]
    assert len(hosts) == 3
    assert all(f"{name!r}" in failed.reason for name in hosts)
    assert "3 ports are reached only through it, all of them recovered" in failed.reason
    assert "power cycle" in failed.reason
    if with_links:
        assert failed.port["node_guid"] == f"0x{dead.guid:016x}"
        assert failed.port["node_desc"] == "leaf 2-2"
    else:
        assert "behind 'spine 2-" in failed.reason


def test_the_own_switch_with_lease_0_hides_the_whole_fabric_and_that_comes_back_all_the_same() -> None:
    net, known = tree()
    dead = net.node("leaf 1-1")
    dead.ports[0].lease_period = 0
    run = Run(net, known)
    assert len(run.current) == len(end_ports(net)) - 1
    [failed] = run.of("failed")
    assert f"{len(end_ports(net)) - 2} ports are reached only through it, all of them recovered" in failed.reason


def test_level_1_has_its_leases_started_and_waited_for() -> None:
    net, known = tree(level=1)
    before = configuration(net)
    run = Run(net, known)
    assert run.seconds <= 1.2 * LEASE
    assert run.current == keys_of(net)
    assert all(port.m_key_violations == 1 for port in end_ports(net))
    assert configuration(net) == before
    assert {method for method, _ in methods(run)} == {Method.GET, Method.TRAP_REPRESS}


@pytest.mark.parametrize("with_links", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_fifth_of_all_smps_lost_everything_is_back(with_links: bool, seed: int) -> None:
    net, known = tree()
    before = configuration(net)
    net.faults.random.seed(seed)
    net.faults.drop = 0.2
    run = Run(net, known if with_links else {}, None, "mkey-under-sm")
    assert run.current == keys_of(net)
    assert violations(net) <= run.summary.violations
    assert configuration(net) == before


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(fat_tree(8, 1, 6, pods=6, cores=6), id="6 pods"),
        pytest.param(fat_tree(9, 3, 9, pods=12, cores=9), id="12 pods", marks=pytest.mark.soak),
    ],
)
def test_many_closed_switches_without_links_stay_under_the_bound(file: str) -> None:
    """More closed switches than are probed at one time, each of them by several routes."""
    net, _ = tree(file)
    run = Run(net, {})
    assert run.seconds <= (BOUND - 1) * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)


@pytest.mark.soak
def test_the_whole_tree_of_11_664_hosts_within_1_2_leases() -> None:
    net, known = tree(fat_tree(18, 18, 18, pods=36, cores=18))
    run = Run(net, known)
    assert run.seconds <= 1.2 * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)


@pytest.mark.soak
def test_the_whole_tree_without_links_stays_under_the_bound() -> None:
    net, _ = tree(fat_tree(18, 18, 18, pods=36, cores=18))
    run = Run(net, {})
    assert run.seconds <= (BOUND - 0.5) * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)
