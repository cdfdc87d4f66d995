"""The server, with programs that speak the client protocol as libumad2sim does."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import TransportError
from ibkeys.mad.const import AttributeID, Method, TrapNumber
from ibkeys.mad.smp import build_smp
from ibkeys.sim.nodes import Port
from ibkeys.sim.server import clients
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.server import Server
from ibkeys.sim.subnet import Subnet
from tests.sim.programs import NET, TIMEOUT, Program, Running, get, gmp, tid

SOAK = os.environ.get("IBKEYS_SOAK") == "1"


# Control requests


def test_the_sequence_of_the_client_library(running: Running) -> None:
    one, switch = running.attach("H-1"), running.attach("the switch")
    assert (one.slot, one.node, switch.slot, switch.node) == (0, "H-1", 1, "S-1")
    vendor_id, device_id, revision, version = struct.unpack("=III4xQ", one.ask(protocol.GET_VENDOR).data[:24])
    node = running.subnet.node("H-1")
    assert (vendor_id, device_id, revision, version) == (node.vendor_id, node.device_id, node.revision, 1)
    assert one.ask(protocol.GET_NODE_INFO).data == node.node_info(1)
    assert switch.ask(protocol.GET_NODE_INFO).data == running.subnet.node("S-1").node_info(0)
    assert one.ask(protocol.GET_PORT).data[:3] == struct.pack("=HB", 2, 4)
    info = one.ask(protocol.GET_PORT_INFO).data
    assert info == one.ask(protocol.GET_PORT_INFO, b"\1").data
    assert (info[28], int.from_bytes(info[16:18])) == (1, 2)
    assert switch.ask(protocol.GET_PORT_INFO, b"\3").data[28] == 3
    assert one.ask(protocol.GET_PORT_INFO, b"\2").kind == protocol.ERROR
    assert one.ask(protocol.GET_P_KEYS).data == b"\xff\xff" + bytes(62)
    assert one.ask(protocol.GET_GUID).data[:8] == struct.pack("=Q", node.guid)
    assert one.ask(protocol.GET_GID).data[8:16] == struct.pack("=Q", node.guid)
    assert one.ask(11, b"whatever").data[:8] == b"whatever"
    assert one.ask(protocol.DISCONNECT).kind == protocol.DISCONNECT
    assert [line.split()[1] for line in running.attached()] == ["1"]


def test_the_host_never_reads_its_m_key_this_way(running: Running) -> None:
    running.subnet.port("H-1", 1).m_key = 0x1234567890
    info = running.attach("H-1").ask(protocol.GET_PORT_INFO).data
    assert info[:8] == bytes(8)


def test_programs_attach_where_there_is_a_link(running: Running) -> None:
    assert running.attach("H-3").ask(protocol.GET_PORT_INFO).data[28] == 2


def test_programs_that_name_no_node_attach_to_the_first_one_or_to_home(run: Callable[..., Running]) -> None:
    assert run().attach("").node == "S-1"
    subnet = Subnet.from_text(NET)
    with ExitStack() as stack:
        server = stack.enter_context(Server(subnet, f"ibkeys-home-{os.getpid()}", home=subnet.node("H-2")))
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        stack.callback(thread.join, TIMEOUT)
        stack.callback(server.stop)
        assert stack.enter_context(Program(server.name)).node == "H-2"


def test_what_connect_refuses(running: Running) -> None:
    assert running.attach("H-9").slot is None
    sm = running.attach("H-1", is_sm=True)
    assert sm.slot == 0
    assert running.attach("H-1", is_sm=True).slot is None
    assert running.attach("H-2", is_sm=True).slot == 1
    sm.die()
    assert running.attach("H-1", is_sm=True).slot is not None


def test_connect_without_a_data_socket_is_refused(running: Running) -> None:
    program = running.attach("H-1", connect=False)
    program.data.close()
    assert program.ask(protocol.CONNECT, protocol.client_info(program.ident, False, "")).kind == protocol.ERROR


def test_nobody_speaks_for_another_program(running: Running) -> None:
    one, two = running.attach("H-1"), running.attach("H-2")
    assert two.ask(protocol.DISCONNECT, client=one.slot).kind == protocol.ERROR
    assert two.ask(protocol.GET_PORT, client=77).kind == protocol.ERROR
    assert one.exchange(get(AttributeID.NODE_INFO)).mad[3] == 0x81


def test_malformed_control_requests_get_no_reply(running: Running) -> None:
    program = running.attach("H-1")
    good = struct.pack("=IIII64s", protocol.MAGIC, 0, protocol.GET_PORT, 0, b"")
    for raw in (b"", good[:79], good + b"\0", b"\0" + good[1:], good[:4] + struct.pack("=I", 256) + good[8:]):
        program.control.send(raw)
    assert program.ask(protocol.GET_PORT).kind == protocol.GET_PORT
    assert running.server.counts()["malformed"] == 5


def test_is_sm_is_set_and_cleared(running: Running) -> None:
    port = running.subnet.port("H-1", 1)
    one, two = running.attach("H-1"), running.attach("H-1", is_sm=True)
    assert port.capability_mask & 2
    one.ask(protocol.SET_IS_SM, struct.pack("=i", 1))
    two.ask(protocol.DISCONNECT)
    assert port.capability_mask & 2
    one.die()
    running.wait_until(lambda: not running.attached())
    assert not port.capability_mask & 2


def test_is_sm_sends_trap_144_to_the_subnet_manager(running: Running) -> None:
    sm = running.attach("H-2", is_sm=True)
    for node in running.subnet.nodes:
        for port in node.end_ports:
            port.sm_lid = 3
    running.attach("H-1", is_sm=True)
    trap = sm.receive()
    assert (trap.dlid, trap.slid, trap.dqp, trap.status, trap.length) == (3, 2, 0, 0, 256)
    assert (trap.mad[1], trap.mad[3], int.from_bytes(trap.mad[68:70])) == (1, Method.TRAP, 144)


# Data packets


def test_directed_routes_lids_and_mixed_routes(running: Running) -> None:
    one = running.attach("H-1")
    reply = one.exchange(get(AttributeID.NODE_INFO, path=(1, 2)), sqp=5)
    assert (reply.dlid, reply.slid, reply.dqp, reply.sqp, reply.status, reply.length) == (0xFFFF, 0xFFFF, 5, 0, 0, 256)
    assert (reply.mad[3:7], int.from_bytes(reply.mad[76:84])) == (b"\x81\x80\0\0", 0x200)
    assert list(reply.mad[192:195]) == [0, 1, 1]
    reply = one.exchange(get(AttributeID.PORT_INFO, path=None), 3, sqp=9)
    assert (reply.dlid, reply.slid, reply.dqp, reply.sqp, reply.status) == (2, 3, 9, 0, 0)
    assert int.from_bytes(reply.mad[80:82]) == 3
    mixed = bytearray(get(AttributeID.NODE_INFO, path=(2,)))
    mixed[32:34] = (2).to_bytes(2)  # DrSLID: by LID to the switch, from there by directed route
    assert int.from_bytes(one.exchange(bytes(mixed), 1).mad[76:84]) == 0x200


def test_the_slot_is_in_requests_and_comes_back(running: Running) -> None:
    running.attach("H-2")
    one = running.attach("H-1")
    assert one.slot == 1
    reply = one.exchange(get(AttributeID.NODE_INFO, tid=0xFFFF_0003_1234_5678))
    assert tid(reply.mad) == 0x0001_0003_1234_5678


@pytest.mark.parametrize(
    ("mad", "lid"),
    [
        (get(AttributeID.NODE_INFO, path=(1, 4)), 0xFFFF),
        (get(AttributeID.NODE_INFO, path=None), 99),
        (get(AttributeID.SM_INFO, path=None), 3),
        (gmp(3, Method.GET, 0x35), 3),
    ],
    ids=["no link", "no such LID", "no SM", "no SA"],
)
def test_what_nobody_answers_comes_back_as_a_timeout(running: Running, mad: bytes, lid: int) -> None:
    one = running.attach("H-1")
    echo = one.exchange(mad, lid, qpn=0 if mad[1] in (1, 0x81) else 1, sqp=7)
    assert (echo.status, echo.dlid, echo.sqp, echo.length) == (110, lid, 7, 256)
    assert echo.slid == (0xFFFF if lid == 0xFFFF else 2)
    assert echo.mad[:8] + echo.mad[10:] == mad[:8] + mad[10:]


def test_a_refused_m_key_is_a_timeout_and_is_counted(running: Running) -> None:
    one, port = running.attach("H-1"), running.subnet.port("H-2", 1)
    port.m_key, port.protect_bits = 0xABC, 2
    assert one.exchange(get(AttributeID.NODE_INFO, path=(1, 2))).status == 110
    assert one.exchange(get(AttributeID.NODE_INFO, path=(1, 2), m_key=0xABC)).status == 0
    assert port.m_key_violations == 1


def test_malformed_packets_get_no_answer(running: Running) -> None:
    one = running.attach("H-1")
    good = get(AttributeID.NODE_INFO)
    hopped, backwards, version = bytearray(good), bytearray(good), bytearray(good)
    hopped[6], backwards[4], version[0] = 1, 0x80, 2
    for mad in (hopped, backwards, version):
        one.send(bytes(mad))
    one.send(good, length=23)
    one.send(good, length=257)
    for raw in (b"", bytes(287), bytes(289), bytes(2000)):
        one.data.send(raw)
    assert one.hears_nothing()
    assert running.server.counts()["malformed"] == 9
    assert one.exchange(good).status == 0


def test_bytes_past_the_length_do_not_count(running: Running) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(gmp(3, Method.GET, 0x35)[:92], 3, qpn=1, length=92)
    request = sm.receive()
    assert (request.length, request.mad[92:]) == (92, bytes(164))


def test_an_sa_request_reaches_the_sm_and_its_answer_the_requester(running: Running) -> None:
    sm, idle, one = running.attach("H-2"), running.attach("H-1"), running.attach("H-1")
    sm.ask(protocol.SET_IS_SM, struct.pack("=i", 1))
    one.send(gmp(3, Method.GET, 0x35, tid=0x0009_0004_0000_0001), 3, qpn=1, sqp=1)
    request = sm.receive()
    assert (request.dlid, request.slid, request.dqp, request.sqp, request.status) == (3, 2, 1, 1, 0)
    assert tid(request.mad) == 0x0002_0004_0000_0001
    sm.send(request.mad[:3] + b"\x81" + request.mad[4:], request.slid, qpn=1, sqp=1)
    answer = one.receive()
    assert (answer.slid, answer.dlid, tid(answer.mad)) == (3, 2, 0x0002_0004_0000_0001)
    assert idle.hears_nothing()
    assert running.server.counts()["forwarded"] == 2


@pytest.mark.parametrize("path", [None, (1, 2)])
def test_sm_info_goes_to_the_sm_and_back(running: Running, path: tuple[int, ...] | None) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1", is_sm=True)
    one.send(get(AttributeID.SM_INFO, path=path), 0xFFFF if path else 3)
    request = sm.receive()
    assert request.mad[16:18] == b"\0\x20"
    direction = b"\x80" if path else b"\0"
    sm.send(request.mad[:3] + b"\x81" + direction + request.mad[5:], 0xFFFF if path else request.slid)
    answer = one.receive()
    assert (answer.mad[3], tid(answer.mad)) == (0x81, 0x0001_0000_0000_0007)


def test_a_forward_to_a_dead_program_is_a_timeout(running: Running) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    sm.die()
    assert one.exchange(gmp(3, Method.GET, 0x35), 3, qpn=1).status == 110
    assert len(running.attached()) == 1


def test_traps_reach_the_subnet_manager_until_they_are_repressed(running: Running) -> None:
    sm, one, port = running.attach("H-2", is_sm=True), running.attach("H-1"), running.subnet.port("H-3", 2)
    port.sm_lid, port.m_key, port.subnet_timeout = 3, 0xABC, 10
    set_ = build_smp(Method.SET, AttributeID.PORT_INFO, path=None, data=bytes(64), transaction_id=1)
    assert one.exchange(set_, 4).status == 110
    trap, again = sm.receive(), sm.receive()
    assert trap.mad == again.mad
    assert int.from_bytes(trap.mad[68:70]) == TrapNumber.BAD_M_KEY
    repress = trap.mad[:3] + bytes([Method.TRAP_REPRESS]) + trap.mad[4:24]
    sm.send(repress + (0xABC).to_bytes(8) + trap.mad[32:], 4)
    running.wait_until(lambda: any(event.kind == "trap-repressed" for event in running.subnet.events))
    while not sm.hears_nothing():
        pass
    sm.send(repress + bytes(8) + trap.mad[32:], 4)  # without the key it is refused as any request
    assert int.from_bytes(sm.receive().mad[68:70]) == TrapNumber.BAD_M_KEY
    assert port.m_key_violations == 2


def test_responses_that_nobody_waits_for_are_dropped(running: Running) -> None:
    one = running.attach("H-1")
    response = bytearray(gmp(3, 0x81, 0x35, tid=0x00FF_0000_0000_0001))
    one.send(bytes(response), 3, qpn=1)
    assert one.hears_nothing()


def test_a_delayed_answer_comes_later_and_a_duplicate_twice(running: Running) -> None:
    one = running.attach("H-1")
    running.steer("delay 100% 0.2")
    running.steer("duplicate 100%")
    replies = [one.exchange(get(AttributeID.NODE_INFO)), one.receive()]
    assert replies[0] == replies[1]
    running.steer("delay 0")
    running.steer("duplicate 0")
    running.steer("drop 100")
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 110


def test_a_program_that_does_not_read_holds_up_nobody(running: Running) -> None:
    lazy, one = running.attach("H-1"), running.attach("H-2")
    lazy.data.settimeout(0.5)
    sent = 0
    try:
        while sent < 20_000:
            lazy.send(get(AttributeID.NODE_INFO, tid=sent))
            sent += 1
    except TimeoutError:
        pass
    assert clients.PAUSE_AT <= sent < 20_000, "the server stopped reading from it"
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 0
    assert [tid(lazy.receive().mad) & 0xFFFFFFFF for _ in range(sent)] == list(range(sent))
    assert lazy.exchange(get(AttributeID.NODE_INFO)).status == 0


# Programs that come and go


def test_more_programs_than_ibsim_has_slots_for(running: Running) -> None:
    programs = [running.attach("H-1") for _ in range(clients.MAX_CLIENTS)]
    assert [program.slot for program in programs] == list(range(clients.MAX_CLIENTS))
    assert running.attach("H-1").slot is None
    assert tid(programs[200].exchange(get(AttributeID.NODE_INFO)).mad) == 200 << 48 | 7
    programs[100].die()
    assert running.attach("H-1").slot == 100


def test_a_hundred_programs_attach_and_die(running: Running) -> None:
    one = running.attach("H-2")
    for turn in range(100):
        program = Program(running.name, "H-1", is_sm=turn % 2 == 0)
        assert program.slot is not None
        program.send(get(AttributeID.NODE_INFO))
        if turn % 3:
            program.receive()
        program.die()
    running.wait_until(lambda: len(running.attached()) == 1)
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 0
    assert not running.subnet.port("H-1", 1).capability_mask & 2


def test_a_program_that_attaches_again_gets_a_new_start(running: Running) -> None:
    program = running.attach("H-1")
    program.data.close()
    program.data = program._socket("in")
    reply = program.ask(protocol.CONNECT, protocol.client_info(program.ident, False, "H-2"))
    assert protocol.parse_client_info(reply.data).ident == 0
    assert len(running.attached()) == 1


def test_fuzzed_datagrams(running: Running) -> None:
    """The server goes on, and an honest program gets its answers all the while."""
    chance = random.Random(7)
    honest, sm, fuzzer = running.attach("H-2"), running.attach("H-3", is_sm=True), running.attach("H-1")
    good = get(AttributeID.PORT_INFO, 1, path=(1, 2))
    count, refused = 1_000_000 if SOAK else 20_000, 0
    for turn in range(count):
        try:
            (fuzzer.control if chance.random() < 0.2 else fuzzer.data).send(fuzzed(chance, good))
        except ConnectionError:  # it has asked the server to disconnect it
            refused += 1
            fuzzer.die()
            fuzzer = running.attach("H-1")
        for quiet in (fuzzer.data, fuzzer.control, sm.data):
            drain(quiet)
        if turn % 1000 == 0:
            answer = honest.exchange(get(AttributeID.NODE_INFO, tid=turn))
            while tid(answer.mad) & 0xFFFFFFFF != turn:
                answer = honest.receive()
            assert answer.status == 0
    counts = running.server.counts()
    assert "internal errors" not in counts, running.said
    # What waits in the socket of a program that is being disconnected goes with it.
    assert counts["packets"] + counts["malformed"] + counts["control requests"] >= 0.99 * count - refused


def fuzzed(chance: random.Random, good: bytes) -> bytes:
    """Return a datagram: noise, a control request, or a packet around a MAD with some bytes changed."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.choice([0, 1, 79, 80, 81, 287, 288, 289, 1000]))
    if kind < 0.25:
        head = struct.pack("=IIII", protocol.MAGIC, chance.randrange(12), chance.randrange(13), chance.randrange(99))
        return head + chance.randbytes(64)
    mad = bytearray(good)
    for _ in range(chance.randrange(6)):
        mad[chance.randrange(chance.choice([24, 68, 256]))] = chance.choice(
            [0, 1, 2, 3, 7, 0x81, chance.randrange(256)]
        )
    if chance.random() < 0.5:
        mad[1] = chance.choice([1, 3, 4, 7, 0x81])
    lid = chance.choice([0xFFFF, 0xFFFF, 0, 1, 2, 3, 4, 9, chance.randrange(65536)])
    slid = chance.choice([bytes(4), b"\xff\xff\0\0", chance.randbytes(4)])
    length = chance.choice([256, 256, 256, 92, 24, 0, chance.randrange(1 << 63)])
    return b"".join((protocol.packet_lid(lid), slid, chance.randbytes(16), length.to_bytes(8), mad))


