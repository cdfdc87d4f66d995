"""Passing MADs between the open ports of programs and the fabric, as the kernel does (Linux mad.c, user_mad.c).

The `MadCarrier` carries a program's MAD from its port. A reply, and any other MAD that arrives at a port, is passed to
its agent. A request that is not answered in time is sent again, and ends with ETIMEDOUT after its retries.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, TypeGuard

from ibkeys.mad import offsets as at
from ibkeys.mad.const import DIRECTED_ROUTE, MAD_SIZE, PERMISSIVE_LID
from ibkeys.mad.smp import DirectedRouteSmp
from ibkeys.sim import rmpp
from ibkeys.sim.deliveries import Delivery, DeliveryOutcome, Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.rmpp import has_rmpp
from ibkeys.sim.server.loop import Loop
from ibkeys.sim.server.outbox import MadTap, PassedMad
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.agents import MOST_AGENTS, Agent, Agents, is_response, queue_pair
from ibkeys.sim.server.umad.carrying import Arrival, Carrying, arrival_at, sender
from ibkeys.sim.server.umad.directed_routes import begins_here, is_local
from ibkeys.sim.server.umad.kernel_timers import latest_end
from ibkeys.sim.server.umad.open_ports import MOST_WAITING, CommonData, PendingMad, ProgramPort, SendKey, send_key
from ibkeys.sim.server.umad.transfers import OwnMads, Transfers
from ibkeys.sim.subnet import Subnet

LEAST_MAD: Final = 36
"""The number of bytes of the shortest MAD that the kernel sends: MAD header and RMPP header (ib_umad_write)."""
_FOR_EVER: Final = 1 << 31
"""The timeout in milliseconds from which on it is infinite: the program passed a negative number."""
LONGEST_TIMER: Final = 10.0
"""The most seconds for which a timer keeps a MAD that waits for nothing any more. A longer time is several timers."""
_MOST_ALIKE: Final = 256
# The following places are in the umad header followed by the MAD.
_ALIKE: Final = wire.HEADER_SIZE + at.HOP_COUNT + 1
"""The end of the bytes that, together with the first hop, decide whether a directed-route request is valid."""
_AGENT: Final = wire.HEADER_SIZE + at.AGENT.start
_TID: Final = wire.HEADER_SIZE + at.LOWER_TID.start
_FIRST_HOP: Final = wire.HEADER_SIZE + at.INITIAL_PATH.start + 1
_DR_LIDS: Final = slice(
    wire.HEADER_SIZE + DirectedRouteSmp.dr_slid.byte, wire.HEADER_SIZE + DirectedRouteSmp.dr_dlid.stop
)
_NO_LID_ROUTED_PART: Final = PERMISSIVE_LID.to_bytes(2) * 2


class MadLayer:
    """Carries the MADs of the programs on *subnet*.

    *watch*: called with each MAD. *counts*: by reason the number of MADs that were not simply answered. ``packets``:
    the number of MADs from programs. *busy*: called with an open port whose program does not read at the moment.
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
        self._carrying = Carrying(subnet, watch)
        self._own = OwnMads(loop, self._carry_own)
        self._transfers = Transfers(loop, self._own, self._expect)

    def open(self, opened: ProgramPort) -> None:
        """Add *opened*, at which its program can send and receive from now on."""
        if opened.port not in self._at:
            detach = self._subnet.attach(opened.port, partial(self._arrived, opened.port))
            self._at[opened.port] = [], detach
        self._at[opened.port][0].append(opened)

    def close(self, opened: ProgramPort) -> None:
        """Close an open port and remove its agents. Its pending MADs are dropped, as the kernel does on close()."""
        for agent in list(opened.agents.values()):
            self._remove(agent)
        self._own.drop(opened)
        beside, detach = self._at[opened.port]
        beside.remove(opened)
        if not beside:
            del self._at[opened.port]
            detach()
        opened.close()

    def register(self, opened: ProgramPort, wanted: wire.Registration) -> tuple[int, int]:
        """Register an agent; return 0 and its id, or an errno and 0."""
        error, agent = self._agents.register(opened, wanted)
        if agent is None:
            return error, 0
        opened.agents[agent.id] = agent
        opened.alike.clear()
        opened.page.show_agents(list(opened.agents))
        return 0, agent.id

    def unregister(self, opened: ProgramPort, number: int) -> int:
        """Remove the agent with the id *number* and its pending requests; return 0 or an errno."""
        agent = opened.agents.get(number)
        if agent is None:
            return errno.EINVAL
        self._remove(agent)
        opened.page.show_agents(list(opened.agents))
        return 0

    def _remove(self, agent: Agent) -> None:
        self._agents.unregister(agent)
        self._transfers.drop(agent)
        del agent.at.agents[agent.id]
        agent.at.alike.clear()
        for send in [send for send in agent.at.sends.values() if send.agent is agent]:
            send.end()

    def send(self, opened: ProgramPort, header: bytes, mad: bytes) -> int:
        """Send a program's MAD (ib_umad_write, ib_post_send_mad); return 0, or the errno of a refusal by write().

        *header*: its umad header.
        """
        self.packets += 1
        return self._send_any(opened, header, mad)

    def send_full(self, opened: ProgramPort, umad: bytes) -> None:
        """Send a MAD of 256 bytes as `send` does. *umad*: the umad header followed by the MAD."""
        self.packets += 1
        like = opened.alike.get(umad[:_ALIKE])
        if (
            like is None
            or opened.sends
            or like.first_hop not in (None, umad[_FIRST_HOP])
            or umad[_DR_LIDS] != _NO_LID_ROUTED_PART
            or self._subnet.faults.active
        ):
            self._send_any(opened, umad[: wire.HEADER_SIZE], umad[wire.HEADER_SIZE :])
            return
        # This directed-route request begins like one that was answered before, so it needs no check.
        mad = umad[wire.HEADER_SIZE : _AGENT] + like.agent.number + umad[_TID:]
        outcome = self._subnet.carrier.exchange(mad, opened.port)
        if isinstance(outcome, bytes):
            opened.page.done(mad)
            opened.answers.append(like.answer + outcome)
            return
        header = umad[: wire.HEADER_SIZE]
        sent = wire.parse_outgoing(header)
        key = send_key(False, mad, sent.address)
        opened.sends[key] = send = _send(like.agent, key, header, mad, sent)
        self._take_back(send, outcome, arrival_at(PERMISSIVE_LID))
        self._own.carry()

    def _keep(self, opened: ProgramPort, agent: Agent, header: bytes, mad: bytes, address: wire.Address) -> None:
        """Record in ``opened.alike`` that *mad* was valid and answered, for later MADs with the same beginning. Only
        directed-route requests of 256 bytes are recorded. *address*: the sender of the answer."""
        if (
            mad[at.MGMT_CLASS] != DIRECTED_ROUTE
            or mad[at.HOP_POINTER]
            or len(mad) != MAD_SIZE
            or self._watch is not None
        ):
            return
        if len(opened.alike) >= _MOST_ALIKE:
            opened.alike.clear()
        has_one_port = mad[at.HOP_COUNT] and not opened.port.node.is_switch
        first_hop = mad[at.INITIAL_PATH.start + 1] if has_one_port else None
        answer = wire.received_header(agent.id, address, MAD_SIZE)
        opened.alike[(header + mad)[:_ALIKE]] = CommonData(agent, first_hop, answer)

    def _send_any(self, opened: ProgramPort, header: bytes, mad: bytes) -> int:
        """Send a MAD as `send` does, with all checks."""
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
        key = send_key(response, mad, sent.address)
        active = has_rmpp(mad[at.MGMT_CLASS]) and rmpp.is_active(mad)
        if key in opened.sends and (agent.does_rmpp or not active):  # Segments of a program's own RMPP have equal keys.
            opened.page.done(mad)
            return errno.EINVAL
        if not opened.has_room_to_send(mad):
            opened.page.done(mad)
            return errno.ENOMEM
        if _has_rmpp(agent, mad):
            mad = rmpp.with_own_header(mad)
            if active:
                self._start_transfer(_send(agent, key, header, mad, sent))
                return 0
        outcome, back = self._carrying.carry(opened, mad, sent.address)
        if sent.timeout and _is_answer(outcome, mad):  # True for nearly all MADs, which then need no `PendingMad`.
            opened.page.done(mad)
            self._keep(opened, agent, header, mad, sender(mad, outcome[0].slid, back, opened.port))
            self._give(agent, outcome[0].mad, outcome[0].slid, back, at_once=False)
            return 0
        send = _send(agent, key, header, mad, sent)
        if sent.timeout and key not in opened.sends:
            opened.sends[key] = send
        else:
            opened.page.done(mad)
        self._take_back(send, outcome, back)
        self._own.carry()
        return 0

    def _start_transfer(self, send: PendingMad) -> None:
        """Send the MAD of *send* in RMPP segments."""
        send.transfer = rmpp.OutgoingTransfer(send.mad)
        send.agent.at.sends[send.key] = send
        self._own.send_segments(send, send.transfer.send())
        self._expect(send)
        self._own.carry()

    @staticmethod
    def _refusal(opened: ProgramPort, agent: Agent | None, number: int, mad: bytes) -> int:
        if agent is None:
            return errno.EIO if number < MOST_AGENTS else errno.EINVAL
        if len(mad) > MAD_SIZE and not (_has_rmpp(agent, mad) and rmpp.is_active(mad)):
            return errno.EINVAL
        if mad[at.MGMT_CLASS] == DIRECTED_ROUTE and not begins_here(mad, opened.port):
            return errno.EINVAL
        return 0

    def _attempt(self, send: PendingMad) -> None:
        """Send the MAD of *send*, which has no RMPP, again."""
        self._take_back(send, *self._carrying.carry(send.agent.at, send.mad, send.address))

    def _take_back(self, send: PendingMad, outcome: DeliveryOutcome, back: Arrival) -> None:
        """Process the *outcome* of a MAD that was carried, and start the timer if an answer is still to come. *back*:
        the arrival of its answers."""
        opened = send.agent.at
        self._take_answers(opened.port, outcome, back)
        if is_local(send.mad) and opened.sends.get(send.key) is send:
            send.end()  # The driver has executed it, so it ends without an error (handle_outgoing_dr_smp).
        self._expect(send)

    def _expect(self, send: PendingMad) -> None:
        """Start the timer for the answer or acknowledgement of *send*, if *send* is still pending."""
        if send.agent.at.sends.get(send.key) is not send:
            return
        wait = send.timeout
        if send.transfer is not None and not send.transfer.is_acknowledged():
            wait = min(wait or rmpp.RESEND_AFTER, rmpp.RESEND_AFTER)
        if wait != float("inf"):
            send.timer += 1
            self._start_timer(send, latest_end(wait))

    def _start_timer(self, send: PendingMad, seconds: float) -> None:
        now = min(seconds, LONGEST_TIMER)
        self._loop.at(now, partial(self._timed_out, send, send.timer, seconds - now))

    def _timed_out(self, send: PendingMad, timer: int, rest: float) -> None:
        """Process the end of a timer of *send*. *rest*: the seconds that it has to wait after this timer."""
        opened = send.agent.at
        if opened.sends.get(send.key) is not send or send.timer != timer:
            return
        if rest > 0:
            self._start_timer(send, rest)
            return
        transfer = send.transfer
        if send.retries_left:
            send.retries_left -= 1
            if transfer is None:
                self._attempt(send)
                return
            if not transfer.is_acknowledged():
                self._own.send_segments(send, transfer.resend())
            self._expect(send)
        else:
            self._counts["unanswered"] += 1
            send.end()
            self._write(opened, wire.given_up(send.header, send.mad, errno.ETIMEDOUT))
        self._own.carry()

    def _carry_own(self, opened: ProgramPort, mad: bytes, address: wire.Address) -> None:
        self._take_answers(opened.port, *self._carrying.carry(opened, mad, address))

    def _take_answers(self, port: SimPort, outcome: DeliveryOutcome, back: Arrival) -> None:
        if isinstance(outcome, Drop):
            self._counts["lost"] += 1
            return
        for delivery in outcome:
            if delivery.delay:
                self._loop.at(delivery.delay, partial(self._deliver, port, delivery, back))
            else:
                self._deliver(port, delivery, back)

    def _arrived(self, port: SimPort, delivery: Delivery) -> bool:
        """Deliver a MAD that arrives at *port* from the fabric (ib_mad_recv_done, recv_handler); return whether there
        is an agent for it."""
        taken = self._deliver(port, delivery, self._carrying.arrival or arrival_at(port.lid))
        self._own.carry()
        return taken

    def _deliver(self, port: SimPort, delivery: Delivery, arrival: Arrival) -> bool:
        mad = delivery.mad
        agent = self._agents.for_mad(port, mad)
        if agent is None:
            return False
        mgmt_class = mad[at.MGMT_CLASS]
        if mgmt_class == DIRECTED_ROUTE and not is_response(mad):
            mad = mad[: at.HOP_POINTER] + bytes((mad[at.HOP_COUNT] + 1,)) + mad[at.HOP_COUNT :]
        if _has_rmpp(agent, mad) and rmpp.is_active(mad):
            whole = self._transfers.take(agent, mad, sender(mad, delivery.slid, arrival, port))
            if whole is None:
                return True
            mad = whole
        if is_response(mad):
            send = agent.at.sends.get((False, mgmt_class, mad[at.TRANSACTION_ID], b""))
            if send is not None:
                send.end()
            elif not _needs_no_request(agent, mad):
                self._counts["late"] += 1
                return False
        self._give(agent, mad, delivery.slid, arrival)
        return True

    def send_answers(self, opened: ProgramPort) -> None:
        """Write the answers that wait in ``opened.answers``. So a batch of a program's MADs wakes the program only
        once."""
        if not opened.answers:
            return
        try:
            if not opened.write_answers():
                self._busy(opened)
        except OSError:  # The program has ended. Its connection shows this too, and is closed then.
            self._counts["lost"] += 1
            return
        while len(opened.waiting) > MOST_WAITING:
            opened.waiting.pop()
            self._counts["lost"] += 1

    def _give(self, agent: Agent, mad: bytes, slid: int, arrival: Arrival, *, at_once: bool = True) -> None:
        """Pass a received MAD to the program of *agent*: now if *at_once*, else by the next `send_answers`."""
        opened = agent.at
        if self._watch is not None:
            self._watch(PassedMad(opened, False, mad[:MAD_SIZE], slid, opened.port.lid, queue_pair(mad[at.MGMT_CLASS])))
        record = wire.received(agent.id, sender(mad, slid, arrival, opened.port), mad)
        if at_once:
            self._write(opened, record, mad)
        else:
            opened.answers.append(record)

    def _write(self, opened: ProgramPort, record: bytes, mad: bytes = b"") -> None:
        if opened.answers:
            self.send_answers(opened)
        self.write(opened, record, mad)

    def write(self, opened: ProgramPort, record: bytes, mad: bytes = b"") -> None:
        """Write a record to the program, which may have returned it. It is lost if the program does not read."""
        if not opened.has_room_to_receive(mad):
            self._counts["lost"] += 1
            return
        try:
            if not opened.write(record, mad):
                self._busy(opened)
        except OSError:  # The program has ended. Its connection shows this too, and is closed then.
            self._counts["lost"] += 1


