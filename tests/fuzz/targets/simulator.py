"""The datagrams that a program may send to `sim serve`: the server goes on, and another program gets its answers."""

from __future__ import annotations

import atexit
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

from ibkeys.mad.const import AttributeID, MgmtClass
from ibkeys.sim.server import ibsim_protocol as protocol
from tests.fuzz.target import Choices, Target
from tests.sim.server.programs import TIMEOUT, Program, RunningOpensm, get, gmp, tid

_NOISE, _CONTROL, _PACKET = range(3)
_GOOD = (
    get(AttributeID.PORT_INFO, 1, path=(1, 2)),
    get(AttributeID.NODE_INFO, path=None),
    gmp(MgmtClass.SUBN_ADM, 0x12, 0x12),
    gmp(MgmtClass.SUBN_ADM, 0x02, 0x03),
    gmp(MgmtClass.PERF_MGMT, 0x01, 0x12),
    gmp(0x21, 0x01, 0x0A),
)
_LIDS = (0xFFFF, 0, 1, 2, 3, 4, 9, 0xC000)


class Scene:
    """A server, a program that behaves, one that is a subnet manager and reads nothing, and one that fuzzes."""

    def __init__(self) -> None:
        stack = ExitStack()
        atexit.register(stack.close)
        self.running = RunningOpensm(stack)
        self.honest, self.sm = self.running.attach("H-2"), self.running.attach("H-3", is_sm=True)
        self.fuzzer = self.running.attach("H-1")
        self.turn = 0

    def send(self, data: bytes, control: bool) -> None:
        """Send a datagram as the program that fuzzes; it attaches again where it has been disconnected."""
        try:
            (self.fuzzer.control if control else self.fuzzer.data).send(data)
        except ConnectionError:
            self.fuzzer.close()
            self.fuzzer = self.running.attach("H-1")
        for quiet in (self.fuzzer.data, self.fuzzer.control, self.sm.data):
            drain(quiet)

    def check(self) -> None:
        """Assert that the honest program still has its answer, and the server met no bug."""
        self.turn += 1
        answer = ask(self.honest, self.turn)
        assert answer == 0
        assert "internal errors" not in self.running.server.counts(), self.running.said


def ask(program: Program, turn: int) -> int:
    """Return the status of an answer to *program*, past those to what came before."""
    answer = program.exchange(get(AttributeID.NODE_INFO, tid=turn))
    while tid(answer.mad) & 0xFFFFFFFF != turn:
        answer = program.receive()
    return answer.status


def drain(quiet: socket.socket) -> None:
    """Take what has come for a program that does not look at it."""
    quiet.setblocking(False)
    try:
        while True:
            quiet.recv(500)
    except OSError:
        pass
    finally:
        quiet.settimeout(TIMEOUT)


def datagrams(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Return what an input says is sent, and whether to the control socket: noise, control requests, packets."""
    choices = Choices(data)
    while choices:
        kind = choices.number()
        control = kind >= 0xC0
        match kind % 3:
            case 0:
                yield choices.take(choices.number(2) % 1000), control
            case 1:
                head = [choices.number() for _ in range(3)]
                size = choices.number() % 65
                yield struct.pack("=IIII", protocol.MAGIC, *head) + choices.take(size).ljust(64, b"\0"), True
            case _:
                yield _packet(choices), control


def _packet(choices: Choices) -> bytes:
    """Return a packet around a MAD with some bytes changed."""
    mad = bytearray(_GOOD[choices.number() % len(_GOOD)])
    lid = _LIDS[choices.number() % len(_LIDS)]
    length = choices.number(2)
    for _ in range(choices.number() % 8):
        mad[choices.number()] = choices.number()
    header = protocol.packet_lid(lid) + choices.take(4).ljust(4, b"\xff") + bytes(16)
    return header + (length or 256).to_bytes(8) + bytes(mad)


_scene = cache(Scene)


def _serve(data: bytes) -> None:
    scene = _scene()
    for datagram, control in datagrams(data):
        scene.send(datagram, control)
    scene.check()


def _seeds() -> Iterator[bytes]:
    for number in range(len(_GOOD)):
        for lid in (0, 2):
            yield bytes((_PACKET, number, lid, 0, 0, 0)) + b"\xff\xff\0\0"
    for kind in range(12):
        yield bytes((_CONTROL, 2, kind, 4, 8)) + b"H-2\0\0\0\0\0"
    yield bytes((_NOISE, 0, 80)) + bytes(80) + bytes((0xC0 + _NOISE, 1, 32)) + bytes(288)


TARGETS = (Target("sim-serve", _serve, _seeds, largest=400),)
