"""The MADs between the programs and the simulated subnet: from a program through `Subnet.send`, and back to one.

What gets no answer comes back at once with status 110, as ibsim has it: the client library has no timers. What is for a
program (SA requests, SMInfo, traps, reports and their responses) is handed to the client at the port where it arrives;
what that one then does not answer comes back later (see `ibkeys.sim.server.awaited`).

A kernel gives Reports to the one program of a port that registered for them, which libumad2sim tells nobody. Here it is
the first that subscribed at the SA. A second one is not let subscribe: EPERM, which its kernel would have said earlier.
"""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Callable, Container
from functools import partial
from typing import Final, NamedTuple

from ibkeys.mad.const import MAD_SIZE, SMP_CLASSES, Method, MgmtClass
from ibkeys.mad.inform import InformInfo
from ibkeys.mad.sa import SA_HEADER_SIZE
from ibkeys.sim.nodes import Port
from ibkeys.sim.receivers import Delivery
from ibkeys.sim.server import awaited
from ibkeys.sim.server import clients as attached
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.awaited import Awaited
from ibkeys.sim.server.clients import Client, Clients
from ibkeys.sim.server.credentials import receive
from ibkeys.sim.server.ibsim_protocol import HEADER_SIZE, PACKET_SIZE
from ibkeys.sim.server.loop import READABLE, WRITABLE, Loop
from ibkeys.sim.subnet import Subnet

BATCH: Final = 64
"""Most packets taken from one client before the others have their turn."""
_DIRECTED: Final = int(MgmtClass.SUBN_DIRECTED_ROUTE)
_TRAP_REPRESS: Final = int(Method.TRAP_REPRESS)
_LENGTH: Final = MAD_SIZE.to_bytes(8)
_LEAST_MAD: Final = 24
_QP1: Final = (1).to_bytes(4)
_ADMINISTRATION: Final = int(MgmtClass.SUBN_ADM)
_REPORT: Final = int(Method.REPORT)
_SET: Final = int(Method.SET)
_INFORM_INFO: Final = InformInfo.attribute_id.to_bytes(2)
_ANSWERED: Final = bytes(8)
_NO_LID: Final = bytes(4)
_QP0: Final = bytes(4)
_LID_AT: Final = 0 if sys.byteorder == "little" else 2
_DEAD: Final = frozenset({errno.ECONNREFUSED, errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE, errno.ENOENT})


class Seen(NamedTuple):
    """A MAD that passed: from *client* into the subnet (``out``) or to it.

    With a ``note`` it is the client's own, back because nothing answered it: the note says why.
    """

    client: Client
    out: bool
    mad: bytes
    slid: int
    dlid: int
    qpn: int
    note: str = ""


