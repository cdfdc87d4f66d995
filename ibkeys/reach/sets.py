"""The ports of one partition as sets, and the reach of a port in it. A set of ports is a number with a bit for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from ibkeys.reach.forms import PortForms
from ibkeys.reach.places import Places
from ibkeys.reach.routes import numbers_in

ReachedField = Literal["both", "to", "by", "unknown"]
"""A field of `ibkeys.reach.reach.ReachedPorts`."""
_RESULTS_KEPT: Final = 256
"""Ports are examined in the order of the fabric, so those of one switch follow each other."""


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

    *places*: how its packets get from place to place, None where nothing between switches stops any. *is_numbered*:
    whether a set of places, shifted by one, is the set of its ports. Results are cached, so all ports have to be added
    before the first query.
    """

    def __init__(self, places: Places | None, is_numbered: bool) -> None:
        self._places = places
        self._is_numbered = is_numbered
        self._members: dict[PortForms, int] = {}
        self._at: dict[int, int] = {}
        """The ports by place; empty where it is not needed."""
        self.reached_by: Callable[[PortForms, int], PartitionReach] = lru_cache(_RESULTS_KEPT)(self._find_reached)
        """The reach by a port's traffic and its place."""
        self._ports_at: Callable[[int], int] = lru_cache(_RESULTS_KEPT)(self._find_ports)

    def add(self, ports: int, its_traffic: PortForms, place: int) -> None:
        """Add the ports of a place with the same traffic."""
        self._members[its_traffic] = self._members.get(its_traffic, 0) | ports
        if self._places is not None and not self._is_numbered:
            self._at[place] = self._at.get(place, 0) | ports

    def _find_reached(self, mine: PortForms, place: int) -> PartitionReach:
        to = may_to = by = may_by = 0
        for other, ports in self._members.items():
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
        if self._is_numbered:
            return row >> 1
        found = 0
        for place in numbers_in(row):
            found |= self._at.get(place, 0)
        return found
