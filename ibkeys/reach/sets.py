"""The ports of one partition as sets, and the reach of a port in it. A set of ports is a number with a bit for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

from ibkeys.reach.forms import PortForms
from ibkeys.reach.places import Places
from ibkeys.reach.routes import numbers_in

ReachedField = Literal["both", "to", "by", "unknown"]
"""A field of `ibkeys.reach.reach.ReachedPorts`."""


class PartitionReach(NamedTuple):
    """The reach of a port in one partition (see `ibkeys.reach.reach.ReachedPorts`).

    ``may_both``, ``may_to``, ``may_by``: further ports for which the route or an unread port decides.
    """

    both: int
    to: int
    by: int
    may_both: int
    may_to: int
    may_by: int

    def of(self, name: ReachedField) -> int:
        """Return the ports that belong to the field *name* of `ibkeys.reach.reach.ReachedPorts`, as bits."""
        if name == "unknown":
            return self.may_to | self.may_by
        return {"both": self.both, "to": self.to, "by": self.by}[name]


class PartitionSets:
    """The ports of one partition as sets.

    *places*: how its packets get from switch to switch, None where nothing between switches stops any; ``members``: the
    ports by their traffic; ``at``: by the place of their switch. Results are cached, so all ports have to be added
    before the first query.
    """

    def __init__(self, places: Places | None) -> None:
        self._places = places
        self.members: dict[PortForms, int] = {}
        self.at: dict[int, int] = {}
        self.reached_by: Callable[[PortForms, int], PartitionReach] = cache(self._find_reached)
        """The reach by a port's traffic and the place of its switch."""
        self._ports_at: Callable[[int], int] = cache(self._find_ports)

    def _find_reached(self, mine: PortForms, place: int) -> PartitionReach:
        to = may_to = by = may_by = 0
        for other, ports in self.members.items():
            for forms, is_back in ((mine.leaves & other.arrives, False), (other.leaves & mine.arrives, True)):
                if not forms:
                    continue
                rows = self._places.reached(place, forms, is_back) if self._places is not None else None
                sure, may = (ports, ports) if rows is None else (ports & self._ports_at(row) for row in rows)
                if is_back:
                    by, may_by = by | sure, may_by | may
                else:
                    to, may_to = to | sure, may_to | may
        both = to & by
        return PartitionReach(both, to & ~both, by & ~both, may_to & may_by & ~both, may_to & ~to, may_by & ~by)

    def _find_ports(self, row: int) -> int:
        """Return the ports at a set of places."""
        found = 0
        for place in numbers_in(row):
            found |= self.at.get(place, 0)
        return found
