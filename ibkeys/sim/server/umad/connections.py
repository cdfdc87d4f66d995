"""Serving the connections of programs on the simulator's own libibumad: answering questions, and passing
records to the `MadLayer`.
"""

from __future__ import annotations

import array
import errno
import fcntl
import itertools
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ibkeys.errors import AddressError
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.server.credentials import process_of_stream, user_of_stream
from ibkeys.sim.server.is_sm import IsSm
from ibkeys.sim.server.listening import listen_at
from ibkeys.sim.server.loop import READABLE, WRITABLE, Loop
from ibkeys.sim.server.outbox import MadTap
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.hosts import (
    Adapter,
    adapters_of,
    choose_port,
    describe_adapter,
    describe_port,
    name_of,
    ports_of,
)
from ibkeys.sim.server.umad.issm import IssmDevices
from ibkeys.sim.server.umad.mad_layer import MadLayer
from ibkeys.sim.server.umad.open_ports import Page, ProgramPort
from ibkeys.sim.server.umad.shells import STREAMS, Shells, StartShell, refuse
from ibkeys.sim.server.umad.wire import Hello, HostAnswer, Kind, WireQuestion
from ibkeys.sim.subnet import Subnet

MOST_CONNECTIONS: Final = 512
"""The most ports that are open at one time."""
MOST_STRANGERS: Final = 256
"""The most connections that have not sent their question yet; a further one takes the place of the oldest."""
_BACKLOG: Final = 128
_BATCH: Final = 32
"""The most records that are received from one program before its answers are sent and other programs are served."""
_DESCRIPTORS: Final = max(2, STREAMS)
_SPACE: Final = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
_FIRST_SLOT: Final = 1000
"""The first number of a program; it is above all slots of ibsim's protocol."""


_SEND: Final = wire.RECORD.pack(Kind.SEND, 0, wire.BODY_SIZE)
"""The beginning of nearly all records: a MAD of 256 bytes that is sent without REPLY."""
_BEGINNING_SIZE: Final = wire.RECORD.size


class _Malformed(Exception):
    """A record that the simulator's own libibumad (native/umad-sim) never sends."""


