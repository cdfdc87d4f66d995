"""The programs attached to a simulated subnet: slots, their data sockets, and packets that wait to be written to
them."""

from __future__ import annotations

import errno
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ibkeys.errors import TransportError
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.credentials import show_senders

MAX_CLIENTS: Final = 256
"""Slots. ibsim has ten; its clients take any number."""
MAX_WAITING: Final = 4096
"""Datagrams kept for a client that does not read; more are lost, as in a switch."""
PAUSE_AT: Final = 512
"""When a client has so many unread answers, nothing more is read from it until it has read them. MADs that it did not
request (traps, Reports) do not count: it may be answering one, and then waits for the server to read."""

SocketAddress = bytes | str | tuple[str, int]


@dataclass(slots=True, eq=False)
class Client:
    """One attached program.

    ``slot`` is in the upper 16 bits of the TransactionIDs of its requests. ``is_known``: a packet showed that it
    belongs to a user who may attach. ``subscriptions``: its current subscriptions at the SA: while it has one, it is
    the program of its port that gets Reports. ``owed``: how many of the packets that are ``waiting`` are answers to it.
    """

    slot: int
    ident: int
    port: SimPort
    address: SocketAddress
    peer: SocketAddress
    socket: socket.socket
    is_sm: bool = False
    is_known: bool = False
    gone: bool = False
    owed: int = 0
    paused: bool = False
    waiting: deque[bytes] = field(default_factory=deque)
    subscriptions: set[bytes] = field(default_factory=set)
    slot_bytes: bytes = field(init=False)
    fd: int = field(init=False)

    def __post_init__(self) -> None:
        self.slot_bytes, self.fd = self.slot.to_bytes(2), self.socket.fileno()

    def __str__(self) -> str:
        return f"client {self.slot} ({self.ident}) at {self.port}"


class Clients:
    """The slots. ``name`` is the base name of the sockets; with *listen* they are UDP ports after that one.

    ``leaving`` are the clients that have detached and still have their slots.
    """

    def __init__(self, name: str, listen: tuple[str, int] | None = None) -> None:
        self.name = name
        self.listen = listen
        self._slots: list[Client | None] = [None] * MAX_CLIENTS
        self._at: dict[SimPort, list[Client]] = {}
        self.leaving: list[Client] = []

    def __iter__(self) -> Iterator[Client]:
        return iter([client for client in self._slots if client is not None])

    def __len__(self) -> int:
        return sum(client is not None for client in self._slots)

    def get(self, slot: int) -> Client | None:
        """Return the client in *slot*."""
        return self._slots[slot] if 0 <= slot < MAX_CLIENTS else None

    def at(self, port: SimPort) -> list[Client]:
        """Return the clients attached at *port* in the order in which they attached."""
        return self._at.get(port, [])

    def takes_reports(self, port: SimPort) -> Client | None:
        """Return the one client at *port* that gets Reports: the first that subscribed."""
        return next((client for client in self.at(port) if client.subscriptions), None)

    def same(self, ident: int, address: SocketAddress) -> Client | None:
        """Return the client that had this number and control address before."""
        return next((client for client in self if client.ident == ident and client.address == address), None)

    def add(self, ident: int, port: SimPort, address: SocketAddress) -> Client | None:
        """Attach a program in the lowest free slot; None when there is none. Raises TransportError, OSError.

        A slot whose name or UDP port is in use is skipped.
        """
        peer = self._peer(ident, address)
        for slot, taken in enumerate(self._slots):
            if taken is None:
                try:
                    opened = self._open(slot, peer)
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
                    continue
                break
        else:
            return None
        client = Client(slot, ident, port, address, peer, opened)
        self._slots[slot] = client
        self._at.setdefault(port, []).append(client)
        return client

    def mark_gone(self, client: Client) -> None:
        """Record that *client* has detached or ended; it is removed when none of its requests is in progress."""
        if not client.gone:
            client.gone = True
            self.leaving.append(client)

    def remove(self, client: Client) -> None:
        """Free the client's slot and close its socket."""
        if self._slots[client.slot] is client:
            self._slots[client.slot] = None
            self._at[client.port].remove(client)
            client.socket.close()
        client.gone = True
        client.waiting.clear()

    def _peer(self, ident: int, address: SocketAddress) -> SocketAddress:
        if self.listen is not None:
            assert isinstance(address, tuple)
            return (address[0], ident & 0xFFFF)
        return protocol.socket_name(self.name, f"in{ident}")

    def _open(self, slot: int, peer: SocketAddress) -> socket.socket:
        if self.listen is not None:
            opened = _bound((self.listen[0], self.listen[1] + 1 + slot))
        else:
            opened = _bound(protocol.socket_name(self.name, f"out{slot}"))
        try:
            opened.connect(peer)
            # From here on the kernel takes packets of the peer alone. Packets that others sent before are dropped; the
            # program itself does not know yet where to send.
            with suppress(BlockingIOError):
                while True:
                    opened.recv(1)
        except BaseException:
            opened.close()
            raise
        return opened

    def is_alive(self, client: Client) -> bool:
        """Return whether a program still reads from *client*, as far as this is known without sending anything.

        The name of a dead program is gone; a living program has its socket connected to ours and so refuses the probe.
        """
        if self.listen is not None:
            return not client.gone
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            return probe.connect_ex(client.peer) != errno.ECONNREFUSED


def bind(name: str, listen: tuple[str, int] | None) -> socket.socket:
    """Open the socket for control requests. Raises TransportError if the name or port is taken or cannot be used."""
    words = f"the socket name {name!r}" if listen is None else f"UDP port {listen[1]} of {listen[0]}"
    try:
        return _bound(listen or protocol.socket_name(name, "ctl"))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise TransportError(f"{words} is in use: another simulator runs there", errno.EADDRINUSE) from None
        raise TransportError(f"{words} cannot be used: {error.strerror or error}", error.errno or 0) from None


def _bound(own: SocketAddress) -> socket.socket:
    """Open a socket at *own*: a name of this host, or a UDP port. Raises OSError."""
    family = socket.AF_UNIX if isinstance(own, bytes) else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if family == socket.AF_UNIX:
            show_senders(opened)
        opened.bind(own)
    except BaseException:
        opened.close()
        raise
    return opened
