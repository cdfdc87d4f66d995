"""Programs that come, go, die and send noise, and the server that goes on."""

from __future__ import annotations

import random
import socket
import struct

from ibkeys.mad.const import AttributeID
from ibkeys.sim.server import clients
from ibkeys.sim.server import ibsim_protocol as protocol
from tests.sample import SOAK
from tests.sim.server.programs import TIMEOUT, Program, Running, get, tid


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
    program.data = program.open_socket("in")
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
