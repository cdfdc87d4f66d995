"""The performance counters of one port: PortCounters and PortCountersExtended (IBA 16.1.3)."""

from __future__ import annotations

from ibkeys.mad.fields import Layout
from ibkeys.mad.performance import PortCounters, PortCountersExtended


class Counters:
    """The counters of one port. They are created with the first event that counts."""

    __slots__ = ("basic", "extended")

    def __init__(self, basic: bytes = bytes(PortCounters.size), extended: bytes = bytes(PortCountersExtended.size)):
        self.basic, self.extended = bytearray(basic), bytearray(extended)

    def add(self, name: str, count: int = 1) -> None:
        """Add to a counter, by its name in `PortCounters` or `PortCountersExtended`; it sticks at its largest value."""
        _add(self.basic, PortCounters, name, count)
        _add(self.extended, PortCountersExtended, name, count)


def _add(buffer: bytearray, layout: type[Layout], name: str, count: int) -> None:
    row = layout.rows.get(name)
    if row is not None:
        row.patch(buffer, min(row.decode(buffer) + count, row.max))
