"""Which ports can talk to each other: from the P_Key tables that were read, and from the enforcement of switches (IBA
10.9).

A packet carries one P_Key of its sender's table. The receiver accepts it when an entry of its own table matches.
Between them, a switch port with PartitionEnforcementInbound checks packets from its cable (`match_inbound`), and one
with PartitionEnforcementOutbound checks packets that it sends, each against its own table. The switch ports that face
the two end ports count, and those between switches: the latter decide if they stop packets on every route or on none;
otherwise the answer is unknown (`ibkeys.reach.between`). Whether links are Active does not count: a host that is down
now stays in its partitions. Only the proof for two ports takes link states into account, and ``not_active`` lists the
links.

Reach has two directions. Two ports can talk when some P_Key of one and some P_Key of the other match and packets with
either get through in both directions; where packets get through in one direction only, the pair is one-way.
`ibkeys.reach.why` has the proof for two ports. Nothing here looks at pairs of ports one by one: ports that no partition
distinguishes form one `PortGroup`, and the reach of a group is the union of the sets of ports of its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final, Literal, NamedTuple

from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK, INBOUND_CHECKS, InboundCheck, PKey
from ibkeys.reach.between import StoppedPackets
from ibkeys.reach.forms import LIMITED, PortForms, Standing, forms_in, forms_passing_port, keys_of, passing
from ibkeys.reach.links import SwitchLinks
from ibkeys.reach.places import EndPortGroups
from ibkeys.reach.raw import RawPackets
from ibkeys.reach.routes import numbers_in
from ibkeys.reach.sets import PartitionReach, PartitionSets, ReachedField
from ibkeys.reach.why import Match, PacketCheck, PairVerdict, find_matches, keys_held, prove
from ibkeys.topology.enforcement import INBOUND, OUTBOUND, Direction, enforced, inactive_end, leaf_of, unread_for
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

StandingSet = frozenset[tuple[int, Standing]]
"""A port's standing in each of its partitions."""
_NOTHING: Final[StandingSet] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionPorts:
    """One partition: its end ports by membership, in the order of the fabric. A port with both P_Keys is in both."""

    partition: int
    full: tuple[Port, ...]
    limited: tuple[Port, ...]

    @property
    def members(self) -> tuple[Port, ...]:
        """Every member once."""
        return tuple(dict.fromkeys((*self.full, *self.limited)))


class PairCounts(NamedTuple):
    """The number of pairs that can talk, of ordered pairs that are one-way, and of pairs for which the route
    decides."""

    talking: int
    one_way: int
    unknown: int


class ReachedPorts(NamedTuple):
    """The reach of one port, as sets of ports.

    ``both``: ports that it can talk to; ``to``: ports that it can only send to; ``by``: ports that can only send to it.
    A port that is in both ``to`` and ``by`` receives packets in one partition and sends in another. ``unknown``: ports
    for which it is not known, because packets may pass a switch port that stops them; these are in no other set.
    """

    both: int
    to: int
    by: int
    unknown: int


@dataclass(slots=True)
class PortGroup:
    """End ports with the same standing in every partition."""

    profile: StandingSet
    ports: list[Port] = field(default_factory=list)


