"""Fabrics that nobody touched, every port protected at level 2: everything is read without an option, and after what
makes counters and links move while every cable stays: host reboots, cleared counters, losses, a poor SA."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.mad.const import MgmtClass
from ibkeys.sim.deliveries import Delivery, DeliveryOutcome, Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from tests.corpus import files, label
from tests.discovery.sweeping import links_found, links_of
from tests.fabricsim import move_cable, subnet, swap_cables, tool
from tests.protectedsim import (
    end_ports,
    keep_counters,
    link_end,
    listening,
    protect_all,
    provoked,
    ring_of,
    sm_sweeps,
    store_of,
)

SMALL, LARGE = 50_000, 130_000
"""Bytes of a net file: of a fabric between the two, `make soak` alone runs the cases."""
FABRICS = [
    pytest.param(file, id=label(file), marks=() if file.stat().st_size < SMALL else pytest.mark.soak)
    for file in {file.stem: file for file in files("fabrics/*.net") if file.stat().st_size < LARGE}.values()
]


def shake(net: Subnet) -> None:
    """Let links have gone down before: counters differ from port to port."""
    for number, port in enumerate(port for node in net.nodes for port in node.all_ports):
        if port.peer is not None and number % 3:
            port.count("link_downed_counter", number % 3)


def clear_counters(net: Subnet) -> None:
    for node in net.nodes:
        for port in node.all_ports:
            port.counters = None


def reboot_hosts(net: Subnet) -> None:
    """Switch every host but the own and the SM's off and on; the SM gives LIDs back and makes links Active."""
    keys = {port: (port.m_key, port.protect_bits, port.lease_period) for port in end_ports(net)}
    manager = next((node for node in net.nodes if node.sm is not None), None)
    for node in net.nodes[1:]:
        if not node.is_switch and node is not manager:
            net.reset(node)
            for port in node.end_ports:
                port.m_key, port.protect_bits, port.lease_period = keys[port]  # kept in NV-RAM, or set by the SM
    sm_sweeps(net)
    net.events.clear()


def assert_whole(net: Subnet, found: Topology) -> None:
    assert [trouble.error for trouble in found.troubles] == []
    assert found.notes == []
    assert links_found(found) == links_of(net)
    assert {port.m_key_state for port in found.end_ports()} == {"set"}
    assert provoked(net) == []


@pytest.mark.parametrize("after", ["nothing", "reboots", "cleared"])
@pytest.mark.parametrize("known", ["store", "files"])
@pytest.mark.parametrize("file", FABRICS)
def test_beside_an_sm_everything_is_read(file: Path, known: str, after: str, tmp_path: Path) -> None:
    net = Subnet.from_file(file)
    net.set_sm(net.nodes[-1])
    shake(net)
    ring = protect_all(net)
    options: dict[str, Any] = {}
    if known == "store":
        keep_counters(net, ring)
        store_of(net, ring, tmp_path / "keys.db")
        options["keystore"] = tmp_path / "keys.db"
    if after == "reboots":
        reboot_hosts(net)
    elif after == "cleared":
        clear_counters(net)
    with tool(net, timeout=0.1, **options) as fabric, listening(net):
        if known == "files":
            fabric.ring = ring
        found = fabric.sweep(p_keys=True)
    assert_whole(net, found)


@pytest.mark.parametrize("after", ["nothing", "cleared"])
@pytest.mark.parametrize("file", FABRICS)
def test_without_an_sm_the_counters_prove_every_link(file: Path, after: str, tmp_path: Path) -> None:
    net = Subnet.from_file(file)
    if after == "nothing":
        shake(net)
    ring = protect_all(net)
    keep_counters(net, ring)
    store_of(net, ring, tmp_path / "keys.db")
    if after == "cleared":
        clear_counters(net)  # they were 0 when they were kept
    with tool(net, timeout=0.1, keystore=tmp_path / "keys.db") as fabric, listening(net):
        assert_whole(net, fabric.sweep(p_keys=True))


def test_without_an_sm_a_cleared_counter_means_look_again_not_unknown_for_ever() -> None:
    """Nobody speaks for the links now; as soon as an SM is there everything is read again."""
    net = subnet("two-switch")
    shake(net)
    ring = protect_all(net)
    keep_counters(net, ring)
    clear_counters(net)
    with tool(net, timeout=0.1) as fabric, listening(net):
        fabric.ring = ring
        found = fabric.sweep()
        assert {trouble.reading for trouble in found.troubles} == {"not-asked"}
        assert provoked(net) == []
        net.set_sm("node01 mlx4_0")
        assert_whole(net, fabric.sweep())


# --- what may be unusual ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sa", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_losses_cost_no_violation_and_no_link(seed: int, sa: bool) -> None:
    net = subnet("dual-home", seed)
    if sa:
        net.set_sm(net.nodes[-1])
    shake(net)
    ring = protect_all(net)
    keep_counters(net, ring)
    net.faults.drop = net.faults.duplicate = net.faults.delay = 0.1
    with tool(net, timeout=0.1, retries=8) as fabric, listening(net):
        fabric.ring = ring
        found = fabric.sweep(p_keys=True)
    assert [trouble.error for trouble in found.troubles] == []
    assert links_found(found) == links_of(net)
    assert provoked(net) == []


def limited_member(net: Subnet, own: SimPort) -> None:
    """The local port is a limited member, as every host is at some sites: the SA shows it full members only."""
    own.p_keys = [0x7FFF]


def not_a_member(net: Subnet, own: SimPort) -> None:
    """The local port is in the default partition as little as anybody else: neither SA nor counters can be asked."""
    own.p_keys = [0x8001]


