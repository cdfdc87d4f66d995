"""RMPP between programs whose kernel does it, and against a program that plays the other end itself."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from ibkeys.mad.sa import ACTIVE, FIRST, LAST, RmppStatus, RmppType, with_rmpp
from ibkeys.sim import rmpp
from ibkeys.sim.rmpp import rmpp_header
from ibkeys.sim.server.umad import transfers
from ibkeys.sim.server.umad.wire import Kind
from tests.sim.server.programs import RunningOpensm, gmp
from tests.sim.server.umad.programs import SA, Program, Received, memory_with

Opener = Callable[..., Program]
GET_TABLE, GET_TABLE_RESP = 0x12, 0x92
ONE, TWO = 2, 3  # LIDs
TID = 0x77


def long_mad(size: int, method: int = GET_TABLE_RESP, tid: bytes = TID.to_bytes(8)) -> bytes:
    """Return an SA MAD that its program marks Active, with *size* bytes of data."""
    mad = bytearray(gmp(SA, method, 0x11)[:56])
    mad[8:16] = tid
    mad[26] = ACTIVE
    return bytes(mad) + bytes(number * 7 % 251 for number in range(size))


@pytest.mark.parametrize("size", [0, 1, 199, 200, 201, 400, 401, 200 * 65, 200 * 66, 50_000])
def test_a_mad_of_any_length_arrives_whole(program: Opener, size: int) -> None:
    one, two = program("H-1"), program("H-2")
    asking, serving = one.register(SA, version=2, rmpp=1), two.register(SA, [GET_TABLE], 2, rmpp=1)
    assert one.send(asking, gmp(SA, GET_TABLE, 0x11), TWO, qpn=1) == 0
    request = two.receive()
    answer = long_mad(size, tid=request.mad[8:16])
    assert two.send(serving, answer, ONE, qpn=1, timeout=0) == 0
    got = one.receive()
    assert (got.status, got.agent, got.length, len(got.mad)) == (0, asking, 64 + 56 + size, 56 + size)
    assert got.mad[56:] == answer[56:]
    assert got.mad[:24] == answer[:24]
    assert got.mad[36:56] == answer[36:56]
    assert one.hears_nothing()
    assert two.hears_nothing()


def test_a_program_without_rmpp_sends_no_long_mad(program: Opener) -> None:
    one = program()
    plain, user = one.register(SA, version=2), one.try_register(SA, version=2, rmpp=1, flags=1)[1]
    with_it = one.register(SA, version=2, rmpp=1)
    inactive = bytearray(long_mad(300))
    inactive[26] = 0
    assert [one.send(agent, long_mad(300), TWO, qpn=1) for agent in (plain, user)] == [errno.EINVAL] * 2
    assert one.send(with_it, bytes(inactive), TWO, qpn=1) == errno.EINVAL


def test_a_long_mad_is_refused_as_a_duplicate_while_one_is_on_its_way(program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    agent = one.register(SA, version=2, rmpp=1)
    user = two.try_register(SA, [GET_TABLE], 2, rmpp=1, flags=1)[1]
    assert one.send(agent, long_mad(300, GET_TABLE), TWO, qpn=1, timeout=0) == 0
    assert one.send(agent, long_mad(300, GET_TABLE), TWO, qpn=1, timeout=0) == errno.EINVAL
    for _ in range(2):  # a program that does RMPP itself sends segments that are all alike
        assert two.send(user, long_mad(200, GET_TABLE), ONE, qpn=1, timeout=50) == 0


class OtherEnd:
    """A program that does RMPP itself: the other end of a transfer of the kernel's."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.agent = program.try_register(SA, [GET_TABLE], 2, rmpp=1, flags=1)[1]

    def receive(self) -> Received:
        return self.program.receive()

    def say(self, about: bytes, kind: int, number: int = 0, second: int = 0, status: int = 0) -> None:
        mad = rmpp.answer_to(about, kind, status, number, second)
        assert self.program.send(self.agent, mad, ONE, qpn=1, timeout=0) == 0

    def heard(self) -> list[tuple[int, int, int, int]]:
        """Return kind, number, second number and status of what came."""
        found = []
        while True:
            try:
                header = rmpp_header(self.program.receive(0.15).mad)
            except TimeoutError:
                return found
            found.append((header.kind, header.number, header.second, header.status))


