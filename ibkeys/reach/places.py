"""Places: groups of switches, or of end ports, that packets reach, and leave, alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ibkeys.reach.arrivals import Arrivals, TableRoutes
from ibkeys.reach.forms import FULL, LIMITED
from ibkeys.reach.links import SwitchLinks
from ibkeys.reach.routes import Routes, numbers_in
from ibkeys.topology.nodes import Port


class SwitchGroups:
    """How the packets of some partitions get from switch to switch.

    Switches that reach the same switches, and are reached from the same ones, are one place. Places are numbered from
    1; 0 is for end ports on no switch.
    """

    def __init__(self, links: SwitchLinks, limited: Routes, full: Routes | None) -> None:
        self._links = links
        ways = [(each, each.back()) for each in (limited, full) if each is not None]
        self._ways = dict(zip((LIMITED, FULL), ways, strict=False))
        numbers: dict[tuple[int, ...], int] = {}
        self._first: list[int] = [-1]
        self._place: list[int] = []
        for switch in links.number.values():
            rows = tuple(row for way in ways for each in way for row in (each.sure(switch), each.may(switch)))
            place = numbers.setdefault(rows, len(self._first))
            if place == len(self._first):
                self._first.append(switch)
            self._place.append(place)
        self._firsts = sum(1 << switch for switch in self._first[1:])
        self._places_in: Callable[[int], int] = cache(self._find_places_in)

    def place(self, port: Port) -> int:
        """Return the place of the switch that an end port is on."""
        number = self._links.number_of(port)
        return 0 if number is None else self._place[number]

    def reached(self, place: int, forms: int, is_back: bool) -> tuple[int, int] | None:
        """Return the places that packets reach from a place, surely and possibly, as sets of places. The packets have
        the best of *forms*.

        With *is_back*, return the places from which packets reach this place. None means all places, surely. The full
        form is best: a port that lets the limited form pass lets the full form pass too.
        """
        ways = self._ways.get(FULL if forms & FULL else LIMITED)
        if place == 0 or ways is None:
            return None
        routes = ways[is_back]
        first = self._first[place]
        return self._places_in(routes.sure(first)), self._places_in(routes.may(first))

    def _find_places_in(self, switches: int) -> int:
        """Return the places of a set of switches, with the place 0 of end ports on no switch."""
        return 1 | sum(1 << self._place[switch] for switch in numbers_in(switches & self._firsts))


class EndPortGroups:
    """How the packets of some partitions get from end port to end port, by the forwarding tables that were read.

    The end ports of one switch that packets reach from the same switches are one place. Its number is that of its first
    end port in `SwitchLinks.end_ports`, from 1. `reached` is like `SwitchGroups.reached`, but returns sets of all end
    ports, not only of the first one of each place.
    """

    def __init__(self, links: SwitchLinks, tables: TableRoutes, limited: Arrivals, full: Arrivals | None) -> None:
        self._tables = tables
        self._arrivals = {form: each for form, each in ((LIMITED, limited), (FULL, full)) if each is not None}
        numbers: dict[tuple[int, ...], int] = {}
        self._place: dict[Port, int] = {}
        self._home: dict[int, int] = {}
        columns = [column for each in self._arrivals.values() for column in (each.sure_to, each.may_to)]
        for at, port in enumerate(links.end_ports):
            home = links.number_of(port)
            if home is not None:
                place = self._place[port] = numbers.setdefault((home, *(column[at] for column in columns)), at + 1)
                self._home[place] = home

    def place(self, port: Port) -> int:
        """Return the place of an end port; 0 if it is on no switch."""
        return self._place.get(port, 0)

    def reached(self, place: int, forms: int, is_back: bool) -> tuple[int, int] | None:
        """Return the end ports that packets reach from a place, surely and possibly; see `SwitchGroups.reached`."""
        arrivals = self._arrivals.get(FULL if forms & FULL else LIMITED)
        if place == 0 or arrivals is None:
            return None
        if not is_back:
            home = self._home[place]
            sure, may = arrivals.sure_from[home], arrivals.may_from[home]
        else:
            columns = arrivals.sure_to[place - 1], arrivals.may_to[place - 1]
            sure, may = (self._tables.ends_on(column) | self._tables.nowhere for column in columns)
        return sure << 1 | 1, may << 1 | 1


Places = SwitchGroups | EndPortGroups