@dataclass(eq=False, repr=False)
class Connections:
    """Serves the programs that connect to the socket of ``name``.

    ``users``: the users whose programs may connect; None: all users. ``home``: a node of the host of programs that name
    no host. ``log``: called with a line about each refused program; ``log_clients``: with a line about each port that
    is opened or closed. ``folder``: returns the folder for the files of the hosts. ``fabric``: the served fabric, in
    words. ``start_shell``: starts a shell on a host; None: no shell is started. Raises TransportError if the socket
    name is in use or cannot be used.
    """

    subnet: Subnet
    name: str
    loop: Loop
    counts: Counter[str]
    is_sm: IsSm
    users: Container[int] | None
    home: SimNode
    watch: MadTap | None
    log: Callable[[str], None]
    log_clients: Callable[[str], None]
    folder: Callable[[], str]
    fabric: str
    start_shell: StartShell | None = None
    _strangers: dict[int, socket.socket] = field(default_factory=dict)
    _open: dict[int, ProgramPort] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._slots = itertools.count(_FIRST_SLOT)
        self._mads = MadLayer(self.subnet, self.loop, self.counts, self.watch, self._wait_to_write)
        self._issm = IssmDevices(self.loop, self._set_is_sm, for_all=self.users is None)
        self._shells = Shells(self.loop, self.start_shell)
        address = b"\0" + f"{self.name}:umad".encode()
        self._listening = listen_at(socket.SOCK_SEQPACKET, address, self.name, _BACKLOG)
        self.loop.register(self._listening.fileno(), self._accept)

    @property
    def packets(self) -> int:
        """The number of MADs that programs have sent."""
        return self._mads.packets

    def open_ports(self) -> list[ProgramPort]:
        """Return the open ports of all programs."""
        return list(self._open.values())

    def _accept(self, events: int) -> None:
        if len(self._strangers) >= MOST_STRANGERS:
            self._drop_oldest_stranger()
        try:
            accepted, _ = self._listening.accept()
        except OSError as error:
            if error.errno == errno.EMFILE and self._strangers:  # this descriptor is for the one that waits
                self._drop_oldest_stranger()
            return
        accepted.setblocking(False)
        self._strangers[accepted.fileno()] = accepted
        self.loop.register(accepted.fileno(), partial(self._hear, accepted))

    def _drop_oldest_stranger(self) -> None:
        """Close the connection that has not sent its question for the longest time: libraries send it at once."""
        descriptor = next(iter(self._strangers))
        self.loop.unregister(descriptor)
        self._strangers.pop(descriptor).close()

    def _why_not(self, connected: socket.socket) -> str:
        """Return the reason why the program at the other end may not attach; "" if it may."""
        if self.users is not None and user_of_stream(connected) not in self.users:
            self.counts["of other users"] += 1
            return "it belongs to another user; `ibkeys sim serve --allow-others` lets all attach"
        if len(self._open) >= MOST_CONNECTIONS:
            return f"{MOST_CONNECTIONS} programs are attached, which is the most"
        return ""

    def _hear(self, connected: socket.socket, events: int) -> None:
        """Receive the question of a connection and answer it. Then the connection is closed; if the question is OPEN, a
        port is opened for the program; if it is SHELL, it lasts as long as the shell."""
        descriptors: list[int] = []
        try:
            raw, ancillary, _, _ = connected.recvmsg(wire.MOST_HELLO, _SPACE, socket.MSG_CMSG_CLOEXEC)
            descriptors = _descriptors(ancillary)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        try:
            self._hear_question(connected, raw, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _hear_question(self, connected: socket.socket, raw: bytes, descriptors: list[int]) -> None:
        del self._strangers[connected.fileno()]
        self.loop.unregister(connected.fileno())
        hello, why_not = wire.parse_hello(raw), self._why_not(connected)
        if why_not:
            refuse(connected, why_not)
            return
        if hello is None:
            if raw:
                self.counts["malformed"] += 1
            refuse(connected, "its library is of another version than the server")
            return
        try:
            found = adapters_of(self.subnet, hello.host, self.home)
        except AddressError as error:
            self.log(f"refused a program: {error}")
            refuse(connected, str(error))
            return
        if hello.question == WireQuestion.SHELL:
            self._shells.open(connected, name_of(self.subnet, found), descriptors)
            return
        self._answer(connected, hello, found)

    def _answer(self, connected: socket.socket, hello: Hello, found: list[Adapter]) -> None:
        chosen = choose_port(found, hello.ca, hello.port)
        if hello.question == WireQuestion.OPEN and chosen is not None:
            self._open_port(connected, chosen[1])
            return
        with suppress(OSError):
            connected.send(self._answer_to(hello, found, chosen))
        connected.close()

    def _answer_to(self, hello: Hello, found: list[Adapter], chosen: tuple[Adapter, SimPort] | None) -> bytes:
        if hello.question == WireQuestion.NAMES:
            return wire.names([adapter.name for adapter in found])
        if hello.question == WireQuestion.HOST:
            folder = self.folder() if hello.port else ""
            ports = wire.ports_text(port for adapter in found for port in ports_of(adapter))
            return wire.host_answer(HostAnswer(name_of(self.subnet, found), folder, self.fabric, ports))
        if hello.question == WireQuestion.CA and hello.ca:
            named = next((adapter for adapter in found if adapter.name == hello.ca), None)
            return wire.answer(error=errno.ENOENT) if named is None else describe_adapter(named)
        if chosen is None:
            return wire.answer(error=errno.EINVAL if hello.ca else errno.ENODEV)
        adapter, port = chosen
        if hello.question == WireQuestion.CA:
            return describe_adapter(adapter)
        if hello.question == WireQuestion.PORT:
            return describe_port(adapter, port)
        if hello.question == WireQuestion.ISSM:
            return wire.answer(os.fsencode(self._issm.path(port)) + b"\0")
        return wire.answer(error=errno.EINVAL)

    def _open_port(self, connected: socket.socket, port: SimPort) -> None:
        page = None
        try:
            page = Page(port)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as error:
            if page is not None:
                page.close()
            refuse(connected, f"no further port can be opened: {error.strerror}")
            return
        ours.setblocking(False)
        opened = ProgramPort(next(self._slots), process_of_stream(connected), port, ours, page)
        rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno(), opened.page.fd])
        with connected, theirs:
            try:
                connected.sendmsg([wire.answer()], [rights])
            except OSError:
                opened.close()
                return
        opened.is_sm = self._issm.is_open(port)
        self._open[ours.fileno()] = opened
        self._mads.open(opened)
        self.loop.register(ours.fileno(), partial(self._ready, opened))
        self.log_clients(f"{opened} attached")

    def _wait_to_write(self, opened: ProgramPort) -> None:
        self.loop.wait_for(opened.socket.fileno(), READABLE | WRITABLE)

    def _ready(self, opened: ProgramPort, events: int) -> None:
        try:
            if events & WRITABLE and opened.flush():
                self.loop.wait_for(opened.socket.fileno(), READABLE)
            if events & ~WRITABLE:
                self._read(opened)
        except OSError:
            self._end(opened)
        except _Malformed:
            self.counts["malformed"] += 1
            self._end(opened)

    def _end(self, opened: ProgramPort) -> None:
        fd = opened.socket.fileno()
        self.loop.unregister(fd)
        del self._open[fd]
        self._mads.close(opened)
        self.log_clients(f"{opened} left")

    def _read(self, opened: ProgramPort) -> None:
        """Receive and process records of the program. Raises _Malformed, and OSError if the program has ended."""
        try:
            self._take(opened)
        finally:
            self._mads.send_answers(opened)

    def _take(self, opened: ProgramPort) -> None:
        try:
            raw, ancillary, _, _ = opened.socket.recvmsg(_BATCH * wire.RECORD_SIZE, _SPACE, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        descriptors = _descriptors(ancillary) if ancillary else []
        try:
            if not raw:
                raise ConnectionResetError
            if len(raw) % wire.RECORD_SIZE:
                raise _Malformed
            with_descriptors = len(raw) - wire.RECORD_SIZE if descriptors else -1
            for start in range(0, len(raw), wire.RECORD_SIZE):
                try:
                    if start != with_descriptors and raw[start : start + _BEGINNING_SIZE] == _SEND:
                        self._mads.send_full(opened, raw[start + _BEGINNING_SIZE : start + wire.RECORD_SIZE])
                    else:
                        record = raw[start : start + wire.RECORD_SIZE]
                        self._record(opened, record, descriptors if start == with_descriptors else [])
                except (_Malformed, OSError):
                    raise
                except Exception as error:  # A bug that one record triggers must not lose the other records.
                    self.loop.report(error)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _record(self, opened: ProgramPort, raw: bytes, descriptors: list[int]) -> None:
        kind, flags, size = wire.RECORD.unpack_from(raw)
        if size > wire.BODY_SIZE:
            raise _Malformed
        body = raw[wire.RECORD.size : wire.RECORD.size + size]
        wants = bool(flags & wire.REPLY) + bool(flags & wire.MEMORY)
        if wants != len(descriptors):
            raise _Malformed
        memory = descriptors[-1] if flags & wire.MEMORY else None
        error, number = self._do(opened, kind, body, memory)
        if flags & wire.REPLY:
            _reply(descriptors[0], wire.reply(error, number))

    def _do(self, opened: ProgramPort, kind: int, body: bytes, memory: int | None) -> tuple[int, int]:
        """Execute a record; return the errno (0 for none) and the number for a reply. *memory*: the descriptor of the
        memory file that came with it. Raises _Malformed."""
        if kind == Kind.SEND:
            header, mad = _mad(body, memory)
            return self._mads.send(opened, header, mad), 0
        if kind == Kind.REGISTER:
            wanted = wire.parse_registration(body)
            if wanted is not None:
                return self._mads.register(opened, wanted)
        elif kind == Kind.UNREGISTER:
            number = wire.parse_id(body)
            if number is not None:
                return self._mads.unregister(opened, number), 0
        elif kind == Kind.NOT_TAKEN:
            header, mad = _mad(body, memory)
            self._mads.write(opened, header + mad[: wire.INLINE].ljust(wire.INLINE, b"\0"), mad)
            return 0, 0
        raise _Malformed

    def _set_is_sm(self, port: SimPort, on: bool) -> None:
        self.is_sm.set(port, self, on)
        for opened in self._open.values():
            if opened.port is port:
                opened.is_sm = on

    def close(self) -> None:
        """Close all connections, the socket and the issm devices. A program ends at its current or next call of the
        library."""
        for opened in list(self._open.values()):
            self._end(opened)
        for stranger in self._strangers.values():
            stranger.close()
        self._shells.close()
        self._issm.close()
        self._listening.close()


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _mad(body: bytes, memory: int | None) -> tuple[bytes, bytes]:
    """Return the umad header and the MAD of a record; the MAD is from the file *memory* if there is one. Raises
    _Malformed."""
    header, mad = body[: wire.HEADER_SIZE], body[wire.HEADER_SIZE :]
    if len(header) < wire.HEADER_SIZE:
        raise _Malformed
    return header, mad if memory is None else _contents(memory)


def _contents(memory: int) -> bytes:
    """Return the contents of a memory file. Raises _Malformed if it is too short or too long, and for any other
    descriptor, because reading that might block."""
    try:
        fcntl.fcntl(memory, fcntl.F_GET_SEALS)
        size = os.fstat(memory)
    except OSError:
        raise _Malformed from None
    if not stat.S_ISREG(size.st_mode) or not wire.INLINE < size.st_size <= wire.MOST_MAD:
        raise _Malformed
    return os.pread(memory, size.st_size, 0)


def _reply(descriptor: int, record: bytes) -> None:
    """Write *record* to the socket that came with a record. A failure is ignored, because the program has caused it."""
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as given:
            given.send(record, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
