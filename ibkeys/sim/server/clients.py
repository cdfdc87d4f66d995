"""The programs attached by ibsim's protocol: their slots, their sockets, and the packets that wait to be written to
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
"""The number of slots. ibsim has ten; its client library accepts any number."""
MAX_WAITING: Final = 4096
"""The most datagrams that are stored for a client that does not read. Further ones are lost."""
PAUSE_AT: Final = 512
"""The number of unread answers from which on nothing is read from a client, until it reads them. MADs that it did not
request (traps, Reports) do not count: it may be sending the answer to one, and waiting for the server to read it."""

SocketAddress = bytes | str | tuple[str, int]


@dataclass(slots=True, eq=False)
class Client:
    """One attached program.

    ``slot``: its number, also the upper 16 bits of the TransactionIDs of its requests. ``ident``: its process id (UDP:
    its data port). ``address``, ``peer``: the addresses of its control socket and of its data socket. ``is_known``: a
    packet has shown that it belongs to a user who may attach. ``gone``: it has detached or ended. ``waiting``: the
    packets that it has not read yet; ``owed``: how many of these it waits for; ``paused``: nothing is read from it.
    ``subscriptions``: its current subscriptions at the SA: while it has one, it gets the Reports of its port.
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
    """All attached programs. ``name``: the base name of the sockets. *listen*: (address, port); then the sockets have
    the UDP ports after this port instead.

    ``leaving``: the clients that have detached or ended, but still have their slots.
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
        """Return the client in *slot*; None if there is none."""
        return self._slots[slot] if 0 <= slot < MAX_CLIENTS else None

    def at(self, port: SimPort) -> list[Client]:
        """Return the clients attached at *port* in the order in which they attached."""
        return self._at.get(port, [])

    def takes_reports(self, port: SimPort) -> Client | None:
        """Return the client at *port* that gets Reports: the first one with a subscription; None if there is none."""
        return next((client for client in self.at(port) if client.subscriptions), None)

    def same(self, ident: int, address: SocketAddress) -> Client | None:
        """Return the client with this process id and control address, which attached before; None if there is none."""
        return next((client for client in self if client.ident == ident and client.address == address), None)

    def add(self, ident: int, port: SimPort, address: SocketAddress) -> Client | None:
        """Attach a program in the lowest free slot and return it; None if no slot is free. Raises OSError.

        A slot whose socket name or UDP port is in use is skipped.
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
        """Record that *client* has detached or ended, and add it to ``leaving``. It keeps its slot until `remove`."""
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
            # From now on the kernel accepts packets of the peer only. Packets that are here already are dropped: other
            # programs have sent them, because the peer does not know this address yet.
            with suppress(BlockingIOError):
                while True:
                    opened.recv(1)
        except BaseException:
            opened.close()
            raise
        return opened

    def is_alive(self, client: Client) -> bool:
        """Return whether the program of *client* still exists, as far as this is known without sending anything.

        The socket name of an ended program no longer exists. A running program refuses the probe with another error,
        because its socket is connected to ours. Over UDP only ``gone`` is known.
        """
        if self.listen is not None:
            return not client.gone
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as probe:
            return probe.connect_ex(client.peer) != errno.ECONNREFUSED


def bind(name: str, listen: tuple[str, int] | None) -> socket.socket:
    """Open the socket for control requests and return it. Raises TransportError if the name or port is in use or cannot
    be used."""
    words = f"the socket name {name!r}" if listen is None else f"UDP port {listen[1]} of {listen[0]}"
    try:
        return _bound(listen or protocol.socket_name(name, "ctl"))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise TransportError(f"{words} is in use: another simulator runs there", errno.EADDRINUSE) from None
        raise TransportError(f"{words} cannot be used: {error.strerror or error}", error.errno or 0) from None


def _bound(own: SocketAddress) -> socket.socket:
    """Open a datagram socket at the address *own*, an abstract name or a UDP port, and return it. Raises OSError."""
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