class Traffic:
    """Carries the packets of *clients*. *users* are those whose packets are taken, None: everybody's.

    *watch* sees every MAD; ``packets`` is how many there were, *counts* what became of those not simply answered.
    """

    def __init__(
        self,
        subnet: Subnet,
        clients: Clients,
        loop: Loop,
        counts: Counter[str],
        users: Container[int] | None,
        watch: Callable[[Seen], None] | None,
    ) -> None:
        self.packets = 0
        self._subnet = subnet
        self._clients = clients
        self._loop = loop
        self._counts = counts
        self._users = users
        self._watch = watch
        self._awaited = Awaited()
        self._current: tuple[Client, bytes, bytes, bytes] | None = None
        self._takers: list[Client] = []  # to whom the current packet went

    def ready(self, client: Client, events: int) -> None:
        """Write to and read from the client's socket as far as it is ready."""
        if events & WRITABLE:
            self._flush(client)
        if events & ~WRITABLE and not client.paused and not client.gone:
            self._read(client)

    def _read(self, client: Client) -> None:
        take = client.socket.recv if client.is_known or self._users is None else partial(self._first_packet, client)
        for _ in range(BATCH):
            try:
                raw = take(PACKET_SIZE + 1)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _DEAD:
                    self._clients.mark_gone(client)
                return
            if len(raw) == PACKET_SIZE:
                self._packet(client, raw)
            elif client.is_known or self._users is None:
                self._counts["malformed"] += 1
            if client.gone or client.paused:
                return

    def _first_packet(self, client: Client, size: int) -> bytes:
        """Take a packet of a program whose user is not known yet; an empty one in the place of another user's.

        Once is enough: the kernel lets nobody else send to a socket that is connected. To ask it each time would cost a
        tenth of all that this server does.
        """
        raw, user, _ = receive(client.socket, size)
        client.is_known = self._users is None or user in self._users
        if not client.is_known:
            self._counts["of other users"] += 1
        return raw if client.is_known else b""

    def _packet(self, client: Client, raw: bytes) -> None:
        mad = raw[HEADER_SIZE:]
        if raw[24:32] != _LENGTH:
            length = int.from_bytes(raw[24:32])
            if not _LEAST_MAD <= length <= MAD_SIZE:
                self._counts["malformed"] += 1
                return
            mad = mad[:length].ljust(MAD_SIZE, b"\0")
        method = mad[3]
        # A directed route begins at HopPointer 0, and D says whether it goes back, as R does.
        if mad[0] != 1 or mad[2] > 2 or (mad[1] == _DIRECTED and (mad[6] or (mad[4] ^ method) & 0x80)):
            self._counts["malformed"] += 1
            return
        self.packets += 1
        asks = method < 0x80 and method != _TRAP_REPRESS  # mad.c: ib_response_mad
        if asks:
            mad = mad[:8] + client.slot_bytes + mad[10:]
        slid = raw[4:8]
        if slid == _NO_LID:
            slid = protocol.packet_lid(client.port.lid)
        dlid = raw[_LID_AT] << 8 | raw[_LID_AT + 1]
        if _is_subscription(mad) and not self._may_subscribe(client, mad):
            self._write(client, _given_back(raw, slid, mad, errno.EPERM), "another program here takes the Reports")
            return
        self._current = (client, raw, mad, slid)
        self._takers.clear()
        subnet = self._subnet
        if self._watch is not None:
            self._watch(Seen(client, True, mad, _lid(slid), dlid, int.from_bytes(raw[8:12])))
        arriving = subnet.send(mad, client.port, dlid)
        self._current = None
        if arriving:
            for delay, answer, _ in arriving:
                reply = b"".join((slid, raw[0:4], raw[12:16], raw[8:12], _ANSWERED, _LENGTH, answer))
                if delay:
                    self._loop.at(delay, partial(self._write, client, reply))
                else:
                    self._write(client, reply)
        elif self._takers:
            if asks:
                self._await(awaited.Request(client, mad, _given_back(raw, slid, mad)), self._takers[0], raw, slid)
        elif subnet.last_drop == "malformed":
            self._counts["malformed"] += 1
        elif asks:
            self._counts["unanswered"] += 1
            why = subnet.last_drop or "the program there is gone"
            self._write(client, _given_back(raw, slid, mad), f"no answer: {why}")

    def _may_subscribe(self, client: Client, mad: bytes) -> bool:
        """Note what *client* subscribes to, or no longer; returns whether it may: no other program does at its port."""
        taker = self._clients.takes_reports(client.port)
        if taker is not None and taker is not client:
            return False
        info = InformInfo(mad[SA_HEADER_SIZE : SA_HEADER_SIZE + InformInfo.size])
        what = info.replace(subscribe=0, resp_time_value=0).raw
        if info.subscribe:
            client.subscriptions.add(what)
        else:
            client.subscriptions.discard(what)
        return True

    def _await(self, request: awaited.Request, taker: Client, raw: bytes, slid: bytes) -> None:
        if not self._awaited.add(request):
            return
        if request.mad[3] == _REPORT:
            again = partial(self._report_again, request, taker, raw, slid, awaited.REPORT_RETRIES)
            self._loop.at(awaited.REPORT_TIMEOUT, again)
        else:
            self._loop.at(awaited.TIMEOUT, partial(self._give_up, request))

    def _report_again(self, request: awaited.Request, taker: Client, raw: bytes, slid: bytes, left: int) -> None:
        """Send a Report again, as the kernel under its sender does, and give it up after the last time.

        Nothing is put behind what *taker* has not read: that is a queue of this server's, and grows without end so.
        """
        if not self._awaited.is_waiting(request):
            return
        if not left:
            self._give_up(request)
            return
        if not taker.waiting:
            self._counts["reports repeated"] += 1
            self._current = (request.client, raw, request.mad, slid)
            self._subnet.send(request.mad, request.client.port, _lid(raw[0:4]))
            self._current = None
        self._loop.at(awaited.REPORT_TIMEOUT, partial(self._report_again, request, taker, raw, slid, left - 1))

    def _give_up(self, request: awaited.Request) -> None:
        if self._awaited.give_up(request):
            self._counts["unanswered"] += 1
            self._write(request.client, request.timed_out, "no answer: the program there ignores it")

    def arrived(self, port: Port, delivery: Delivery) -> None:
        """Hand a MAD that arrived at *port* to the program it is for."""
        current = self._current
        forwarding = current is not None and current[2][:128] == delivery.mad[:128]
        client, mad = self._addressee(port, delivery.mad)
        if client is None:
            if mad[3] != _TRAP_REPRESS:  # which the agent of the port has looked at
                self._counts["nobody there"] += 1
        elif forwarding and current is not None:
            _, raw, _, slid = current
            packet = b"".join((raw[0:4], slid, raw[8:16], _ANSWERED, raw[24:32], mad))
            if self._write(client, packet):
                self._takers.append(client)
                self._counts["forwarded"] += 1
        else:
            lids = protocol.packet_lid(port.lid), protocol.packet_lid(delivery.slid)
            qp = _QP0 if mad[1] in SMP_CLASSES else _QP1
            self._write(client, protocol.header(*lids, qp, qp) + mad)
            self._counts["traps"] += 1

    def _addressee(self, port: Port, mad: bytes) -> tuple[Client | None, bytes]:
        """Return the program that *mad* is for and what it gets: a TransactionID in an answer has its own agent again.

        An answer is for the program that asked, a Report for the one that subscribed, all else for one that is an SM.
        """
        if Awaited.concerns(mad):
            request = self._awaited.answered_by(mad, port)
            return (None, mad) if request is None else (request.client, mad[:10] + request.mad[10:12] + mad[12:])
        if mad[3] & 0x80:
            client = self._clients.get(mad[8] << 8 | mad[9])
            return (client if client is not None and client.port is port else None), mad
        if mad[1] == _ADMINISTRATION and mad[3] == _REPORT:
            return self._clients.takes_reports(port), mad
        return next((client for client in self._clients.at(port) if client.is_sm), None), mad

    def _write(self, client: Client, packet: bytes, note: str = "") -> bool:
        """Write to a client, or keep it until the client reads. Returns False when nobody is there."""
        if client.gone:
            return False
        if self._watch is not None:
            lids = _lid(packet[4:8]), _lid(packet[0:4])
            self._watch(Seen(client, False, packet[HEADER_SIZE:], *lids, int.from_bytes(packet[12:16]), note))
        if client.waiting:
            return self._queue(client, packet)
        try:
            client.socket.send(packet)
        except BlockingIOError:
            return self._queue(client, packet)
        except OSError as error:
            if error.errno in _DEAD:
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

    def _flush(self, client: Client) -> None:
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


def _is_subscription(mad: bytes) -> bool:
    return mad[3] == _SET and mad[1] == _ADMINISTRATION and mad[16:18] == _INFORM_INFO


def _given_back(raw: bytes, slid: bytes, mad: bytes, status: int = errno.ETIMEDOUT) -> bytes:
    """Return the packet by which the request *mad*, which came as *raw*, is given up, or with EPERM refused."""
    return b"".join((raw[0:4], slid, raw[8:16], status.to_bytes(4), bytes(4), raw[24:32], mad))


def _is_owed(packet: bytes) -> bool:
    """Whether *packet* is what the client waits for: an answer, or its own request given back."""
    return packet[HEADER_SIZE + 3] >= 0x80 or packet[16:20] != _ANSWERED[:4]


def _lid(raw: bytes) -> int:
    return raw[_LID_AT] << 8 | raw[_LID_AT + 1]
