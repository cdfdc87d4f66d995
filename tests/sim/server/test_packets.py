"""Data packets through the server: routes, forwards to an SM, traps, what is malformed and what is late."""

from __future__ import annotations

import struct

import pytest

from ibkeys.mad.const import AttributeID, Method, TrapNumber
from ibkeys.mad.smp import build_smp
from ibkeys.sim.server import clients
from ibkeys.sim.server import ibsim_protocol as protocol
from tests.sim.server.programs import RunningOpensm, get, gmp, tid


def test_directed_routes_lids_and_mixed_routes(running: RunningOpensm) -> None:
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


def test_the_slot_is_in_requests_and_comes_back(running: RunningOpensm) -> None:
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
def test_what_nobody_answers_comes_back_as_a_timeout(running: RunningOpensm, mad: bytes, lid: int) -> None:
    one = running.attach("H-1")
    echo = one.exchange(mad, lid, qpn=0 if mad[1] in (1, 0x81) else 1, sqp=7)
    assert (echo.status, echo.dlid, echo.sqp, echo.length) == (110, lid, 7, 256)
    assert echo.slid == (0xFFFF if lid == 0xFFFF else 2)
    assert echo.mad[:8] + echo.mad[10:] == mad[:8] + mad[10:]


def test_a_refused_m_key_is_a_timeout_and_is_counted(running: RunningOpensm) -> None:
    one, port = running.attach("H-1"), running.subnet.port("H-2", 1)
    port.m_key, port.protect_bits = 0xABC, 2
    assert one.exchange(get(AttributeID.NODE_INFO, path=(1, 2))).status == 110
    assert one.exchange(get(AttributeID.NODE_INFO, path=(1, 2), m_key=0xABC)).status == 0
    assert port.m_key_violations == 1


def test_malformed_packets_get_no_answer(running: RunningOpensm) -> None:
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


def test_bytes_past_the_length_do_not_count(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(gmp(3, Method.GET, 0x35)[:92], 3, qpn=1, length=92)
    request = sm.receive()
    assert (request.length, request.mad[92:]) == (92, bytes(164))


def test_an_sa_request_reaches_the_sm_and_its_answer_the_requester(running: RunningOpensm) -> None:
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
def test_sm_info_goes_to_the_sm_and_back(running: RunningOpensm, path: tuple[int, ...] | None) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1", is_sm=True)
    one.send(get(AttributeID.SM_INFO, path=path), 0xFFFF if path else 3)
    request = sm.receive()
    assert request.mad[16:18] == b"\0\x20"
    direction = b"\x80" if path else b"\0"
    sm.send(request.mad[:3] + b"\x81" + direction + request.mad[5:], 0xFFFF if path else request.slid)
    answer = one.receive()
    assert (answer.mad[3], tid(answer.mad)) == (0x81, 0x0001_0000_0000_0007)


def test_a_forward_to_a_dead_program_is_a_timeout(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    sm.close()
    assert one.exchange(gmp(3, Method.GET, 0x35), 3, qpn=1).status == 110
    assert len(running.attached()) == 1


def test_traps_reach_the_subnet_manager_until_they_are_repressed(running: RunningOpensm) -> None:
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


def test_responses_that_nobody_waits_for_are_dropped(running: RunningOpensm) -> None:
    one = running.attach("H-1")
    response = bytearray(gmp(3, 0x81, 0x35, tid=0x00FF_0000_0000_0001))
    one.send(bytes(response), 3, qpn=1)
    assert one.hears_nothing()


def test_a_delayed_answer_comes_later_and_a_duplicate_twice(running: RunningOpensm) -> None:
    one = running.attach("H-1")
    running.steer("delay 100% 0.2")
    running.steer("duplicate 100%")
    replies = [one.exchange(get(AttributeID.NODE_INFO)), one.receive()]
    assert replies[0] == replies[1]
    running.steer("delay 0")
    running.steer("duplicate 0")
    running.steer("drop 100")
    assert one.exchange(get(AttributeID.NODE_INFO)).status == 110


def test_a_program_that_does_not_read_holds_up_nobody(running: RunningOpensm) -> None:
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