def drain(quiet: socket.socket) -> None:
    quiet.setblocking(False)
    try:
        while True:
            quiet.recv(500)
    except OSError:
        pass
    finally:
        quiet.settimeout(TIMEOUT)


# What the server refuses, says and saves


def test_two_servers_cannot_have_one_name(running: Running) -> None:
    with pytest.raises(TransportError, match="in use"):
        Server(Subnet.from_text(NET), running.name)


def test_a_bug_is_counted_and_said_and_ends_nothing(run: Callable[..., Running]) -> None:
    running = run()
    one = running.attach("H-1")
    send = running.subnet.send

    def broken(mad: bytes, origin: Port, dlid: int = 0xFFFF) -> Any:
        if mad[17] == AttributeID.NODE_DESCRIPTION:
            raise ZeroDivisionError("secret")
        return send(mad, origin, dlid)

    running.subnet.send = broken  # type: ignore[method-assign]
    one.send(get(AttributeID.NODE_DESCRIPTION))
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 0
    assert running.server.counts()["internal errors"] == 1
    assert "ZeroDivisionError at test_server.py" in running.said[0]
    assert "secret" not in running.said[0]


def test_watching_sees_both_directions_in_order(run: Callable[..., Running]) -> None:
    seen: list[Any] = []
    running = run(watch=seen.append)
    one = running.attach("H-1")
    one.exchange(get(AttributeID.NODE_INFO))
    one.exchange(get(AttributeID.NODE_INFO, path=(9,)))
    assert [(each.out, each.mad[3], each.note) for each in seen] == [
        (True, 1, ""),
        (False, 0x81, ""),
        (True, 1, ""),
        (False, 1, "no answer: no route"),
    ]


