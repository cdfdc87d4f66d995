"""A program on the wire of our libibumad, written in Python: what native/umad-sim sends and takes, and what it would
never send."""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from ibkeys.mad.const import MgmtClass
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.wire import Kind, WireQuestion
from tests.sim.server.programs import TIMEOUT, ProgramSockets

HELLO = struct.Struct("=IIIi20s128s")
SUBN = int(MgmtClass.SUBN_LID_ROUTED)
DIRECTED = int(MgmtClass.SUBN_DIRECTED_ROUTE)
SA = int(MgmtClass.SUBN_ADM)
PERF = int(MgmtClass.PERF_MGMT)
DEFAULT_TIMEOUT = 2000  # milliseconds


class Received(NamedTuple):
    """A received MAD with its umad header."""

    agent: int
    status: int
    length: int
    qpn: int
    lid: int
    sl: int
    path_bits: int
    has_grh: int
    p_key_index: int
    mad: bytes
    raw: bytes


def connect(name: str) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connected.settimeout(TIMEOUT)
    connected.connect(b"\0" + f"{name}:umad".encode())
    return connected


def hello(question: int, ca: str = "", port: int = 0, host: str = "", version: int = wire.VERSION) -> bytes:
    return HELLO.pack(wire.MAGIC, version, question, port, ca.encode(), host.encode())


def ask(name: str, question: WireQuestion, ca: str = "", port: int = 0, host: str = "") -> tuple[int, bytes]:
    """Return the error and the body of an answer."""
    with connect(name) as connected:
        connected.send(hello(question, ca, port, host))
        raw = connected.recv(1 << 18)
        return struct.unpack_from("=i", raw)[0], raw[8:]


def memory_with(data: bytes) -> int:
    memory = os.memfd_create("test")
    os.write(memory, data)
    return memory


class Program(ProgramSockets):
    """An open port."""

    def __init__(self, name: str, host: str = "", ca: str = "", port: int = 0) -> None:
        with connect(name) as connected:
            connected.send(hello(WireQuestion.OPEN, ca, port, host))
            raw, descriptors, _, _ = socket.recv_fds(connected, 1 << 12, 2)
        error = struct.unpack_from("=i", raw)[0]
        assert error == 0, (error, raw[8:])
        self.socket = socket.socket(fileno=descriptors[0])
        self.page = mmap.mmap(descriptors[1], 0)
        os.close(descriptors[1])

    def record(self, kind: int, body: bytes = b"", memory: int | None = None) -> None:
        """Send a record without asking for a reply."""
        flags = 0 if memory is None else wire.MEMORY
        socket.send_fds(self.socket, [wire.record(kind, flags, body)], [] if memory is None else [memory])

    def call(self, kind: int, body: bytes = b"", memory: int | None = None) -> tuple[int, int]:
        """Send a record and return the errno and the number of the reply."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            flags = wire.REPLY | (0 if memory is None else wire.MEMORY)
            descriptors = [theirs.fileno(), *([] if memory is None else [memory])]
            socket.send_fds(self.socket, [wire.record(kind, flags, body)], descriptors)
            theirs.close()
            ours.settimeout(TIMEOUT)
            error, number = struct.unpack("=iI", ours.recv(100))
            return error, number

    def try_register(
        self,
        mgmt_class: int,
        methods: Sequence[int] = (),
        version: int = 1,
        *,
        rmpp: int = 0,
        oui: int = 0x1405,
        flags: int = 0,
    ) -> tuple[int, int]:
        mask = sum(1 << method for method in methods).to_bytes(16, "little")
        return self.call(Kind.REGISTER, struct.pack("=16sIIBBBx", mask, flags, oui, mgmt_class, version, rmpp))

    def register(self, mgmt_class: int, methods: Sequence[int] = (), version: int = 1, *, rmpp: int = 0) -> int:
        error, number = self.try_register(mgmt_class, methods, version, rmpp=rmpp)
        assert error == 0
        return number

    def unregister(self, agent: int) -> int:
        return self.call(Kind.UNREGISTER, struct.pack("=I", agent))[0]

    def header(
        self,
        agent: int,
        lid: int = 0xFFFF,
        *,
        timeout: int = DEFAULT_TIMEOUT,
        retries: int = 0,
        qpn: int = 0,
        sl: int = 0,
        p_key_index: int = 0,
        path_bits: int = 0,
        grh: bytes | None = None,
    ) -> bytes:
        address = struct.pack(">IIHBBB", qpn, 0x80010000, lid, sl, path_bits, grh is not None) + (grh or bytes(23))
        return struct.pack("=IIIII", agent, 0, timeout, retries, 0) + address + struct.pack("=H6x", p_key_index)

    def send(self, agent: int, mad: bytes, lid: int = 0xFFFF, **options: Any) -> int:
        """Send a MAD as umad_send() would if nothing were certain; returns the errno. *options*: of `header`."""
        header = self.header(agent, lid, **options)
        if len(mad) <= wire.INLINE:
            return self.call(Kind.SEND, header + mad)[0]
        memory = memory_with(mad)
        try:
            return self.call(Kind.SEND, header, memory)[0]
        finally:
            os.close(memory)

    def receive(self, timeout: float = TIMEOUT) -> Received:
        self.socket.settimeout(timeout)
        raw, descriptors, _, _ = socket.recv_fds(self.socket, wire.BODY_SIZE, 1)
        assert raw, "the server closed the connection"
        assert len(raw) == wire.BODY_SIZE
        is_beside, here = struct.unpack_from("=?xH", raw, 58)
        assert raw[64 + here :] == bytes(wire.INLINE - here)
        agent, status, _, _, length = struct.unpack_from("=IIIII", raw)
        qpn, _, lid, sl, path_bits, has_grh = struct.unpack_from(">IIHBBB", raw, 20)
        mad = raw[64 : 64 + here]
        assert is_beside == bool(descriptors)
        if descriptors:
            mad = os.pread(descriptors[0], 1 << 27, 0)
            os.close(descriptors[0])
        index = struct.unpack_from("=H", raw, 56)[0]
        return Received(agent, status, length, qpn, lid, sl, path_bits, has_grh, index, mad, raw)

    def exchange(self, agent: int, mad: bytes, lid: int = 0xFFFF, **options: int) -> Received:
        assert self.send(agent, mad, lid, **options) == 0
        return self.receive()

    def is_cut_off(self) -> bool:
        self.socket.settimeout(TIMEOUT)
        try:
            return self.socket.recv(100) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()
