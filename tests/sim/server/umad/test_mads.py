"""MADs between programs and the fabric, as ib_umad and ib_mad carry them."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable

import pytest

from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.notice import Notice
from ibkeys.mad.smp import build_smp
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.wire import Kind
from tests.sim.server.programs import TIMEOUT, RunningOpensm, get, gmp, tid
from tests.sim.server.umad.programs import DIRECTED, PERF, SA, SUBN, Program

Opener = Callable[..., Program]
NODE_INFO = int(AttributeID.NODE_INFO)
SM_INFO = int(AttributeID.SM_INFO)
TRAP = int(Method.TRAP)
TRAP_REPRESS = int(Method.TRAP_REPRESS)
GET, SET = 1, 2
LOST = (1, 4)  # port 4 of the switch has no cable


def smp(method: int, attribute: int, transaction: int = 7) -> bytes:
    return build_smp(method, attribute, transaction_id=transaction)


def test_a_reply_has_its_header_filled(running: RunningOpensm, program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    answer = one.exchange(agent, get(NODE_INFO, path=(1,), tid=0x1234567800000007))
    assert (answer.agent, answer.status, answer.length, answer.qpn, answer.lid) == (agent, 0, 320, 0, 0xFFFF)
    assert answer.mad[3] == 0x81
    assert tid(answer.mad) & 0xFFFFFFFF == 7
    assert tid(answer.mad) >> 32 != 0x12345678
    routed = one.register(SUBN)
    answer = one.exchange(routed, smp(GET, NODE_INFO), 3)
    assert (answer.agent, answer.lid, answer.qpn) == (routed, 3, 0)


def test_each_agent_gets_its_own_answers(program: Opener) -> None:
    one, beside = program(), program()
    agents = one.register(DIRECTED), one.register(DIRECTED)
    other = beside.register(DIRECTED)
    for agent in agents:
        assert one.send(agent, get(NODE_INFO)) == 0
    assert beside.exchange(other, get(NODE_INFO)).agent == other
    assert {one.receive().agent for _ in agents} == set(agents)
    assert one.hears_nothing()


def test_records_that_are_sent_by_one_call_are_answered_in_their_order(running: RunningOpensm, program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    mads = [get(NODE_INFO, path=(1,), tid=number) for number in range(60)]
    mads[40] = build_smp(SET, AttributeID.PORT_INFO, 99, path=(1,), transaction_id=40)  # there is no such port
    one.socket.sendall(b"".join(wire.record(Kind.SEND, 0, one.header(agent) + mad) for mad in mads))
    answers = [one.receive().mad for _ in mads]
    assert [tid(answer) & 0xFFFFFFFF for answer in answers] == list(range(60))
    assert [number for number, answer in enumerate(answers) if answer[4:6] != b"\x80\0"] == [40]
    assert running.server.counts()["packets"] == 60


def test_descriptors_belong_to_the_last_record_of_one_call(program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking, agent = one.register(SA, version=2, rmpp=1), one.register(DIRECTED)
    two.register(SA, [int(Method.GET)], 2, rmpp=1)
    plain = [wire.record(Kind.SEND, 0, one.header(agent) + get(NODE_INFO, tid=number)) for number in range(3)]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        record = wire.record(Kind.SEND, wire.REPLY, one.header(asking, 3, qpn=1) + gmp(SA, GET, 0x11, tid=9))
        socket.send_fds(one.socket, [b"".join(plain) + record], [theirs.fileno()])
        one.socket.sendall(b"".join(plain))
        theirs.close()
        ours.settimeout(TIMEOUT)
        assert struct.unpack("=iI", ours.recv(100)) == (0, 0)
    assert [one.receive().agent for _ in range(6)] == [agent] * 6
    assert tid(two.receive().mad) & 0xFFFFFFFF == 9


def test_a_request_without_answer_comes_back_as_its_header(program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    mad = get(NODE_INFO, path=LOST, tid=9)
    back = one.exchange(agent, mad, timeout=20, retries=1)
    assert (back.agent, back.status, len(back.mad)) == (agent, errno.ETIMEDOUT, 24)
    assert back.mad[:8] == mad[:8]
    assert tid(back.mad) & 0xFFFFFFFF == 9


def test_a_request_goes_out_again_as_often_as_is_said(running: RunningOpensm, program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    port = running.subnet.node("H-2").ports[1]
    port.m_key, port.protect_bits = 5, 2
    back = one.exchange(agent, get(NODE_INFO, path=(1, 2)), timeout=20, retries=2)
    assert back.status == errno.ETIMEDOUT
    assert port.m_key_violations == 3


def test_requests_that_begin_alike_are_each_looked_at_as_the_first(running: RunningOpensm, program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    for number in range(20, 24):
        assert tid(one.exchange(agent, get(NODE_INFO, path=(1, 2), tid=number)).mad) & 0xFFFFFFFF == number
    assert one.send(agent, get(NODE_INFO, path=(2, 2), tid=30)) == errno.EINVAL
    running.steer("silent H-2 on")
    waiting = get(NODE_INFO, path=(1, 2), tid=31)
    assert one.send(agent, waiting) == 0
    assert one.send(agent, waiting) == errno.EINVAL
    assert one.unregister(agent) == 0
    running.steer("silent H-2 off")
    assert one.send(agent, waiting) == errno.EIO
    other = one.register(DIRECTED)
    assert other == agent
    answer = one.exchange(other, waiting)
    assert (answer.agent, answer.status, tid(answer.mad) & 0xFFFFFFFF) == (other, 0, 31)


def test_without_a_timeout_nothing_is_given_up(program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    assert one.send(agent, get(NODE_INFO, path=LOST), timeout=0) == 0
    assert one.hears_nothing()


def test_an_answer_that_nobody_waits_for_is_dropped(program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    assert one.send(agent, get(NODE_INFO, path=(1,)), timeout=0) == 0
    assert one.hears_nothing()


def test_the_same_request_twice_is_refused_while_it_waits(program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    waiting = get(NODE_INFO, path=LOST, tid=9)
    assert one.send(agent, waiting, timeout=100) == 0
    assert one.send(agent, waiting) == errno.EINVAL
    assert one.send(agent, get(NODE_INFO, path=LOST, tid=10), timeout=100) == 0
    assert [one.receive().status for _ in range(2)] == [errno.ETIMEDOUT] * 2
    assert one.exchange(agent, get(NODE_INFO, tid=9)).status == 0


def test_the_page_shows_what_waits(program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    assert struct.unpack_from("=III", one.page) == (1 << agent, 1, 0)
    place = 16 + 2 * (9 ^ DIRECTED)
    assert one.send(agent, get(NODE_INFO, path=LOST, tid=9), timeout=20) == 0
    assert struct.unpack_from("=H", one.page, place) == (0,)
    one.receive()
    assert struct.unpack_from("=H", one.page, place) == (1,)
    one.exchange(agent, get(NODE_INFO, tid=9))
    assert struct.unpack_from("=H", one.page, place) == (2,)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, 0),
        ({129: 2}, errno.EINVAL),  # another port than the adapter's
        ({6: 1}, 0),  # at its end: for this node itself
        ({6: 2}, 0),
        ({6: 3}, errno.EINVAL),
        ({7: 64}, errno.EINVAL),
    ],
)
def test_a_directed_route_begins_at_the_port(program: Opener, change: dict[int, int], error: int) -> None:
    one = program()
    agent = one.register(DIRECTED)
    mad = bytearray(get(NODE_INFO, path=(1,)))
    for place, value in change.items():
        mad[place] = value
    assert one.send(agent, bytes(mad), timeout=20) == error


def test_a_local_smp_that_is_refused_is_never_heard_of_again(running: RunningOpensm, program: Opener) -> None:
    one = program()
    agent = one.register(DIRECTED)
    port = running.subnet.node("H-1").ports[1]
    port.m_key, port.protect_bits = 5, 2
    assert one.send(agent, get(NODE_INFO), timeout=20, retries=1) == 0
    assert one.hears_nothing()


def test_the_length_of_a_mad(program: Opener) -> None:
    one = program()
    agent = one.register(SUBN)
    assert one.send(agent, smp(GET, NODE_INFO)[:35], 3) == errno.EINVAL
    answer = one.exchange(agent, smp(GET, NODE_INFO)[:36], 3)
    assert (answer.mad[3], answer.mad[36:64]) == (0x81, bytes(28))
    assert one.send(agent, smp(GET, NODE_INFO) + bytes(1), 3) == errno.EINVAL


# Between programs


def test_requests_go_to_the_owner_and_answers_to_the_asker(program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking, taking = one.register(SUBN), two.register(SUBN, [GET])
    assert one.send(asking, smp(GET, SM_INFO), 3) == 0
    request = two.receive()
    assert (request.agent, request.status, request.lid, request.qpn, request.mad[3]) == (taking, 0, 2, 0, GET)
    reply = bytearray(request.mad)
    reply[3] = 0x81
    assert two.send(taking, bytes(reply), request.lid, timeout=0) == 0
    answer = one.receive()
    assert (answer.agent, answer.lid, answer.mad) == (asking, 3, bytes(reply))


def test_a_request_that_nobody_owns_is_not_heard(program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking = one.register(SUBN)
    two.register(SUBN, [SET])
    assert one.exchange(asking, smp(GET, SM_INFO), 3, timeout=20).status == errno.ETIMEDOUT
    assert two.hears_nothing()


def test_a_directed_request_arrives_at_the_end_of_its_route(program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking, taking = one.register(DIRECTED), two.register(DIRECTED, [GET])
    assert one.send(asking, get(SM_INFO, path=(1, 2))) == 0
    request = two.receive()
    assert (request.lid, request.mad[6], request.mad[7], request.mad[193:195]) == (0xFFFF, 3, 2, bytes((1, 1)))
    reply = bytearray(request.mad)
    reply[3], reply[4] = 0x81, 0x80
    assert two.send(taking, bytes(reply), timeout=0) == 0
    answer = one.receive()
    assert (answer.agent, answer.mad[3], answer.mad[6]) == (asking, 0x81, 0)


def test_a_program_answers_another_one_at_its_own_port(program: Opener) -> None:
    """As OpenSM answers SMInfo to who asks beside it: the request has ended when it was sent, and nothing gives up."""
    asking, sm = program("H-1"), program("H-1")
    agent, owner = asking.register(DIRECTED), sm.register(DIRECTED, [GET])
    assert asking.send(agent, get(SM_INFO), timeout=20) == 0
    request = sm.receive()
    assert (request.agent, request.mad[6], request.mad[7]) == (owner, 1, 0)
    assert asking.hears_nothing()
    reply = bytearray(request.mad)
    reply[3], reply[4] = 0x81, 0x80
    assert sm.send(owner, bytes(reply), timeout=0) == 0
    answer = asking.receive()
    assert (answer.agent, answer.status, answer.mad[3], answer.mad[8:16]) == (agent, 0, 0x81, request.mad[8:16])


def test_traps_go_to_the_owner_at_the_port_of_the_sm(running: RunningOpensm, program: Opener) -> None:
    running.subnet.set_sm("H-1")
    one, beside, two = program("H-1"), program("H-1"), program("H-2")
    agent = one.register(SUBN, [TRAP, TRAP_REPRESS])
    beside.register(SUBN)
    two.register(SUBN, [TRAP])
    running.steer("link H-3[2] down")
    trap = one.receive()
    assert (trap.agent, trap.mad[3], trap.lid) == (agent, TRAP, 1)
    assert Notice(trap.mad[64:128]).trap_number == 128
    repress = bytearray(trap.mad)
    repress[3] = TRAP_REPRESS
    assert one.send(agent, bytes(repress), trap.lid, timeout=0) == 0
    assert beside.hears_nothing()
    assert two.hears_nothing()
    assert len(running.subnet.traps.repeats) == 0


def test_path_bits_say_which_lid_was_meant(running: RunningOpensm, program: Opener) -> None:
    port = running.subnet.node("H-2").ports[1]
    port.lid, port.lmc = 4, 2
    switch = running.subnet.node("S-1")
    assert switch.switch_info is not None
    switch.routes = bytearray([0xFF, 0, 1, 0xFF, 2, 2, 2, 2])
    SwitchInfo.linear_fdb_top.patch(switch.switch_info, 7)
    one, two = program("H-1"), program("H-2")
    asking = one.register(SUBN)
    two.register(SUBN, [GET])
    assert one.send(asking, smp(GET, SM_INFO), 6) == 0
    assert two.receive().path_bits == 2


def test_programs_of_both_protocols_talk(running: RunningOpensm, program: Opener) -> None:
    old = running.attach("H-2", is_sm=True)
    one = program("H-1")
    agent = one.register(SUBN, [GET])
    assert one.send(agent, smp(GET, SM_INFO), 3) == 0
    request = old.receive()
    reply = bytearray(request.mad)
    reply[3] = 0x81
    old.send(bytes(reply), 2)
    assert one.receive().mad[3] == 0x81
    old.send(smp(GET, SM_INFO, 5), 2)
    asked = one.receive()
    reply = bytearray(asked.mad)
    reply[3] = 0x81
    assert one.send(agent, bytes(reply), 3, timeout=0) == 0
    answer = old.receive()
    assert (answer.status, answer.mad[3]) == (0, 0x81)


# P_Keys


@pytest.fixture
def partitioned(running: RunningOpensm) -> RunningOpensm:
    for name, keys in (("H-1", [0x7FFF, 0x8001]), ("H-2", [0x0000, 0x8001, 0xFFFF]), ("H-3", [0x7FFF])):
        port = running.subnet.attach_port(name)
        port.p_keys = keys
    return running


def test_a_gmp_arrives_with_the_index_that_matched(partitioned: RunningOpensm, program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking = one.register(SA, version=2)
    taking = two.register(SA, [GET], 2)
    assert one.send(asking, gmp(SA, GET, 0x11), 3, qpn=1, p_key_index=1, sl=3) == 0
    request = two.receive()
    assert (request.p_key_index, request.qpn, request.sl, request.lid) == (1, 1, 3, 2)
    reply = bytearray(request.mad)
    reply[3] = 0x81
    assert two.send(taking, bytes(reply), 2, timeout=0, qpn=1, p_key_index=2) == 0
    assert one.receive().p_key_index == 0  # 0xffff meets 0x7fff


@pytest.mark.parametrize("index", [2, 63, 64, 9999])
def test_an_empty_index_is_sent_and_never_arrives(partitioned: RunningOpensm, program: Opener, index: int) -> None:
    one, two = program("H-1"), program("H-2")
    asking = one.register(SA, version=2)
    two.register(SA, [GET], 2)
    back = one.exchange(asking, gmp(SA, GET, 0x11), 3, qpn=1, p_key_index=index, timeout=20)
    assert back.status == errno.ETIMEDOUT
    assert two.hears_nothing()


def test_a_p_key_that_does_not_match_is_a_violation(partitioned: RunningOpensm, program: Opener) -> None:
    one = program("H-1")
    agent = one.register(PERF)
    back = one.exchange(agent, gmp(PERF, GET, 0x12), 4, qpn=1, p_key_index=0, timeout=20)
    assert back.status == errno.ETIMEDOUT  # limited to limited
    assert partitioned.subnet.attach_port("H-3").p_key_violations == 1


def test_a_switch_that_enforces_drops_a_gmp(running: RunningOpensm, program: Opener) -> None:
    running.subnet.attach_port("H-1").p_keys = [0xFFFF, 0x8001]
    running.subnet.attach_port("H-2").p_keys = [0xFFFF, 0x8001]
    edge = running.subnet.node("S-1").ports[1]
    assert edge.node.switch_info is not None
    SwitchInfo.inbound_enforcement_cap.patch(edge.node.switch_info, 1)
    edge.inbound_enforcement = 1
    one = program("H-1")
    agent = one.register(PERF)
    assert one.exchange(agent, gmp(PERF, GET, 0x12), 3, qpn=1, p_key_index=0).status == 0
    assert one.exchange(agent, gmp(PERF, GET, 0x12), 3, qpn=1, p_key_index=1, timeout=20).status == errno.ETIMEDOUT
    assert edge.counter("port_rcv_constraint_errors") == 1


def test_a_gmp_to_another_lid_of_its_receiver_takes_the_route_of_that_lid(
    running: RunningOpensm, program: Opener
) -> None:
    port, switch = running.subnet.attach_port("H-2"), running.subnet.node("S-1")
    port.lid, port.lmc = 6, 1
    assert switch.switch_info is not None
    SwitchInfo.linear_fdb_top.patch(switch.switch_info, 7)
    switch.routes = bytearray(b"\xff\x00\x01\xff\x03\xff\xff\x02")  # to LID 7, and not to the base LID
    one = program("H-1")
    agent = one.register(PERF)
    answer = one.exchange(agent, gmp(PERF, GET, 0x12), 7, qpn=1)
    assert (answer.status, answer.mad[3]) == (0, 0x81)


def test_an_agent_of_the_fabric_answers_with_its_own_p_key(running: RunningOpensm, program: Opener) -> None:
    running.subnet.attach_port("H-1").p_keys = [0x8001, 0xFFFF]
    running.subnet.attach_port("H-2").p_keys = [0x7FFF]
    one = program("H-1")
    agent = one.register(PERF)
    answer = one.exchange(agent, gmp(PERF, GET, 0x12), 3, qpn=1, p_key_index=1)
    assert (answer.status, answer.mad[3], answer.p_key_index, answer.lid) == (0, 0x81, 1, 3)


def test_a_grh_arrives_with_the_gid_of_the_sender(running: RunningOpensm, program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking = one.register(SA, version=2)
    two.register(SA, [GET], 2)
    grh = bytes((3, 64, 7)) + running.subnet.attach_port("H-2").gid.to_bytes(16) + (5).to_bytes(4)
    header = one.header(asking, 3, qpn=1, grh=grh)
    assert one.call(3, header + gmp(SA, GET, 0x11))[0] == 0
    request = two.receive()
    assert request.has_grh
    sender = running.subnet.attach_port("H-1").gid.to_bytes(16)
    assert request.raw[33:56] == bytes((0, 64, 7)) + sender + (5).to_bytes(4)
