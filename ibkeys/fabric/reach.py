"""Who can talk to whom: from the P_Key tables that were read, and from what the switches enforce (IBA 10.9).

A packet carries one P_Key of its sender's table. The receiver takes it when an entry of its own table matches. Between
them, a switch port with PartitionEnforcementInbound checks what its cable brings (`taken_in`), one with
PartitionEnforcementOutbound what it is about to send, each against its own table. Here the switch ports that face the
two end ports count; a port between switches that enforces is on some routes and not on others, so it is named, not
reckoned with.

Two ports can talk when some P_Key of one and some P_Key of the other match and packets with either get through in both
directions. Nothing here looks at pairs of ports one by one: ports that no partition tells apart form one `Group`, and
what a group can reach is put together from the sets of ports that its partitions are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from ibkeys.fabric.model import Fabric, Port
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, PKey, match_in_table, may_talk, taken_in

Direction = Literal["inbound", "outbound"]
_INBOUND: Final = 0x08
_OUTBOUND: Final = 0x04
_ENFORCEMENT_BYTE: Final = 43  # of PortInfo: PartitionEnforcementInbound, PartitionEnforcementOutbound


@dataclass(frozen=True, slots=True)
class Stop:
    """A switch port that drops packets with ``p_key``: inbound those that come from the link, outbound those to it."""

    port: Port
    direction: Direction
    p_key: PKey


@dataclass(frozen=True, slots=True)
class Match:
    """Two P_Keys of two ports that match, and what stops packets with them; ``stops`` is empty when nothing does."""

    a_pkey: PKey
    b_pkey: PKey
    stops: tuple[Stop, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether two end ports can talk, and why. ``can_talk`` None: what was not read decides; ``unread`` names it."""

    can_talk: bool | None
    matches: tuple[Match, ...]
    unread: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Membership:
    """One partition: its end ports by membership, in the order of the fabric. A port with both P_Keys is in both."""

    partition: int
    full: tuple[Port, ...]
    limited: tuple[Port, ...]

    @property
    def members(self) -> tuple[Port, ...]:
        """Every member once."""
        return tuple(dict.fromkeys((*self.full, *self.limited)))


Standing = tuple[frozenset[int], frozenset[int] | None, frozenset[int] | None]
"""What decides for one port in one partition: its P_Keys there, and those that its switch port takes from it and sends
to it there; None where that does not enforce."""
Profile = frozenset[tuple[int, Standing]]
"""A port's standing in each of its partitions."""
_NOTHING: Final[Profile] = frozenset()


@dataclass(slots=True)
class Group:
    """End ports that no partition tells apart."""

    profile: Profile
    ports: list[Port] = field(default_factory=list)


