"""Switch ports that enforce partitions on links between switches, and the packets that they stop.

Which of these ports a packet passes depends on its route. Where forwarding tables were read, its route is the one to
the base LID of the receiver (`ibkeys.topology.forwarding`). Elsewhere a packet gets from one switch to another on every
route, on some routes, or on none (`ibkeys.reach.routes`).

From switch to switch a packet passes a port that checks outbound and then one that checks inbound. Each port decides by
its own table, like the ports that face the end ports (`ibkeys.reach.forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Final, NamedTuple

from ibkeys.keys.pkey import PARTITION_MASK, InboundCheck, PKey
from ibkeys.reach.forms import FULL, LIMITED, form, forms_in, passing
from ibkeys.reach.routes import Edge, Routes, SwitchGraph, numbers_in
from ibkeys.topology.enforcement import INBOUND, OUTBOUND, Direction, enforced, is_unread
from ibkeys.topology.forwarding import ForwardingRoute, follow
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port

_BITS: Final[dict[Direction, int]] = {"inbound": INBOUND, "outbound": OUTBOUND}


@dataclass(frozen=True, slots=True)
class CheckingPort:
    """A switch port that checks packets in one direction. ``forms``: the contents of its table by partition; None: not
    read."""

    port: Port
    direction: Direction
    forms: dict[int, int] | None


LinkChecks = tuple[CheckingPort, ...]
"""The ports that check packets in one direction of one cable; empty where neither end checks them."""


class Crossing(NamedTuple):
    """Whether packets with one P_Key get from one switch to another; ``passes`` is None if that depends on the route.

    ``stops``: the switch ports that stop such packets, on every route or on some. ``unread``: the ports that may stop
    such packets and were not read.
    """

    passes: bool | None
    stops: tuple[tuple[Port, Direction], ...] = ()
    unread: tuple[Port, ...] = ()


_PASSES: Final = Crossing(True)


class SwitchLinks:
    """The links between the switches of a fabric, and which of their ports check packets.

    *checks_of*: returns the checks of a port in a direction. By default a port checks P_Keys.
    """

    def __init__(self, fabric: Topology, checks_of: Callable[[Port, Direction], LinkChecks] | None = None) -> None:
        self._checks_of = checks_of if checks_of is not None else _checks_of
        self._switches = [node for node in fabric.nodes if node.is_switch]
        self.checks: list[CheckingPort] = []
        """Every check on a link; its number is its index here."""
        self.numbered: dict[Edge, list[range]] = {}
        """By pair of switches, if any link between them checks: the numbers of the checks of each of its links."""
        self._holding: dict[int, list[tuple[int, int]]] = {}
        """Partition → the numbers of the checks whose tables have its P_Keys, each with the forms in that table."""
        self._read_checks = b""
        """For each check 1 if its table was read, else 0."""
        self.numbered_at: dict[Port, range] = {}
        """The numbers of the checks on a link by the port that sends to it, if any port on the link checks."""
        self.route: Callable[[Port, Port], ForwardingRoute | None] = cache(self._find_route)
        """Returns the route from an end port to the base LID of another; None where it is not known, or is lost."""
        ports = [port for node in self._switches for port in node.ports.values()]
        between = [port for port in ports if _is_between(port)]
        if any(self._checks_of(port, direction) for port in between for direction in _BITS):
            self._read(between)  # else nothing is stopped between switches, wherever links lead that were not read

    def _read(self, between: Sequence[Port]) -> None:
        links: dict[Edge, list[tuple[Port, LinkChecks]]] = {}
        checks_of = self._checks_of
        for port in between:
            peer = port.peer
            assert peer is not None
            edge = self.number[port.node], self.number[peer.node]
            if edge[0] != edge[1]:
                checks = *checks_of(port, "outbound"), *checks_of(peer, "inbound")
                links.setdefault(edge, []).append((port, checks))
        for node in self._switches:
            for port in _leading_beyond(node):
                here, there = self.number[node], len(self._switches)
                links.setdefault((here, there), []).append((port, checks_of(port, "outbound")))
                links.setdefault((there, here), []).append((port, checks_of(port, "inbound")))
        self._edges = links.keys()
        for edge, parallel in links.items():
            if any(checks for _, checks in parallel):
                self.numbered[edge] = [self._number(checks) for _, checks in parallel]
                if self.is_known(edge):
                    ports = (port for port, _ in parallel)
                    self.numbered_at.update(zip(ports, self.numbered[edge], strict=True))
        for number, each in enumerate(self.checks):
            for partition, forms in (each.forms or {}).items():
                self._holding.setdefault(partition, []).append((number, forms))
        self._read_checks = bytes(each.forms is not None for each in self.checks)

    def _number(self, link: LinkChecks) -> range:
        """Add the checks of a link to ``checks``, and return their numbers."""
        first = len(self.checks)
        self.checks += link
        return range(first, len(self.checks))

    def _find_route(self, source: Port, destination: Port) -> ForwardingRoute | None:
        lid = destination.lid
        route = follow(source, lid) if lid and self._has_tables else None
        return route if route is not None and route.end == "arrives" else None

    @cached_property
    def _has_tables(self) -> bool:
        return any(switch.forwarding is not None for switch in self._switches)

    def stopped(self, partition: int, key_form: int, check: InboundCheck) -> bytes:
        """Return which of ``checks`` stop packets with a form of a partition's P_Key: 1 for each that does, 0 for each
        that does not or was not read."""
        found = bytearray(self._read_checks)
        for number, forms in self._holding.get(partition, ()):
            reading = check if self.checks[number].direction == "inbound" else "membership"
            if passing(forms, reading) & key_form:
                found[number] = 0
        return bytes(found)

    @cached_property
    def number(self) -> dict[Node, int]:
        """The number of each switch."""
        return {node: at for at, node in enumerate(self._switches)}

    @cached_property
    def graph(self) -> SwitchGraph:
        """The switches as a graph."""
        beside: list[list[int]] = [[] for _ in self._switches]
        for tail, head in self._edges:
            if self.is_known((tail, head)):
                beside[tail].append(head)
        return SwitchGraph(beside)

    @cached_property
    def beyond(self) -> list[Edge]:
        """The links with one end that was not read: from the known switches to the unknown part, and back."""
        return [edge for edge in self._edges if not self.is_known(edge)]

    @cached_property
    def unread_edges(self) -> frozenset[Edge]:
        """The links with a port whose check was not read."""
        every, read = self.numbered.items(), self._read_checks
        return frozenset(edge for edge, links in every if not all(read[each] for link in links for each in link))

    @cached_property
    def unread(self) -> list[Port]:
        """The ports between switches whose check was not read."""
        found = (each.port for number, each in enumerate(self.checks) if each.forms is None and self.is_between(number))
        return list(dict.fromkeys(found))

    def is_between(self, check: int) -> bool:
        """Return whether both ends of the link of a check are known. *check*: its index in ``checks``."""
        return self.checks[check].port.peer is not None

    def is_known(self, edge: Edge) -> bool:
        """Return whether both ends of a link are known."""
        return max(edge) < len(self._switches)

    def number_of(self, port: Port) -> int | None:
        """Return the number of the switch that an end port is linked to; None if it is linked to no switch."""
        node = port.node if port.node.is_switch else port.peer.node if port.peer is not None else None
        return None if node is None else self.number.get(node)


class Between:
    """The packets that the ports on *links* stop, by one reading of the inbound check.

    *by_tables*: whether packets take the routes of the forwarding tables that were read; False: any route.
    """

    def __init__(self, links: SwitchLinks, check: InboundCheck, by_tables: bool = True) -> None:
        self._links = links
        self.is_by_tables = by_tables
        self.inbound_check: InboundCheck = check
        self.places: Callable[[int], SwitchGroups | None] = cache(self._places_of)
        """Returns how the packets of a partition get from switch to switch; None if nothing stops any on any route."""
        self._stopped: Callable[[int, int], bytes] = cache(partial(links.stopped, check=check))
        self._routes: Callable[[bytes], Routes | None] = cache(self._find_routes)
        self._places: Callable[[bytes, bytes], SwitchGroups | None] = cache(self._find_places)

    def _places_of(self, partition: int) -> SwitchGroups | None:
        return self._places(self._stopped(partition, LIMITED), self._stopped(partition, FULL))

    def _find_places(self, stopped_limited: bytes, stopped_full: bytes) -> SwitchGroups | None:
        limited = self._routes(stopped_limited)
        return SwitchGroups(self._links, limited, self._routes(stopped_full)) if limited is not None else None

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
        # no route is left: the links on the edge of what packets may reach are those that stop them
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

        Both are sets of switches. None means all switches, surely. There is no such method for full P_Keys, because
        both readings of the inbound check treat them alike.
        """
        start = self._links.number_of(port)
        routes = self._routes_of(partition, LIMITED) if start is not None else None
        if start is None or routes is None or routes.sure(start).bit_count() == len(self._links.number):
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


def _is_between(port: Port) -> bool:
    return port.is_external and port.peer is not None and port.peer.is_external


def _checks_of(port: Port, direction: Direction) -> LinkChecks:
    bit = _BITS[direction]
    if is_unread(port, bit):
        return (CheckingPort(port, direction, None),)
    return (CheckingPort(port, direction, forms_in(port)),) if enforced(port) & bit else ()


def _leading_beyond(node: Node) -> Iterator[Port]:
    """Yield the ports of a switch behind which there is, or may be, a node that was not read."""
    for port in node.ports.values():
        if port.is_external and port.peer is None and (port.info is None or port.is_linked or not port.says_peer):
            yield port
