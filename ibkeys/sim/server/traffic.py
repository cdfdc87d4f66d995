"""The MADs between the programs on libumad2sim and the simulated subnet: through the `MadCarrier`, and back.

A MAD without an answer is returned at once with status 110, as in ibsim, because the client library has no timers. A
MAD for a program (SA requests, SMInfo, traps, Reports and their responses) is forwarded to the client at the port where
it arrives. If that client does not answer, the MAD is returned later (see `ibkeys.sim.server.awaited`).

A kernel passes Reports to the one program of a port that registered for them. libumad2sim does not transmit that
registration. So here Reports go to the first program that subscribed at the SA. The subscription of another program is
refused with EPERM, the error that a kernel would return to its registration.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import REPORT, SET, SMP_CLASSES, SUBN_ADM, TRAP, TRAP_REPRESS, MgmtClass
from ibkeys.mad.inform import InformInfo
from ibkeys.mad.sa import SA_HEADER_SIZE
from ibkeys.sim.deliveries import Delivery, DeliveryOutcome, Drop
from ibkeys.sim.mad_carrier import MadCarrier
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.server import awaited
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.awaited import AGENT, SLOT, PendingRequests
from ibkeys.sim.server.clients import Client, Clients
from ibkeys.sim.server.credentials import receive
from ibkeys.sim.server.heads import HEAD_SIZE, Head, completed, head_of
from ibkeys.sim.server.ibsim_protocol import HEADER_SIZE, PACKET_SIZE
from ibkeys.sim.server.loop import WRITABLE, Loop
from ibkeys.sim.server.outbox import DEAD, MadTap, Outbox, PassedMad

BATCH: Final = 32
"""The most packets that are received from one client before its answers are sent and other clients are served. So a
client gets answers before all its requests in flight are processed."""
SA_DATA: Final = 168
"""The most bytes of SA data that arrive complete: libumad2sim passes on 224 bytes of a MAD, of which 56 are headers."""
_OF_MANAGER: Final = frozenset({*SMP_CLASSES, MgmtClass.SUBN_ADM})
_BEFORE_SLOT: Final = slice(HEADER_SIZE, HEADER_SIZE + SLOT.start)
_AFTER_SLOT: Final = slice(HEADER_SIZE + SLOT.stop, PACKET_SIZE)
_SAME_MAD: Final = slice(0, at.DATA.stop)
"""The part of a MAD that does not change on its route, unlike the paths of a directed route."""
_INFORM_INFO: Final = InformInfo.attribute_id.to_bytes(2)
_QP0: Final = bytes(4)
_QP1: Final = (1).to_bytes(4)


@dataclass(eq=False, repr=False)
class PacketTraffic:
    """Carries the packets of ``clients`` by ``carrier``, and packets to the clients by ``outbox``.

    ``users``: the users whose packets are accepted; None: all users. ``watch``: called with every MAD. ``packets``: the
    number of packets from clients; ``counts``: by reason the number of packets that were not simply answered.
    """

    carrier: MadCarrier
    clients: Clients
    loop: Loop
    outbox: Outbox
    counts: Counter[str]
    users: Container[int] | None
    watch: MadTap | None
    packets: int = 0
    _awaited: PendingRequests = field(default_factory=PendingRequests)
    _current: tuple[Head, bytes] | None = None
    _takers: list[Client] = field(default_factory=list)  # the programs that received the current packet

    def ready(self, client: Client, events: int) -> None:
        """Write to the client's socket and read from it, as far as *events* show that it is ready."""
        if events & WRITABLE:
            self.outbox.flush(client)
        if events & ~WRITABLE and not client.paused and not client.gone:
            self._read(client)

    def _read(self, client: Client) -> None:
        """Carry the packets that the client has sent, at most `BATCH`, and write the answers.

        Receiving, carrying and writing packets in batches takes a fifth less time, and wakes the client only once.
        """
        for raw in self._received(client):
            if len(raw) != PACKET_SIZE:
                self.counts["malformed"] += 1
                continue
            try:
                self._packet(client, raw)
            except Exception as error:  # A bug that one packet triggers must not lose the other packets.
                self.loop.report(error)
        self.outbox.send_answers()

    def _received(self, client: Client) -> list[bytes]:
        """Receive and return the packets that are available, at most `BATCH`."""
        packets: list[bytes] = []
        take = client.socket.recv
        try:
            if client.is_known or self.users is None:
                for _ in range(BATCH):
                    packets.append(take(PACKET_SIZE + 1))
            else:
                for _ in range(BATCH):
                    packets += self._first_packet(client)
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno in DEAD:
                self.clients.mark_gone(client)
        return packets

    def _first_packet(self, client: Client) -> list[bytes]:
        """Receive a packet of a program whose user is not known yet; return [] if the user is not allowed.

        One check is enough, because only the peer can send to a connected socket. A check of each packet would take a
        tenth of all the time of this server.
        """
        raw, user, _ = receive(client.socket, PACKET_SIZE + 1)
        client.is_known = self.users is None or user in self.users
        if not client.is_known:
            self.counts["of other users"] += 1
        return [raw] if client.is_known else []

    def _packet(self, client: Client, raw: bytes) -> None:
        """Carry the MAD of the packet *raw*. The slot of the client is written into the TransactionID of a request."""
        head = head_of(raw[:HEAD_SIZE])
        if head is None:
            self.counts["malformed"] += 1
            return
        if not head.is_whole:
            head, raw = completed(head, raw, client.port)
        self.packets += 1
        mad = raw[_BEFORE_SLOT] + client.slot_bytes + raw[_AFTER_SLOT] if head.asks else raw[HEADER_SIZE:]
        if head.mgmt_class == SUBN_ADM and not self._may_ask_sa(client, mad):
            self.outbox.answer(
                client,
                protocol.returned_with_error(head.header, mad, errno.EPERM),
                "another program on this host already receives the Reports",
            )
            return
        if self.watch is not None:
            qpn = int.from_bytes(head.header[protocol.DQP])
            self.watch(PassedMad(client, True, mad, head.slid, head.dlid, qpn))
        self._settle(client, head, mad, self._carry(client, head, mad))

    def _carry(self, client: Client, head: Head, mad: bytes) -> DeliveryOutcome:
        """Send *mad* through the subnet and return the outcome. `arrived` adds the programs that receive it to
        ``_takers``."""
        self._takers.clear()
        self._current = head, mad
        self.carrier.sa_data_limit = SA_DATA
        try:
            return self.carrier.send(mad, client.port, head.dlid)
        finally:
            self.carrier.sa_data_limit = self._current = None

    def _settle(self, client: Client, head: Head, mad: bytes, outcome: DeliveryOutcome) -> None:
        """Send the client the answers in *outcome*. If no answer can come, return its request with ETIMEDOUT."""
        if isinstance(outcome, list) and outcome:
            for delay, answer, _ in outcome:
                if delay:
                    self.loop.at(delay, partial(self.outbox.write, client, head.answer + answer))
                else:
                    self.outbox.answer(client, head.answer + answer)
        elif isinstance(outcome, list):  # A program has received it.
            if head.asks:
                self._await(awaited.AwaitedRequest(client, head, mad), self._takers[0] if self._takers else None)
        elif outcome is Drop.MALFORMED:
            self.counts["malformed"] += 1
        elif head.asks:
            self.counts["unanswered"] += 1
            back = protocol.returned_with_error(head.header, mad, errno.ETIMEDOUT)
            self.outbox.answer(client, back, f"no answer: {outcome.value}")

    def _may_ask_sa(self, client: Client, mad: bytes) -> bool:
        """Return whether *client* may send *mad* to an SA, and record its subscriptions.

        A Set(InformInfo) is not allowed while another program at the port has a subscription.
        """
        if mad[at.METHOD] != SET or mad[at.ATTRIBUTE_ID] != _INFORM_INFO:
            return True
        taker = self.clients.takes_reports(client.port)
        if taker is not None and taker is not client:
            return False
        info = InformInfo(mad[SA_HEADER_SIZE : SA_HEADER_SIZE + InformInfo.size])
        what = info.replace(subscribe=0, resp_time_value=0).raw
        if info.subscribe:
            client.subscriptions.add(what)
        else:
            client.subscriptions.discard(what)
        return True

    def _await(self, request: awaited.AwaitedRequest, taker: Client | None) -> None:
        """Wait for the answer of a program to *request*. *taker*: the program; None if it is on the
        simulator's own libibumad."""
        if not self._awaited.add(request):
            return
        if request.mad[at.METHOD] == REPORT and taker is not None:
            again = partial(self._report_again, request, taker, awaited.REPORT_RETRIES)
            self.loop.at(awaited.REPORT_TIMEOUT, again)
        else:
            self.loop.at(awaited.TIMEOUT, partial(self._give_up, request))

    def _report_again(self, request: awaited.AwaitedRequest, taker: Client, left: int) -> None:
        """Send the Report *request* again, as the kernel of its sender does, or give it up if no retries are *left*.

        It is not sent while *taker* has unread packets, because the queue of this server would grow without end.
        """
        if not self._awaited.is_waiting(request):
            return
        if not left:
            self._give_up(request)
            return
        if not taker.waiting:
            self.counts["reports repeated"] += 1
            self._carry(*request)
        self.loop.at(awaited.REPORT_TIMEOUT, partial(self._report_again, request, taker, left - 1))

    def _give_up(self, request: awaited.AwaitedRequest) -> None:
        if self._awaited.give_up(request):
            self.counts["unanswered"] += 1
            back = protocol.returned_with_error(request.head.header, request.mad, errno.ETIMEDOUT)
            self.outbox.write(request.client, back, "no answer: the program there ignores it")

    def arrived(self, port: SimPort, delivery: Delivery) -> bool:
        """Forward a MAD that arrived at *port* to the program that it is for; return whether there is one."""
        current = self._current
        forwarding = current is not None and current[1][_SAME_MAD] == delivery.mad[_SAME_MAD]
        client, mad = self._addressee(port, delivery.mad)
        if client is None:
            if mad[at.METHOD] != TRAP_REPRESS:  # The agent of the port has processed a TrapRepress.
                self.counts["no port there"] += 1
            return False
        if forwarding and current is not None:
            if not self.outbox.write(client, protocol.handed_on(current[0].header, mad)):
                return False
            self._takers.append(client)
            self.counts["forwarded"] += 1
        else:
            lids = protocol.packet_lid(port.lid), protocol.packet_lid(delivery.slid)
            qp = _QP0 if mad[at.MGMT_CLASS] in SMP_CLASSES else _QP1
            self.outbox.write(client, protocol.header(*lids, qp, qp) + mad)
            self.counts["traps"] += 1
        return True

    def _addressee(self, port: SimPort, mad: bytes) -> tuple[Client | None, bytes]:
        """Return the program at *port* that *mad* is for, None for none, and the MAD to send to it. In an answer the
        TransactionID again has the agent of the request.

        An answer is for the program that requested it, a Report for the program that subscribed. Traps, and requests of
        the classes for which an SM has agents, are for the program that is an SM. All other requests are dropped, as in
        a kernel: libumad2sim would pass them to OpenSM, which then answers no SA query any more (observed with a Get of
        class 0x05).
        """
        if PendingRequests.concerns(mad):
            request = self._awaited.answered_by(mad, port)
            if request is None:
                return None, mad
            return request.client, mad[: AGENT.start] + request.mad[AGENT] + mad[AGENT.stop :]
        if mad[at.METHOD] & at.RESPONSE:
            client = self.clients.get(int.from_bytes(mad[SLOT]))
            return (client if client is not None and client.port is port else None), mad
        if mad[at.MGMT_CLASS] == SUBN_ADM and mad[at.METHOD] == REPORT:
            return self.clients.takes_reports(port), mad
        if mad[at.MGMT_CLASS] not in _OF_MANAGER and mad[at.METHOD] != TRAP:
            return None, mad
        return next((client for client in self.clients.at(port) if client.is_sm), None), mad
