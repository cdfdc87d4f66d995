"""Outgoing packets: written to the programs' sockets, queued while they do not read, and passed to the watcher."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from ibkeys.mad import offsets as at
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server import clients as attached
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.clients import Client, Clients
from ibkeys.sim.server.ibsim_protocol import HEADER_SIZE
from ibkeys.sim.server.loop import READABLE, WRITABLE, Loop

DEAD: Final = frozenset({errno.ECONNREFUSED, errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE, errno.ENOENT})
"""The errors of a socket whose program has ended."""
_METHOD: Final = HEADER_SIZE + at.METHOD
_NO_ERROR: Final = bytes(4)


class Attached(Protocol):
    """A program, by whichever protocol it is attached: a number of its own, its process, its port, and whether it is a
    subnet manager."""

    @property
    def slot(self) -> int:
        """Its number."""

    @property
    def ident(self) -> int:
        """Its process."""

    @property
    def port(self) -> SimPort:
        """Its port."""

    @property
    def is_sm(self) -> bool:
        """Whether it is a subnet manager."""


class PassedMad(NamedTuple):
    """A MAD to show to a watcher: from *client* into the subnet (``out``) or to it.

    With a ``note`` it is the client's own, returned because nothing answered it; the note is the reason.
    """

    client: Attached
    out: bool
    mad: bytes
    slid: int
    dlid: int
    qpn: int
    note: str = ""


MadTap = Callable[[PassedMad], None]


class Outbox:
    """Writes packets to *clients*. *counts*: the number of lost packets. *watch*: called with every packet."""

    def __init__(self, clients: Clients, loop: Loop, counts: Counter[str], watch: MadTap | None) -> None:
        self._clients = clients
        self._loop = loop
        self._counts = counts
        self._watch = watch
        self._answers: list[bytes] = []
        self._answered: Client | None = None

    def write(self, client: Client, packet: bytes, note: str = "") -> bool:
        """Write to a client, or queue the packet until the client reads. Returns False when the client is gone."""
        if client.gone:
            return False
        if self._watch is not None:
            self._show(self._watch, client, packet, note)
        self.send_answers()
        return self._send(client, packet)

    def answer(self, client: Client, packet: bytes, note: str = "") -> None:
        """Queue an answer for `write`: it is written by `send_answers`, or when there is an answer for another
        client."""
        if self._watch is not None:
            self._show(self._watch, client, packet, note)
        if client is not self._answered:
            self.send_answers()
            self._answered = client
        self._answers.append(packet)

    def send_answers(self) -> None:
        """Write the queued answers; they are all for one client."""
        client, answers = self._answered, iter(self._answers)
        self._answered, self._answers = None, []
        if client is None or client.gone:
            return
        if not client.waiting:
            send = client.socket.send
            try:
                for packet in answers:
                    send(packet)
            except OSError:
                self._send(client, packet)  # which handles the error
        for packet in answers:
            self._send(client, packet)

    @staticmethod
    def _show(watch: MadTap, client: Client, packet: bytes, note: str) -> None:
        slid, dlid = protocol.lid(packet[protocol.SLID]), protocol.lid(packet[protocol.DLID])
        qpn = int.from_bytes(packet[protocol.SQP])
        watch(PassedMad(client, False, packet[HEADER_SIZE:], slid, dlid, qpn, note))

    def _send(self, client: Client, packet: bytes) -> bool:
        if client.gone:
            return False
        if client.waiting:
            return self._queue(client, packet)
        try:
            client.socket.send(packet)
        except BlockingIOError:
            return self._queue(client, packet)
        except OSError as error:
            if error.errno in DEAD:
                self._clients.mark_gone(client)
                return False
            self._counts["lost"] += 1
        return True

    def _queue(self, client: Client, packet: bytes) -> bool:
        waiting = client.waiting
        if len(waiting) >= attached.MAX_WAITING:
            self._counts["lost"] += 1
            return True
        waiting.append(packet)
        client.owed += _is_owed(packet)
        client.paused = client.owed >= attached.PAUSE_AT
        self._loop.wait_for(client.fd, WRITABLE if client.paused else READABLE | WRITABLE)
        return True

    def flush(self, client: Client) -> None:
        """Write the queued packets of *client*, as far as its socket accepts them."""
        waiting = client.waiting
        try:
            while waiting:
                client.socket.send(waiting[0])
                client.owed -= _is_owed(waiting.popleft())
        except BlockingIOError:
            pass
        except OSError:
            self._clients.mark_gone(client)
            return
        client.paused = client.owed >= attached.PAUSE_AT
        self._loop.wait_for(client.fd, WRITABLE if client.paused else READABLE | WRITABLE if waiting else READABLE)


def _is_owed(packet: bytes) -> bool:
    """Return whether the client waits for *packet*: it is an answer, or its own request returned."""
    return bool(packet[_METHOD] & at.RESPONSE) or packet[protocol.STATUS] != _NO_ERROR
