"""The kernel's work with MADs between the open ports of programs and the fabric (Linux mad.c, user_mad.c).

A program's MAD goes through the `MadCarrier` from its port. A reply, or a MAD to a port, is given to its agent; a
request that is not answered in time is sent again, and at last ends with ETIMEDOUT.
"""

from __future__ import annotations

import errno
from collections import Counter, deque
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeGuard

from ibkeys.keys.pkey import PARTITION_MASK, match_in_table
from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, MAD_SIZE, PERMISSIVE_LID, SMP_CLASSES
from ibkeys.mad.sa import RmppStatus, RmppType
from ibkeys.sim import packets, routing
from ibkeys.sim.deliveries import Delivery, DeliveryOutcome, Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.server.loop import Loop
from ibkeys.sim.server.outbox import MadTap, PassedMad
from ibkeys.sim.server.umad import rmpp, wire
from ibkeys.sim.server.umad.agents import MOST_AGENTS, Agent, Agents, has_rmpp, is_response, queue_pair
from ibkeys.sim.server.umad.open_ports import MOST_WAITING, Alike, ProgramPort, Send, SendKey
from ibkeys.sim.subnet import Subnet

LEAST_MAD: Final = 36
"""Bytes of the shortest MAD that the kernel sends: both headers (ib_umad_write)."""
_FOR_EVER: Final = 1 << 31
"""Milliseconds from which a timeout is infinite: it is a negative number of the program."""
_AT_ONCE: Final = 256
"""MADs of transfers that are carried before others have their turn."""
_D: Final = at.RESPONSE
_DEFAULT_INDEX: Final = 0
_DIRECTED_HEAD: Final = slice(at.HOP_COUNT + 1)
"""The part of a MAD that decides, with its umad header and the first hop, whether a directed-route request is valid."""
_FIRST_HOP: Final = at.INITIAL_PATH.start + 1
_MOST_ALIKE: Final = 256


class _Arrival(NamedTuple):
    """Data about the arrival of the current MAD that a `Delivery` does not have. Without ``path_bits`` they are those
    of ``dlid``."""

    dlid: int
    path_bits: int | None = None
    sl: int = 0
    grh: bytes | None = None
    p_key_index: int = _DEFAULT_INDEX


class _Own(NamedTuple):
    """A MAD that the kernel itself sends for an agent: a segment or another MAD of a transfer."""

    opened: ProgramPort
    mad: bytes
    address: wire.Address


