"""The proof for two end ports: by which P_Keys packets get from one to the other, and which switch ports stop them.

Reach has two directions. A packet carries one P_Key of its sender; the switch port behind the sender, the one before
the receiver and the receiver's own table decide. For the answer the other two decide. So packets may get through in one
direction only, as from a host that gave itself the full form of a P_Key of which its switch port has the limited one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ibkeys.keys.pkey import (
    INBOUND_CHECKS,
    InboundCheck,
    PKey,
    match_in_table,
    match_inbound,
    may_talk,
)
from ibkeys.reach.between import StoppedPackets
from ibkeys.topology.enforcement import (
    INBOUND,
    OUTBOUND,
    Direction,
    enforced,
    inactive_end,
    is_unread,
    leaf_of,
    unread_for,
)
from ibkeys.topology.forwarding import ForwardingRoute, follow
from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class PacketCheck:
    """A switch port that checks packets with ``p_key``: inbound those that come from the link, outbound those to it.

    ``index``: the entry of its P_Key table that lets them pass; None: it drops them, or corrupts and forwards them: a
    switch may do either.
    """

    port: Port
    direction: Direction
    p_key: PKey
    index: int | None

    @property
    def entry(self) -> PKey | None:
        """The P_Key in the entry that lets the packets pass; None if no entry does, or if the table was not read."""
        return None if self.index is None or self.port.p_keys is None else self.port.p_keys[self.index]


class OnSomeRoutes(NamedTuple):
    """Switch ports between switches on some routes of packets: those that stop them, and those that were not read."""

    stops: tuple[PacketCheck, ...] = ()
    unread: tuple[Port, ...] = ()


_ON_NO_ROUTE: Final = OnSomeRoutes()


@dataclass(frozen=True, slots=True)
class Match:
    """Two P_Keys of two ports that match, and the checks of packets with them: a sends with ``a_pkey``, b with
    ``b_pkey``.

    ``a_to_b``, ``b_to_a``: the checks on every route. Of the switch ports between switches, only those are in it that
    stop the packets on every route. ``a_to_b_may``, ``b_to_a_may``: switch ports between switches that may be on the
    route.
    """

    a_pkey: PKey
    b_pkey: PKey
    a_to_b: tuple[PacketCheck, ...]
    b_to_a: tuple[PacketCheck, ...]
    a_to_b_may: OnSomeRoutes = _ON_NO_ROUTE
    b_to_a_may: OnSomeRoutes = _ON_NO_ROUTE

    @property
    def stops(self) -> tuple[PacketCheck, ...]:
        """The checks that drop packets with these P_Keys, in either direction, on every route."""
        return tuple(check for check in (*self.a_to_b, *self.b_to_a) if check.index is None)

    @property
    def gets_there(self) -> bool | None:
        """Whether packets get from a to b. None: this depends on the route, or on a table that was not read."""
        return _passes(self.a_to_b, self.a_to_b_may)

    @property
    def gets_back(self) -> bool | None:
        """Whether packets get from b to a, as `gets_there`."""
        return _passes(self.b_to_a, self.b_to_a_may)

    @property
    def passes(self) -> bool | None:
        """Whether packets get through in both directions."""
        return _all((self.gets_there, self.gets_back))


class Connectivity(NamedTuple):
    """Whether two ports can talk (packets and answers, by two P_Keys that match), and whether any packet gets from a to
    b and from b to a. None: an unread table or the route decides.

    ``can_talk`` is False although both directions are open if the packets from a to b pass in one partition only, and
    the packets from b to a only in a different one: then no connection can be made.
    """

    can_talk: bool | None
    a_to_b: bool | None
    b_to_a: bool | None


_NOT_KNOWN: Final = Connectivity(None, None, None)


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """Whether two end ports can talk, and why.

    ``ways``: the answer if switches check inbound as ``inbound_check`` assumes, ``otherwise``: the answer for the other
    reading. ``unread``: the ports whose values were not read; ``virtualized``: those of the two ports that have virtual
    ports, whose P_Keys cannot be read. ``not_active``: the ends of the two ports' links that are not Active. While an
    end is not Active, nothing gets through, whatever the matches are. ``routes``: the routes to the base LIDs by the
    forwarding tables, from a to b and back, as far as they were read; None for a port without a LID. Along a route
    that loses packets nothing gets through either. ``if_adaptive``: the answer if switches may route adaptively; then
    it is not known which of several ports with one LID gets the packets.
    """

    ways: Connectivity
    matches: tuple[Match, ...]
    unread: tuple[Port, ...]
    inbound_check: InboundCheck
    otherwise: Connectivity
    virtualized: tuple[Port, ...] = ()
    not_active: tuple[Port, ...] = ()
    routes: tuple[ForwardingRoute | None, ForwardingRoute | None] = (None, None)
    if_adaptive: Connectivity = _NOT_KNOWN

    @property
    def can_talk(self) -> bool | None:
        """Whether both ports get each other's packets, as `Connectivity` says; None if it is not known."""
        return self.ways.can_talk

    @property
    def a_to_b(self) -> bool | None:
        """Whether b gets packets from a, as `Connectivity` says; None if it is not known."""
        return self.ways.a_to_b

    @property
    def b_to_a(self) -> bool | None:
        """Whether a gets packets from b, as `Connectivity` says; None if it is not known."""
        return self.ways.b_to_a

    @property
    def depends_on_inbound_check(self) -> bool:
        """Whether the two readings of the inbound check give different answers."""
        return self.ways != self.otherwise