class Reach:
    """The reach of all end ports in *fabric*, whose P_Key tables were read.

    ``ports``: the end ports whose reach is known, in the order of the fabric; a set of ports is a number that has the
    bit of each port's place in this list set (*place* may number the ports otherwise; None for ports that do not
    count). ``unread``: end ports whose reach is not known: their own table was not read, or it was not read whether the
    switch port facing them enforces and by which table. ``virtualized``: end ports with virtual ports. The P_Keys of
    virtual ports cannot be read, so these end ports may reach more ports than this object shows. ``not_active``: the
    end of each end port's link that is not Active. ``inbound_check``: the assumption about switches, see
    `ibkeys.keys.pkey.InboundCheck`. *adaptive_routing*: switches may deviate from their forwarding tables, so packets
    may take any route.
    """

    def __init__(
        self,
        fabric: Topology,
        place: Callable[[Port], int | None] | None = None,
        *,
        inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK,
        adaptive_routing: bool = False,
    ) -> None:
        self._fabric = fabric
        self.inbound_check: InboundCheck = inbound_check
        self.ports: list[Port] = []
        self.unread: list[Port] = []
        self.virtualized: list[Port] = []
        self.not_active: list[Port] = []
        self._profiles: dict[Port, StandingSet] = {}
        for port in fabric.end_ports():
            if port.hides_p_keys:
                self.virtualized.append(port)
            if (end := inactive_end(port)) is not None:
                self.not_active.append(end)
            (self.unread if unread_for(port) else self.ports).append(port)
        self._links = SwitchLinks(fabric, end_ports=[*self.ports, *self.unread])
        self._between = {check: StoppedPackets(self._links, check, not adaptive_routing) for check in INBOUND_CHECKS}
        groups: dict[StandingSet, PortGroup] = {}
        for port in self.ports:
            profile = _profile(port, self._between[inbound_check])
            group = groups.setdefault(profile, PortGroup(profile))
            group.ports.append(port)
            self._profiles[port] = group.profile
        self.groups = list(groups.values())
        """In the order in which the fabric shows their first ports."""
        if place is None:
            place = {port: number for number, port in enumerate(self.ports)}.get
        self._partitions = self._by_partition(place)

    def standings_of(self, port: Port) -> StandingSet | None:
        """Return an end port's standing in all its partitions; None when it was not read."""
        return self._profiles.get(port)

    def traffic(self, port: Port, partition: int) -> PortForms | None:
        """Return the traffic of an end port in a partition; None when it was not read, or the port is not in the
        partition."""
        standing = dict(self._profiles.get(port, _NOTHING)).get(partition)
        return None if standing is None else forms_passing_port(standing, self.inbound_check)

    def memberships(self) -> list[PartitionPorts]:
        """Return every partition that some end port is in, by number."""
        full: dict[int, list[Port]] = {}
        limited: dict[int, list[Port]] = {}
        for port in self._fabric.end_ports():
            for key in dict.fromkeys(key for _, key in port.occupied or ()):
                (full if key.is_full else limited).setdefault(key.partition, []).append(port)
        return [
            PartitionPorts(partition, tuple(full.get(partition, ())), tuple(limited.get(partition, ())))
            for partition in sorted(full.keys() | limited.keys())
        ]

    def reached(self, profile: StandingSet, within: Collection[int] = ()) -> ReachedPorts:
        """Return the ports that a port of *profile* can reach and be reached by; *within*: only by these partitions.

        The port itself is in the result if two ports of its profile can talk. Each partition of the profile is examined
        once, because there are few standings in a partition.
        """
        both = to = by = may_both = may_to = may_by = 0
        for partition, standing in profile:
            if within and partition not in within:
                continue
            found = self._found(partition, standing)
            both |= found.both
            if found.to or found.by:  # seldom true, and these sets are large
                to |= found.to
                by |= found.by
            if found.may_to or found.may_by:
                may_both |= found.may_both
                may_to |= found.may_to
                may_by |= found.may_by
        unknown = (may_both | (may_to & ~to) | (may_by & ~by)) & ~both
        return ReachedPorts(both, to & ~both & ~unknown, by & ~both & ~unknown, unknown)

    def _found(self, partition: int, standing: Standing) -> PartitionReach:
        return self._partitions[partition].reached_by(forms_passing_port(standing, self.inbound_check), standing.place)

    def meeting(self, profile: StandingSet, ports: int, name: ReachedField = "both") -> list[int]:
        """Return the partitions that bring one of *ports* into the field *name* of the `ReachedPorts` of *profile*;
        lowest first.
        """
        return sorted(partition for partition, standing in profile if self._found(partition, standing).of(name) & ports)

    def count(self, within: Collection[int] = (), having: Collection[Port] | None = None) -> PairCounts:
        """Return how many pairs of different end ports can talk, are one-way, or depend on the route.

        *within*: count by these partitions only; empty: by all. *having*: count only pairs with at least one of these
        ports.
        """
        found = self._count_among(within, ())
        if having is None:
            return found
        without = self._count_among(within, having)
        return PairCounts(*(every - other for every, other in zip(found, without, strict=True)))

    def _count_among(self, within: Collection[int], left_out: Collection[Port]) -> PairCounts:
        """Return the result of `count` for the ports that are not *left_out*."""
        left_out = set(left_out)
        places_left_out = sum(1 << number for number, port in enumerate(self.ports) if port in left_out)
        pairs = one_way = unknown = 0
        for group in self.groups:
            found = self.reached(group.profile, within)
            # the reach of a port's own profile includes the port itself
            standings = (standing for partition, standing in group.profile if not within or partition in within)
            own = any(
                t.sends_to(t) for t in (forms_passing_port(standing, self.inbound_check) for standing in standings)
            )
            ports = sum(port not in left_out for port in group.ports) if left_out else len(group.ports)
            pairs += ports * ((found.both & ~places_left_out).bit_count() - own)
            # A port has neither a one-way pair nor an unknown one with a port of its own group.
            one_way += ports * (found.to & ~places_left_out).bit_count()
            unknown += ports * (found.unknown & ~places_left_out).bit_count()
        return PairCounts(pairs // 2, one_way, unknown // 2)

    def talking_pairs(self, within: Collection[int] = ()) -> Iterator[tuple[Port, Port]]:
        """Return every pair of different end ports that can talk (*within*: in these partitions), each once. There may
        be very many."""
        return self._pairs_in("both", within)

    def one_way_pairs(self, within: Collection[int] = ()) -> Iterator[tuple[Port, Port]]:
        """Yield every (sender, receiver) whose packets get through, but no answer in the same partition (*within*: in
        these partitions). A pair is there both ways if each direction works in another partition."""
        for port in self.ports:
            for other in numbers_in(self.reached(self._profiles[port], within).to):
                yield port, self.ports[other]

    def unknown_pairs(self, within: Collection[int] = ()) -> Iterator[tuple[Port, Port]]:
        """Return every pair of different end ports for which the route decides (*within*: in these partitions), each
        once."""
        return self._pairs_in("unknown", within)

    def _pairs_in(self, name: Literal["both", "unknown"], within: Collection[int]) -> Iterator[tuple[Port, Port]]:
        """Yield every pair of which one port is in the field *name* of the other's `ReachedPorts`, each once."""
        for number, port in enumerate(self.ports):
            later = getattr(self.reached(self._profiles[port], within), name) >> (number + 1)
            for other in numbers_in(later):
                yield port, self.ports[number + 1 + other]

    def depending_on_inbound_check(self) -> list[Port]:
        """Return the ports with packets that pass the switch ports under only one of the two assumptions about the
        inbound check.

        The switch port that faces the port and those between switches are considered.
        """
        readings = [self._between[check] for check in INBOUND_CHECKS]
        return [port for group in self.groups for port in group.ports if _depends(port, group.profile, readings)]

    def stops_in(self, membership: PartitionPorts) -> Iterator[PacketCheck]:
        """Yield the checks by which the switch ports facing the members stop packets of that partition.

        Inbound: the P_Keys that the member itself sends. Outbound: those that other members send and that the member's
        table would accept. Members whose reach is not known are left out.
        """
        partition = membership.partition
        standings = []
        sent = 0
        for port in membership.members:
            standing = dict(self._profiles.get(port, _NOTHING)).get(partition)
            if standing is not None:
                standings.append((port, standing))
                sent |= standing.holds
        for port, (holds, inbound, outbound, _) in standings:
            leaf = leaf_of(port)
            if leaf is None:
                continue
            if inbound is not None:
                for key in keys_of(partition, holds & ~passing(inbound, self.inbound_check)):
                    yield PacketCheck(leaf, "inbound", PKey(key), None)
            if outbound is not None:
                for key in keys_of(partition, sent & passing(holds, "membership") & ~passing(outbound, "membership")):
                    yield PacketCheck(leaf, "outbound", PKey(key), None)

    def stops_between_switches(self, within: Collection[int] = ()) -> Iterator[PacketCheck]:
        """Yield the checks by which switch ports on links between switches stop P_Keys of end ports, on routes through
        them.

        *within*: in these partitions.
        """
        for port, direction, keys in self.stopped_between_switches(within):
            yield from (PacketCheck(port, direction, key, None) for key in keys)

    def stopped_between_switches(
        self, within: Collection[int] = ()
    ) -> Iterator[tuple[Port, Direction, Sequence[PKey]]]:
        """Yield the data of `stops_between_switches` once for each port and direction."""
        return self._between[self.inbound_check].stopping(self._keys_in(within))

    def deciding(self, within: Collection[int] = ()) -> Iterator[Port]:
        """Yield the switch ports on links between switches that stop P_Keys of end ports, or whose check was not
        read."""
        seen = set()
        stopping = self._between[self.inbound_check].stopping_any(self._keys_in(within))
        for port in chain(stopping, self.unread_between_switches):
            if port not in seen:
                seen.add(port)
                yield port

    def _keys_in(self, within: Collection[int]) -> list[PKey]:
        return [key for key in self._keys if not within or key.partition in within]

    @cached_property
    def _keys(self) -> list[PKey]:
        """The P_Keys that end ports have, by number."""
        return sorted({key for port in self._fabric.end_ports() for key in keys_held(port)})

    @property
    def unread_between_switches(self) -> list[Port]:
        """The switch ports on links between switches whose check was not read."""
        return self._links.unread

    def why(self, a: Port, b: Port) -> PairVerdict:
        """Return the proof for two different end ports: whether they can talk, by which P_Keys, and which ports stop
        packets."""
        if_adaptive = StoppedPackets(self._links, self.inbound_check, by_tables=False)
        return prove(a, b, self.inbound_check, self._between, if_adaptive)

    @cached_property
    def raw(self) -> RawPackets:
        """The reach of raw packets."""
        return RawPackets(self._fabric, self._between[self.inbound_check].is_by_tables)

    def matches(self, a: Port, b: Port) -> tuple[Match, ...]:
        """Return the P_Keys of two different end ports that match, with the checks of packets with them."""
        return find_matches(a, b, self._between[self.inbound_check])

    def _by_partition(self, bit_of: Callable[[Port], int | None]) -> dict[int, PartitionSets]:
        """Return the sets of ports of each partition; *bit_of*: the bit of a port in these sets, None to leave it
        out."""
        found: dict[int, PartitionSets] = {}
        is_numbered = all(bit_of(port) == number for number, port in enumerate(self.ports))
        for group in self.groups:
            ports = 0
            for port in group.ports:
                bit = bit_of(port)
                if bit is not None:
                    ports |= 1 << bit
            for partition, standing in group.profile:
                if partition not in found:
                    places = self._between[self.inbound_check].places(partition)
                    found[partition] = PartitionSets(places, is_numbered and isinstance(places, EndPortGroups))
                found[partition].add(ports, forms_passing_port(standing, self.inbound_check), standing.place)
        return found


def _profile(port: Port, between: StoppedPackets) -> StandingSet:
    inbound, outbound = _leaf_tables(port)
    found = []
    for partition, holds in forms_in(port).items():
        places = between.places(partition)
        standing = Standing(
            holds,
            None if inbound is None else inbound.get(partition, 0),
            None if outbound is None else outbound.get(partition, 0),
            0 if places is None else places.place(port),
        )
        found.append((partition, standing))
    return frozenset(found)


def _depends(port: Port, profile: StandingSet, readings: Sequence[StoppedPackets]) -> bool:
    """Return whether some packets of a port pass by one reading of the inbound check only.

    *readings*: the checks between switches, one for each reading.
    """
    for partition, standing in profile:
        found = set()
        for each in readings:
            leaves = forms_passing_port(standing, each.inbound_check).leaves
            found.add((leaves, each.reached_by_limited(port, partition) if leaves & LIMITED else None))
        if len(found) > 1:
            return True
    return False


def _leaf_tables(port: Port) -> tuple[dict[int, int] | None, dict[int, int] | None]:
    """Return the table of the switch port facing *port*, for packets from *port* and for packets to it; None for a
    direction that it does not check."""
    leaf = leaf_of(port)
    bits = enforced(leaf) if leaf is not None else 0
    if leaf is None or not bits:
        return None, None
    table = forms_in(leaf)
    return table if bits & INBOUND else None, table if bits & OUTBOUND else None
