"""Clients that no library of ours is: the server cuts them off and serves the others."""

from __future__ import annotations

import errno
import gc
import os
import random
import socket
import struct
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from ibkeys.mad.const import AttributeID
from ibkeys.sim.server.umad import connections, open_ports, wire
from ibkeys.sim.server.umad.wire import Kind, WireQuestion
from tests.sim.server.programs import RunningOpensm, get, gmp
from tests.sim.server.umad.programs import DIRECTED, SA, Program, ask, connect, hello, memory_with

Opener = Callable[..., Program]
NODE_INFO = int(AttributeID.NODE_INFO)
LONG = 0x7654_3210  # milliseconds


@pytest.mark.parametrize("raw", [b"\0", bytes(164), hello(1)[:-1], hello(1) + b"\0", os.urandom(164)])
def test_a_bad_hello_is_refused(running: RunningOpensm, raw: bytes) -> None:
    with connect(running.name) as connected:
        connected.send(raw)
        assert struct.unpack_from("=i", connected.recv(1000))[0] == -1
        assert connected.recv(1000) == b""


@pytest.mark.parametrize(
    "record",
    [
        b"\0",
        wire.RECORD.pack(Kind.SEND, 0, 0),
        wire.record(Kind.SEND, wire.REPLY, bytes(320)),  # without the descriptor
        wire.record(Kind.SEND, 0, bytes(63)),
        wire.record(Kind.SEND, 0, bytes(320)) + b"\0",
        wire.RECORD.pack(Kind.SEND, 0, 321) + bytes(320),
        wire.record(Kind.REGISTER, 0, bytes(27)),
        wire.record(Kind.UNREGISTER, 0, bytes(5)),
        wire.record(Kind.NOT_TAKEN, 0, bytes(3)),
        wire.RECORD.pack(99, 0, 0) + bytes(320),
        bytes(500),
    ],
)
def test_a_bad_record_ends_the_connection(running: RunningOpensm, program: Opener, record: bytes) -> None:
    one, two = program(), program()
    agent = two.register(DIRECTED)
    one.socket.send(record)
    assert one.is_cut_off()
    assert two.exchange(agent, get(NODE_INFO)).status == 0
    assert running.server.counts()["malformed"] == 1


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "short", "file"])
def test_what_is_no_memory_file_is_not_read(running: RunningOpensm, program: Opener, kind: str) -> None:
    one = program()
    agent = one.register(SA, version=2, rmpp=1)
    opened = {
        "pipe": lambda: os.pipe(),
        "socket": lambda: tuple(each.detach() for each in socket.socketpair()),
        "folder": lambda: (os.open("/", os.O_RDONLY),),
        "file": lambda: (os.open("/proc/self/status", os.O_RDONLY),),
        "short": lambda: (memory_with(bytes(256)),),
    }[kind]()
    one.record(Kind.SEND, one.header(agent, 3, qpn=1), opened[0])
    assert one.is_cut_off()
    for descriptor in opened:
        os.close(descriptor)
    assert ask(running.name, WireQuestion.NAMES)[0] == 0


def test_a_reply_is_written_to_nothing_but_a_socket(program: Opener) -> None:
    one = program()
    for _ in range(3):
        reading, writing = os.pipe()
        socket.send_fds(one.socket, [wire.record(Kind.UNREGISTER, wire.REPLY, bytes(4))], [writing])
        os.close(writing)
        assert os.read(reading, 1) == b""
        os.close(reading)
    assert one.register(DIRECTED) == 0


