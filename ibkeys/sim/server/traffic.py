"""The MADs between the programs and the simulated subnet: from a program through `Subnet.send`, and back to one.

What gets no answer comes back at once with status 110, as ibsim has it: the client library has no timers. What is for a
program (SA requests, SMInfo, traps, reports and their responses) is handed to the client at the port where it arrives;
what that one then does not answer comes back later (see `ibkeys.sim.server.awaited`).

A kernel gives Reports to the one program of a port that registered for them, which libumad2sim tells nobody. Here it is
the first that subscribed at the SA. A second one is not let subscribe: EPERM, which its kernel would have said earlier.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Container
from functools import partial
from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.const import MAD_SIZE, SMP_CLASSES, Method, MgmtClass
from ibkeys.mad.inform import InformInfo
from ibkeys.mad.sa import SA_CLASS_VERSION, SA_HEADER_SIZE
from ibkeys.mad.smp import HEADER_SIZE as LEAST_MAD
from ibkeys.sim.deliveries import Delivery, Drop, Outcome
from ibkeys.sim.nodes import LID, Port
from ibkeys.sim.server import awaited
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.awaited import AGENT, SLOT, PendingRequests
from ibkeys.sim.server.clients import Client, Clients
from ibkeys.sim.server.credentials import receive
from ibkeys.sim.server.ibsim_protocol import HEADER_SIZE, PACKET_SIZE
from ibkeys.sim.server.loop import WRITABLE, Loop
from ibkeys.sim.server.outbox import DEAD, Outbox, Seen, Watch
from ibkeys.sim.subnet import Subnet

BATCH: Final = 64
"""Most packets taken from one client before the others have their turn."""
_DIRECTED: Final = int(MgmtClass.SUBN_DIRECTED_ROUTE)
_ADMINISTRATION: Final = int(MgmtClass.SUBN_ADM)
_OF_MANAGER: Final = frozenset({*SMP_CLASSES, MgmtClass.SUBN_ADM})
_TRAP: Final = int(Method.TRAP)
_TRAP_REPRESS: Final = int(Method.TRAP_REPRESS)
_REPORT: Final = int(Method.REPORT)
_SET: Final = int(Method.SET)
_WHOLE_MAD: Final = MAD_SIZE.to_bytes(8)
_SAME_MAD: Final = slice(0, at.DATA.stop)
"""What of a MAD is the same where it arrives: the paths of a directed route are not."""
_INFORM_INFO: Final = InformInfo.attribute_id.to_bytes(2)
_QP0: Final = bytes(4)
_QP1: Final = (1).to_bytes(4)


class _Sent(NamedTuple):
    """A packet of *client* as it came (``raw``), and its MAD as it goes on. ``slid``: as packets have it; ``asks``:
    somebody is to answer it."""

    client: Client
    raw: bytes
    mad: bytes
    slid: bytes
    asks: bool

    def returned_with_error(self, status: int) -> bytes:
        """Return the packet by which the client has its MAD back, with an errno."""
        return protocol.returned_with_error(self.raw, self.slid, self.mad, status)


class Traffic:
    """Carries the packets of *clients*. *users* are those whose packets are taken, None: everybody's.

    *watch* sees every MAD; ``packets`` is how many there were, *counts* what happened to those not simply answered.
    """

    def __init__(
        self,
        subnet: Subnet,
        clients: Clients,
        loop: Loop,
        counts: Counter[str],
        users: Container[int] | None,
        watch: Watch | None,
    ) -> None:
        self.packets = 0
        self._subnet = subnet
        self._clients = clients
        self._loop = loop
        self._counts = counts
        self._users = users
        self._watch = watch
        self._outbox = Outbox(clients, loop, counts, watch)
        self._awaited = PendingRequests()
        self._current: _Sent | None = None
        self._takers: list[Client] = []  # to whom the current packet went

    def ready(self, client: Client, events: int) -> None:
        """Write to and read from the client's socket as far as it is ready."""
        if events & WRITABLE:
            self._outbox.flush(client)
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
                if error.errno in DEAD:
                    self._clients.mark_gone(client)
                return
            if len(raw) == PACKET_SIZE:
                self._packet(client, raw)
            elif client.is_known or self._users is None:
                self._counts["malformed"] += 1
            if client.gone or client.paused:
                return

    def _first_packet(self, client: Client, size: int) -> bytes:
        """Take a packet of a program whose user is not known yet; an empty one in place of another user's.

        Once is enough: the kernel lets nobody else send to a socket that is connected. To ask it each time would cost a
        tenth of all that this server does.
        """
        raw, user, _ = receive(client.socket, size)
        client.is_known = self._users is None or user in self._users
        if not client.is_known:
            self._counts["of other users"] += 1
        return raw if client.is_known else b""

    def _packet(self, client: Client, raw: bytes) -> None:
        mad = _mad_in(raw)
        if mad is None:
            self._counts["malformed"] += 1
            return
        self.packets += 1
        sent = _sent(client, raw, mad)
        if _is_subscription(sent.mad) and not self._may_subscribe(client, sent.mad):
            self._outbox.write(
                client,
                sent.returned_with_error(errno.EPERM),
                "another program on this host already receives the Reports",
            )
            return
        if self._watch is not None:
            slid, qpn = protocol.lid(sent.slid), int.from_bytes(raw[protocol.DQP])
            self._watch(Seen(client, True, sent.mad, slid, protocol.lid(raw), qpn))
        self._settle(sent, self._carry(sent))

    def _carry(self, sent: _Sent) -> Outcome:
        """Let the MAD go through the subnet; `arrived` notes in ``_takers`` to which programs it went."""
        self._takers.clear()
        self._current = sent
        outcome = self._subnet.send(sent.mad, sent.client.port, protocol.lid(sent.raw))
        self._current = None
        return outcome

    def _settle(self, sent: _Sent, outcome: Outcome) -> None:
        """Give the client its answer, or its request back where nobody answers or will."""
        if isinstance(outcome, list) and outcome:
            for delay, answer, _ in outcome:
                reply = protocol.reply(sent.raw, sent.slid, answer)
                if delay:
                    self._loop.at(delay, partial(self._outbox.write, sent.client, reply))
                else:
                    self._outbox.write(sent.client, reply)
        elif self._takers:
            if sent.asks:
                self._await(sent, self._takers[0])
        elif outcome is Drop.MALFORMED:
            self._counts["malformed"] += 1
        elif sent.asks:
            self._counts["unanswered"] += 1
            why = outcome.value if isinstance(outcome, Drop) else "the program there is gone"
            self._outbox.write(sent.client, sent.returned_with_error(errno.ETIMEDOUT), f"no answer: {why}")

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

    def _await(self, sent: _Sent, taker: Client) -> None:
        request = awaited.Request(sent.client, sent.mad, sent.returned_with_error(errno.ETIMEDOUT))
        if not self._awaited.add(request):
            return
        if request.mad[at.METHOD] == _REPORT:
            again = partial(self._report_again, request, sent, taker, awaited.REPORT_RETRIES)
            self._loop.at(awaited.REPORT_TIMEOUT, again)
        else:
            self._loop.at(awaited.TIMEOUT, partial(self._give_up, request))

    def _report_again(self, request: awaited.Request, sent: _Sent, taker: Client, left: int) -> None:
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
            self._carry(sent)
        self._loop.at(awaited.REPORT_TIMEOUT, partial(self._report_again, request, sent, taker, left - 1))

    def _give_up(self, request: awaited.Request) -> None:
        if self._awaited.give_up(request):
            self._counts["unanswered"] += 1
            self._outbox.write(request.client, request.timed_out, "no answer: the program there ignores it")

    def arrived(self, port: Port, delivery: Delivery) -> None:
        """Hand a MAD that arrived at *port* to the program it is for."""
        current = self._current
        forwarding = current is not None and current.mad[_SAME_MAD] == delivery.mad[_SAME_MAD]
        client, mad = self._addressee(port, delivery.mad)
        if client is None:
            if mad[at.METHOD] != _TRAP_REPRESS:  # which the agent of the port has examined
                self._counts["nobody there"] += 1
        elif forwarding and current is not None:
            if self._outbox.write(client, protocol.handed_on(current.raw, current.slid, mad)):
                self._takers.append(client)
                self._counts["forwarded"] += 1
        else:
            lids = protocol.packet_lid(port.lid), protocol.packet_lid(delivery.slid)
            qp = _QP0 if mad[at.MGMT_CLASS] in SMP_CLASSES else _QP1
            self._outbox.write(client, protocol.header(*lids, qp, qp) + mad)
            self._counts["traps"] += 1

    def _addressee(self, port: Port, mad: bytes) -> tuple[Client | None, bytes]:
        """Return the program that *mad* is for and what it gets: a TransactionID in an answer has its own agent again.

        An answer is for the program that asked, a Report for the one that subscribed, all else for one that is an SM:
        traps, and requests of the classes that an SM has agents for. libumad2sim would hand it others too, which a
        kernel drops, and OpenSM then answers no question to the SA any more (observed with Get of class 0x05).
        """
        if PendingRequests.concerns(mad):
            request = self._awaited.answered_by(mad, port)
            if request is None:
                return None, mad
            return request.client, mad[: AGENT.start] + request.mad[AGENT] + mad[AGENT.stop :]
        if mad[at.METHOD] & at.RESPONSE:
            client = self._clients.get(int.from_bytes(mad[SLOT]))
            return (client if client is not None and client.port is port else None), mad
        if mad[at.MGMT_CLASS] == _ADMINISTRATION and mad[at.METHOD] == _REPORT:
            return self._clients.takes_reports(port), mad
        if mad[at.MGMT_CLASS] not in _OF_MANAGER and mad[at.METHOD] != _TRAP:
            return None, mad
        return next((client for client in self._clients.at(port) if client.is_sm), None), mad