def _needs_no_request(agent: Agent, mad: bytes) -> bool:
    """Return whether the response *mad* is delivered although no request of *agent* waits for it.

    This holds for the answer to a local SMP, which ended when it was sent (local_completions), and for segments of a
    program's own RMPP after the first one.
    """
    return is_local(mad) or (not agent.does_rmpp and has_rmpp(mad[at.MGMT_CLASS]) and rmpp.is_active(mad))


def _has_rmpp(agent: Agent, mad: bytes) -> bool:
    """Return whether the kernel does RMPP for *mad*, which *agent* sends or receives."""
    return agent.does_rmpp and has_rmpp(mad[at.MGMT_CLASS])


def _send(agent: Agent, key: SendKey, header: bytes, mad: bytes, sent: wire.OutgoingHeader) -> PendingMad:
    timeout = sent.timeout / 1000 if sent.timeout < _FOR_EVER else float("inf")
    return PendingMad(agent, key, header, mad, sent.address, timeout, sent.retries)


def _is_answer(outcome: DeliveryOutcome, request: bytes) -> TypeGuard[list[Delivery]]:
    """Return whether *outcome* is exactly one answer to *request*, without delay and without RMPP."""
    if isinstance(outcome, Drop) or len(outcome) != 1 or outcome[0].delay:
        return False
    mad = outcome[0].mad
    if not mad[at.METHOD] & at.RESPONSE or mad[at.TRANSACTION_ID] != request[at.TRANSACTION_ID]:
        return False
    if request[at.METHOD] & at.RESPONSE:
        return False
    return not (has_rmpp(mad[at.MGMT_CLASS]) and rmpp.is_active(mad))
