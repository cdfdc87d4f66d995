"""Traps that a simulated SMA sends: LID-routed to MasterSMLID, M_Key 0 (IBA 13.4.9, 14.2.5.1)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final, NamedTuple

from ibkeys.mad.const import AttributeID, Method, MgmtClass, NodeType, NoticeType, PortState, TrapNumber
from ibkeys.mad.notice import (
    BadMKeyDetails,
    BadPKeyDetails,
    BadPKeySwitchPortDetails,
    BadQKeyDetails,
    CapabilityChangeDetails,
    LinkStateDetails,
    Notice,
)
from ibkeys.mad.smp import DirectedRouteSmp, build_smp
from ibkeys.sim.nodes import STATE_BYTE, Port

MAX_NOTICE_PATH: Final = 30
_SECURITY: Final = frozenset(
    {TrapNumber.BAD_M_KEY, TrapNumber.BAD_P_KEY, TrapNumber.BAD_Q_KEY, TrapNumber.BAD_P_KEY_SWITCH_PORT}
)


def bad_m_key(port: Port, mad: bytes) -> Notice:
    """Return trap 256 for the SMP *mad* that *port* refused."""
    directed = mad[1] == MgmtClass.SUBN_DIRECTED_ROUTE
    details = BadMKeyDetails.new(
        lid_addr=port.lid,
        method=mad[3],
        attribute_id=mad[16] << 8 | mad[17],
        attribute_modifier=int.from_bytes(mad[20:24]),
        m_key=int.from_bytes(mad[24:32]),
    )
    if directed:
        smp = DirectedRouteSmp(mad)
        hops = min(smp.hop_count, MAX_NOTICE_PATH)
        # The path from the first hop on; the Linux SMAs start at the unused entry 0 and so lose the last hop.
        path = smp.return_path[1 : hops + 1]
        details = details.replace(
            dr_slid=smp.dr_slid,
            dr_notice=1,
            dr_path_truncated=smp.hop_count > MAX_NOTICE_PATH,
            dr_hop_count=hops,
            dr_notice_return_path=(*path, *[0] * (MAX_NOTICE_PATH - len(path))),
        )
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_M_KEY).with_details(details)


def link_state_change(port: Port) -> Notice:
    """Return trap 128: the state of some port of the switch whose port 0 is *port* changed."""
    notice = _notice(port, NoticeType.URGENT, TrapNumber.LINK_STATE_CHANGE)
    return notice.with_details(LinkStateDetails.new(lid_addr=port.lid))


def capability_change(port: Port) -> Notice:
    """Return trap 144: the CapabilityMask of *port* changed."""
    details = CapabilityChangeDetails(bytes(64)).replace(lid_addr=port.lid, capability_mask=port.capability_mask)
    return _notice(port, NoticeType.INFORMATIONAL, TrapNumber.CAPABILITY_CHANGE).with_details(details)


def description_change(port: Port) -> Notice:
    """Return trap 144: the NodeDescription behind *port* changed."""
    details = CapabilityChangeDetails(bytes(64)).replace(
        lid_addr=port.lid,
        other_local_changes=1,
        capability_mask=port.capability_mask,
        node_description_change=1,
    )
    return _notice(port, NoticeType.INFORMATIONAL, TrapNumber.CAPABILITY_CHANGE).with_details(details)


class Packet(NamedTuple):
    """What a security trap says of a packet: its ends, its keys, SL and QPs."""

    source: Port
    destination: Port
    p_key: int
    q_key: int | None = None
    sl: int = 0
    source_qp: int = 1
    destination_qp: int = 1


def bad_p_key(port: Port, packet: Packet) -> Notice:
    """Return trap 257: the end port *port* got a packet with a P_Key that matches nothing in its table."""
    details = BadPKeyDetails.new(key=packet.p_key, **_ends(packet))
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_P_KEY).with_details(details)


def bad_q_key(port: Port, packet: Packet) -> Notice:
    """Return trap 258: the end port *port* got a packet with a wrong Q_Key."""
    details = BadQKeyDetails.new(key=packet.q_key or 0, **_ends(packet))
    return _notice(port, NoticeType.SECURITY, TrapNumber.BAD_Q_KEY).with_details(details)


def bad_p_key_at_switch(port: Port, packet: Packet) -> Notice:
    """Return trap 259: *port*, an external port of a switch, dropped a packet by its P_Key. DataValid is left 0."""
    details = BadPKeySwitchPortDetails.new(
        p_key=packet.p_key, sw_lid_addr=port.guard.lid, port_no=port.number, **_ends(packet)
    )
    return _notice(port.guard, NoticeType.SECURITY, TrapNumber.BAD_P_KEY_SWITCH_PORT).with_details(details)


def _ends(packet: Packet) -> dict[str, int]:
    source, destination = packet.source, packet.destination
    return {
        "lid_addr1": source.lid,
        "lid_addr2": destination.lid,
        "sl": packet.sl,
        "qp1": packet.source_qp,
        "qp2": packet.destination_qp,
        "gid_addr1": int.from_bytes(source.info[8:16]) << 64 | source.guid,
        "gid_addr2": int.from_bytes(destination.info[8:16]) << 64 | destination.guid,
    }


def _notice(port: Port, kind: NoticeType, number: TrapNumber) -> Notice:
    producer = NodeType(port.node.node_type)
    return Notice.new(is_generic=1, type=kind, producer_type=producer, trap_number=number, issuer_lid=port.lid)


def as_mad(notice: Notice, transaction_id: int) -> bytes:
    """Return the SMP that carries *notice*."""
    return build_smp(Method.TRAP, AttributeID.NOTICE, data=notice.raw, transaction_id=transaction_id)


def spacing(port: Port) -> float:
    """Return the seconds that lie between two traps of *port*: SubnetTimeOut (IBA 14.2.5.6)."""
    return 4.096e-6 * (1 << port.subnet_timeout)


def may_send(port: Port, number: int, now: float) -> bool:
    """Whether *port* may send trap *number* now: link Active, and not sooner than SubnetTimeOut after the last one.

    The spacing holds for security traps only: those a stranger can provoke without end.
    """
    if port.info[STATE_BYTE] & 0x0F != PortState.ACTIVE:
        return False
    if number in _SECURITY and port.last_trap is not None:
        return now - port.last_trap >= spacing(port)
    return True


class Repeats:
    """Traps that nobody has answered with TrapRepress yet, and when each goes out again (IBA 13.4.9).

    One for each port and TrapNumber: a newer trap takes the place of an older one. A trap is repeated each
    SubnetTimeOut (but not faster than `SHORTEST`), at most `MOST` times and for `LONGEST` seconds; after that the SM is
    taken for dead.
    """

    SHORTEST: Final = 0.01
    MOST: Final = 16
    LONGEST: Final = 60.0

    def __init__(self) -> None:
        self._waiting: dict[tuple[Port, int], _Waiting] = {}
        self._timers: list[tuple[float, int, Port, int]] = []
        self._sequence = 0

    def add(self, port: Port, number: int, mad: bytes, now: float) -> None:
        """Repeat *mad*, which was sent now, until it is repressed."""
        due = now + max(spacing(port), self.SHORTEST)
        waiting = self._waiting.get((port, number))
        if waiting is None:
            waiting = self._waiting[port, number] = _Waiting(mad, due, now + self.LONGEST, self.MOST)
            self._set_timer(waiting, port, number)
        else:  # its timer stands, and finds the later time when it fires
            waiting.mad, waiting.due, waiting.until, waiting.left = mad, due, now + self.LONGEST, self.MOST

    def _set_timer(self, waiting: _Waiting, port: Port, number: int) -> None:
        self._sequence += 1
        waiting.timer = self._sequence
        heapq.heappush(self._timers, (waiting.due, self._sequence, port, number))

    def repress(self, port: Port, mad: bytes) -> bool:
        """Stop what the TrapRepress *mad* answers; returns whether that was repeated here.

        It carries the trap's data and TransactionID, of which the upper half may belong to somebody else's kernel.
        """
        key = port, mad[68] << 8 | mad[69]
        waiting = self._waiting.get(key)
        if waiting is None or (waiting.mad[12:16] != mad[12:16] and waiting.mad[64:128] != mad[64:128]):
            return False
        del self._waiting[key]
        return True

    def forget(self, port: Port) -> None:
        """Stop all traps of *port*."""
        for key in [key for key in self._waiting if key[0] is port]:
            del self._waiting[key]

    def next_time(self) -> float | None:
        """Return the time at which `due` has something to say, None when nothing is repeated."""
        while self._timers and self._of(self._timers[0]) is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _of(self, timer: tuple[float, int, Port, int]) -> _Waiting | None:
        """Return what a timer is for, None for one whose trap was repressed."""
        waiting = self._waiting.get((timer[2], timer[3]))
        return waiting if waiting is not None and waiting.timer == timer[1] else None

    def due(self, now: float) -> list[tuple[Port, bytes]]:
        """Return the traps to send again now."""
        again: list[tuple[Port, bytes]] = []
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)
            waiting, port, number = self._of(timer), timer[2], timer[3]
            if waiting is None:
                continue
            if waiting.due > now:
                self._set_timer(waiting, port, number)
            elif waiting.is_over(now) or port.info[STATE_BYTE] & 0x0F != PortState.ACTIVE:
                del self._waiting[port, number]
            else:
                waiting.left -= 1
                waiting.repeated = True  # once at least, however far the clock has jumped
                waiting.due = now + max(spacing(port), self.SHORTEST)
                self._set_timer(waiting, port, number)
                again.append((port, waiting.mad))
        return again


@dataclass(slots=True)
class _Waiting:
    mad: bytes
    due: float
    until: float
    left: int
    timer: int = 0
    repeated: bool = False

    def is_over(self, now: float) -> bool:
        """Whether it was sent often or long enough."""
        return self.left == 0 or (now >= self.until and self.repeated)
