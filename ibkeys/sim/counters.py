"""The performance counters of one port: PortCounters and PortCountersExtended (IBA 16.1.3)."""

from __future__ import annotations

from ibkeys.mad.performance import PortCounters, PortCountersExtended


class SimCounters:
    """The counters of one port, as the bytes of both attributes."""

    __slots__ = ("basic", "extended")

    def __init__(self, basic: bytes = bytes(PortCounters.size), extended: bytes = bytes(PortCountersExtended.size)):
        self.basic, self.extended = bytearray(basic), bytearray(extended)

    def add(self, name: str, count: int = 1) -> None:
        """Add *count* to the counter *name*, in each of the two attributes that has it. A counter stops at its largest
        value."""
        for buffer, rows in ((self.basic, PortCounters.rows), (self.extended, PortCountersExtended.rows)):
            if name in rows:
                rows[name].patch(buffer, min(rows[name].decode(buffer) + count, rows[name].max))
