"""A subnet as a whole: routes, cables, traps, faults, time and the state that lasts. Nothing here sleeps."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import AddressError, StoreError, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import AttributeID, Method, TrapNumber
from ibkeys.mad.notice import BadMKeyDetails, Notice
from ibkeys.mad.smp import DirectedRouteSmp, build_smp, parse
from ibkeys.sim.nodes import Port
from ibkeys.sim.receivers import Delivery
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.simulated import DEMO
from tests.corpus import DATA, files, label

NODE1, NODE2 = "node01 mlx4_0", "node02 mlx4_0"
SWITCH_A, SWITCH_B = "MF0;switch-a:IS5023/U1", "S-0002c90200401040"
GET, SET = Method.GET, Method.SET
NODE_INFO = AttributeID.NODE_INFO


@pytest.fixture
def subnet() -> Subnet:
    return Subnet.from_file(DATA / "fabrics" / "two-switch.net")


def node_info(deliveries: list[Delivery]) -> NodeInfo:
    assert len(deliveries) == 1
    return NodeInfo(deliveries[0].mad[64:128])


def walk(subnet: Subnet) -> dict[int, tuple[int, ...]]:
    """Discover by directed routes from the first node; returns a route for each node GUID."""
    home = subnet.attach_port(subnet.nodes[0])
    routes: dict[int, tuple[int, ...]] = {}
    queue: list[tuple[int, ...]] = [()]
    for path in queue:
        replies = subnet.send(build_smp(GET, NODE_INFO, path=path), home)
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
        replies = subnet.send(build_smp(GET, NODE_INFO), home, port.lid)
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
    ("path", "why"),
    [
        ((2,), "no route"),  # a CA leaves by the port it sits on
        ((1, 9), "no route"),
        ((1, 0), "no route"),
        ((1, 2, 1), "no route"),  # through a CA
        ((1, 255), "no route"),
    ],
)
def test_where_a_directed_route_dies(subnet: Subnet, path: tuple[int, ...], why: str) -> None:
    assert subnet.process(build_smp(GET, NODE_INFO, path=path), NODE1, 1) == []
    assert subnet.last_drop == why


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


def test_lids_that_nobody_has(subnet: Subnet) -> None:
    for lid in (0, 0x700, 0xBFFF, 0xC000, 0xFFFF):
        assert subnet.process(build_smp(GET, NODE_INFO), NODE1, 1, dlid=lid) == []


def test_power_up_state_is_ibsims() -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net", links="initialize")
    port = subnet.port(NODE1, 1)
    assert (port.state, port.physical_state, port.lid, port.sm_lid) == (2, 5, 1, 0)
    assert node_info(subnet.process(build_smp(GET, NODE_INFO, path=(1,)), NODE1, 1)).node_type == 2
    assert subnet.process(build_smp(GET, NODE_INFO), NODE1, 1, dlid=subnet.port(SWITCH_B, 0).lid) == []


def test_port_guids_of_the_file_and_of_ibsim() -> None:
    text = 'caguid=0x10\nCa 1 "h"\n[1](10) "s"[1]\n\nswitchguid=0x20\nSwitch 2 "s"\n[1] "h"[1](10)\n'
    assert Subnet.from_text(text).port("h", 1).guid == 0x10
    assert Subnet.from_text(text, port_guids="ibsim").port("h", 1).guid == 0x11
    assert Subnet.from_text(text).port("s", 2).guid == 0x20


def test_missing_and_double_lids_are_assigned() -> None:
    text = (
        'Switch 4 "s" # "s" base port 0 lid 5 lmc 0\n[1] "a"\n[2] "b"\n[3] "c"\n\n'
        'Ca 1 "a"\n[1] "s"[1] # lid 5 lmc 0 "s" lid 5 4xEDR\n\nCa 1 "b"\n[1] "s"[2] # lid 6 lmc 1 "s" lid 5 4xEDR\n\n'
        'Ca 1 "c"\n[1] "s"[3]\n'
    )
    subnet = Subnet.from_text(text)
    assert [subnet.port(name, number).lid for name, number in (("s", 0), ("b", 1), ("a", 1), ("c", 1))] == [5, 6, 1, 2]
    assert subnet.process(build_smp(GET, NODE_INFO), "a", 1, dlid=7)  # the second LID of b


def test_ambiguous_descriptions() -> None:
    subnet = Subnet.from_text('Ca 1 "a" # "HCA-1"\n\nCa 1 "b" # "HCA-1"\n')
    with pytest.raises(AddressError, match=r"2 nodes .*: a, b"):
        subnet.node("HCA-1")


# Cables


def test_pulling_a_cable_lets_both_ends_fall_and_putting_it_back_gives_initialize(subnet: Subnet) -> None:
    port = subnet.port(NODE2, 1)
    peer = subnet.unplug(NODE2, 1)
    assert peer is not None
    assert [(end.state, end.physical_state, end.peer) for end in (port, peer)] == [(1, 2, None)] * 2
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1, peer.number)), NODE1, 1) == []
    assert subnet.unplug(NODE2, 1) is None
    subnet.plug(NODE2, 1, peer.node, peer.number)
    assert [(end.state, end.physical_state) for end in (port, peer)] == [(2, 5)] * 2
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1, peer.number)), NODE1, 1)
    assert port.lid == 2  # what the port holds survives the cable
    assert [event.kind for event in subnet.events if event.kind.startswith("link")] == ["link-down"] * 2 + [
        "link-up"
    ] * 2


def test_a_moved_cable_leads_to_another_node(subnet: Subnet) -> None:
    free = next(port.number for port in subnet.node(SWITCH_A).ports[1:] if port.peer is None)
    subnet.unplug(NODE2, 1)
    subnet.plug(NODE2, 1, SWITCH_A, free)
    assert (
        node_info(subnet.process(build_smp(GET, NODE_INFO, path=(1, free)), NODE1, 1)).node_guid
        == subnet.node(NODE2).guid
    )
    for node, number in ((NODE2, 1), (SWITCH_A, 1)):
        with pytest.raises(UsageError, match="has a cable"):
            subnet.plug(node, number, SWITCH_A, 8)
    with pytest.raises(UsageError, match="inside the switch"):
        subnet.unplug(SWITCH_A, 0)


def test_silent_nodes(subnet: Subnet) -> None:
    behind = (1, 7, 1)
    subnet.silence(SWITCH_A)
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1,)), NODE1, 1) == []
    assert subnet.last_drop == "silent"
    assert subnet.process(build_smp(GET, NODE_INFO, path=behind), NODE1, 1)
    subnet.silence(SWITCH_A, forwards=False)
    assert subnet.process(build_smp(GET, NODE_INFO, path=behind), NODE1, 1) == []
    subnet.silence(SWITCH_A, on=False)
    assert subnet.process(build_smp(GET, NODE_INFO, path=(1,)), NODE1, 1)


# Traps


def listen(subnet: Subnet, port: Port) -> list[bytes]:
    heard: list[bytes] = []
    subnet.attach(port, lambda delivery: heard.append(delivery.mad))
    return heard


def test_trap_256_reaches_the_sm_and_says_what_was_refused(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    heard = listen(subnet, subnet.port(NODE2, 1))
    victim = subnet.port(SWITCH_A, 0)
    victim.m_key, victim.protect_bits = MKey(0x1122), 2
    assert subnet.process(build_smp(GET, 0x16, 3 << 16, path=(1,), m_key=0x99), NODE1, 1) == []
    notice = Notice(heard[0][64:128])
    details = notice.details
    assert isinstance(details, BadMKeyDetails)
    assert heard[0][24:32] == bytes(8)  # a trap carries M_Key 0
    assert (notice.trap_number, notice.issuer_lid, notice.producer_type) == (TrapNumber.BAD_M_KEY, victim.lid, 2)
    assert (details.lid_addr, details.method, details.attribute_id) == (victim.lid, GET, 0x16)
    assert (details.attribute_modifier, details.m_key) == (3 << 16, 0x99)
    assert (details.dr_notice, details.dr_hop_count, details.dr_notice_return_path[:2]) == (1, 1, (1, 0))


def test_traps_are_spaced_by_subnet_timeout(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    heard = listen(subnet, subnet.port(NODE2, 1))
    victim = subnet.port(NODE1, 1)
    victim.m_key, victim.protect_bits, victim.subnet_timeout = 1, 2, 18
    for seconds in (0.0, 0.5, 0.6):  # 4.096 us * 2^18 = 1.07 s
        subnet.advance(seconds)
        subnet.process(build_smp(GET, NODE_INFO, path=()), NODE1, 1)
    assert (victim.m_key_violations, len(heard)) == (3, 2)


def test_a_port_that_is_not_active_sends_no_trap(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    heard = listen(subnet, subnet.port(NODE2, 1))
    victim = subnet.port(NODE1, 1)
    victim.m_key, victim.protect_bits, victim.state = 1, 2, 2
    subnet.process(build_smp(GET, NODE_INFO, path=()), NODE1, 1)
    assert (victim.m_key_violations, heard) == (1, [])


def test_link_changes_are_latched_and_announced(subnet: Subnet) -> None:
    subnet.set_sm(NODE1)
    heard = listen(subnet, subnet.port(NODE1, 1))
    subnet.unplug(NODE2, 1)
    assert [Notice(mad[64:128]).trap_number for mad in heard] == [TrapNumber.LINK_STATE_CHANGE]
    info = subnet.node(SWITCH_A).switch_info
    assert info is not None
    assert info[11] & 0x04


def test_a_new_master_is_known_everywhere(subnet: Subnet) -> None:
    subnet.set_sm(NODE2, priority=3)
    lid = subnet.port(NODE2, 1).lid
    assert {port.sm_lid for node in subnet.nodes for port in node.end_ports} == {lid}
    subnet.set_sm(NODE2, None)
    subnet.set_sm(SWITCH_A)
    assert subnet.port(NODE1, 1).sm_lid == subnet.port(SWITCH_A, 0).lid
    with pytest.raises(UsageError):
        subnet.set_sm(NODE2, state=4)
    with pytest.raises(UsageError):
        subnet.set_sm(SWITCH_A, port=1)


def test_an_attached_sm_gets_requests_and_its_answers_come_back(subnet: Subnet) -> None:
    asker, manager = subnet.port(NODE1, 1), subnet.port(NODE2, 1)
    heard, answers = listen(subnet, manager), listen(subnet, asker)
    request = build_smp(GET, AttributeID.SM_INFO, transaction_id=5)
    assert subnet.send(request, asker, manager.lid) == []
    assert heard == [request]
    subnet.send(request[:3] + b"\x81" + request[4:], manager, asker.lid)
    assert [mad[3] for mad in answers] == [0x81]
    directed = build_smp(GET, AttributeID.SM_INFO, path=(1, 2), transaction_id=6)
    assert subnet.send(directed, asker) == []
    back = bytearray(heard[1])
    back[3], back[4] = 0x81, 0x80
    subnet.send(bytes(back), manager)
    assert answers[1][3] == 0x81
    gmp = bytearray(request)
    gmp[1] = 0x03
    subnet.send(bytes(gmp), asker, manager.lid)
    assert heard[2] == bytes(gmp)


def test_a_trap_repress_that_passes_the_m_key_check_reaches_the_agent_and_who_is_attached(subnet: Subnet) -> None:
    sm, issuer = subnet.port(NODE2, 1), subnet.port(NODE1, 1)
    subnet.set_sm(NODE2)
    traps, heard = listen(subnet, sm), listen(subnet, issuer)
    issuer.m_key = MKey(0x1122)
    subnet.set_description(NODE1, "another name")
    (trap,) = traps
    for m_key, arrived in ((0x99, []), (0x1122, [Method.TRAP_REPRESS])):
        repress = trap[:3] + bytes([Method.TRAP_REPRESS]) + trap[4:24] + m_key.to_bytes(8) + trap[32:]
        assert subnet.send(repress, sm, issuer.lid) == []
        assert [mad[3] for mad in heard] == arrived
        assert (subnet.events[-1].kind == "trap-repressed") == bool(arrived)


# Faults


def replies(subnet: Subnet, count: int) -> list[list[Delivery]]:
    request = build_smp(GET, NODE_INFO, path=(1,))
    return [subnet.process(request, NODE1, 1) for _ in range(count)]


def test_faults_repeat_under_a_seed() -> None:
    def run(seed: int) -> list[list[Delivery]]:
        subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net", seed=seed)
        subnet.faults.drop = subnet.faults.duplicate = subnet.faults.delay = subnet.faults.corrupt = 0.3
        return replies(subnet, 200)

    assert run(7) == run(7) != run(8)


def test_each_fault(subnet: Subnet) -> None:
    good = replies(subnet, 1)[0]
    subnet.faults.drop = 0.3
    lost = sum(not answers for answers in replies(subnet, 1000))
    assert 250 < lost < 350
    subnet.faults.drop, subnet.faults.duplicate = 0, 1.0
    assert replies(subnet, 1) == [good * 2]
    subnet.faults.duplicate, subnet.faults.corrupt = 0, 1.0
    spoiled = replies(subnet, 1)[0][0].mad
    assert sum((a ^ b).bit_count() for a, b in zip(spoiled, good[0].mad, strict=True)) == 1
    subnet.faults.corrupt, subnet.faults.delay = 0, 1.0
    delays = [answers[0].delay for answers in replies(subnet, 50)]
    assert 0 < min(delays) < max(delays) <= subnet.faults.delay_seconds
    subnet.faults.clear()
    assert replies(subnet, 1) == [good]


def test_one_reply_is_lost_to_order_after_the_set_was_done(subnet: Subnet) -> None:
    port = subnet.port(NODE1, 1)
    port.sm_lid = 1
    subnet.faults.lose_next("reply", node=port.node, method=SET, attribute=AttributeID.PORT_INFO)
    data = PortInfo(bytes(port.info)).replace(m_key=9, port_state=0, port_physical_state=0).raw
    get = build_smp(GET, AttributeID.PORT_INFO, path=())
    assert subnet.process(get, NODE1, 1)
    assert subnet.process(build_smp(SET, AttributeID.PORT_INFO, path=(), data=data), NODE1, 1) == []
    assert (subnet.last_drop, port.m_key) == ("fault", 9)
    assert not subnet.faults.active
    subnet.faults.lose_next("request", count=2)
    assert [bool(subnet.process(get, NODE1, 1)) for _ in range(3)] == [False, False, True]
    with pytest.raises(UsageError):
        subnet.faults.lose_next(count=0)


# Robustness


@given(mad=st.binary(min_size=256, max_size=256), dlid=st.integers(0, 0xFFFF))
def test_any_256_bytes_are_answered_or_dropped(mad: bytes, dlid: int) -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    for delivery in subnet.process(mad, NODE1, 1, dlid):
        assert len(delivery.mad) == 256


@given(
    mgmt_class=st.sampled_from([0x01, 0x81]),
    method=st.sampled_from([1, 2, 5, 7, 0x81]),
    attribute=st.sampled_from([0x02, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1B, 0x20, 0x33]),
    modifier=st.one_of(
        st.integers(0, 0xFFFF_FFFF), st.integers(0, 10), st.integers(0, 10).map(lambda port: port << 16)
    ),
    path=st.lists(st.integers(0, 9), max_size=4),
    data=st.binary(min_size=64, max_size=64),
    dlid=st.integers(0, 12),
)
def test_any_smp_is_answered_or_dropped(
    mgmt_class: int, method: int, attribute: int, modifier: int, path: list[int], data: bytes, dlid: int
) -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    subnet.set_sm(NODE1)
    smp = build_smp(method, attribute, modifier, path=[1, *path] if mgmt_class == 0x81 else None, data=data)
    for _ in range(2):
        for delivery in subnet.process(smp, NODE1, 1, dlid if mgmt_class == 1 else 0xFFFF):
            assert len(delivery.mad) == 256
    document = json.loads(json.dumps(subnet.dump_state()))
    again = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    again.load_state(document)
    assert again.dump_state() == document


@pytest.mark.parametrize(
    "mad", [b"", bytes(255), bytes(256), bytes(257), b"\1\x81\1\1" + bytes(3) + b"\xff" + bytes(248)]
)
def test_what_is_no_mad_is_dropped(subnet: Subnet, mad: bytes) -> None:
    assert subnet.process(mad, NODE1, 1) == []
    assert subnet.last_drop == "malformed"


# State


def test_state_survives_in_json(subnet: Subnet) -> None:
    port, switch = subnet.port(NODE1, 1), subnet.node(SWITCH_A)
    subnet.set_sm(NODE2)
    port.m_key, port.protect_bits, port.lease_period = 0xABC, 1, 30
    port.p_keys = [0xFFFF, 0x8001]
    switch.set_p_key_capacity(enforcement_cap=100)
    switch.ports[3].p_keys = [0x8002] * 100
    subnet.process(build_smp(SET, 0x19, 1, path=(1,), data=bytes([3] * 64)), NODE1, 1)
    subnet.process(build_smp(SET, 0x14, path=(), data=bytes([4] * 64), m_key=0xABC), NODE1, 1)
    subnet.process(build_smp(SET, 0x16, path=()), NODE1, 1)  # refused: starts the lease
    subnet.unplug(NODE2, 1)
    subnet.silence("node03 mlx4_0")
    subnet.advance(12.5)
    document = json.loads(json.dumps(subnet.dump_state()))

    again = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    again.load_state(document)
    copy = again.port(NODE1, 1)
    assert (copy.m_key, copy.protect_bits, copy.p_keys[:3]) == (0xABC, 1, [0xFFFF, 0x8001, 0])
    assert (again.now, copy.lease_deadline) == (12.5, 30.0)
    assert again.node(SWITCH_A).ports[3].p_keys == [0x8002] * 100
    assert again.port(NODE2, 1).peer is None
    assert again.node("node03 mlx4_0").silent == 1
    assert again.dump_state() == document
    again.advance(17.5)
    assert again.process(build_smp(GET, 0x15, path=()), NODE1, 1)
    assert copy.protect_bits == 0


def test_a_state_that_does_not_fit_is_refused(subnet: Subnet) -> None:
    document = subnet.dump_state()
    other = Subnet.from_file(DATA / "fabrics" / "dual-home.net")
    with pytest.raises(StoreError, match="another net file"):
        other.load_state(document)
    for damage in ({"version": 9}, {"ports": [{"at": [99, 1], "info": ""}]}, {"ports": [{}]}, {"nodes": None}):
        with pytest.raises(StoreError):
            subnet.load_state({**document, **damage})
    with pytest.raises(StoreError):
        subnet.load_state({})


def test_the_clock_follows_another_where_that_is_ahead(subnet: Subnet) -> None:
    real = [5.0]
    subnet.advance(1)
    subnet.follow_clock(lambda: real[0])
    assert subnet.now == 5.0
    subnet.advance(10)
    real[0] = 7.0
    assert subnet.now == 15.0
    with pytest.raises(UsageError):
        subnet.advance(-1)


def test_wrong_arguments() -> None:
    text = 'Ca 1 "a"\n'
    with pytest.raises(UsageError, match="port GUIDs"):
        Subnet.from_text(text, port_guids="other")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="links"):
        Subnet.from_text(text, links="up")  # type: ignore[arg-type]


def test_no_key_is_seen_in_events_or_repr(subnet: Subnet) -> None:
    port = subnet.port(NODE1, 1)
    port.m_key, port.protect_bits, port.lease_period = 0xA1B2C3D4E5F60718, 2, 9
    subnet.process(build_smp(GET, NODE_INFO, path=(), m_key=0xA1B2C3D4E5F60719), NODE1, 1)
    shown = repr((subnet.events, port, port.node, subnet))
    assert subnet.events
    assert "a1b2c3d4" not in shown.lower()
    assert str(0xA1B2C3D4E5F60718) not in shown
