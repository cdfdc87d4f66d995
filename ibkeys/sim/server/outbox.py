"""Writing packets to the sockets of programs. Packets wait while a program does not read. A watcher gets each
packet."""

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
"""The errnos of a socket whose program has ended."""
_METHOD: Final = HEADER_SIZE + at.METHOD
_NO_ERROR: Final = bytes(4)


class Attached(Protocol):
    """An attached program. `Client` (ibsim's protocol) and `ProgramPort` (the simulator's own libibumad) have these
    attributes."""

    @property
    def slot(self) -> int:
        """The number of the program, which no other attached program has."""

    @property
    def ident(self) -> int:
        """The id of its process (over UDP: its data port)."""

    @property
    def port(self) -> SimPort:
        """The port that it is attached to."""

    @property
    def is_sm(self) -> bool:
        """Whether the program is a subnet manager."""


class PassedMad(NamedTuple):
    """A MAD that is shown to a watcher. ``out``: the program ``client`` sent it; otherwise it is sent to ``client``.

    ``note``: for a request of the client that is shown once more, because it got no answer, the reason; "" for all
    other MADs.
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
        """Write *packet* to a client, or queue it until the client reads. *note*: as in `PassedMad`. Returns False if
        the client has detached or ended."""
        if client.gone:
            return False
        if self._watch is not None:
            self._show(self._watch, client, packet, note)
        self.send_answers()
        return self._send(client, packet)

    def answer(self, client: Client, packet: bytes, note: str = "") -> None:
        """Queue an answer to *client*. It is written by `send_answers`, before an answer to another client, or before
        the next `write`."""
        if self._watch is not None:
            self._show(self._watch, client, packet, note)
        if client is not self._answered:
            self.send_answers()
            self._answered = client
        self._answers.append(packet)

    def send_answers(self) -> None:
        """Write the answers that `answer` queued. All of them are to one client."""
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
                self._send(client, packet)  # This call handles the error.
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
        """Write the packets that wait for *client*, as far as its socket accepts them."""
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
    """Return whether a client waits for *packet*: it is an answer, or a request of the client that is returned."""
    return bool(packet[_METHOD] & at.RESPONSE) or packet[protocol.STATUS] != _NO_ERROR
