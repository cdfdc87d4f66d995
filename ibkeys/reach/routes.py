"""Which switches a packet reaches from a switch, on any route, when some links do not pass it.

Routes are not known here, and need not be short: any simple path between two switches may be one (a packet that came to
a switch twice would circulate for ever, as forwarding goes by destination alone). So there are two questions. *May* the
packet arrive: is there a path without a closed link? Is that *sure*: is no doubtful link on any simple path?

The second question is answered by blocks, the parts of a graph that no single switch cuts in two. All simple paths
between two switches go through the same blocks, in one order, and enter and leave each at the same switches. A doubtful
link counts as on a path when it is in such a block, in either direction: the simple paths within a block are not
examined further. Only a link into the switch where they enter, or out of the one where they leave, is on none. In a
block of two switches, which is any cable of a tree, this is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, cached_property

Edge = tuple[int, int]
"""From one switch to another, by their numbers."""


def numbers_in(members: int) -> Iterator[int]:
    """Yield the numbers in a set, which is an integer with their bits set; the lowest first."""
    bits = f"{members:b}"[::-1]
    number = bits.find("1")
    while number >= 0:
        yield number
        number = bits.find("1", number + 1)


def reached_from(neighbours: Sequence[Collection[int]]) -> list[int]:
    """Return for each switch the set of switches to which links lead from it, directly or over other switches. The set
    includes the switch itself.

    *neighbours*: for each switch the switches that its links lead to. Each round extends every set by at least one
    link, so a network of small depth needs few rounds.
    """
    reached = [1 << switch for switch in range(len(neighbours))]
    grows = True
    while grows:
        grows = False
        for switch, others in enumerate(neighbours):
            found = reached[switch]
            for other in others:
                found |= reached[other]
            if found != reached[switch]:
                reached[switch] = found
                grows = True
    return reached


class SwitchGraph:
    """Switches by number, with those that each is linked to. Each link has both directions."""

    def __init__(self, neighbours: Sequence[Collection[int]]) -> None:
        self.neighbours = neighbours
        self.block_of: Callable[[Edge], int] = cache(self._find_block)
        """Returns the number of the block that a link is in."""

    @cached_property
    def blocks(self) -> list[frozenset[int]]:
        """The parts that no single switch cuts in two; each link is in one of them (Hopcroft and Tarjan, 1973)."""
        found: list[frozenset[int]] = []
        depth: dict[int, int] = {}
        low: dict[int, int] = {}
        for root in range(len(self.neighbours)):
            if root in depth:
                continue
            depth[root] = low[root] = 0
            path, open_switches = [(root, -1, iter(self.neighbours[root]))], [root]
            while path:
                at, before, rest = path[-1]
                for other in rest:
                    if other not in depth:
                        depth[other] = low[other] = len(path)
                        path.append((other, at, iter(self.neighbours[other])))
                        open_switches.append(other)
                        break
                    if other != before:
                        low[at] = min(low[at], depth[other])
                else:
                    path.pop()
                    if not path:
                        break
                    low[before] = min(low[before], low[at])
                    if low[at] >= depth[before]:
                        cut = open_switches.index(at, depth[before])
                        found.append(frozenset((before, *open_switches[cut:])))
                        del open_switches[cut:]
        return found

    @cached_property
    def elsewhere(self) -> list[int]:
        """For each switch the set of switches to which no chain of known links leads from it."""
        every = (1 << len(self.neighbours)) - 1
        return [every & ~reached for reached in reached_from(self.neighbours)]

    @cached_property
    def blocks_of(self) -> list[list[int]]:
        """The numbers of the blocks that each switch is in."""
        found: list[list[int]] = [[] for _ in self.neighbours]
        for number, block in enumerate(self.blocks):
            for switch in block:
                found[switch].append(number)
        return found

    def _find_block(self, edge: Edge) -> int:
        one, other = edge
        return next(number for number in self.blocks_of[one] if other in self.blocks[number])


class Routes:
    """The switches that packets of one kind reach on the links of *graph*.

    ``closed``: links that stop these packets. *doubtful*: links that may stop these packets. They are the closed links,
    links of which a parallel link stops the packets, and links that were not read. *beyond*: links that lead out of the
    known switches, or back in. Packets may get further by such links, but no route becomes doubtful. A set of switches
    is a number in which the bit of each switch's number is set.
    """

    def __init__(
        self, graph: SwitchGraph, closed: Collection[Edge], doubtful: Collection[Edge], beyond: Collection[Edge] = ()
    ) -> None:
        self._graph = graph
        self.closed = frozenset(closed)
        self._beyond = [edge for edge in beyond if edge not in self.closed]
        self._doubtful: dict[int, list[Edge]] = {}
        for edge in doubtful:
            self._doubtful.setdefault(graph.block_of(edge), []).append(edge)
        self.sure: Callable[[int], int] = cache(self._find_sure)
        """Returns the switches that packets from a switch get to on every route, itself among them."""

    def back(self) -> Routes:
        """Return the routes of the same packets, from the receiver's end."""
        turned = ([(b, a) for a, b in edges] for edges in (self.closed, self._all_doubtful(), self._beyond))
        return Routes(self._graph, *turned)

    def _all_doubtful(self) -> list[Edge]:
        return [edge for edges in self._doubtful.values() for edge in edges]

    def may(self, start: int) -> int:
        """Return the switches that packets from *start* may reach, *start* included, and those to which no link is
        known."""
        return self._reached[start] | self._graph.elsewhere[start]

    def _find_sure(self, start: int) -> int:
        found = 1 << start
        waiting = [(start, -1)]
        while waiting:
            entry, came_by = waiting.pop()
            for number in self._graph.blocks_of[entry]:
                for leave in self._exits(number, entry) if number != came_by else ():
                    found |= 1 << leave
                    waiting.append((leave, number))
        return found

    def _exits(self, block: int, entry: int) -> Collection[int]:
        """Return the switches of a block that packets which enter it at *entry* reach on every route."""
        others = self._graph.blocks[block] - {entry}
        tails: set[int] = set()
        for tail, head in self._doubtful.get(block, ()):
            if head != entry:
                tails.add(tail)
                if len(tails) > 1:
                    return ()
        return tails & others if tails else others

    def doubtful_between(self, start: int, end: int) -> Iterator[Edge]:
        """Yield the doubtful links that may be on a path from one switch to another."""
        # Switch → the block before it on the path, and the switch at which the path enters that block.
        came: dict[int, tuple[int, int]] = {}
        waiting = [(start, -1)]
        while waiting and end not in came:
            entry, came_by = waiting.pop()
            for number in self._graph.blocks_of[entry]:
                if number != came_by:
                    for leave in self._graph.blocks[number] - {entry}:
                        came[leave] = number, entry
                        waiting.append((leave, number))
        if end not in came:
            yield from self._all_doubtful()
        while end != start and end in came:
            number, entry = came[end]
            yield from ((tail, head) for tail, head in self._doubtful.get(number, ()) if head != entry and tail != end)
            end = entry

    @cached_property
    def _open(self) -> list[list[int]]:
        """The neighbours of each switch that packets may reach; last, the node where the links of *beyond* meet."""
        every = enumerate(self._graph.neighbours)
        found = [[other for other in neighbours if (at, other) not in self.closed] for at, neighbours in every]
        found.append([])
        for tail, head in self._beyond:
            found[tail].append(head)
        return found

    @cached_property
    def _reached(self) -> list[int]:
        """For each switch the set of switches that packets from it may reach by known links."""
        return reached_from(self._open)