def all_limited(net: Subnet, own: SimPort) -> None:
    """Nobody but the SM's port is a full member: the SA shows no link at all."""
    for port in end_ports(net):
        if port.node.sm is None:
            port.p_keys = [0x7FFF]


def dies_half_way(net: Subnet, own: SimPort) -> None:
    """The SA answers 4 questions and is silent then; SMPs are answered on."""
    answered = []
    carry = net.carrier.gmp

    def gmp(mad: bytes, origin: SimPort, dlid: int) -> DeliveryOutcome:
        if mad[1] == MgmtClass.SUBN_ADM:
            answered.append(mad)
            if len(answered) > 4:
                return Drop.SILENT
        return carry(mad, origin, dlid)

    net.carrier.gmp = gmp  # type: ignore[method-assign]


def is_slow(net: Subnet, own: SimPort) -> None:
    """Each answer of the SA comes right before its timeout."""
    carry = net.carrier.gmp

    def gmp(mad: bytes, origin: SimPort, dlid: int) -> DeliveryOutcome:
        answers = carry(mad, origin, dlid)
        if isinstance(answers, Drop):
            return answers
        late = 0.09 if mad[1] == MgmtClass.SUBN_ADM else 0.0
        return [Delivery(each.delay + late, each.mad, each.slid) for each in answers]

    net.carrier.gmp = gmp  # type: ignore[method-assign]


POOR = [limited_member, not_a_member, all_limited, dies_half_way, is_slow]


@pytest.mark.parametrize("moved", [False, True], ids=["untouched", "swapped"])
@pytest.mark.parametrize("counters", [False, True], ids=["files", "store"])
@pytest.mark.parametrize("poor", POOR, ids=lambda poor: poor.__name__)
@pytest.mark.parametrize("name", ["two-switch", "dual-home", "ring-router"])
def test_a_poor_sa_leads_no_key_astray(
    name: str, poor: Callable[[Subnet, SimPort], None], counters: bool, moved: bool
) -> None:
    net = subnet(name)
    home = net.attach_port(net.nodes[0])
    net.set_sm(net.nodes[-1])
    ring = protect_all(net)
    if counters:
        shake(net)
        keep_counters(net, ring)
    poor(net, home)
    if moved:
        hosts = [port for node in net.nodes[1:] if not node.is_switch for port in node.end_ports if port.is_up]
        one, other = [port for port in hosts if port.node.sm is None][:2]
        swap_cables(one, other, net)
        sm_sweeps(net)
    with ibkeys.open(net, local=ibkeys.Local(port=home.number), timing=ibkeys.Timing(0.1)) as fabric, listening(net):
        fabric.ring = ring
        found = fabric.sweep(p_keys=True)
    assert provoked(net) == []
    if not moved and poor is not not_a_member:
        assert_whole(net, found)  # what the SA does not say, counters do


def test_a_full_counter_proves_nothing() -> None:
    net = subnet("two-switch")
    ring = protect_all(net)
    near = net.port("MF0;switch-a:IS5023/U1", 2)
    near.count("link_downed_counter", 255)
    keep_counters(net, ring)
    with tool(net, timeout=0.1) as fabric, listening(net):
        fabric.ring = ring
        [trouble] = fabric.sweep().troubles
        assert "LinkDownedCounter of the port before it is at its maximum" in trouble.error
        net.set_sm("node01 mlx4_0")
        assert_whole(net, fabric.sweep())


def test_parallel_links_loops_and_hcas_with_two_ports_are_read() -> None:
    net = subnet("dual-home")
    switch = next(node for node in net.nodes if node.is_switch)
    free = [port for port in switch.all_ports if port.number and port.peer is None]
    net.plug(switch, free[0].number, switch, free[1].number)
    sm_sweeps(net)
    for sa in (False, True):
        if sa:
            net.set_sm(net.nodes[-1])
        ring = protect_all(net)
        keep_counters(net, ring)
        net.events.clear()
        with tool(net, timeout=0.1) as fabric, listening(net):
            fabric.ring = ring
            assert_whole(net, fabric.sweep())


@pytest.mark.parametrize("sa", [False, True])
def test_twins_of_a_guid_without_a_key_are_both_read(sa: bool) -> None:
    net = subnet("two-switch")
    if sa:
        net.set_sm("node01 mlx4_0")
    ring = protect_all(net)
    one, other = net.port("node05 mlx4_0", 1), net.port("node06 mlx4_0", 1)
    for port in (one, other):
        port.m_key = port.protect_bits = 0
        del ring.by_guid[port.guid]
    other.guid, other.node.guid = one.guid, one.node.guid
    ring.neighbors = {**ring.neighbors, **ring_of(net).neighbors}
    with tool(net, timeout=0.1) as fabric, listening(net):
        fabric.ring = ring
        found = fabric.sweep()
    assert [trouble.error for trouble in found.troubles] == []
    assert len(found.nodes) == len(net.nodes)
    assert provoked(net) == []


def test_the_same_host_at_a_new_place_is_listed_beside_an_sa_and_the_rest_is_read() -> None:
    net = subnet("two-switch")
    net.set_sm("node01 mlx4_0")
    ring = protect_all(net)
    port = net.port("node02 mlx4_0", 1)
    assert port.peer is not None
    move_cable(port, net.port("Infiniscale-IV Mellanox Technologies", 5), net)
    sm_sweeps(net)
    with tool(net, timeout=0.1) as fabric, listening(net):
        fabric.ring = ring
        found = fabric.sweep()
    [unasked] = found.unasked
    assert unasked.named == (port.guid, 1)
    assert (unasked.near.node.guid, unasked.near.num) == link_end(net.port("Infiniscale-IV Mellanox Technologies", 5))
    assert len(found.nodes) == 7
    assert provoked(net) == []
