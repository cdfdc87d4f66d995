"""The end ports that packets reach from each switch, by the forwarding tables that were read.

All end ports are followed at once. A set of end ports is a number in which the bit of each one's index in
`SwitchLinks.end_ports` is set; in a set of switches it is the bit of each one's number. 40,000 end ports and 1,600
switches have 64 million routes, so nothing here looks at them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Final, NamedTuple

from ibkeys.reach.links import SwitchLinks
from ibkeys.reach.routes import Routes, numbers_in
from ibkeys.topology.forwarding import exit_to, exits_to, link_problem
from ibkeys.topology.nodes import Node, Port

_VALUES: Final = 256
_ROWS_KEPT: Final = 1024
"""How many results of `TableRoutes.ends_on` are kept; each takes 5 KB for 40,000 end ports."""


class UsedLink(NamedTuple):
    """A link by which a switch sends packets to another one. ``tail``: the number of the sending switch; ``port``: its
    port; ``ends``: the end ports whose packets, by their base LIDs, it sends by this link."""

    tail: int
    port: Port
    ends: int


class TableRoutes:
    """The routes of the forwarding tables to all end ports. ``nowhere``: the end ports on no switch."""

    def __init__(self, links: SwitchLinks) -> None:
        self.nowhere = 0
        self._on = [0] * len(links.switches)
        self._sent_to = [0] * len(links.switches)
        for at, port in enumerate(links.end_ports):
            home = links.number_of(port)
            if home is None:
                self.nowhere |= 1 << at
                continue
            self._on[home] |= 1 << at
            if _is_sent_to(port, links.switches[home]):
                self._sent_to[home] |= 1 << at
        self._homes = sum(1 << switch for switch, ends in enumerate(self._on) if ends)
        self._into: list[list[UsedLink]] = [[] for _ in links.switches]
        """By switch: the links by which others send packets to it."""
        lids = [port.lid or 0 for port in reversed(links.end_ports)]  # a number begins with its highest bit
        for tail, switch in enumerate(links.switches):
            exits = exits_to(switch, lids)
            for used in set(exits) & switch.ports.keys():
                head = _switch_behind(switch.ports[used], links)
                if head is not None:
                    self._into[head].append(UsedLink(tail, switch.ports[used], _places_of(used, exits)))
        self.ends_on: Callable[[int], int] = lru_cache(_ROWS_KEPT)(self._find_ends_on)
        """Returns the end ports on a set of switches."""

    def reached(self, passes: Callable[[Port], bool]) -> list[int]:
        """Return for each switch the end ports to which packets get from it. *passes*: whether packets pass the link
        that a port sends to.

        The search goes back from the end ports, so a route that is a circle reaches none.
        """
        found = list(self._sent_to)
        waiting = dict(enumerate(found))
        while waiting:
            grown: dict[int, int] = {}
            for head, ends in waiting.items():
                for link in self._into[head]:
                    new = link.ends & ends & ~found[link.tail]
                    if new and passes(link.port):
                        found[link.tail] |= new
                        grown[link.tail] = grown.get(link.tail, 0) | new
            waiting = grown
        return found

    def _find_ends_on(self, switches: int) -> int:
        here, elsewhere = self._homes & switches, self._homes & ~switches
        if elsewhere.bit_count() < here.bit_count():
            return self._union(self._homes) & ~self._union(elsewhere)
        return self._union(here)

    def _union(self, switches: int) -> int:
        return reduce(or_, (self._on[switch] for switch in numbers_in(switches)), 0)


class Arrivals:
    """The end ports that packets of one kind reach from each switch, and the switches from which they reach each end
    port.

    *routes*: used where a table was not read, or a route is lost. *stopped*: 1 for each check that stops the packets.
    ``sure_from``, ``may_from``: by switch, the end ports that packets surely, and possibly, reach from it; ``sure_to``,
    ``may_to``: by end port, the switches from which packets surely, and possibly, reach it.
    """

    def __init__(self, links: SwitchLinks, tables: TableRoutes, routes: Routes, stopped: bytes) -> None:
        self._links, self._stopped = links, stopped
        self._passes: Callable[[Port], bool | None] = cache(self._find_passing)
        every = (1 << len(links.end_ports)) - 1
        led = tables.reached(lambda port: True)
        self.sure_from = tables.reached(lambda port: self._passes(port) is True)
        self.may_from = tables.reached(lambda port: self._passes(port) is not False)
        for switch, ends in enumerate(led):
            own = tables.ends_on(1 << switch) | tables.nowhere
            lost = every & ~ends & ~own
            self.sure_from[switch] |= own | (lost and lost & tables.ends_on(routes.sure(switch)))
            self.may_from[switch] |= own | (lost and lost & tables.ends_on(routes.may(switch)))
        self.sure_to, self.may_to = (_turned(rows, len(links.end_ports)) for rows in (self.sure_from, self.may_from))

    def _find_passing(self, port: Port) -> bool | None:
        """Return whether packets pass the link that *port* sends to; None if a check there was not read."""
        numbers = self._links.numbered_at.get(port, ())
        if any(self._stopped[number] for number in numbers):
            return False
        return None if any(self._links.checks[number].forms is None for number in numbers) else True


def _is_sent_to(port: Port, home: Node) -> bool:
    """Return whether *home*, the switch of an end port, sends packets for the port to it; False if not known."""
    last = exit_to(home, port.lid or 0)
    if port.node.is_switch:
        return last is None
    return isinstance(last, Port) and last.peer is port and link_problem(last) is None


def _switch_behind(port: Port, links: SwitchLinks) -> int | None:
    """Return the number of the switch that packets reach by the link of *port*; None if none, or not known."""
    if link_problem(port) is not None or port.peer is None:
        return None
    return links.number.get(port.peer.node)


def _places_of(value: int, row: bytes) -> int:
    """Return the positions of *row* that have *value*, as a set; the last position is number 0."""
    return int(row.translate(bytes(48 + (each == value) for each in range(_VALUES))), 2)


def _turned(rows: Sequence[int], width: int) -> list[int]:
    """Return for each bit of *rows*, which have *width* bits each, the set of the rows in which it is set."""
    if not rows:
        return [0] * width
    text = b"".join(f"{row:0{width}b}".encode() for row in reversed(rows))
    return [int(text[width - 1 - at :: width], 2) for at in range(width)]
