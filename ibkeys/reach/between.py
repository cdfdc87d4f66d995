"""Switch ports that enforce partitions on links between switches, and the packets that they stop.

Which of these ports a packet passes depends on its route. Where forwarding tables were read, its route is the one to
the base LID of the receiver (`ibkeys.topology.forwarding`). Elsewhere a packet gets from one switch to another on every
route, on some routes, or on none (`ibkeys.reach.routes`).

From switch to switch a packet passes a port that checks outbound and then one that checks inbound. Each port decides by
its own table, like the ports that face the end ports (`ibkeys.reach.forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property, partial
from typing import Final, NamedTuple

from ibkeys.keys.pkey import PARTITION_MASK, InboundCheck, PKey
from ibkeys.reach.arrivals import Arrivals, TableRoutes
from ibkeys.reach.forms import FULL, LIMITED, form
from ibkeys.reach.links import SwitchLinks
from ibkeys.reach.places import EndPortGroups, Places, SwitchGroups
from ibkeys.reach.routes import Edge, Routes
from ibkeys.topology.enforcement import Direction
from ibkeys.topology.forwarding import ForwardingRoute
from ibkeys.topology.nodes import Port


class Crossing(NamedTuple):
    """Whether packets with one P_Key get from one switch to another; ``passes`` is None if that depends on the route.

    ``stops``: the switch ports that stop such packets, on every route or on some. ``unread``: the ports that may stop
    such packets and were not read.
    """

    passes: bool | None
    stops: tuple[tuple[Port, Direction], ...] = ()
    unread: tuple[Port, ...] = ()


_PASSES: Final = Crossing(True)


class StoppedPackets:
    """The packets that the ports on *links* stop, by one reading of the inbound check.

    *by_tables*: whether packets take the routes of the forwarding tables that were read; False: any route.
    """

    def __init__(self, links: SwitchLinks, check: InboundCheck, by_tables: bool = True) -> None:
        self._links = links
        self.is_by_tables = by_tables
        self.inbound_check: InboundCheck = check
        self.places: Callable[[int], Places | None] = cache(self._places_of)
        """Returns how the packets of a partition get from switch to switch; None if nothing stops any on any route."""
        self._stopped: Callable[[int, int], bytes] = cache(partial(links.stopped, check=check))
        self._routes: Callable[[bytes], Routes | None] = cache(self._find_routes)
        self._places: Callable[[bytes, bytes], Places | None] = cache(self._find_places)
        self._arrivals: Callable[[bytes], Arrivals] = cache(self._find_arrivals)

    def _places_of(self, partition: int) -> Places | None:
        return self._places(self._stopped(partition, LIMITED), self._stopped(partition, FULL))

    def _find_places(self, stopped_limited: bytes, stopped_full: bytes) -> Places | None:
        limited = self._routes(stopped_limited)
        if limited is None:
            return None
        full = self._routes(stopped_full)
        if self.is_by_tables and self._links.has_tables:
            of_full = None if full is None else self._arrivals(stopped_full)
            return EndPortGroups(self._links, self._tables, self._arrivals(stopped_limited), of_full)
        return SwitchGroups(self._links, limited, full)

    def _find_arrivals(self, stopped: bytes) -> Arrivals:
        routes = self._routes(stopped)
        assert routes is not None
        return Arrivals(self._links, self._tables, routes, stopped)

    @cached_property
    def _tables(self) -> TableRoutes:
        return TableRoutes(self._links)

    def crossing(self, source: Port, destination: Port, key: PKey) -> Crossing:
        """Return whether packets with *key* get from the switch of the end port *source* to the switch of
        *destination*.
        """
        start, end = (self._links.number_of(port) for port in (source, destination))
        if start is None or end is None or start == end:
            return _PASSES
        routes = self._routes_of(key & PARTITION_MASK, form(key))
        if routes is None:
            return _PASSES
        route = self._links.route(source, destination) if self.is_by_tables else None
        if route is not None:
            return self._crossing_on(route, key)
        edges = list(routes.doubtful_between(start, end))
        if not edges:
            return _PASSES
        may = routes.may(start)
        if may >> end & 1:
            return Crossing(None, *self._stopping_on(edges, key))
        # no route is left: the packets are stopped by closed links from switches that they reach to others
        frontier = [edge for edge in edges if edge in routes.closed and may >> edge[0] & 1 and not may >> edge[1] & 1]
        return Crossing(False, *self._stopping_on(frontier, key))

    def _crossing_on(self, route: ForwardingRoute, key: PKey) -> Crossing:
        """Return whether packets with *key* pass the ports between switches on their route."""
        stopped, checks = self._stopped_by(key), self._links.checks
        at = self._links.numbered_at
        numbers = [number for hop in route.hops if hop.out_port in at for number in at[hop.out_port]]
        stops = tuple((checks[number].port, checks[number].direction) for number in numbers if stopped[number])
        unread = tuple(dict.fromkeys(checks[number].port for number in numbers if checks[number].forms is None))
        return Crossing(False, stops[:1]) if stops else Crossing(None, (), unread) if unread else _PASSES

    def reached_by_limited(self, port: Port, partition: int) -> tuple[int, int] | None:
        """Return the switches that packets with the limited P_Key of a partition reach from an end port, surely and
        possibly.

        Both are sets of switches; of end ports, if forwarding tables were read. None means all, surely. There is no
        such method for full P_Keys, because both readings of the inbound check treat them alike.
        """
        start = self._links.number_of(port)
        routes = self._routes_of(partition, LIMITED) if start is not None else None
        if start is None or routes is None:
            return None
        if self.is_by_tables and self._links.has_tables:
            found = self._arrivals(self._stopped(partition, LIMITED))
            sure = found.sure_from[start]
            return None if sure.bit_count() == len(self._links.end_ports) else (sure, found.may_from[start])
        if routes.sure(start).bit_count() == len(self._links.number):
            return None
        return routes.sure(start), routes.may(start)

    def stopping(self, keys: Iterable[PKey]) -> Iterator[tuple[Port, Direction, list[PKey]]]:
        """Yield the ports that stop packets with some of *keys*, each with the keys that it stops."""
        tables = [(key, self._stopped_by(key)) for key in keys]
        for number, each in enumerate(self._links.checks):
            stopped = [key for key, table in tables if table[number]]
            if stopped and self._links.is_between(number):
                yield each.port, each.direction, stopped

    def stopping_any(self, keys: Iterable[PKey]) -> Iterator[Port]:
        """Yield the ports that stop packets with any of *keys*. A port that checks in both directions may be yielded
        twice."""
        both = 0
        for key in keys:
            both |= int.from_bytes(self._stopped_by(key), "big")
        table = both.to_bytes(len(self._links.checks), "big")
        number = table.find(1)
        while number >= 0:
            if self._links.is_between(number):
                yield self._links.checks[number].port
            number = table.find(1, number + 1)

    def _stopped_by(self, key: PKey) -> bytes:
        """Return the cached result of `SwitchLinks.stopped` for a P_Key."""
        return self._stopped(key & PARTITION_MASK, form(key))

    def _stopping_on(
        self, edges: Iterable[Edge], key: PKey
    ) -> tuple[tuple[tuple[Port, Direction], ...], tuple[Port, ...]]:
        """Return the ports on *edges* that stop packets with *key*, and those that were not read."""
        stopped = self._stopped_by(key)
        known = (edge for edge in edges if self._links.is_known(edge))
        numbers = [number for edge in known for link in self._links.numbered[edge] for number in link]
        checks = self._links.checks
        stops = tuple((checks[number].port, checks[number].direction) for number in numbers if stopped[number])
        return stops, tuple(dict.fromkeys(checks[number].port for number in numbers if checks[number].forms is None))

    def _routes_of(self, partition: int, key_form: int) -> Routes | None:
        """Return the routes of packets with one form of a partition's P_Key; None if nothing stops them anywhere."""
        return self._routes(self._stopped(partition, key_form))

    def _find_routes(self, stopped: bytes) -> Routes | None:
        closed, doubtful = set(), set()
        for edge, links in self._links.numbered.items():
            stops = [any(stopped[number] for number in link) for link in links]
            if all(stops):
                closed.add(edge)
            if any(stops) or edge in self._links.unread_edges:
                doubtful.add(edge)
        doubtful = {edge for edge in doubtful if self._links.is_known(edge)}
        return Routes(self._links.graph, closed, doubtful, self._links.beyond) if doubtful else None
