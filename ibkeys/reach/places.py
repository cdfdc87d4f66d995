"""How packets get from switch to switch, or from end port to end port: by places that they treat alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ibkeys.reach.forms import FULL, LIMITED
from ibkeys.reach.links import SwitchLinks
from ibkeys.reach.routes import Routes, numbers_in
from ibkeys.topology.forwarding import RouteEnd, exit_to, link_problem
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


class Arrivals:
    """For each end port the switches from which packets get to it, by the forwarding tables that were read.

    *routes*: the answer where a table was not read, or a route is lost. *stopped*: which checks stop the packets.
    ``sure``, ``may``: sets of switches, by the index of the end port in ``links.end_ports``; None: all, surely.
    """

    def __init__(self, links: SwitchLinks, routes: Routes, stopped: bytes) -> None:
        self._links, self._routes, self._stopped = links, routes, stopped
        self._all = (1 << len(links.switches)) - 1
        self._problems: Callable[[Port], RouteEnd | None] = cache(link_problem)
        self._checks: Callable[[Port], bool | None] = cache(self._find_passing)
        rows = [self._row(port) for port in links.end_ports]
        self.sure = [sure for sure, _ in rows]
        self.may = [may for _, may in rows]
        self.from_switch: Callable[[int], tuple[int, int] | None] = cache(self._find_from)

    def _row(self, port: Port) -> tuple[int, int]:
        """Return from which switches packets surely get to *port*, and from which they may."""
        home = self._links.number_of(port)
        if home is None:
            return self._all, self._all
        known: dict[int, bool | None] = {home: True}
        lost = set() if self._is_sent_to(port, home) else {*range(len(self._links.switches))} - {home}
        sure = may = 0
        for switch in range(len(self._links.switches)):
            self._follow(switch, port.lid or 0, known, lost)
            found = self._by_any_route(switch, home) if switch in lost else known[switch]
            sure |= (found is True) << switch
            may |= (found is not False) << switch
        return sure, may

    def _follow(self, start: int, lid: int, known: dict[int, bool | None], lost: set[int]) -> None:
        """Add to *known* whether packets to *lid* from *start*, and from each switch on the route, arrive; None: a
        check was not read. Add those to *lost* from which the forwarding tables do not lead there, as far as they were
        read.
        """
        on_way: dict[int, bool | None] = {}
        switch: int | None = start
        while switch is not None and switch not in known and switch not in lost and switch not in on_way:
            port = exit_to(self._links.switches[switch], lid)
            on_way[switch] = self._checks(port) if isinstance(port, Port) else None
            switch = self._switch_behind(port) if isinstance(port, Port) else None
        if switch not in known or switch is None:
            lost.update(on_way)
            return
        found = known[switch]
        for each, passes in reversed(on_way.items()):
            found = known[each] = False if False in (found, passes) else None if None in (found, passes) else True

    def _is_sent_to(self, port: Port, home: int) -> bool:
        """Return whether the table of its switch sends packets for an end port there; False if it was not read."""
        last = exit_to(self._links.switches[home], port.lid or 0)
        if port.node.is_switch:
            return last is None
        return isinstance(last, Port) and last.peer is port and self._problems(last) is None

    def _switch_behind(self, port: Port) -> int | None:
        """Return the switch to which packets get over the link of *port*; None if they do not, or it is not known."""
        if self._problems(port) is not None or port.peer is None:
            return None
        return self._links.number.get(port.peer.node)

    def _by_any_route(self, start: int, home: int) -> bool | None:
        if self._routes.sure(start) >> home & 1:
            return True
        return None if self._routes.may(start) >> home & 1 else False

    def _find_passing(self, port: Port) -> bool | None:
        """Return whether packets pass the link that *port* sends to; None if a check there was not read."""
        numbers = self._links.numbered_at.get(port, ())
        if any(self._stopped[number] for number in numbers):
            return False
        return None if any(self._links.checks[number].forms is None for number in numbers) else True

    def _find_from(self, switch: int) -> tuple[int, int] | None:
        sure, may = (sum((row >> switch & 1) << at for at, row in enumerate(rows)) for rows in (self.sure, self.may))
        return None if sure.bit_count() == len(self.sure) else (sure, may)


class EndPortGroups:
    """How the packets of some partitions get from end port to end port, by the forwarding tables that were read.

    The interface is that of `SwitchGroups`, but routes lead to end ports: those of one switch, to which packets get
    from the same switches, are one place.
    """

    def __init__(self, links: SwitchLinks, limited: Arrivals, full: Arrivals | None) -> None:
        self._arrivals = {form: each for form, each in ((LIMITED, limited), (FULL, full)) if each is not None}
        numbers: dict[tuple[int, ...], int] = {}
        self._home = [-1]
        self._first = [-1]
        self._place: dict[Port, int] = {}
        for at, port in enumerate(links.end_ports):
            home = links.number_of(port)
            if home is None:
                continue
            rows = (row for each in self._arrivals.values() for row in (each.sure[at], each.may[at]))
            place = self._place[port] = numbers.setdefault((home, *rows), len(self._home))
            if place == len(self._home):
                self._home.append(home)
                self._first.append(at)
        self._places_at: dict[int, int] = {}
        for place, home in enumerate(self._home[1:], 1):
            self._places_at[home] = self._places_at.get(home, 0) | 1 << place
        self._from: Callable[[int, int], tuple[int, int]] = cache(self._find_from)
        self._on: Callable[[int], int] = cache(self._find_on)

    def place(self, port: Port) -> int:
        """Return the place of an end port; 0 if it is on no switch."""
        return self._place.get(port, 0)

    def reached(self, place: int, forms: int, is_back: bool) -> tuple[int, int] | None:
        """Return the places that packets reach, as `SwitchGroups.reached`."""
        form = FULL if forms & FULL else LIMITED
        arrivals = self._arrivals.get(form)
        if place == 0 or arrivals is None:
            return None
        if not is_back:
            return self._from(self._home[place], form)
        first = self._first[place]
        return self._on(arrivals.sure[first]), self._on(arrivals.may[first])

    def _find_from(self, home: int, form: int) -> tuple[int, int]:
        """Return the places that packets from a switch reach, surely and possibly."""
        sure = may = 1
        for place, first in enumerate(self._first[1:], 1):
            sure |= (self._arrivals[form].sure[first] >> home & 1) << place
            may |= (self._arrivals[form].may[first] >> home & 1) << place
        return sure, may

    def _find_on(self, switches: int) -> int:
        """Return the places on a set of switches, and the place 0 of end ports on no switch."""
        found = 1
        for switch in numbers_in(switches):
            found |= self._places_at.get(switch, 0)
        return found


Places = SwitchGroups | EndPortGroups