class MadLayer:
    """Carries the MADs of the programs on *subnet*.

    *watch* is called with each; *counts* are the numbers of those not simply answered, by reason. ``packets`` is the
    number of MADs from programs. *busy* is called with an open port whose program does not read at the moment.
    """

    def __init__(
        self,
        subnet: Subnet,
        loop: Loop,
        counts: Counter[str],
        watch: MadTap | None,
        busy: Callable[[ProgramPort], object],
    ) -> None:
        self.packets = 0
        self._subnet = subnet
        self._loop = loop
        self._counts = counts
        self._watch = watch
        self._busy = busy
        self._agents = Agents()
        self._at: dict[SimPort, tuple[list[ProgramPort], Callable[[], None]]] = {}
        self._arrival: _Arrival | None = None
        self._receiving: dict[Agent, dict[rmpp.ReceiverKey, rmpp.Receiver]] = {}
        self._own: deque[_Own] = deque()
        self._carrying = False

    # Open ports and agents

    def open(self, opened: ProgramPort) -> None:
        """Add an open port at which a program can send and receive."""
        if opened.port not in self._at:
            detach = self._subnet.attach(opened.port, partial(self._arrived, opened.port))
            self._at[opened.port] = [], detach
        self._at[opened.port][0].append(opened)

    def close(self, opened: ProgramPort) -> None:
        """End an open port with its agents; its pending MADs are dropped, as when a file is closed."""
        for agent in list(opened.agents.values()):
            self._remove(agent)
        self._own = deque(own for own in self._own if own.opened is not opened)
        beside, detach = self._at[opened.port]
        beside.remove(opened)
        if not beside:
            del self._at[opened.port]
            detach()
        opened.close()

    def register(self, opened: ProgramPort, wanted: wire.Registration) -> tuple[int, int]:
        """Return 0 and the id of a new agent, or an errno."""
        error, agent = self._agents.register(opened, wanted)
        if agent is None:
            return error, 0
        opened.agents[agent.id] = agent
        opened.alike.clear()
        opened.page.show_agents(list(opened.agents))
        return 0, agent.id

    def unregister(self, opened: ProgramPort, number: int) -> int:
        """Remove an agent with its pending requests; return 0 or an errno."""
        agent = opened.agents.get(number)
        if agent is None:
            return errno.EINVAL
        self._remove(agent)
        opened.page.show_agents(list(opened.agents))
        return 0

    def _remove(self, agent: Agent) -> None:
        self._agents.unregister(agent)
        self._receiving.pop(agent, None)
        del agent.at.agents[agent.id]
        agent.at.alike.clear()
        for send in [send for send in agent.at.sends.values() if send.agent is agent]:
            self._end(send)

    # Sending (ib_umad_write, ib_post_send_mad)

    def send(self, opened: ProgramPort, header: bytes, mad: bytes) -> int:
        """Send a program's MAD; returns 0, or the errno with which write() refuses it."""
        self.packets += 1
        like = opened.alike.get(header + mad[_DIRECTED_HEAD])
        if like is not None and not opened.sends and len(mad) == MAD_SIZE and like.first_hop in (None, mad[_FIRST_HOP]):
            return self._send_alike(opened, like, header, mad)
        return self._send_any(opened, header, mad)

    def _send_alike(self, opened: ProgramPort, like: Alike, header: bytes, mad: bytes) -> int:
        """Send a directed-route request that begins as one that was answered, so that it needs no check."""
        mad = mad[: at.AGENT.start] + like.agent.number + mad[at.AGENT.stop :]
        outcome = self._subnet.carrier.send(mad, opened.port)
        if _is_answer(outcome, mad):
            opened.page.done(mad)
            opened.answers.append(like.answer + outcome[0].mad)
            return 0
        sent = wire.parse_outgoing(header)
        key = _key(False, mad, sent.address)
        opened.sends[key] = send = _send(like.agent, key, header, mad, sent)
        self._take_back(send, outcome, _arrival(PERMISSIVE_LID))
        self._carry_own()
        return 0

    def _keep(self, opened: ProgramPort, agent: Agent, header: bytes, mad: bytes, address: wire.Address) -> None:
        """Record that *mad* was valid and answered, for later MADs with the same beginning."""
        if (
            mad[at.MGMT_CLASS] != DIRECTED_ROUTE
            or mad[at.HOP_POINTER]
            or len(mad) != MAD_SIZE
            or self._watch is not None
        ):
            return
        if len(opened.alike) >= _MOST_ALIKE:
            opened.alike.clear()
        first_hop = mad[_FIRST_HOP] if mad[at.HOP_COUNT] and not opened.port.node.is_switch else None
        answer = wire.received_header(agent.id, address, MAD_SIZE)
        opened.alike[header + mad[_DIRECTED_HEAD]] = Alike(agent, first_hop, answer)

    def _send_any(self, opened: ProgramPort, header: bytes, mad: bytes) -> int:
        """Send a MAD as `send` does, without a cached decision about it."""
        if len(mad) < LEAST_MAD:
            return errno.EINVAL
        sent = wire.parse_outgoing(header)
        agent = opened.agents.get(sent.agent)
        refused = self._refusal(opened, agent, sent.agent, mad)
        if refused or agent is None:
            opened.page.done(mad)
            return refused
        response = is_response(mad)
        if not response:
            mad = mad[: at.AGENT.start] + agent.number + mad[at.AGENT.stop :]
        key = _key(response, mad, sent.address)
        active = has_rmpp(mad[at.MGMT_CLASS]) and rmpp.is_active(mad)
        if key in opened.sends and (agent.does_rmpp or not active):  # a program's own segments are alike
            opened.page.done(mad)
            return errno.EINVAL
        if _has_rmpp(agent, mad):
            mad = rmpp.with_own_header(mad)
            if active:
                self._start_transfer(_send(agent, key, header, mad, sent))
                return 0
        outcome, back = self._carry(opened, mad, sent.address)
        if sent.timeout and _is_answer(outcome, mad):  # as nearly all: no state is needed for it
            opened.page.done(mad)
            self._keep(opened, agent, header, mad, _sender(mad, outcome[0].slid, back, opened.port))
            self._give(agent, outcome[0].mad, outcome[0].slid, back, at_once=False)
            return 0
        send = _send(agent, key, header, mad, sent)
        if sent.timeout and key not in opened.sends:
            opened.sends[key] = send
        else:
            opened.page.done(mad)
        self._take_back(send, outcome, back)
        self._carry_own()
        return 0

    def _start_transfer(self, send: Send) -> None:
        """Send a MAD in segments."""
        send.transfer = rmpp.OutgoingTransfer(send.mad)
        send.agent.at.sends[send.key] = send
        self._carry_segments(send, send.transfer.send())
        self._expect(send)
        self._carry_own()

    @staticmethod
    def _refusal(opened: ProgramPort, agent: Agent | None, number: int, mad: bytes) -> int:
        if agent is None:
            return errno.EIO if number < MOST_AGENTS else errno.EINVAL
        if len(mad) > MAD_SIZE and not (_has_rmpp(agent, mad) and rmpp.is_active(mad)):
            return errno.EINVAL
        if mad[at.MGMT_CLASS] == DIRECTED_ROUTE and not _begins_here(mad, opened.port):
            return errno.EINVAL
        return 0

    def _attempt(self, send: Send) -> None:
        """Send a MAD without RMPP again."""
        self._take_back(send, *self._carry(send.agent.at, send.mad, send.address))

    def _take_back(self, send: Send, outcome: DeliveryOutcome, back: _Arrival) -> None:
        """Process the answers of the fabric to a MAD, and wait for the answer of a program."""
        opened = send.agent.at
        self._take_answers(opened.port, outcome, back)
        if _is_local(send.mad) and opened.sends.get(send.key) is send:
            self._end(send)  # the driver has consumed it, and it does not end with an error (handle_outgoing_dr_smp)
        self._expect(send)

    def _carry_segments(self, send: Send, segments: list[bytes]) -> None:
        self._own.extend(_Own(send.agent.at, segment, send.address) for segment in segments)

    def _expect(self, send: Send) -> None:
        """Start the timer for the answer or acknowledgement of *send*."""
        if send.agent.at.sends.get(send.key) is not send:
            return
        wait = send.timeout
        if send.transfer is not None and not send.transfer.is_acknowledged():
            wait = min(wait or rmpp.RESEND_AFTER, rmpp.RESEND_AFTER)
        if wait != float("inf"):
            send.timer += 1
            self._loop.at(wait, partial(self._timed_out, send, send.timer))

    def _timed_out(self, send: Send, timer: int) -> None:
        opened = send.agent.at
        if opened.sends.get(send.key) is not send or send.timer != timer:
            return
        transfer = send.transfer
        if send.retries_left:
            send.retries_left -= 1
            if transfer is None:
                self._attempt(send)
                return
            if not transfer.is_acknowledged():
                self._carry_segments(send, transfer.resend())
            self._expect(send)
        else:
            self._counts["unanswered"] += 1
            self._end(send)
            self._write(opened, wire.given_up(send.header, send.mad, errno.ETIMEDOUT))
        self._carry_own()

    @staticmethod
    def _end(send: Send) -> None:
        """Stop the timer of a send."""
        opened = send.agent.at
        del opened.sends[send.key]
        opened.page.done(send.mad)

    # Through the fabric

    def _carry_own(self) -> None:
        """Carry the MADs of the kernel itself. MADs that these cause are queued, not carried recursively."""
        if self._carrying:
            return
        self._carrying = True
        try:
            for _ in range(_AT_ONCE):
                if not self._own:
                    return
                opened, mad, address = self._own.popleft()
                self._take_answers(opened.port, *self._carry(opened, mad, address))
        finally:
            self._carrying = False
        self._loop.at(0, self._carry_own)

    def _carry(self, opened: ProgramPort, mad: bytes, address: wire.Address) -> tuple[DeliveryOutcome, _Arrival]:
        """Send a MAD from the port; return the answer of agents in the fabric, and the data of its arrival."""
        port, dlid = opened.port, address.lid
        if len(mad) < MAD_SIZE:
            mad = mad.ljust(MAD_SIZE, b"\0")
        if self._watch is not None:
            slid = PERMISSIVE_LID if mad[at.MGMT_CLASS] == DIRECTED_ROUTE else port.lid
            self._watch(PassedMad(opened, True, mad, slid, dlid, address.qpn))
        before = self._arrival
        try:
            if mad[at.MGMT_CLASS] in SMP_CLASSES:
                self._arrival = _arrival(dlid)
                return self._subnet.carrier.send(_leaving(mad), port, dlid), _arrival(dlid, address.path_bits)
            return self._carry_gmp(port, mad, address)
        finally:
            self._arrival = before

    def _take_answers(self, port: SimPort, outcome: DeliveryOutcome, back: _Arrival) -> None:
        if isinstance(outcome, Drop):
            self._counts["lost"] += 1
            return
        for delivery in outcome:
            if delivery.delay:
                self._loop.at(delivery.delay, partial(self._deliver, port, delivery, back))
            else:
                self._deliver(port, delivery, back)

    def _carry_gmp(self, port: SimPort, mad: bytes, address: wire.Address) -> tuple[DeliveryOutcome, _Arrival]:
        """Carry a GMP with its P_Key, which switches and the receiver check; the answer has the receiver's P_Key."""
        back = _Arrival(address.lid, address.path_bits, address.sl)
        p_key = port.p_key_at(address.p_key_index)
        if not p_key & PARTITION_MASK:
            return Drop.NO_P_KEY, back
        end = routing.hops(port, address.lid)[1]
        if end is None:
            return Drop.NO_ROUTE, back
        index = self._passes(port, end, p_key, address.sl)
        if index is None:
            return Drop.P_KEY, back
        grh = None if address.grh is None else wire.grh_from(address.grh, port.gid)
        self._arrival = _Arrival(address.lid, None, address.sl, grh, index)
        outcome = self._subnet.send(mad, port, address.lid)
        if isinstance(outcome, Drop) or not outcome:
            return outcome, back
        index = self._passes(end, port, end.p_key_at(index), address.sl)
        if index is None:
            return Drop.P_KEY, back
        grh = None if address.grh is None else wire.grh_from(address.grh, end.gid)
        return outcome, back._replace(p_key_index=index, grh=grh)

    def _passes(self, source: SimPort, end: SimPort, p_key: int, sl: int) -> int | None:
        """Return the index of the P_Key by which *end* accepts a packet from *source*; None if it is dropped."""
        if source is end:
            return match_in_table(p_key, end.p_keys)
        subnet, packet = self._subnet, Packet(source, end, p_key, sl=sl)
        # counted like the MADs of all other programs: not at all
        return packets.carry(packet, subnet.inbound_check, subnet.traps, is_counted=False).entry

    # Receiving (ib_mad_recv_done, recv_handler)

    def _arrived(self, port: SimPort, delivery: Delivery) -> bool:
        """Deliver a MAD that comes to a port from the fabric; return whether an agent is there for it."""
        taken = self._deliver(port, delivery, self._arrival or _arrival(port.lid))
        self._carry_own()
        return taken

    def _deliver(self, port: SimPort, delivery: Delivery, arrival: _Arrival) -> bool:
        mad = delivery.mad
        agent = self._agents.for_mad(port, mad)
        if agent is None:
            return False
        mgmt_class = mad[at.MGMT_CLASS]
        if mgmt_class == DIRECTED_ROUTE and not is_response(mad):
            mad = mad[: at.HOP_POINTER] + bytes((mad[at.HOP_COUNT] + 1,)) + mad[at.HOP_COUNT :]
        if _has_rmpp(agent, mad) and rmpp.is_active(mad):
            whole = self._take_part(agent, mad, _sender(mad, delivery.slid, arrival, port))
            if whole is None:
                return True
            mad = whole
        if is_response(mad):
            send = agent.at.sends.get((False, mgmt_class, mad[at.TRANSACTION_ID], b""))
            if send is None:
                if agent.does_rmpp or not has_rmpp(mgmt_class) or not rmpp.is_active(mad):
                    self._counts["late"] += 1
                    return False
            else:
                self._end(send)
        self._give(agent, mad, delivery.slid, arrival)
        return True

    def send_answers(self, opened: ProgramPort) -> None:
        """Write the waiting answers: one batch of a program's MADs then wakes it once."""
        answers, opened.answers = opened.answers, []
        for answer in answers:
            self._write_now(opened, answer)

    def _give(self, agent: Agent, mad: bytes, slid: int, arrival: _Arrival, *, at_once: bool = True) -> None:
        """Give a received MAD to the program of *agent*; unless *at_once*, it waits for `send_answers`."""
        opened = agent.at
        if self._watch is not None:
            self._watch(PassedMad(opened, False, mad[:MAD_SIZE], slid, opened.port.lid, queue_pair(mad[at.MGMT_CLASS])))
        record = wire.received(agent.id, _sender(mad, slid, arrival, opened.port), mad)
        if at_once:
            self._write(opened, record, mad)
        else:
            opened.answers.append(record)

    def _write(self, opened: ProgramPort, record: bytes, mad: bytes = b"") -> None:
        if opened.answers:
            self.send_answers(opened)
        self._write_now(opened, record, mad)

    def _write_now(self, opened: ProgramPort, record: bytes, mad: bytes = b"") -> None:
        if len(opened.waiting) >= MOST_WAITING:
            self._counts["lost"] += 1
            return
        try:
            if not opened.write(record, mad):
                self._busy(opened)
        except OSError:  # the program is gone, which its own connection shows too
            self._counts["lost"] += 1

    # RMPP (ib_process_rmpp_recv_wc)

    def _take_part(self, agent: Agent, mad: bytes, address: wire.Address) -> bytes | None:
        """Process a MAD of a transfer at either end; return the whole MAD when it is complete."""
        header = rmpp.rmpp_header(mad)
        refused = rmpp.refusal(header)
        if refused is not None:
            self._abort_send(agent, mad, address)
            self._say(agent, rmpp.abort(mad, refused), address)
        elif header.kind == RmppType.DATA:
            return self._take_segment(agent, mad, address, header)
        elif header.kind == RmppType.ACK:
            self._take_ack(agent, mad, address, header)
        else:
            self._abort_send(agent, mad, address)
        return None

    def _say(self, agent: Agent, mad: bytes, address: wire.Address) -> None:
        self._own.append(_Own(agent.at, mad, address._replace(path_bits=0, grh=None)))

    def _take_segment(self, agent: Agent, mad: bytes, address: wire.Address, header: rmpp.RmppHeader) -> bytes | None:
        refused = rmpp.refusal_of_data(header)
        if refused is not None:
            self._say(agent, rmpp.abort(mad, refused), address)
            return None
        receiving = self._receiving.setdefault(agent, {})
        key: rmpp.ReceiverKey = (
            mad[at.TRANSACTION_ID],
            address.qpn,
            address.lid,
            mad[at.MGMT_CLASS],
            mad[at.CLASS_VERSION],
            mad[at.METHOD],
        )
        receiver = receiving.get(key)
        if receiver is None:
            if header.number != 1:
                return None
            receiver = receiving[key] = rmpp.Receiver(mad)
            self._loop.at(rmpp.RECEIVER_TIMEOUT, partial(self._receiver_timed_out, agent, key, receiver, address))
        was_complete = receiver.is_complete
        ack = receiver.take(mad)
        if ack is not None:
            self._say(agent, ack, address)
        if was_complete or not receiver.is_complete:
            return None
        self._loop.at(rmpp.KEPT_FOR, partial(self._forget, agent, key, receiver))
        return receiver.whole()

    def _forget(self, agent: Agent, key: rmpp.ReceiverKey, receiver: rmpp.Receiver) -> bool:
        receiving = self._receiving.get(agent, {})
        if receiving.get(key) is not receiver:
            return False
        del receiving[key]
        return True

    def _receiver_timed_out(
        self, agent: Agent, key: rmpp.ReceiverKey, receiver: rmpp.Receiver, address: wire.Address
    ) -> None:
        if not receiver.is_complete and self._forget(agent, key, receiver):
            self._say(agent, rmpp.abort(receiver.first, RmppStatus.TOTAL_TIME_TOO_LONG), address)
            self._carry_own()

    def _transfer_of(self, agent: Agent, mad: bytes, address: wire.Address) -> Send | None:
        """Return the send whose transfer *mad* from the receiver is about: it has the TransactionID and inverted R."""
        send = agent.at.sends.get(_key(not is_response(mad), mad, address))
        return send if send is not None and send.transfer is not None else None

    def _take_ack(self, agent: Agent, mad: bytes, address: wire.Address, header: rmpp.RmppHeader) -> None:
        send = self._transfer_of(agent, mad, address)
        if send is None or send.transfer is None:
            return
        transfer = send.transfer
        if transfer.is_acknowledged():
            self._say(agent, rmpp.answer_to(mad, RmppType.ACK, 0, 0, 1), address)
            return
        before = transfer.acknowledged
        refused = transfer.take_ack(header)
        if refused is not None:
            self._end(send)
            self._say(agent, rmpp.abort(mad, refused), address)
            return
        if transfer.is_acknowledged():
            if not send.timeout:  # no answer is expected
                self._end(send)
                return
            self._say(agent, rmpp.answer_to(mad, RmppType.ACK, 0, 0, 1), address)
        else:
            self._carry_segments(send, transfer.send())
        if transfer.acknowledged > before:
            send.retries_left = wire.parse_outgoing(send.header).retries
        self._expect(send)

    def _abort_send(self, agent: Agent, mad: bytes, address: wire.Address) -> None:
        send = self._transfer_of(agent, mad, address)
        if send is not None and send.transfer is not None and not send.transfer.is_acknowledged():
            self._end(send)


