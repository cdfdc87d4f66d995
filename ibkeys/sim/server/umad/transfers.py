"""RMPP transfers that the kernel sends and receives for agents (Linux mad_rmpp.c: ib_process_rmpp_recv_wc)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from ibkeys.mad import offsets as at
from ibkeys.mad.sa import SA_DATA_SIZE, RmppStatus, RmppType
from ibkeys.sim import rmpp
from ibkeys.sim.server.loop import Loop
from ibkeys.sim.server.umad import wire
from ibkeys.sim.server.umad.agents import Agent, is_response
from ibkeys.sim.server.umad.open_ports import PendingMad, ProgramPort, send_key

_AT_ONCE: Final = 256
"""The most MADs of transfers that are carried before the loop serves other events."""

MOST_TRANSFERS: Final = 16384
"""The most transfers that one agent receives, or has received and still acknowledges. A further one is not
acknowledged, so its sender repeats it."""
MOST_SEGMENTS: Final = wire.MOST_MAD // SA_DATA_SIZE + 1
"""The most segments of one transfer to a program."""


class _Own(NamedTuple):
    """A MAD that the kernel itself sends for an agent: a segment, or another MAD of a transfer."""

    opened: ProgramPort
    mad: bytes
    address: wire.Address


class OwnMads:
    """The queue of MADs that the kernel itself sends. *carry_one*: sends one MAD, which may add others to the queue."""

    def __init__(self, loop: Loop, carry_one: Callable[[ProgramPort, bytes, wire.Address], None]) -> None:
        self._loop = loop
        self._carry_one = carry_one
        self._queue: deque[_Own] = deque()
        self._carrying = False

    def reply(self, opened: ProgramPort, mad: bytes, address: wire.Address) -> None:
        """Queue *mad* to *address*, the other end of a transfer."""
        self._queue.append(_Own(opened, mad, address._replace(path_bits=0, grh=None)))

    def send_segments(self, send: PendingMad, segments: list[bytes]) -> None:
        """Queue *segments* of the MAD of *send*."""
        self._queue.extend(_Own(send.agent.at, segment, send.address) for segment in segments)

    def drop(self, opened: ProgramPort) -> None:
        """Remove the MADs of an open port that is being closed."""
        self._queue = deque(own for own in self._queue if own.opened is not opened)

    def carry(self) -> None:
        """Send the queued MADs, and those that are queued meanwhile. A call from within `carry_one` does nothing.

        After `_AT_ONCE` MADs the rest is sent later by the loop.
        """
        if self._carrying:
            return
        self._carrying = True
        try:
            for _ in range(_AT_ONCE):
                if not self._queue:
                    return
                opened, mad, address = self._queue.popleft()
                self._carry_one(opened, mad, address)
        finally:
            self._carrying = False
        self._loop.at(0, self.carry)


class Transfers:
    """The transfers of all agents. *own*: the queue of their MADs; *expect*: starts the timer of a send."""

    def __init__(self, loop: Loop, own: OwnMads, expect: Callable[[PendingMad], None]) -> None:
        self._loop = loop
        self._own = own
        self._expect = expect
        self._receiving: dict[Agent, dict[rmpp.ReceiverKey, rmpp.Receiver]] = {}

    def drop(self, agent: Agent) -> None:
        """Remove the transfers that *agent* is receiving."""
        self._receiving.pop(agent, None)

    def take(self, agent: Agent, mad: bytes, address: wire.Address) -> bytes | None:
        """Process an RMPP MAD that *agent* received from *address*, as sender or receiver of a transfer.

        Returns the whole MAD of the transfer when it is complete, else None.
        """
        header = rmpp.rmpp_header(mad)
        refused = rmpp.refusal(header)
        if refused is not None:
            self._abort_send(agent, mad, address)
            self._own.reply(agent.at, rmpp.abort(mad, refused), address)
        elif header.kind == RmppType.DATA:
            return self._take_segment(agent, mad, address, header)
        elif header.kind == RmppType.ACK:
            self._take_ack(agent, mad, address, header)
        else:
            self._abort_send(agent, mad, address)
        return None

    def _take_segment(self, agent: Agent, mad: bytes, address: wire.Address, header: rmpp.RmppHeader) -> bytes | None:
        refused = rmpp.refusal_of_data(header)
        if refused is not None:
            self._own.reply(agent.at, rmpp.abort(mad, refused), address)
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
            if header.number != 1 or len(receiving) >= MOST_TRANSFERS:
                return None
            receiver = receiving[key] = rmpp.Receiver(mad)
            self._loop.at(rmpp.RECEIVER_TIMEOUT, partial(self._receiver_timed_out, agent, key, receiver, address))
        was_complete = receiver.is_complete
        ack = receiver.take(mad)
        if receiver.count > MOST_SEGMENTS:
            del receiving[key]
            self._own.reply(agent.at, rmpp.abort(mad, RmppStatus.RESOURCES_EXHAUSTED), address)
            return None
        if ack is not None:
            self._own.reply(agent.at, ack, address)
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
            self._own.reply(agent.at, rmpp.abort(receiver.first, RmppStatus.TOTAL_TIME_TOO_LONG), address)
            self._own.carry()

    def _transfer_of(self, agent: Agent, mad: bytes, address: wire.Address) -> PendingMad | None:
        """Return the send whose transfer *mad*, from its receiver, is about; None if there is none. *mad* has the same
        TransactionID and an inverted R bit."""
        send = agent.at.sends.get(send_key(not is_response(mad), mad, address))
        return send if send is not None and send.transfer is not None else None

    def _take_ack(self, agent: Agent, mad: bytes, address: wire.Address, header: rmpp.RmppHeader) -> None:
        send = self._transfer_of(agent, mad, address)
        if send is None or send.transfer is None:
            return
        transfer = send.transfer
        if transfer.is_acknowledged():
            self._own.reply(agent.at, rmpp.answer_to(mad, RmppType.ACK, 0, 0, 1), address)
            return
        before = transfer.acknowledged
        refused = transfer.take_ack(header)
        if refused is not None:
            send.end()
            self._own.reply(agent.at, rmpp.abort(mad, refused), address)
            return
        if transfer.is_acknowledged():
            if not send.timeout:  # No answer is expected.
                send.end()
                return
            self._own.reply(agent.at, rmpp.answer_to(mad, RmppType.ACK, 0, 0, 1), address)
        else:
            self._own.send_segments(send, transfer.send())
        if transfer.acknowledged > before:
            send.retries_left = wire.parse_outgoing(send.header).retries
        self._expect(send)

    def _abort_send(self, agent: Agent, mad: bytes, address: wire.Address) -> None:
        send = self._transfer_of(agent, mad, address)
        if send is not None and send.transfer is not None and not send.transfer.is_acknowledged():
            send.end()