@pytest.fixture
def ends(program: Opener) -> tuple[Program, int, OtherEnd]:
    one = program("H-1")
    return one, one.register(SA, version=2, rmpp=1), OtherEnd(program("H-2"))


Ends = tuple[Program, int, OtherEnd]
DATA, ACK, STOP, ABORT = (int(kind) for kind in (RmppType.DATA, RmppType.ACK, RmppType.STOP, RmppType.ABORT))


def start(ends: Ends, segments: int = 5, timeout: int = 0, retries: int = 0) -> bytes:
    """Let the kernel send a request of so many segments; return the first of them."""
    one, agent, other = ends
    mad = long_mad(200 * segments, GET_TABLE)
    assert one.send(agent, mad, TWO, qpn=1, timeout=timeout, retries=retries) == 0
    first = other.receive().mad
    header = rmpp_header(first)
    flags = ACTIVE | FIRST | (LAST if segments == 1 else 0)
    assert (header.kind, header.number, header.second, header.flags) == (DATA, 1, 220 * segments, flags)
    return first


def test_the_sender_keeps_to_the_window(ends: Ends) -> None:
    other = ends[2]
    first = start(ends)
    assert other.heard() == []
    other.say(first, ACK, 1, 3)
    assert other.heard() == [(DATA, 2, 0, 0), (DATA, 3, 0, 0)]
    other.say(first, ACK, 2, 3)  # no room
    other.say(first, ACK, 1, 2)  # an old one
    assert other.heard() == []
    other.say(first, ACK, 3, 9)
    assert other.heard() == [(DATA, 4, 0, 0), (DATA, 5, 220, 0)]
    other.say(first, ACK, 5, 9)
    assert other.heard() == []
    other.say(first, ACK, 5, 9)  # the transfer is forgotten
    assert other.heard() == []


@pytest.mark.parametrize(
    ("ack", "status"),
    [
        ((6, 9, 0), RmppStatus.SEGMENT_TOO_BIG),  # more than there are
        ((2, 9, 0), RmppStatus.SEGMENT_TOO_BIG),  # more than the window
        ((1, 0, 0), RmppStatus.WINDOW_TOO_SMALL),
        ((1, 3, 5), RmppStatus.BAD_STATUS),
    ],
)
def test_a_bad_ack_aborts(ends: Ends, ack: tuple[int, int, int], status: RmppStatus) -> None:
    other = ends[2]
    first = start(ends)
    other.say(first, ACK, *ack)
    assert other.heard() == [(ABORT, 0, 0, status)]
    other.say(first, ACK, 1, 3)
    assert other.heard() == []


@pytest.mark.parametrize(
    ("kind", "status", "heard"),
    [
        (STOP, RmppStatus.RESOURCES_EXHAUSTED, []),
        (STOP, 5, [(ABORT, 0, 0, RmppStatus.BAD_STATUS)]),
        (ABORT, RmppStatus.BAD_TYPE, []),
        (ABORT, 3, [(ABORT, 0, 0, RmppStatus.BAD_STATUS)]),
        (9, 0, [(ABORT, 0, 0, RmppStatus.BAD_TYPE)]),
    ],
)
def test_a_stop_or_abort_ends_the_transfer(ends: Ends, kind: int, status: int, heard: list[object]) -> None:
    other = ends[2]
    first = start(ends)
    other.say(first, kind, status=status)
    assert other.heard() == heard
    other.say(first, ACK, 1, 3)
    assert other.heard() == []


def test_what_is_not_acknowledged_goes_out_again(ends: Ends) -> None:
    one, agent, other = ends
    first = start(ends, timeout=60, retries=2)
    other.say(first, ACK, 1, 3)
    kinds = [other.receive().mad for _ in range(6)]
    assert [rmpp_header(mad).number for mad in kinds] == [2, 3, 2, 3, 2, 3]
    back = one.receive()
    assert (back.agent, back.status, len(back.mad)) == (agent, errno.ETIMEDOUT, 24)


