"""Programs that attach to the server as those of libumad2sim do, and a server for them that runs in a thread."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

from ibkeys.mad.const import Method
from ibkeys.mad.smp import build_smp
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server import steer_socket
from ibkeys.sim.server.server import Server
from ibkeys.sim.subnet import Subnet

NET = """
switchguid=0x10
Switch 4 "S-1" # "the switch" base port 0 lid 1 lmc 0
[1] "H-1"[1]
[2] "H-2"[1]
[3] "H-3"[2]

caguid=0x100
Ca 1 "H-1" # "one HCA-1"
[1] "S-1"[1] # lid 2 lmc 0 "the switch" lid 1 4xQDR

caguid=0x200
Ca 1 "H-2" # "two HCA-1"
[1] "S-1"[2] # lid 3 lmc 0 "the switch" lid 1 4xQDR

caguid=0x300
Ca 2 "H-3" # "three HCA-1"
[2] "S-1"[3] # lid 4 lmc 0 "the switch" lid 1 4xQDR
"""
TIMEOUT = 60.0
QUIET = 0.15  # seconds without a packet after which none is expected any more
_serial = itertools.count()
idents = itertools.count(100_000)


def fresh_name() -> str:
    """Return a name for a server that no other has."""
    return f"ibkeys-test-{os.getpid()}-{next(_serial)}"


class Packet(NamedTuple):
    dlid: int
    slid: int
    dqp: int
    sqp: int
    status: int
    length: int
    mad: bytes


class ProgramSockets(ABC):
    """The sockets of a program, whichever library it is linked with."""

    @abstractmethod
    def receive(self, timeout: float = TIMEOUT) -> object:
        """Return the next MAD. Raises TimeoutError if none comes within *timeout* seconds."""

    @abstractmethod
    def close(self) -> None:
        """Close the sockets without a word to the server, as when the program dies."""

    def hears_nothing(self) -> bool:
        try:
            self.receive(QUIET)
        except TimeoutError:
            return True
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Program(ProgramSockets):
    """An attached program; ``slot`` is what CONNECT gave it, None when it was refused."""

    def __init__(self, name: str, node: str = "", is_sm: bool = False, connect: bool = True) -> None:
        self.ident = next(idents)
        self.name = name
        self.slot: int | None = None
        self.control = self.open_socket("ctl")
        self.control.connect(protocol.socket_name(name, "ctl"))
        self.data = self.open_socket("in")
        if connect:
            reply = self.ask(protocol.CONNECT, protocol.client_info(self.ident, is_sm, node))
            if reply.kind == protocol.CONNECT:
                self.slot = protocol.parse_client_info(reply.data).ident
                self.node = protocol.parse_client_info(reply.data).node
                self.data.connect(protocol.socket_name(name, f"out{self.slot}"))

    def open_socket(self, kind: str) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        opened.bind(protocol.socket_name(self.name, f"{kind}{self.ident}"))
        opened.settimeout(TIMEOUT)
        return opened

    def ask(self, kind: int, data: bytes = b"", client: int | None = None) -> protocol.Control:
        client = (self.slot or 0) if client is None else client
        self.control.send(struct.pack("=IIII64s", protocol.MAGIC, client, kind, len(data), data))
        reply = protocol.parse_control(self.control.recv(100))
        assert reply is not None
        return reply

    def send(
        self, mad: bytes, lid: int = 0xFFFF, *, qpn: int = 0, sqp: int = 0, length: int = 256, padding: bytes = b"junk"
    ) -> None:
        slid = protocol.packet_lid(0xFFFF if lid == 0xFFFF else 0)
        header = protocol.packet_lid(lid) + slid + qpn.to_bytes(4) + sqp.to_bytes(4) + bytes(4) + padding
        self.data.send(header + length.to_bytes(8) + mad.ljust(256, b"\xee"))

    def receive(self, timeout: float = TIMEOUT) -> Packet:
        self.data.settimeout(timeout)
        raw = self.data.recv(500)
        assert len(raw) == protocol.PACKET_SIZE
        dlid, slid = (int.from_bytes(raw[at : at + 2]) for at in (0, 4))
        return Packet(dlid, slid, *struct.unpack(">II", raw[8:16]), *struct.unpack(">I4xQ", raw[16:32]), raw[32:])

    def exchange(self, mad: bytes, lid: int = 0xFFFF, **options: Any) -> Packet:
        self.send(mad, lid, **options)
        return self.receive()

    def close(self) -> None:
        self.control.close()
        self.data.close()


class RunningOpensm:
    """A server in a thread. ``subnet`` may be looked at when nothing is under way."""

    def __init__(self, stack: ExitStack, **options: Any) -> None:
        self.name = fresh_name()
        self.subnet = Subnet.from_text(NET, link_state=options.pop("links", "active"))
        self.said: list[str] = []
        self._stack = stack
        self.server = Server(self.subnet, self.name, log=self.said.append, **options)
        stack.callback(self.server.close)
        thread = threading.Thread(target=self.server.serve, daemon=True)
        thread.start()
        stack.callback(thread.join, TIMEOUT)
        stack.callback(self.server.stop)

    def attach(self, node: str = "H-1", **options: Any) -> Program:
        return self._stack.enter_context(Program(self.name, node, **options))

    def steer(self, line: str) -> str:
        answer = steer_socket.ask(self.name, line, TIMEOUT)
        assert answer.outcome == "ok", answer
        return answer.text

    def attached(self) -> list[str]:
        return self.steer("clients").splitlines()

    def wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not happened():
            assert time.monotonic() < deadline
            time.sleep(0.01)


def get(attribute: int, modifier: int = 0, path: tuple[int, ...] | None = (), tid: int = 0x7, **options: Any) -> bytes:
    return build_smp(Method.GET, attribute, modifier, path=path, transaction_id=tid, **options)


def gmp(mgmt_class: int, method: int, attribute: int, tid: int = 0x7) -> bytes:
    mad = bytearray(256)
    mad[0:4] = 1, mgmt_class, 2, method
    mad[8:16] = tid.to_bytes(8)
    mad[16:18] = attribute.to_bytes(2)
    return bytes(mad)


def tid(mad: bytes) -> int:
    return int.from_bytes(mad[8:16])