def test_descriptors_of_a_client_are_not_kept(running: RunningOpensm, program: Opener) -> None:
    one = program()
    agent = one.register(SA, version=2, rmpp=1)
    one.send(agent, gmp(SA, 1, 0x11)[:24] + bytes((1, 1, 1)) + bytes(1000), 3, qpn=1, timeout=1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        assert one.send(agent, gmp(SA, 1, 0x11)[:24] + bytes((1, 1, 1)) + bytes(1000), 3, qpn=1, timeout=1) in (0, 22)
    running.wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_a_program_that_does_not_read_loses_what_is_too_much(
    running: RunningOpensm, program: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibkeys.sim.server.umad.mad_layer.MOST_WAITING", 8)
    assert open_ports.MOST_WAITING > 8
    one, two = program(), program()
    agent, other = one.register(DIRECTED), two.register(DIRECTED)
    for number in range(2000):
        one.record(Kind.SEND, one.header(agent) + get(NODE_INFO, tid=number))
    assert two.exchange(other, get(NODE_INFO)).status == 0
    running.wait_until(lambda: running.server.counts()["packets"] == 2001)
    # The server counts the packets of a batch before those that are lost; what it answers next comes after the batch.
    assert two.exchange(other, get(NODE_INFO, tid=2)).status == 0
    lost = running.server.counts()["lost"]
    assert lost > 500
    numbers = [int.from_bytes(one.receive().mad[12:16]) for _ in range(2000 - lost)]
    assert numbers == sorted(numbers)
    assert one.exchange(agent, get(NODE_INFO, tid=5000)).mad[12:16] == (5000).to_bytes(4)


def test_long_mads_that_nobody_reads_are_lost_from_a_number_of_bytes_on(
    running: RunningOpensm, program: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory file that waits in a socket is memory of the server too."""
    monkeypatch.setattr(open_ports, "MOST_BYTES", 3999)
    one = program()
    agent = one.register(DIRECTED)
    for _ in range(2):
        for number in range(10):
            memory = memory_with(bytes((number,)) * 1000)
            one.record(Kind.NOT_TAKEN, wire.received_header(0, wire.Address(1, 1), 1000), memory)
            os.close(memory)
        assert one.exchange(agent, get(NODE_INFO)).mad[0] == 0, "the first long MAD comes before the answer"
        assert [one.receive().mad[0] for _ in range(2)] == [1, 2]
        assert one.receive().mad[3] == 0x81
    assert running.server.counts()["lost"] == 14


def test_mads_that_wait_for_ever_are_refused_from_a_number_on(program: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_ports, "MOST_BYTES", 3999)
    monkeypatch.setattr(open_ports, "MOST_WAITING", 5)
    one = program()
    agent = one.register(SA, version=2, rmpp=1)

    def send(number: int, size: int) -> int:
        mad = gmp(SA, 1, 0x11, tid=number)
        return one.send(agent, mad[:24] + bytes((1, 1, 1)) + bytes(size - 27), 99, qpn=1, timeout=0xFFFFFFFF)

    assert [send(number, 1000) for number in range(1, 6)] == [0, 0, 0, errno.ENOMEM, errno.ENOMEM]
    assert [send(number, 256) for number in range(6, 10)] == [0, 0, errno.ENOMEM, errno.ENOMEM]
    one.unregister(agent)
    agent = one.register(SA, version=2, rmpp=1)
    assert send(1, 3999) == 0


def test_a_mad_that_waits_no_more_is_not_kept_for_its_timeout(
    program: Opener, running: RunningOpensm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibkeys.sim.server.umad.mad_layer.LONGEST_TIMER", 0.01)
    one = program()
    agent = one.register(DIRECTED)
    given_up = one.exchange(agent, get(NODE_INFO, path=(1, 4)), timeout=50)  # it is several timers
    assert given_up.status == errno.ETIMEDOUT
    assert one.send(agent, get(NODE_INFO, path=(1, 4)), timeout=LONG) == 0
    assert kept() == 1
    assert one.unregister(agent) == 0
    running.wait_until(lambda: kept() == 0)


def kept() -> int:
    """Return the number of MADs in memory that were sent with the timeout `LONG`."""
    return sum(isinstance(each, open_ports.PendingMad) and each.timeout == LONG / 1000 for each in gc.get_objects())


def test_most_connections(running: RunningOpensm, program: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 2)
    one, two = program(), program()
    assert ask(running.name, WireQuestion.NAMES)[0] == -1
    two.close()
    running.wait_until(lambda: len(running.attached()) == 1)
    assert ask(running.name, WireQuestion.NAMES)[0] == 0
    assert one.register(DIRECTED) == 0


def test_connections_that_ask_nothing_keep_nobody_out(running: RunningOpensm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_STRANGERS", 3)
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(running.name)) for _ in range(8)]
        assert ask(running.name, WireQuestion.NAMES)[0] == 0
        assert silent[0].recv(1000) == b""
        silent[-1].send(hello(WireQuestion.NAMES))
        assert struct.unpack_from("=i", silent[-1].recv(1000))[0] == 0


@pytest.mark.parametrize("call", ["Page", "socket.socketpair"])
def test_a_server_without_descriptors_says_so_and_goes_on(
    running: RunningOpensm, program: Opener, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(f"ibkeys.sim.server.umad.connections.{call}", fail)
        error, body = ask(running.name, WireQuestion.OPEN)
    assert error == -1
    assert os.strerror(errno.EMFILE).encode() in body
    assert program().register(DIRECTED) == 0
    assert "internal errors" not in running.server.counts()


def test_programs_of_other_users_are_turned_away(run: Callable[..., RunningOpensm]) -> None:
    running = run(users=frozenset((os.geteuid() + 1,)))
    error, body = ask(running.name, WireQuestion.NAMES)
    assert error == -1
    assert b"--allow-others" in body


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes(running: RunningOpensm, program: Opener, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        one = program()
        agent = one.register(DIRECTED) if chance.random() < 0.5 else one.register(SA, version=2, rmpp=1)
        for _ in range(chance.randrange(1, 20)):
            mad = bytearray(get(NODE_INFO) if chance.random() < 0.5 else gmp(SA, 0x12, 0x11))
            for _ in range(chance.randrange(8)):
                mad[chance.randrange(64)] = chance.randrange(256)
            header = bytearray(one.header(agent, chance.choice((0, 2, 3, 0xFFFF)), qpn=1, timeout=chance.randrange(3)))
            for _ in range(chance.randrange(4)):
                header[chance.randrange(64)] = chance.randrange(256)
            one.record(Kind.SEND, bytes(header) + bytes(mad[: chance.randrange(257)]))
        one.close()
    assert ask(running.name, WireQuestion.NAMES)[0] == 0