def prove(
    a: Port,
    b: Port,
    inbound_check: InboundCheck,
    between: Mapping[InboundCheck, StoppedPackets],
    if_adaptive: StoppedPackets,
) -> PairVerdict:
    """Return the proof for two different end ports whose tables were read.

    *between*: the checks of the ports on links between switches, for each reading of the inbound check. *if_adaptive*:
    the same for *inbound_check* if switches may route adaptively.
    """
    (other,) = (each for each in INBOUND_CHECKS if each != inbound_check)
    matches = find_matches(a, b, between[inbound_check])
    on_routes = (port for match in matches for may in (match.a_to_b_may, match.b_to_a_may) for port in may.unread)
    unread = tuple(dict.fromkeys((*unread_for(a), *unread_for(b), *on_routes)))
    virtualized = tuple(port for port in (a, b) if port.hides_p_keys)
    not_active = tuple(dict.fromkeys(end for end in (inactive_end(a), inactive_end(b)) if end is not None))
    there, back = (follow(source, lid, end) if (lid := end.lid) else None for source, end in ((a, b), (b, a)))
    ways, otherwise, adaptive = (
        Connectivity(False, False, False) if not_active else _ways(a, b, found)
        for found in (matches, find_matches(a, b, between[other]), find_matches(a, b, if_adaptive))
    )
    # Mostly two ports have the same LID. Which of them gets the packets if switches route adaptively is not known.
    shared = [route is not None and route.end == "LID of another port" for route in (there, back)]
    adaptive = _without(shared, adaptive, None)
    if between[inbound_check].is_by_tables:
        lost = [route is not None and route.arrives is False for route in (there, back)]
        ways, otherwise = (_without(lost, each, False) for each in (ways, otherwise))
    else:
        ways, otherwise = (_without(shared, each, None) for each in (ways, otherwise))
    return PairVerdict(
        ways, matches, unread, inbound_check, otherwise, virtualized, not_active, (there, back), adaptive
    )


def keys_held(port: Port) -> list[PKey]:
    """Return the valid P_Keys of a port, each once, in the order of its table."""
    return list(dict.fromkeys(key for _, key in port.occupied or ()))


def find_matches(a: Port, b: Port, between: StoppedPackets) -> tuple[Match, ...]:
    """Return the P_Keys of two end ports that match, with the checks of packets with them."""
    there, back = ({key: _checks(*ends, key, between) for key in keys_held(ends[0])} for ends in ((a, b), (b, a)))
    return tuple(
        Match(one, other, there[one][0], back[other][0], there[one][1], back[other][1])
        for one in there
        for other in back
        if may_talk(one, other)
    )


def _checks(
    source: Port, destination: Port, key: PKey, between: StoppedPackets
) -> tuple[tuple[PacketCheck, ...], OnSomeRoutes]:
    """Return the checks of packets with *key* from one port to another: on every route, and on some routes only.

    Switch ports between switches that were not read are only in the second result. Switch ports that face the end ports
    and were not read are in neither; see `unread_for`.
    """
    found = []
    behind, before = leaf_of(source), leaf_of(destination)
    if behind is not None and enforced(behind) & INBOUND and behind.p_keys is not None:
        found.append(PacketCheck(behind, "inbound", key, match_inbound(key, behind.p_keys, between.inbound_check)))
    crossing = between.crossing(source, destination, key)
    stops = tuple(PacketCheck(port, direction, key, None) for port, direction in crossing.stops)
    if crossing.passes is False:
        found += stops
    if before is not None and enforced(before) & OUTBOUND and before.p_keys is not None:
        found.append(PacketCheck(before, "outbound", key, match_in_table(key, before.p_keys)))
    return tuple(found), OnSomeRoutes(stops, crossing.unread) if crossing.passes is None else _ON_NO_ROUTE


def _ways(a: Port, b: Port, matches: Sequence[Match]) -> Connectivity:
    known = a.p_keys is not None and b.p_keys is not None
    there, back = known and not _is_unsure(a, b), known and not _is_unsure(b, a)
    may_have_more = a.hides_p_keys or b.hides_p_keys  # the P_Keys of virtual ports are not in the table

    def verdict(gets_through: Iterable[bool | None], is_sure: bool) -> bool | None:
        found = _any(gets_through)
        if found is not False:
            return found if is_sure else None
        return False if known and not may_have_more else None

    return Connectivity(
        verdict((match.passes for match in matches), there and back),
        verdict((match.gets_there for match in matches), there),
        verdict((match.gets_back for match in matches), back),
    )


def _without(lost: Sequence[bool], ways: Connectivity, instead: Literal[False] | None) -> Connectivity:
    """Return *ways*, with *instead* for each value that needs a direction that is *lost*. A value False stays."""
    there, back = lost
    closed = (there or back, there, back)
    return Connectivity(
        *(instead if is_lost and way is not False else way for is_lost, way in zip(closed, ways, strict=True))
    )


def _passes(checks: Sequence[PacketCheck], may: OnSomeRoutes) -> bool | None:
    if any(check.index is None for check in checks):
        return False
    return None if any(may) else True


def _all(each: Iterable[bool | None]) -> bool | None:
    """Return whether all values are true; None if that depends on an unknown value."""
    found = set(each)
    return False if False in found else None if None in found else True


def _any(each: Iterable[bool | None]) -> bool | None:
    """Return whether any value is true; None if that depends on an unknown value."""
    found = set(each)
    return True if True in found else None if None in found else False


def _is_unsure(source: Port, destination: Port) -> bool:
    """Return whether the switch port at either end may stop packets, and was not read."""
    if not (source.says_peer and destination.says_peer):
        return True
    behind, before = leaf_of(source), leaf_of(destination)
    return (behind is not None and is_unread(behind, INBOUND)) or (before is not None and is_unread(before, OUTBOUND))
