"""Known neighbours that were swapped: named side by side, and nobody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.moved_ports import describe_swaps
from ibkeys.topology.model import Topology, Trouble, UnqueriedPlace
from ibkeys.topology.nodes import Node
from tests.discovery.protecting import SWITCH_A
from tests.fabricsim import subnet, tool
from tests.protectedsim import protect_all, violations

LEAF = 0x10
HOSTS = {1: 0xA1, 2: 0xA2, 3: 0xA3, 4: 0xA4}


def leaf() -> tuple[Topology, KeyRing]:
    """A switch with 4 known hosts behind it, none of which was found."""
    info = bytearray(64)
    info[2], info[3], info[12:20] = 2, 4, LEAF.to_bytes(8)
    switch = Node(bytes(info), ())
    ring = KeyRing()
    for num, guid in HOSTS.items():
        switch.port(num)
        ring.neighbors |= {(LEAF, num): (guid, 1), (guid, 1): (LEAF, num)}
    return Topology(nodes=[switch]), ring


def missing(found: Topology, num: int, named: int | None = None) -> None:
    near = found.nodes[0].ports[num]
    found.troubles.append(Trouble(near, "nothing answers", "NodeInfo", "not-asked" if named else "silent"))
    if named:
        found.unasked.append(UnqueriedPlace(near, (HOSTS[num], 1), (named, 0)))


def pairs(found: Topology, ring: KeyRing) -> list[tuple[str, bool]]:
    """Return for each line the last digits of the two GUIDs, and whether the SM says so."""
    lines = describe_swaps(found, ring)
    return [
        ("".join(str(n) for n in HOSTS if f"{HOSTS[n]:016x}," in line), "according to the SM" in line) for line in lines
    ]


def test_two_that_are_missing_may_have_been_swapped() -> None:
    found, ring = leaf()
    missing(found, 1)
    assert pairs(found, ring) == []
    missing(found, 3)
    assert pairs(found, ring) == [("13", False)]
    missing(found, 4)
    assert pairs(found, ring) == []  # nothing says which two


@pytest.mark.parametrize("both", [True, False])
def test_what_the_sm_names_pairs_them(both: bool) -> None:
    found, ring = leaf()
    missing(found, 1, HOSTS[3])
    missing(found, 2)
    missing(found, 3, HOSTS[1] if both else None)
    missing(found, 4)
    assert pairs(found, ring) == [("13", True), ("24", False)]


def test_a_port_that_moved_elsewhere_was_not_swapped() -> None:
    found, ring = leaf()
    missing(found, 1, HOSTS[3])
    missing(found, 3, 0xBEEF)
    assert pairs(found, ring) == []
    found, ring = leaf()
    missing(found, 1)
    missing(found, 2)
    info = bytearray(64)
    info[2], info[3] = 1, 1
    host = Node(bytes(info), (1,))
    host.port(1).guid, host.port(1).path = HOSTS[1], (4,)
    found.nodes.append(host)  # it answered behind port 4
    assert pairs(found, ring) == []


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, *HOSTS.values(), 0xBEEF])), max_size=6))
def test_nobody_is_in_two_pairs_and_only_missing_ones_are_named(places: list[tuple[int, int | None]]) -> None:
    found, ring = leaf()
    for num, named in places:
        missing(found, num, named)
    told = "".join(numbers for numbers, _ in pairs(found, ring))
    assert len(set(told)) == len(told)
    assert {int(number) for number in told} <= {num for num, _ in places}


def test_a_sweep_after_two_hosts_were_swapped_names_both() -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    ports = [net.port(SWITCH_A, 2), net.port(SWITCH_A, 3)]
    hosts = [net.unplug(SWITCH_A, port.number) for port in ports]
    for port, host in zip(ports, reversed(hosts), strict=True):
        assert host is not None
        net.plug(SWITCH_A, port.number, host.node.guid, host.number)
    with tool(net, timeout=0.1) as fabric:
        fabric.ring = ring
        found = fabric.sweep()
    [line] = [note for note in found.notes if "swapped" in note]
    assert all(host is not None and f"GUID 0x{host.guid:016x}, known behind" in line for host in hosts)
    assert violations(net) == 0