class Reach:
    """Who can talk to whom in *fabric*, whose P_Key tables were read.

    ``ports``: the end ports of which that can be said, in the order of the fabric; a set of ports is a number with the
    bit of each one's place in it (another *place* may be given, None for ports that do not count). ``unread``: end
    ports of which nothing can be said: their table, or that of a switch port that enforces towards them, could not be
    read, or whether it enforces.
    """

    def __init__(self, fabric: Fabric, place: Callable[[Port], int | None] | None = None) -> None:
        self._fabric = fabric
        self.ports: list[Port] = []
        self.unread: list[Port] = []
        self._profiles: dict[Port, Profile] = {}
        groups: dict[Profile, Group] = {}
        for port in fabric.end_ports():
            profile = _profile(port)
            if profile is None:
                self.unread.append(port)
                continue
            group = groups.get(profile)
            if group is None:
                group = groups[profile] = Group(profile)
            group.ports.append(port)
            self._profiles[port] = group.profile
            self.ports.append(port)
        self._standings = {profile: dict(profile) for profile in groups}
        self.groups = list(groups.values())
        """In the order in which the fabric shows their first ports."""
        if place is None:
            place = {port: number for number, port in enumerate(self.ports)}.get
        self._members = _members(self.groups, place)

    def profile(self, port: Port) -> Profile | None:
        """Return what decides for an end port; None when it could not be read."""
        return self._profiles.get(port)

    def memberships(self) -> list[Membership]:
        """Return every partition that some end port is in, by number."""
        full: dict[int, list[Port]] = {}
        limited: dict[int, list[Port]] = {}
        for port in self._fabric.end_ports():
            for key in dict.fromkeys(key for _, key in port.occupied or ()):
                (full if key.is_full else limited).setdefault(key.partition, []).append(port)
        return [
            Membership(partition, tuple(full.get(partition, ())), tuple(limited.get(partition, ())))
            for partition in sorted(full.keys() | limited.keys())
        ]

    def reachable(self, profile: Profile) -> int:
        """Return the set of ports that a port of *profile* can talk to, itself among them where two of its kind can.

        One look at each partition of the profile: what decides in a partition takes few forms.
        """
        found = 0
        for partition, standing in profile:
            for other, members in self._members.get(partition, {}).items():
                if _standings_talk(standing, other):
                    found |= members
        return found

    def meeting(self, profile: Profile, ports: int) -> list[int]:
        """Return the partitions in which a port of *profile* can talk to some of the set *ports*, by number."""
        return sorted(
            partition
            for partition, standing in profile
            if any(
                members & ports and _standings_talk(standing, other)
                for other, members in self._members.get(partition, {}).items()
            )
        )

    def pairs(self) -> int:
        """Return how many pairs of different end ports can talk."""
        count = 0
        for group in self.groups:
            reachable = self.reachable(group.profile)
            talks_to_itself = profiles_can_talk(group.profile, group.profile)
            count += len(group.ports) * (reachable.bit_count() - talks_to_itself)
        return count // 2

    def talking_pairs(self) -> Iterator[tuple[Port, Port]]:
        """Yield every pair of different end ports that can talk, each once. There may be very many."""
        for number, port in enumerate(self.ports):
            later = self.reachable(self._profiles[port]) >> (number + 1)
            for other in places(later):
                yield port, self.ports[number + 1 + other]

    def stops_in(self, membership: Membership) -> Iterator[Stop]:
        """Yield what the switch ports facing the members stop of that partition's packets: inbound the P_Keys that the
        member itself sends, outbound those that other members send and its own table would take. Members of which
        nothing can be said are left out."""
        standings = [
            (port, standing)
            for port in membership.members
            if (standing := self._standings.get(self._profiles.get(port, _NOTHING), {}).get(membership.partition))
        ]
        sent = sorted({key for _, (keys, _, _) in standings for key in keys})
        for port, (keys, takes, sends) in standings:
            leaf = leaf_of(port)
            if leaf is None:
                continue
            if takes is not None:
                yield from (Stop(leaf, "inbound", PKey(key)) for key in sorted(keys) if not taken_in(key, takes))
            if sends is not None:
                for key in sent:
                    if match_in_table(key, keys) is not None and match_in_table(key, sends) is None:
                        yield Stop(leaf, "outbound", PKey(key))

    def enforcing_between_switches(self) -> list[Port]:
        """Return the switch ports that enforce towards another switch: what they stop depends on the route."""
        return [
            port
            for port in self._fabric.ports()
            if port.is_external and port.peer is not None and port.peer.node.is_switch and _enforcement(port)
        ]

    def why(self, a: Port, b: Port) -> Verdict:
        """Return whether two different end ports can talk, by which P_Keys, and who stops them."""
        unread = tuple(missing for port in (a, b) for missing in _unread_for(port))
        matches = tuple(
            Match(one, other, _stops(a, b, one, other))
            for one in _keys(a)
            for other in _keys(b)
            if may_talk(one, other)
        )
        if unread:
            tables_known = a.p_keys is not None and b.p_keys is not None
            return Verdict(False if tables_known and not matches else None, matches, unread)
        return Verdict(any(not match.stops for match in matches), matches)


def profiles_can_talk(a: Profile, b: Profile) -> bool:
    """Return whether ports of these profiles can talk: in one partition, in both directions."""
    others = dict(b)
    return any(partition in others and _standings_talk(mine, others[partition]) for partition, mine in a)


def places(ports: int) -> Iterator[int]:
    """Yield the places of the ports in a set."""
    while ports:
        lowest = ports & -ports
        yield lowest.bit_length() - 1
        ports ^= lowest