def _has_rmpp(agent: Agent, mad: bytes) -> bool:
    """Return whether the kernel does RMPP for *mad* of *agent*."""
    return agent.does_rmpp and has_rmpp(mad[at.MGMT_CLASS])


_arrival: Final = lru_cache(maxsize=1024)(_Arrival)
"""`_Arrival` with a cache, because most arrivals are equal to earlier ones."""


@lru_cache(maxsize=1024)
def _address(qpn: int, slid: int, arrival: _Arrival, path_bits: int) -> wire.Address:
    return wire.Address(qpn, slid, arrival.sl, path_bits, arrival.grh, arrival.p_key_index)


def _sender(mad: bytes, slid: int, arrival: _Arrival, port: SimPort) -> wire.Address:
    """Return the sender of a MAD that arrived at *port*, and its path."""
    path_bits = arrival.path_bits
    if path_bits is None:
        path_bits = arrival.dlid & (1 << port.lmc) - 1 if arrival.dlid != PERMISSIVE_LID else 0
    return _address(queue_pair(mad[at.MGMT_CLASS]), slid, arrival, path_bits)


def _key(response: bool, mad: bytes, address: wire.Address) -> SendKey:
    other = b""
    if response:
        other = address.lid.to_bytes(2) if address.grh is None else wire.gid_of(address.grh)
    return response, mad[at.MGMT_CLASS], mad[at.TRANSACTION_ID], other


