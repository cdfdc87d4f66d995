"""Counters between two sweeps: violations in PortInfo, and constraint errors of switch ports that enforce partitions.

Counters also cover devices that send no traps. They show how often a key was refused, but not the sender.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ibkeys.discovery.port_counters import ConstraintErrors
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.watch.event import Event, EventEnd, EventKind

LARGEST: Final[dict[EventKind, int]] = {
    "m_key-violations": 0xFFFF,
    "p_key-violations": 0xFFFF,
    "q_key-violations": 0xFFFF,
    "rcv-constraint-errors": 0xFF,
    "xmit-constraint-errors": 0xFF,
}
"""Where each counter stops (IBA 14.2.5.6, 16.1.3.5)."""
TOLD_BY: Final[dict[EventKind, tuple[EventKind, ...]]] = {
    "bad-m_key": ("m_key-violations",),
    "bad-p_key": ("p_key-violations",),
    "bad-q_key": ("q_key-violations",),
    "bad-p_key-at-switch": ("rcv-constraint-errors", "xmit-constraint-errors"),
}
"""Kind of trap → the counters of the same port that have counted it already; for a switch's port one of two."""
KEPT_ROUNDS: Final = 100
"""The last values of a port that is no longer found are kept for so many sweeps."""
KEPT_AT_LEAST: Final = 10_000
"""At most so many values of ports that are no longer found are kept; on a larger fabric, as many as it has."""

Counter = tuple[int, int, int, EventKind]
"""NodeGUID, the node's number among those with that GUID, port number, kind of counter."""


class _Last(NamedTuple):
    value: int
    round: int


def counted_by(event: Event) -> list[Counter]:
    """Return the counters that may have counted the event of a trap; none for a port that no sweep found."""
    at = event.at
    if at.node_guid is None or at.port is None:
        return []
    return [(at.node_guid, 0, at.port, kind) for kind in TOLD_BY.get(event.kind, ())]


class CounterReadings:
    """The last reading of every counter, and the traps since then whose events the counter has counted.

    ``last``: the last value of each counter. Counters of ports that no longer exist are dropped.
    """

    def __init__(self) -> None:
        self.last: dict[Counter, _Last] = {}
        self._from_traps: dict[Counter, int] = {}
        self._round = 0

    def record_trap(self, event: Event) -> None:
        """Record a trap that was reported: its event is not reported again when the counter is read."""
        for counter in counted_by(event):
            if counter in self.last:
                self._from_traps[counter] = self._from_traps.get(counter, 0) + event.count

    def compare(self, found: Topology, errors: Mapping[Port, ConstraintErrors], time: str) -> list[Event]:
        """Return an event for each counter that rose by more than the reported traps since it was last read, or that
        rose to its largest value.

        At the first reading of a port only counters at their largest value are reported. A counter that is lower than
        before was cleared in between, so its whole value is new. A counter that could not be read keeps its last value
        and the traps since then.
        """
        self._round += 1
        events = []
        for port, kind, value in _values(found, errors):
            counter = port.node.guid, port.node.twin, port.num, kind
            before = self.last.get(counter)
            self.last[counter] = _Last(value, self._round)
            event = self._event(port, kind, value, before, self._from_traps.pop(counter, 0), time)
            if event is not None:
                events.append(event)
        self._forget()
        return events

    def _event(
        self, port: Port, kind: EventKind, value: int, before: _Last | None, from_traps: int, time: str
    ) -> Event | None:
        stopped = value == LARGEST[kind]
        words = "it is at its maximum: it shows nothing more until it is cleared" if stopped else ""
        if before is None:
            if not stopped:
                return None
            return Event(time, "counters", kind, None, EventEnd.of(port), value=value, detail=words, count=0)
        cleared = value < before.value
        rose = value if cleared else value - before.value
        if rose <= from_traps and not (stopped and rose):
            return None
        notes = [words] if stopped else []
        if cleared:
            notes.append(f"it was cleared in between, from {before.value}: there may have been more")
        if from_traps:
            notes.append(f"by {rose} since the last reading; traps reported {from_traps} of them")
        return Event(time, "counters", kind, None, EventEnd.of(port), value=value, detail="; ".join(notes), count=rose)

    def _forget(self) -> None:
        """Drop counters that were not read for long. Drop the oldest too if there are more old counters than
        `KEPT_AT_LEAST` and than counters just read.

        This bounds the memory: a node may claim to be another node in each sweep.
        """
        oldest = self._round - KEPT_ROUNDS
        gone = sorted((last.round, counter) for counter, last in self.last.items() if last.round < self._round)
        too_many = len(gone) - max(KEPT_AT_LEAST, len(self.last) - len(gone))
        for place, (seen, counter) in enumerate(gone):
            if seen >= oldest and place >= too_many:
                break
            del self.last[counter]
            self._from_traps.pop(counter, None)


def _values(found: Topology, errors: Mapping[Port, ConstraintErrors]) -> Iterator[tuple[Port, EventKind, int]]:
    """Yield each counter that was read.

    Violations are those of end ports only: M_KeyViolations and Q_KeyViolations of an external switch port have no
    meaning, and its refused packets are in its constraint errors.
    """
    for port in found.end_ports():
        info = port.port_info
        if info is not None and port not in found.doubtful:
            yield port, "m_key-violations", info.m_key_violations
            yield port, "p_key-violations", info.p_key_violations
            yield port, "q_key-violations", info.q_key_violations
    for port, read in errors.items():
        if read.received is not None:
            yield port, "rcv-constraint-errors", read.received
        if read.transmitted is not None:
            yield port, "xmit-constraint-errors", read.transmitted