def _standings_talk(a: Standing, b: Standing) -> bool:
    """Return whether two ports can talk in the partition in which these are their standings."""
    (keys, takes, sends), (other_keys, other_takes, other_sends) = a, b
    return any(
        may_talk(one, two) and _lets(one, takes, other_sends) and _lets(two, other_takes, sends)
        for one in keys
        for two in other_keys
    )


def _lets(key: int, takes: frozenset[int] | None, sends: frozenset[int] | None) -> bool:
    """Return whether packets with *key* pass the switch port behind the sender and the one before the receiver."""
    return (takes is None or taken_in(key, takes)) and (sends is None or match_in_table(key, sends) is not None)


def _members(groups: list[Group], place: Callable[[Port], int | None]) -> dict[int, dict[Standing, int]]:
    """Return, for each partition and standing in it, the set of its ports."""
    members: dict[int, dict[Standing, int]] = {}
    for group in groups:
        ports = 0
        for port in group.ports:
            at = place(port)
            if at is not None:
                ports |= 1 << at
        for partition, standing in group.profile:
            by_standing = members.setdefault(partition, {})
            by_standing[standing] = by_standing.get(standing, 0) | ports
    return members


def leaf_of(port: Port) -> Port | None:
    """Return the switch port that faces an end port; None where there is none (port 0 of a switch, back to back)."""
    peer = port.peer
    return peer if port.num and not port.node.is_switch and peer is not None and peer.is_external else None


def _profile(port: Port) -> Profile | None:
    if _unread_for(port):
        return None
    takes, sends = _leaf_tables(port)
    mine: dict[int, set[int]] = {}
    for key in _keys(port):
        mine.setdefault(key.partition, set()).add(int(key))
    return frozenset(
        (partition, (frozenset(keys), _within(takes, partition), _within(sends, partition)))
        for partition, keys in mine.items()
    )


def _within(table: frozenset[int] | None, partition: int) -> frozenset[int] | None:
    if table is None:
        return None
    return table & {partition, partition | FULL_BIT}


def _leaf_tables(port: Port) -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """Return the keys that the switch port facing *port* takes from it and sends to it; None: it does not check."""
    leaf = leaf_of(port)
    bits = _enforcement(leaf) if leaf is not None else 0
    if leaf is None or not bits:
        return None, None
    table = frozenset(int(key) for key in leaf.p_keys or () if key & PARTITION_MASK)
    return table if bits & _INBOUND else None, table if bits & _OUTBOUND else None


def _enforcement(port: Port) -> int:
    """Return the enforcement bits of a switch port that its switch can live up to.

    OpenSM sets them without a look at InboundEnforcementCap and OutboundEnforcementCap: on a switch that cannot check,
    or has no tables, they stop nothing, and nobody must think so.
    """
    if port.info is None:
        return 0
    bits = port.info[_ENFORCEMENT_BYTE] & (_INBOUND | _OUTBOUND)
    switch = port.node.switch_info if bits else None
    if switch is None:
        return bits
    if not switch.partition_enforcement_cap:
        return 0
    return bits & (_INBOUND * switch.inbound_enforcement_cap | _OUTBOUND * switch.outbound_enforcement_cap)


def _unread_for(port: Port) -> tuple[Port, ...]:
    """Return the ports whose values would decide for *port* and were not read."""
    found = [port] if port.p_keys is None else []
    leaf = leaf_of(port)
    if leaf is not None and (leaf.info is None or (_enforcement(leaf) and leaf.p_keys is None)):
        found.append(leaf)
    return tuple(found)


def _keys(port: Port) -> list[PKey]:
    return list(dict.fromkeys(key for _, key in port.occupied or ()))


def _stops(a: Port, b: Port, a_pkey: PKey, b_pkey: PKey) -> tuple[Stop, ...]:
    found = []
    for source, destination, key in ((a, b, a_pkey), (b, a, b_pkey)):
        behind, before = leaf_of(source), leaf_of(destination)
        if behind is not None and _enforcement(behind) & _INBOUND and not taken_in(key, behind.p_keys or ()):
            found.append(Stop(behind, "inbound", key))
        if before is not None and _enforcement(before) & _OUTBOUND and match_in_table(key, before.p_keys or ()) is None:
            found.append(Stop(before, "outbound", key))
    return tuple(dict.fromkeys(found))