def test_changes_are_saved_while_it_serves(run: Callable[..., Running], tmp_path: Path) -> None:
    saved = threading.Event()
    run(save=saved.set)
    assert saved.wait(TIMEOUT)


# Over UDP


def test_remote_mode(run: Callable[..., Running]) -> None:
    base = free_ports(clients.MAX_CLIENTS + 1)
    run(listen=("127.0.0.1", base), allow_others=True)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as data,
    ):
        for each in (control, data):
            each.bind(("127.0.0.1", 0))
            each.settimeout(TIMEOUT)
        ident = data.getsockname()[1]
        info = protocol.client_info(ident, False, "H-1")
        control.sendto(struct.pack("=IIII64s", protocol.MAGIC, 0, protocol.CONNECT, 44, info), ("127.0.0.1", base))
        reply = protocol.parse_control(control.recv(100))
        assert reply is not None
        assert protocol.parse_client_info(reply.data).ident == 0
        lids = protocol.packet_lid(0xFFFF) * 2
        packet = protocol.header(lids[:4], lids[4:], bytes(4), bytes(4)) + get(AttributeID.NODE_INFO)
        data.sendto(packet, ("127.0.0.1", base + 1))
        raw = data.recv(500)
        assert (len(raw), raw[35]) == (288, 0x81)


def free_ports(count: int) -> int:
    """Return the first of *count* UDP ports that were free a moment ago."""
    for base in range(10_000 + os.getpid() % 10_000, 32_000, count):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first:
            try:
                first.bind(("127.0.0.1", base))
            except OSError:
                continue
            return base
    raise AssertionError("no UDP port is free")
