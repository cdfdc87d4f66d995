"""Directed, LID and mixed routes through a subnet."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import AttributeID, NodeType, PortState
from ibkeys.mad.smp import DirectedRouteSmp, build_smp, parse
from ibkeys.sim import routing
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.netfile.reader import parse_net_file
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.sim_spec import DEMO
from tests.corpus import files, label
from tests.sim.subnet.asking import GET, NODE1, NODE2, NODE_INFO, SET, SWITCH_A, SWITCH_B, node_info


def walk(subnet: Subnet) -> dict[int, tuple[int, ...]]:
    """Discover by directed routes from the first node; returns a route for each node GUID."""
    home = subnet.attach_port(subnet.nodes[0])
    routes: dict[int, tuple[int, ...]] = {}
    queue: list[tuple[int, ...]] = [()]
    for path in queue:
        replies = subnet.process(build_smp(GET, NODE_INFO, path=path), home.node, home.number)
        if not replies:
            continue
        info = node_info(replies)
        if info.node_guid in routes:
            continue
        routes[info.node_guid] = path
        if info.node_type == 2:
            queue += [(*path, port) for port in range(1, info.num_ports + 1)]
        elif not path:
            queue.append((home.number,))
    return routes


@pytest.mark.parametrize("path", [*files("fabrics/*.net"), DEMO], ids=label)
def test_every_node_is_found_by_directed_route_and_every_lid_answers(path: Path) -> None:
    subnet = Subnet.from_file(path)
    routes = walk(subnet)
    assert set(routes) == {node.guid for node in subnet.nodes}
    home = subnet.attach_port(subnet.nodes[0])
    ports = [port for node in subnet.nodes for port in node.end_ports if port.lid]
    assert len({port.lid for port in ports}) == len(ports)
    for port in ports:
        replies = subnet.process(build_smp(GET, NODE_INFO), home.node, home.number, port.lid)
        assert node_info(replies).node_guid == port.node.guid
        assert replies[0].slid == port.lid


def test_a_directed_route_comes_back_with_the_way_it_went(subnet: Subnet) -> None:
    reply = parse(subnet.process(build_smp(GET, NODE_INFO, path=(1, 7, 1), transaction_id=99), NODE1, 1)[0].mad)
    assert isinstance(reply, DirectedRouteSmp)
    peer = subnet.port(SWITCH_A, 7).peer
    assert peer is not None
    assert reply.return_path == (0, 1, peer.number, 1)
    assert (reply.hop_pointer, reply.d, reply.transaction_id) == (0, 1, 99)


@pytest.mark.parametrize(
    "path",
    [
        (2,),  # a CA leaves by the port it sits on
        (1, 9),
        (1, 0),
        (1, 2, 1),  # through a CA
        (1, 255),
    ],
)
def test_where_a_directed_route_dies(subnet: Subnet, path: tuple[int, ...]) -> None:
    request = build_smp(GET, NODE_INFO, path=path)
    assert subnet.send(request, subnet.port(NODE1, 1)) is Drop.NO_ROUTE
    assert subnet.process(request, NODE1, 1) == []


def test_a_switch_asks_itself_and_its_neighbours(subnet: Subnet) -> None:
    assert node_info(subnet.process(build_smp(GET, NODE_INFO, path=()), SWITCH_A, 0)).local_port_num == 0
    assert node_info(subnet.process(build_smp(GET, NODE_INFO, path=(1,)), SWITCH_A, 0)).node_type == 1


def test_mixed_routes(subnet: Subnet) -> None:
    switch, far = subnet.port(SWITCH_A, 0), subnet.port(NODE2, 1)
    here = subnet.port(NODE1, 1)
    number = far.peer.number if far.peer is not None else 0
    assert far.peer is not None
    assert far.peer.node is switch.node
    lid_then_directed = bytearray(build_smp(GET, NODE_INFO, path=(number,)))
    lid_then_directed[32:34] = struct.pack(">H", here.lid)
    assert node_info(subnet.send(bytes(lid_then_directed), here, switch.lid)).node_guid == far.node.guid
    directed_then_lid = bytearray(build_smp(GET, NODE_INFO, path=(1,)))
    directed_then_lid[34:36] = struct.pack(">H", far.lid)
    assert node_info(subnet.send(bytes(directed_then_lid), here)).node_guid == far.node.guid


@pytest.mark.parametrize("below", [0, 1])
def test_a_switch_forwards_nothing_above_linear_fdb_top(subnet: Subnet, below: int) -> None:
    switch, lid = subnet.node(SWITCH_A), subnet.port(NODE2, 1).lid
    assert switch.switch_info is not None
    info = SwitchInfo(bytes(switch.switch_info)).replace(linear_fdb_top=lid - below)
    subnet.process(build_smp(SET, AttributeID.SWITCH_INFO, path=(1,), data=info.raw), NODE1, 1)
    arrived = subnet.process(build_smp(GET, NODE_INFO), NODE1, 1, dlid=lid)
    outcome = subnet.packet(Packet(subnet.port(NODE1, 1), subnet.port(NODE2, 1), 0xFFFF))
    assert (len(arrived), outcome.endswith("received")) == ((0, False) if below else (1, True))


def test_a_switch_port_checks_a_packet_before_it_sends_it_also_to_a_link_that_is_down(subnet: Subnet) -> None:
    """Outbound is checked before a packet is sent to the link, so it is the check that drops it, and counts it."""
    source, destination = subnet.port(NODE1, 1), subnet.port(NODE2, 1)
    leaf = destination.peer
    assert leaf is not None
    destination.state = PortState.INITIALIZE
    assert ": lost after " in subnet.packet(Packet(source, destination, 0xFFFF))
    leaf.outbound_enforcement, leaf.p_keys = 1, [0x8001]
    assert "dropped by outbound enforcement" in subnet.packet(Packet(source, destination, 0xFFFF))
    assert leaf.counter("port_xmit_constraint_errors") == 1
    assert leaf.counter("port_xmit_pkts") == 0


def test_a_packet_takes_the_route_of_the_lid_that_it_is_sent_to(subnet: Subnet) -> None:
    source, destination, switch = subnet.port(NODE1, 1), subnet.port(NODE2, 1), subnet.node(SWITCH_A)
    destination.lid, destination.lmc = 0x20, 2
    assert switch.switch_info is not None
    SwitchInfo.linear_fdb_top.patch(switch.switch_info, 0x23)
    table = bytearray(b"\xff" * 0x24)
    assert destination.peer is not None
    table[0x22] = destination.peer.number
    switch.routes = table
    outcomes = {
        lid: subnet.packet(Packet(source, destination, 0xFFFF, destination_lid=lid)).endswith("received")
        for lid in (None, *range(0x1F, 0x25))
    }
    assert [lid for lid, arrived in outcomes.items() if arrived] == [0x22]
    assert f"no route to LID {0x20} " in subnet.packet(Packet(source, destination, 0xFFFF))


def chain(switches: int) -> Subnet:
    """Return *switches* switches in a row, with a host at each end."""
    nodes = ["H-1", *(f"S-{number}" for number in range(1, switches + 1)), "H-2"]
    lines = []
    for at, node in enumerate(nodes):
        lines.append(f'{"Switch" if node[0] == "S" else "Ca"}\t2 "{node}"\t\t# "{node}"')
        lines += [f'[1]\t"{nodes[at - 1]}"[{2 if at > 1 else 1}]'] if at > 0 else []
        lines += [f'[{2 if at else 1}]\t"{nodes[at + 1]}"[1]'] if at + 1 < len(nodes) else []
        lines.append("")
    return Subnet.from_text("\n".join(lines))


def test_a_route_by_lid_may_have_any_number_of_switches() -> None:
    """Only a directed route has at most 63 hops."""
    subnet = chain(100)
    source, destination = subnet.port("H-1", 1), subnet.port("H-2", 1)
    assert subnet.packet(Packet(source, destination, 0xFFFF)).endswith("received")
    assert node_info(subnet.process(build_smp(GET, NODE_INFO), "H-1", 1, destination.lid)).num_ports == 2


def test_what_circulates_is_lost_after_one_round(subnet: Subnet) -> None:
    source, destination = subnet.port(NODE1, 1), subnet.port("node04 mlx4_0", 1)
    here, there = subnet.node(SWITCH_A), subnet.node(SWITCH_B)
    back = next(port for port in there.ports[1:] if port.peer is not None and port.peer.node is here)
    there.routes = bytearray(routing.forwarding_table(there))
    there.routes[destination.lid] = back.number
    assert ": lost after " in subnet.packet(Packet(source, destination, 0xFFFF))
    assert back.counter("port_xmit_pkts") == 1
    assert subnet.send(build_smp(GET, NODE_INFO), source, destination.lid) is Drop.NO_ROUTE


def test_a_recorded_linear_fdb_top_below_the_lids_is_raised_to_them() -> None:
    file = parse_net_file(files("fabrics/two-switch.net")[0])
    switches = [node for node in file.nodes if node.node_type == NodeType.SWITCH]
    for node in switches:
        node.switch_info = SwitchInfo.new(linear_fdb_cap=100, linear_fdb_top=2).raw
    subnet = Subnet(file)
    tops = [SwitchInfo(bytes(node.switch_info or b"")).linear_fdb_top for node in subnet.nodes if node.is_switch]
    assert tops == [8, 8]


def test_lids_that_nobody_has(subnet: Subnet) -> None:
    for lid in (0, 0x700, 0xBFFF, 0xC000, 0xFFFF):
        assert subnet.process(build_smp(GET, NODE_INFO), NODE1, 1, dlid=lid) == []
