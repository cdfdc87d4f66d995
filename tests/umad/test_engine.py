"""The batch engine in C with the real libibumad, on a socket instead of a device: umad_send() writes to it, umad_recv()
reads from it.

What it takes for an answer is compared with what the scheduler says of the same bytes.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from ibkeys.client.request import Destination, Envelope, Request
from ibkeys.client.request_errors import status_error
from ibkeys.client.scheduler import Scheduler
from ibkeys.client.smp import SmpClient, Timing
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeInfo, PKeyTable
from ibkeys.mad.smp import build_smp
from ibkeys.umad import descriptor, devices
from ibkeys.umad.libibumad import LibibumadPort
from ibkeys.umad.port import ETIMEDOUT, Incoming, MadAnswer, Outgoing

HEADER_SIZE = 56
"""struct ib_user_mad before any port was opened, as here: agent, status, timeout, retries, length, address."""


NATIVE = Path(__file__).parents[2] / "native"


def declared(file: str) -> set[str]:
    """Return the structs and functions that a file of C declares, without comments."""
    text = re.sub(r"/\*.*?\*/", "", (NATIVE / file).read_text(), flags=re.DOTALL)
    found = re.findall(
        r"^(?:struct ibkeys_\w+ {[^}]*}|int ibkeys_\w+\([^)]*\)|const char \*ibkeys_\w+\([^)]*\));", text, re.MULTILINE
    )
    return {" ".join(each.split()) for each in found}


def test_cffi_reads_what_the_compiler_reads() -> None:
    """A pointer of another type would only be a warning of the compiler, a number of another size not even that."""
    for_cffi, for_c = declared("umad.cdef.h"), declared("batch.h") | declared("libibumad.h")
    whole = {each for each in for_cffi if "..." not in each}  # of the others the compiler fills in what is left out
    assert whole <= for_c
    assert {each for each in for_c if not each.startswith("struct")} <= whole
    assert len(whole) == 7


class Wire:
    """The other end: where the kernel would be."""

    def __init__(self, port: LibibumadPort, kernel: socket.socket) -> None:
        self.port = port
        self.kernel = kernel

    def sent(self) -> tuple[int, int, bytes]:
        """Return agent, timeout and MAD of what was sent first."""
        raw = self.kernel.recv(1024)
        agent, _, timeout = struct.unpack_from("=III", raw)
        return agent, timeout, raw[HEADER_SIZE:]

    def deliver(self, mad: bytes, status: int = 0) -> None:
        self.kernel.send(struct.pack("=II", 0, status).ljust(HEADER_SIZE, b"\0") + mad)

    def receive(self) -> tuple[list[MadAnswer], list[Incoming]]:
        return self.port.recv_answers(0.01)


@pytest.fixture
def wire(mocker: MockerFixture) -> Iterator[Wire]:
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    real = devices.binding()

    class Lib:
        """The real engine; a descriptor and agents without a device."""

        umad_open_port = staticmethod(lambda *_: ours.fileno())
        umad_register = staticmethod(lambda _fd, mgmt_class, *_: mgmt_class)
        umad_unregister = umad_close_port = staticmethod(lambda *_: 0)

        def __getattr__(self, name: str) -> Any:
            return getattr(real.lib, name)

    mocker.patch.object(descriptor, "binding", return_value=devices.Binding(real.ffi, Lib()))
    ours.setblocking(False)
    with ours, kernel, LibibumadPort("mlx5_0", 1) as port:
        port.register(0x04)
        yield Wire(port, kernel)


def ask(tid_before: int = 0, attribute: int = 0x15, **more: Any) -> tuple[Scheduler, Request]:
    scheduler = Scheduler(first_tid=tid_before)
    request = Request.of_mad("node", build_smp(1, attribute, 3, path=(1, 2), m_key=7, **more), 0xFFFF, 0.25)
    scheduler.submit(request)
    return scheduler, request


def answer(mad: bytes, data: bytes = bytes(64), status: int = 0x8000) -> bytes:
    return mad[:3] + b"\x81" + status.to_bytes(2) + mad[6:64] + data + mad[128:]


def test_parts_are_sent_as_the_whole_mad_that_they_make(wire: Wire) -> None:
    scheduler, _ = ask(0xFFFFFFFE)
    batch = scheduler.to_send(0.0)
    assert wire.port.send(batch) == []
    wanted = build_smp(1, 0x15, 3, path=(1, 2), m_key=7, transaction_id=0xFFFFFFFF)
    assert wire.sent() == (0x81, 250, wanted)
    assert list(batch) == [Outgoing(wanted, 0xFFFF, 250)]


def test_whole_mads_are_sent_as_they_are(wire: Wire) -> None:
    mads = [build_smp(1, 0x11, n, path=(n,), transaction_id=n << 32 | n) for n in range(100)]
    assert wire.port.send([Outgoing(mad, timeout_ms=7) for mad in mads] + [Outgoing(mads[0][:40])]) == []
    assert [wire.sent() for _ in mads] == [(0x81, 7, mad) for mad in mads]
    assert wire.sent() == (0x81, 1000, mads[0][:40])


def test_an_answer_comes_as_its_data(wire: Wire) -> None:
    scheduler, request = ask()
    wire.port.send(scheduler.to_send(0.0))
    _, _, mad = wire.sent()
    data = bytes(range(64))
    wire.deliver(mad[:8] + b"\0\0\0\5" + answer(mad, data)[12:])  # no answer: nothing says it is a response
    wire.deliver(answer(mad[:8] + b"\0\0\0\5" + mad[12:], data))  # the kernel's half of the TransactionID
    answers, [other] = wire.receive()
    assert answers == [(1, data)]
    assert other.mad[3] == 1
    assert scheduler.answered(answers, 0.1) == [request]
    assert request.outcomes == [data]
    assert scheduler.idle


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a busy agent", lambda mad: answer(mad, status=0x8001)),
        ("a redirection", lambda mad: answer(mad, status=0x0002)),
        ("an unsupported attribute", lambda mad: answer(mad, status=0x800C)),
        ("a class's own status", lambda mad: answer(mad, status=0x8100)),
        ("no response", lambda mad: mad),
        ("a GetTableResp", lambda mad: answer(mad)[:3] + b"\x92" + answer(mad)[4:]),
        ("another TransactionID", lambda mad: answer(mad[:12] + bytes(4) + mad[16:])),
        ("one 1024 requests later", lambda mad: answer(mad[:12] + (1025).to_bytes(4) + mad[16:])),
        ("another attribute", lambda mad: answer(mad[:16] + b"\0\x16" + mad[18:])),
        ("another modifier", lambda mad: answer(mad[:20] + b"\1" + mad[21:])),
        ("another class of SMP", lambda mad: answer(mad[:1] + b"\1" + mad[2:])),
        ("a GMP", lambda mad: answer(mad[:1] + b"\4" + mad[2:])),
        ("a short MAD", lambda mad: answer(mad)[:255]),
        ("a MAD of no byte", lambda mad: b""),
    ],
)
def test_all_else_is_handed_on_as_it_came(wire: Wire, name: str, change: Any) -> None:
    scheduler, request = ask()
    wire.port.send(scheduler.to_send(0.0))
    _, _, mad = wire.sent()
    wire.deliver(change(mad))
    assert wire.receive() == ([], [Incoming(change(mad), 0, 0, 0)]), name
    wire.deliver(answer(mad))
    assert wire.receive()[0] == [(1, bytes(64))], "the answer that comes after it is known all the same"
    assert request.outcomes == [None]


def test_a_timeout_and_a_duplicate_are_no_answers(wire: Wire) -> None:
    scheduler, _ = ask()
    wire.port.send(scheduler.to_send(0.0))
    _, _, mad = wire.sent()
    wire.deliver(answer(mad)[:24], ETIMEDOUT)  # what the kernel gives back
    wire.deliver(answer(mad), ETIMEDOUT)  # what libumad2sim gives back
    wire.deliver(answer(mad))
    wire.deliver(answer(mad))
    answers, others = wire.receive()
    assert answers == [(1, bytes(64))]
    assert [(len(other.mad), other.status) for other in others] == [(24, ETIMEDOUT), (256, ETIMEDOUT), (256, 0)]
    assert scheduler.answered(answers, 0.1)
    assert scheduler.answered(answers, 0.2) == []
    assert scheduler.statistics.strays == 1


def test_less_than_a_header_is_no_mad(wire: Wire) -> None:
    wire.kernel.send(b"\1")
    answers, [other] = wire.receive()
    assert (answers, other.mad) == ([], b"")


def test_who_does_not_ask_for_answers_gets_whole_mads(wire: Wire) -> None:
    scheduler, _ = ask()
    wire.port.send(scheduler.to_send(0.0))
    _, _, mad = wire.sent()
    wire.deliver(answer(mad))
    assert wire.port.recv(0.01) == [Incoming(answer(mad))]


def test_more_requests_than_are_remembered(wire: Wire) -> None:
    """Of two requests 1,024 apart the later one is known; the answer to the other is handed on as it came."""
    mads = [build_smp(1, 0x15, path=(1,), transaction_id=tid) for tid in (5, 5 + 1024)]
    wire.port.send([Outgoing(mad) for mad in mads])
    for mad in mads:
        wire.deliver(answer(mad))
    assert wire.receive() == ([(5 + 1024, bytes(64))], [Incoming(answer(mads[0]))])


bits = st.lists(st.integers(0, 256 * 8 - 1), max_size=3)
lengths = st.sampled_from([256] * 6 + [0, 23, 24, 64, 255])


@given(flips=bits, length=lengths, status=st.sampled_from([0x8000, 0, 0x8004]))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_taken_for_an_answer_is_one_for_the_scheduler_too(
    wire: Wire, flips: list[int], length: int, status: int
) -> None:
    scheduler, request = ask()
    wire.port.send(scheduler.to_send(0.0))
    _, _, mad = wire.sent()
    raw = int.from_bytes(answer(mad, bytes(range(64)), status))
    for bit in flips:
        raw ^= 1 << bit
    came = raw.to_bytes(256)[:length]
    wire.deliver(came)
    answers, others = wire.receive()
    is_good = (
        length == 256
        and scheduler.match_request(int.from_bytes(came[12:16]), came) == (request, 0)
        and came[4:6] in (b"\0\0", b"\x80\0")
    )
    assert answers == ([(1, came[64:128])] if is_good else [])
    assert others == ([] if is_good else [Incoming(came)])


def several(first_tid: int) -> tuple[Scheduler, Request, list[Outgoing]]:
    """Return a scheduler with all parts of one request in flight, and what it sent for them."""
    scheduler = Scheduler(first_tid=first_tid)
    envelope = Envelope("node", build_smp(1, 0, path=(1, 2), m_key=7), Destination(0xFFFF, 0.25, 2))
    scheduler.submit(envelope.ask(NodeInfo))
    [first] = scheduler.to_send(0.0)
    scheduler.answered([(int.from_bytes(first.mad[12:16]), bytes(64))], 0.0)  # now the node may have several at a time
    request = envelope.ask_each(PKeyTable, [1 << 16, 1 << 16 | 1, 2 << 16, 2 << 16 | 1])
    scheduler.submit(request)
    return scheduler, request, list(scheduler.to_send(0.0))


def take(scheduler: Scheduler, came: Incoming) -> None:
    """Let the scheduler alone say what *came* is."""
    tid = int.from_bytes(came.mad[12:16])
    if came.status == ETIMEDOUT:
        scheduler.timed_out(tid, 0.1)
    elif came.status or len(came.mad) != 256:
        scheduler.statistics.strays += 1
    elif asked := scheduler.match_request(tid, came.mad):
        is_good = came.mad[4:6] in (b"\0\0", b"\x80\0")
        scheduler.answered([(tid, came.mad[64:128] if is_good else status_error(*asked, came.mad))], 0.1)


hostile = st.tuples(
    st.integers(0, 3),  # which MAD it looks like an answer to
    st.one_of(st.just([]), bits, st.lists(st.integers(8 * 12, 8 * 24 - 1), max_size=2)),
    lengths,
    st.sampled_from([0x8000] * 4 + [0, 0x8004, 0x0001]),
    st.sampled_from([0] * 6 + [ETIMEDOUT, 5]),
)


@given(first_tid=st.integers(0, 2**32 - 1), replies=st.lists(hostile, max_size=12))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_comes_in_whatever_order_ends_as_without_the_engine(
    wire: Wire, first_tid: int, replies: list[tuple[int, list[int], int, int, int]]
) -> None:
    """Late, foreign, damaged, short and repeated answers, timeouts, answers to another part: what the engine takes and
    what it hands on make the same outcomes as the scheduler makes of all of it."""
    with_engine, request, sent = several(first_tid)
    alone, wanted, _ = several(first_tid)
    assert wire.port.send(sent) == []
    assert [wire.sent()[2] for _ in sent] == [out.mad for out in sent]
    for place, flips, length, status, umad_status in replies:
        raw = int.from_bytes(answer(sent[place].mad, bytes((place, len(flips))) * 32, status))
        for bit in flips:
            raw ^= 1 << 8 * 256 - 1 - bit
        came = Incoming(raw.to_bytes(256)[:length], umad_status)
        take(alone, came)
        wire.deliver(came.mad, came.status)
        answers, others = wire.receive()
        with_engine.answered(answers, 0.1)
        for other in others:
            take(with_engine, other)
    assert list(map(repr, request.outcomes)) == list(map(repr, wanted.outcomes))
    assert with_engine.statistics == alone.statistics
    assert with_engine.outstanding.flying.keys() == alone.outstanding.flying.keys()


def test_a_client_gets_each_block_of_a_table_among_hostile_answers(wire: Wire, mocker: MockerFixture) -> None:
    """A whole run through the client: all is answered in the reverse order, and around each answer come others that are
    not to be believed."""
    block = bytes(64)
    send = wire.port.send

    def wrong(mad: bytes) -> list[bytes]:
        foreign = mad[:12] + (int.from_bytes(mad[12:16]) ^ 0x8000_0000).to_bytes(4) + mad[16:]
        neighbour = mad[:20] + (int.from_bytes(mad[20:24]) ^ 1).to_bytes(4) + mad[24:]
        other = mad[:16] + b"\0\x15" + mad[18:]
        routed = mad[:1] + b"\1" + mad[2:]
        return [*(answer(each, b"\xee" * 64) for each in (foreign, neighbour, other, routed)), mad, answer(mad)[:255]]

    def echo(batch: Any) -> Any:
        failures = send(batch)
        for out in reversed(batch):
            wire.sent()
            good = answer(out.mad, out.mad[20:24] + block[4:])
            for mad in [*wrong(out.mad), good, good, answer(out.mad, b"\xee" * 64)]:
                wire.deliver(mad)
        return failures

    mocker.patch.object(wire.port, "send", echo)
    client = SmpClient(wire.port, Timing(timeout=0.25, retries=0))
    gets = client.gets_to((1, 2), "node", MKey(7))

    assert client.ask(gets.ask_each(PKeyTable, range(10))) == [number.to_bytes(4) + block[4:] for number in range(10)]
    assert client.statistics.replies == 10


def test_no_buffer_keeps_the_end_of_an_earlier_mad(wire: Wire) -> None:
    """It may hold a key: what is shorter than a MAD, as a timeout is, has zeros behind it and not what was there."""
    key = bytes(range(0xA1, 0xA9))
    wire.deliver(build_smp(0x81, 0x15, data=key * 8)[:192] + key * 8)
    wire.receive()
    wire.deliver(build_smp(1, 0x15)[:24], ETIMEDOUT)
    assert [len(each.mad) for each in wire.receive()[1]] == [24]
    assert key not in bytes(vars(wire.port)["_mads_buffer"])