def _mad_in(raw: bytes) -> bytes | None:
    """Return the MAD in a packet, padded to its whole length; None if a kernel would not have sent it."""
    mad = raw[HEADER_SIZE:]
    if raw[protocol.LENGTH] != _WHOLE_MAD:
        length = int.from_bytes(raw[protocol.LENGTH])
        if not LEAST_MAD <= length <= MAD_SIZE:
            return None
        mad = mad[:length].ljust(MAD_SIZE, b"\0")
    return mad if _is_sound(mad) else None


def _sent(client: Client, raw: bytes, mad: bytes) -> _Sent:
    """Note in a request whose it is, and in the packet the LID of a sender that left it out."""
    method = mad[at.METHOD]
    asks = not method & at.RESPONSE and method != _TRAP_REPRESS  # mad.c: ib_response_mad
    if asks:
        mad = mad[: SLOT.start] + client.slot_bytes + mad[SLOT.stop :]
    slid = raw[protocol.SLID]
    if slid == protocol.NO_LID:
        slid = protocol.network_lid(bytes(client.port.info[LID]))
    return _Sent(client, raw, mad, slid, asks)


def _is_sound(mad: bytes) -> bool:
    """Whether a program may send *mad*: a directed route begins at HopPointer 0, and D is set where R is."""
    if mad[at.BASE_VERSION] != 1 or mad[at.CLASS_VERSION] > SA_CLASS_VERSION:
        return False
    if mad[at.MGMT_CLASS] != _DIRECTED:
        return True
    return not mad[at.HOP_POINTER] and not (mad[at.D] ^ mad[at.METHOD]) & at.RESPONSE


def _is_subscription(mad: bytes) -> bool:
    is_set_of_sa = mad[at.METHOD] == _SET and mad[at.MGMT_CLASS] == _ADMINISTRATION
    return is_set_of_sa and mad[at.ATTRIBUTE_ID] == _INFORM_INFO
