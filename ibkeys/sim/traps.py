"""Traps that a simulated SMA sends: LID-routed to MasterSMLID, M_Key 0 (IBA 13.4.9, 14.2.5.1)."""

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

    *faults* may lose a trap on its route, *receivers* are the programs it is for. ``to_sm`` is called before them, with
    the port where a trap arrived, the trap and the port that sent it; it returns whether a subnet manager of the
    simulation itself has answered it.
    """

    def __init__(self, faults: Faults, receivers: Receivers) -> None:
        self.repeats = Repeats()
        self.to_sm: Callable[[SimPort, bytes, SimPort], bool] = lambda end, mad, source: False
        self._faults = faults
        self._receivers = receivers
        self._number = 0

    def send(self, port: SimPort, notice: Notice) -> None:
        """Send *notice* from *port* to its MasterSMLID. A program that is attached there receives it.

        `repeat_due` sends it again until a TrapRepress comes.
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
        """Send the trap *mad* of another class than subnet management to the SM, once, if the link state allows it."""
        if port.state != PortState.ACTIVE or not port.sm_lid or port.node.silent:
            return
        port.record("class-trap", number=number, to=port.sm_lid)
        arrived = routing.by_lid(port, port.sm_lid)
        if arrived is not None and self._receivers:
            self._receivers.deliver(arrived[0].arrival_port(arrived[1]), Delivery(LATENCY, mad, port.lid))

    def send_bad_m_key(self, port: SimPort, mad: bytes) -> None:
        """Send trap 256 from *port*, which refused the SMP *mad*, if the spacing of traps allows it."""
        if self._may_send(port, TrapNumber.BAD_M_KEY):
            self.send(port, notices.bad_m_key(port, mad))

    def send_security(self, port: SimPort, notice: Notice) -> None:
        """Send trap 257, 258 or 259 from the end port *port*, if the spacing of traps allows it."""
        if self._may_send(port, notice.trap_number):
            self.send(port, notice)

    def _may_send(self, port: SimPort, number: int) -> bool:
        """Return whether *port* may send trap *number* now: link Active, and not sooner than SubnetTimeOut after the
        last.

        The spacing is for security traps only, because an attacker can provoke these without end.
        """
        if port.state != PortState.ACTIVE:
            return False
        now = port.node.history.now
        if number in SECURITY_TRAPS and port.last_trap is not None and now - port.last_trap < spacing(port):
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
        if self.to_sm(end, mad, port):
            self.repress(port, mad)
        self._receivers.deliver(end, Delivery(LATENCY, mad, port.lid))

    def repress(self, port: SimPort, mad: bytes) -> None:
        """Process the TrapRepress *mad*, which passed the M_Key check of *port*: the trap that it answers is not
        repeated."""
        if self.repeats.repress(port, mad):
            port.record("trap-repressed", number=_number(mad))

    def repeat_due(self, now: float) -> None:
        """Send the traps again that are due."""
        for port, mad in self.repeats.due(now):
            port.record("trap-repeated", number=_number(mad), to=port.sm_lid)
            self._carry(port, mad)


def spacing(port: SimPort) -> float:
    """Return the seconds between two traps of *port*: SubnetTimeOut (IBA 14.2.5.6)."""
    return 4.096e-6 * (1 << port.subnet_timeout)


def _number(mad: bytes) -> int:
    """Return the TrapNumber in a Trap or TrapRepress."""
    return Notice(mad[at.DATA]).trap_number


def _answers(repress: bytes, trap: bytes) -> bool:
    return repress[at.TID] == trap[at.TID] or repress[at.DATA] == trap[at.DATA]


class Repeats:
    """Traps that no TrapRepress has answered yet, and the time when each is sent again (IBA 13.4.9).

    One for each port and TrapNumber: a newer trap replaces an older one. A trap is repeated each SubnetTimeOut (but not
    faster than `SHORTEST`), at most `MOST` times and for `LONGEST` seconds; after that the SM is taken for dead.
    """

    SHORTEST: Final = 0.01
    MOST: Final = 16
    LONGEST: Final = 60.0

    def __init__(self) -> None:
        self._waiting: dict[tuple[SimPort, int], _Waiting] = {}
        self._timers: list[tuple[float, int, _Waiting]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """Return how many traps wait for a TrapRepress now."""
        return len(self._waiting)

    def add(self, port: SimPort, number: int, mad: bytes, now: float) -> None:
        """Repeat *mad*, which was sent now, until it is repressed."""
        due = now + max(spacing(port), self.SHORTEST)
        waiting = self._waiting.get((port, number))
        if waiting is None:
            waiting = self._waiting[port, number] = _Waiting(port, number, mad, due, now + self.LONGEST, self.MOST)
            self._set_timer(waiting)
        else:  # its timer is already set, and finds the later time when it fires
            waiting.mad, waiting.due, waiting.until, waiting.left = mad, due, now + self.LONGEST, self.MOST

    def _set_timer(self, waiting: _Waiting) -> None:
        heapq.heappush(self._timers, (waiting.due, next(self._order), waiting))

    def repress(self, port: SimPort, mad: bytes) -> bool:
        """Stop the trap that the TrapRepress *mad* answers; return whether it was repeated here.

        It has the trap's data and TransactionID, of which the upper half may be that of another kernel.
        """
        key = port, _number(mad)
        waiting = self._waiting.get(key)
        if waiting is None or not _answers(mad, waiting.mad):
            return False
        del self._waiting[key]
        return True

    def forget(self, port: SimPort) -> None:
        """Stop all traps of *port*."""
        for key in [key for key in self._waiting if key[0] is port]:
            del self._waiting[key]

    def next_time(self) -> float | None:
        """Return the time at which `due` returns a trap, None when no trap is repeated."""
        while self._timers and not self._still_waits(self._timers[0][2]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _still_waits(self, waiting: _Waiting) -> bool:
        """Return whether the trap of the timer *waiting* still waits to be repressed."""
        return self._waiting.get((waiting.port, waiting.number)) is waiting

    def due(self, now: float) -> list[tuple[SimPort, bytes]]:
        """Return the traps to send again now."""
        again: list[tuple[SimPort, bytes]] = []
        while self._timers and self._timers[0][0] <= now:
            waiting = heapq.heappop(self._timers)[2]
            port = waiting.port
            if not self._still_waits(waiting):
                continue
            if waiting.due > now:
                self._set_timer(waiting)
            elif waiting.is_over(now) or port.state != PortState.ACTIVE:
                del self._waiting[port, waiting.number]
            else:
                waiting.left -= 1
                waiting.repeated = True  # once at least, however far the clock has jumped
                waiting.due = now + max(spacing(port), self.SHORTEST)
                self._set_timer(waiting)
                again.append((port, waiting.mad))
        return again


@dataclass(slots=True)
class _Waiting:
    port: SimPort
    number: int
    mad: bytes
    due: float
    until: float
    left: int
    repeated: bool = False

    def is_over(self, now: float) -> bool:
        """Return whether the trap was repeated often or long enough."""
        return self.left == 0 or (now >= self.until and self.repeated)