def test_an_answer_is_waited_for_after_the_last_ack(ends: Ends) -> None:
    one, agent, other = ends
    first = start(ends, segments=1, timeout=2000)
    other.say(first, ACK, 1, 1)
    assert other.heard() == [(ACK, 0, 1, 0)]
    answer = bytearray(with_rmpp(first, 0, 0))
    answer[3], answer[25:36] = GET_TABLE_RESP, bytes(11)
    answer[24] = 0
    assert other.program.send(other.agent, bytes(answer), ONE, qpn=1, timeout=0) == 0
    got = one.receive()
    assert (got.agent, got.status, got.mad[3]) == (agent, 0, GET_TABLE_RESP)


# The kernel receives


def ask(ends: Ends) -> bytes:
    one, agent, other = ends
    assert one.send(agent, gmp(SA, GET_TABLE, 0x11), TWO, qpn=1, timeout=5000) == 0
    return other.receive().mad


def segments_for(request: bytes, count: int) -> list[bytes]:
    head = bytearray(request[:56])
    head[3] = GET_TABLE_RESP
    found = []
    for number in range(1, count + 1):
        flags = ACTIVE | (FIRST if number == 1 else 0) | (LAST if number == count else 0)
        length = 220 * count if number == 1 else 220 if number == count else 0
        found.append(with_rmpp(bytes(head), DATA, flags, 0, number, length) + bytes((number,)) * 200)
    return found


def give(ends: Ends, *mads: bytes) -> None:
    other = ends[2]
    for mad in mads:
        assert other.program.send(other.agent, mad, ONE, qpn=1, timeout=0) == 0


def test_the_receiver_acknowledges_as_the_kernel(ends: Ends) -> None:
    one, _, other = ends
    segments = segments_for(ask(ends), 70)
    give(ends, segments[0])
    assert other.heard() == [(ACK, 1, 65, 0)]
    give(ends, *segments[1:64])
    assert other.heard() == []
    give(ends, segments[64])
    assert other.heard() == [(ACK, 65, 129, 0)]
    give(ends, segments[2])  # a repeated one
    assert other.heard() == [(ACK, 65, 129, 0)]
    give(ends, *segments[66:70])  # one is missing
    assert other.heard() == []
    give(ends, segments[65])
    assert other.heard() == [(ACK, 70, 129, 0)]
    got = one.receive()
    assert got.mad[56:] == b"".join(segment[56:] for segment in segments)
    give(ends, segments[69])  # the last ACK was lost
    assert other.heard() == [(ACK, 70, 129, 0)]
    assert one.hears_nothing()


def test_a_segment_beyond_the_window_is_dropped(ends: Ends) -> None:
    other = ends[2]
    segments = segments_for(ask(ends), 70)
    give(ends, segments[0], segments[65])
    assert other.heard() == [(ACK, 1, 65, 0)]
    give(ends, *segments[1:65])
    assert other.heard() == [(ACK, 65, 129, 0)]
    give(ends, *segments[66:70], segments[65])
    assert other.heard() == [(ACK, 70, 129, 0)]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ((1, DATA, ACTIVE, 0, 1, 220), RmppStatus.BAD_SEGMENT_NUMBER),
        ((1, DATA, ACTIVE | FIRST, 0, 2, 220), RmppStatus.BAD_SEGMENT_NUMBER),
        ((1, DATA, ACTIVE | FIRST, 3, 1, 220), RmppStatus.BAD_STATUS),
        ((2, DATA, ACTIVE | FIRST, 0, 1, 220), RmppStatus.UNSUPPORTED_VERSION),
        ((1, 7, ACTIVE | FIRST, 0, 1, 220), RmppStatus.BAD_TYPE),
    ],
)
def test_a_bad_segment_is_answered_with_abort(
    ends: Ends, header: tuple[int, int, int, int, int, int], status: RmppStatus
) -> None:
    other = ends[2]
    version, kind, flags, its_status, number, length = header
    segment = bytearray(segments_for(ask(ends), 1)[0])
    segment[24:28] = version, kind, flags, its_status
    segment[28:36] = number.to_bytes(4) + length.to_bytes(4)
    give(ends, bytes(segment))
    assert other.heard() == [(ABORT, 0, 0, status)]


