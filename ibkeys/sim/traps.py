"""Sending the traps of simulated SMAs: LID-routed to MasterSMLID, with M_Key 0 (IBA 13.4.9, 14.2.5.1)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ibkeys.mad import offsets as at
from ibkeys.mad.const import SECURITY_TRAPS, PortState, TrapNumber
from ibkeys.mad.notice import Notice
from ibkeys.sim import notices, routing
from ibkeys.sim.deliveries import LATENCY, Delivery
from ibkeys.sim.faults import Faults
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.receivers import Receivers


class Traps:
    """Sends the traps of all ports of a subnet, and sends each again until a TrapRepress comes (see `Repeats`).

    *faults*: may lose a trap on its route. *receivers*: the receivers that get the traps. ``answer_by_sa``: called
    before them with the port where a trap arrived, the trap, and the port that sent it; it returns whether an SA of the
    simulation has answered the trap.
    """

    def __init__(self, faults: Faults, receivers: Receivers) -> None:
        self.repeats = Repeats()
        self.answer_by_sa: Callable[[SimPort, bytes, SimPort], bool] = lambda end, mad, source: False
        self._faults = faults
        self._receivers = receivers
        self._number = 0

    def send(self, port: SimPort, notice: Notice) -> None:
        """Send *notice* from *port* to its MasterSMLID, if the port is Active and its node is not silent.

        `repeat_due` sends it again until a TrapRepress comes. While no port of the subnet has a receiver, the trap is
        only recorded as an event.
        """
        if port.state != PortState.ACTIVE or not port.sm_lid or port.node.silent:
            return
        self._number += 1
        port.record("trap", number=notice.trap_number, to=port.sm_lid)
        if self._receivers:
            mad = notices.as_mad(notice, self._number)
            self.repeats.add(port, notice.trap_number, mad, port.node.history.now)
            self._carry(port, mad)

    def send_once(self, port: SimPort, number: int, mad: bytes) -> None:
        """Send the trap *mad* of another class than subnet management to MasterSMLID, once, if *port* is Active and its
        node is not silent. *number*: its TrapNumber."""
        if port.state != PortState.ACTIVE or not port.sm_lid or port.node.silent:
            return
        port.record("class-trap", number=number, to=port.sm_lid)
        arrived = routing.by_lid(port, port.sm_lid)
        if arrived is not None and self._receivers:
            self._receivers.deliver(arrived[0].arrival_port(arrived[1]), Delivery(LATENCY, mad, port.lid))

    def send_bad_m_key(self, port: SimPort, mad: bytes) -> None:
        """Send trap 256 from *port*, which refused the SMP *mad*, unless its last security trap was sent less than
        SubnetTimeOut before."""
        if self._may_send(port, TrapNumber.BAD_M_KEY):
            self.send(port, notices.bad_m_key(port, mad))

    def send_security(self, port: SimPort, notice: Notice) -> None:
        """Send trap 257, 258 or 259 from the end port *port*, unless its last security trap was sent less than
        SubnetTimeOut before."""
        if self._may_send(port, notice.trap_number):
            self.send(port, notice)

    def _may_send(self, port: SimPort, number: int) -> bool:
        """Return whether *port* may send the security trap *number* now, and record the time if it may.

        It may if it is Active and SubnetTimeOut has passed since its last security trap: an attacker can cause these
        traps without end.
        """
        if port.state != PortState.ACTIVE:
            return False
        now = port.node.history.now
        if (
            number in SECURITY_TRAPS
            and port.last_trap is not None
            and now - port.last_trap < seconds_between_traps(port)
        ):
            return False
        port.last_trap = now
        return True

    def _carry(self, port: SimPort, mad: bytes) -> None:
        faults = self._faults
        if faults.drop and faults.random.random() < faults.drop:
            return
        arrived = routing.by_lid(port, port.sm_lid)
        if arrived is None:
            return
        end = arrived[0].arrival_port(arrived[1])
        if self.answer_by_sa(end, mad, port):
            self.repress(port, mad)
        self._receivers.deliver(end, Delivery(LATENCY, mad, port.lid))

    def repress(self, port: SimPort, mad: bytes) -> None:
        """Process the TrapRepress *mad*, which passed the M_Key check of *port*: stop repeating the trap that it
        answers."""
        if self.repeats.repress(port, mad):
            port.record("trap-repressed", number=_number(mad))

    def repeat_due(self, now: float) -> None:
        """Send the traps again that are due at *now*."""
        for port, mad in self.repeats.due(now):
            port.record("trap-repeated", number=_number(mad), to=port.sm_lid)
            self._carry(port, mad)


def seconds_between_traps(port: SimPort) -> float:
    """Return the seconds between two traps of *port*: SubnetTimeOut (IBA 14.2.5.6)."""
    return 4.096e-6 * (1 << port.subnet_timeout)


def _number(mad: bytes) -> int:
    """Return the TrapNumber in a Trap or TrapRepress."""
    return Notice(mad[at.DATA]).trap_number


def _is_answer(repress: bytes, trap: bytes) -> bool:
    return repress[at.LOWER_TID] == trap[at.LOWER_TID] or repress[at.DATA] == trap[at.DATA]


class Repeats:
    """The traps that no TrapRepress has answered yet, and the time when each is sent again (IBA 13.4.9).

    There is one for each port and TrapNumber: a newer trap replaces an older one. A trap is repeated after each
    SubnetTimeOut, but not before `SHORTEST` seconds, at most `MOST` times, and for about `LONGEST` seconds. Then the SM
    is assumed to be dead.
    """

    SHORTEST: Final = 0.01
    MOST: Final = 16
    LONGEST: Final = 60.0

    def __init__(self) -> None:
        self._waiting: dict[tuple[SimPort, int], _RepeatedTrap] = {}
        self._timers: list[tuple[float, int, _RepeatedTrap]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """Return how many traps wait for a TrapRepress."""
        return len(self._waiting)

    def add(self, port: SimPort, number: int, mad: bytes, now: float) -> None:
        """Add the trap *mad*, which was sent at *now*, to be repeated until a TrapRepress comes."""
        due = now + max(seconds_between_traps(port), self.SHORTEST)
        trap = self._waiting.get((port, number))
        if trap is None:
            trap = self._waiting[port, number] = _RepeatedTrap(port, number, mad, due, now + self.LONGEST, self.MOST)
            self._set_timer(trap)
        else:  # Its timer is set already; when it fires, it is set again for the later time.
            trap.mad, trap.due, trap.until, trap.repeats_left = mad, due, now + self.LONGEST, self.MOST

    def _set_timer(self, trap: _RepeatedTrap) -> None:
        heapq.heappush(self._timers, (trap.due, next(self._order), trap))

    def repress(self, port: SimPort, mad: bytes) -> bool:
        """Stop repeating the trap of *port* that the TrapRepress *mad* answers; return whether there was such a trap.

        A TrapRepress answers a trap that has the same data, or the same lower half of the TransactionID.
        """
        key = port, _number(mad)
        trap = self._waiting.get(key)
        if trap is None or not _is_answer(mad, trap.mad):
            return False
        del self._waiting[key]
        return True

    def forget(self, port: SimPort) -> None:
        """Stop repeating all traps of *port*."""
        for key in [key for key in self._waiting if key[0] is port]:
            del self._waiting[key]

    def next_time(self) -> float | None:
        """Return the time at which `due` may return a trap; None if no trap waits."""
        while self._timers and not self._still_waits(self._timers[0][2]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _still_waits(self, trap: _RepeatedTrap) -> bool:
        """Return whether *trap*, for which a timer is set, still waits for a TrapRepress."""
        return self._waiting.get((trap.port, trap.number)) is trap

    def due(self, now: float) -> list[tuple[SimPort, bytes]]:
        """Return the traps to send again at *now*, each with its port. Remove those that were repeated often or long
        enough, or whose port is not Active."""
        to_repeat: list[tuple[SimPort, bytes]] = []
        while self._timers and self._timers[0][0] <= now:
            trap = heapq.heappop(self._timers)[2]
            port = trap.port
            if not self._still_waits(trap):
                continue
            if trap.due > now:
                self._set_timer(trap)
            elif trap.is_over(now) or port.state != PortState.ACTIVE:
                del self._waiting[port, trap.number]
            else:
                trap.repeats_left -= 1
                trap.was_repeated = True  # A trap is repeated at least once, even if the clock jumps past `until`.
                trap.due = now + max(seconds_between_traps(port), self.SHORTEST)
                self._set_timer(trap)
                to_repeat.append((port, trap.mad))
        return to_repeat


@dataclass(slots=True)
class _RepeatedTrap:
    """A trap that is repeated. ``due``: the time of the next repeat; ``until``: the time after which it is not
    repeated; ``repeats_left``: how often it may still be repeated."""

    port: SimPort
    number: int
    mad: bytes
    due: float
    until: float
    repeats_left: int
    was_repeated: bool = False

    def is_over(self, now: float) -> bool:
        """Return whether the trap was repeated often or long enough."""
        return self.repeats_left == 0 or (now >= self.until and self.was_repeated)