def _send(agent: Agent, key: SendKey, header: bytes, mad: bytes, sent: wire.OutgoingHeader) -> Send:
    timeout = sent.timeout / 1000 if sent.timeout < _FOR_EVER else float("inf")
    return Send(agent, key, header, mad, sent.address, timeout, sent.retries)


def _is_answer(outcome: DeliveryOutcome, request: bytes) -> TypeGuard[list[Delivery]]:
    """Return whether *outcome* is one answer to *request* that has come already and is whole."""
    if isinstance(outcome, Drop) or len(outcome) != 1 or outcome[0].delay:
        return False
    mad = outcome[0].mad
    if not mad[at.METHOD] & at.RESPONSE or mad[at.TRANSACTION_ID] != request[at.TRANSACTION_ID]:
        return False
    if request[at.METHOD] & at.RESPONSE:
        return False
    return not (has_rmpp(mad[at.MGMT_CLASS]) and rmpp.is_active(mad))


def _begins_here(mad: bytes, port: SimPort) -> bool:
    """Return whether a directed route can start, or continue, at *port* (Linux smi.c: smi_handle_dr_smp_send)."""
    mad = mad.ljust(MAD_SIZE, b"\0") if len(mad) < MAD_SIZE else mad
    hops, pointer = mad[at.HOP_COUNT], mad[at.HOP_POINTER]
    is_switch = port.node.is_switch
    if hops > 63:
        return False
    if not mad[at.STATUS][0] & _D:
        if hops and not pointer:
            return is_switch or mad[at.INITIAL_PATH][1] == port.number
        return pointer in (hops, hops + 1) or (is_switch and pointer < hops)
    if hops and pointer == hops + 1:
        return is_switch or mad[at.RETURN_PATH][hops] == port.number
    return pointer < 2 or (is_switch and pointer <= hops)


def _leaving(mad: bytes) -> bytes:
    """Return an SMP as the `MadCarrier` expects it: HopPointer is 0 at both ends."""
    if mad[at.MGMT_CLASS] != DIRECTED_ROUTE or not mad[at.HOP_POINTER]:
        return mad
    return mad[: at.HOP_POINTER] + b"\0" + mad[at.HOP_COUNT :]


def _is_local(mad: bytes) -> bool:
    """Return whether an SMP is for the port itself: the driver executes it."""
    return mad[at.MGMT_CLASS] == DIRECTED_ROUTE and not mad[at.HOP_COUNT]