def test_a_segment_of_no_transfer_is_dropped(ends: Ends) -> None:
    other = ends[2]
    give(ends, segments_for(ask(ends), 3)[1])
    assert other.heard() == []


def test_what_an_agent_receives_at_one_time_is_bounded(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "MOST_SEGMENTS", 2)
    monkeypatch.setattr(transfers, "MOST_TRANSFERS", 1)
    one, _, other = ends
    first = ask(ends)
    second = bytearray(segments_for(first, 2)[0])
    second[15] ^= 1  # another TransactionID
    give(ends, *segments_for(first, 3)[:2], bytes(second))
    assert other.heard() == [(ACK, 1, 65, 0)], "the second transfer is not acknowledged"
    give(ends, segments_for(first, 3)[2])
    assert other.heard() == [(ABORT, 0, 0, RmppStatus.RESOURCES_EXHAUSTED)]
    assert one.hears_nothing()
    give(ends, bytes(second))
    assert other.heard() == [(ACK, 1, 65, 0)]


def test_a_transfer_that_stands_still_is_aborted(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rmpp, "RECEIVER_TIMEOUT", 0.05)
    other = ends[2]
    give(ends, segments_for(ask(ends), 3)[0])
    assert other.heard() == [(ACK, 1, 65, 0), (ABORT, 0, 0, RmppStatus.TOTAL_TIME_TOO_LONG)]


def test_a_buffer_that_is_too_small_leaves_the_mad_there(program: Opener) -> None:
    one, two = program("H-1"), program("H-2")
    asking, serving = one.register(SA, version=2, rmpp=1), two.register(SA, [GET_TABLE], 2, rmpp=1)
    assert one.send(asking, gmp(SA, GET_TABLE, 0x11), TWO, qpn=1) == 0
    answer = long_mad(1000, tid=two.receive().mad[8:16])
    assert two.send(serving, answer, ONE, qpn=1, timeout=0) == 0
    got = one.receive()
    memory = memory_with(got.mad)
    one.record(Kind.NOT_TAKEN, got.raw, memory)
    os.close(memory)
    again = one.receive()
    assert (again.raw, again.mad) == (got.raw, got.mad)


def test_transfers_survive_the_death_of_either_end(running: RunningOpensm, program: Opener) -> None:
    for dies in (0, 1):
        both = program("H-1"), program("H-2")
        asking, serving = both[0].register(SA, version=2, rmpp=1), both[1].register(SA, [GET_TABLE], 2, rmpp=1)
        assert both[0].send(asking, gmp(SA, GET_TABLE, 0x11), TWO, qpn=1) == 0
        tid = both[1].receive().mad[8:16]
        memory = memory_with(long_mad(500_000, tid=tid))
        both[1].record(Kind.SEND, both[1].header(serving, ONE, qpn=1, timeout=0), memory)
        os.close(memory)
        both[dies].close()
        both[1 - dies].close()
        running.wait_until(lambda: not running.attached())


def test_the_sa_of_the_subnet_answers_with_as_many_segments_as_it_needs(
    running: RunningOpensm, program: Opener
) -> None:
    running.subnet.set_sm("H-2")
    one = program("H-1")
    agent = one.register(SA, version=2, rmpp=1)
    assert one.send(agent, gmp(SA, GET_TABLE, 0x12), TWO, qpn=1) == 0  # PortInfoRecord
    got = one.receive()
    ports = [port for node in running.subnet.nodes for port in node.all_ports if port.guard.lid]
    assert (got.status, got.mad[3]) == (0, GET_TABLE_RESP)
    assert len(got.mad) == 56 + len(ports) * 72
    assert one.hears_nothing()
    assert running.subnet.next_timer() is None


def test_programs_of_libumad2sim_are_not_sent_what_they_cannot_read(running: RunningOpensm) -> None:
    running.subnet.set_sm("H-2")
    old = running.attach("H-1")
    answer = old.exchange(gmp(SA, GET_TABLE, 0x12), TWO, qpn=1)
    assert answer.mad[4:6] == b"\1\0"  # no resources
