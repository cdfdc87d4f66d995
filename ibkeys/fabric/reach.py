"""Who can talk to whom: from the P_Key tables that were read, and from what the switches enforce (IBA 10.9).

A packet carries one P_Key of its sender's table. The receiver takes it when an entry of its own table matches. Between
them, a switch port with PartitionEnforcementInbound checks what its cable brings, one with PartitionEnforcementOutbound
what it is about to send, each against its own table. Here the switch ports that face the two end ports count; a port
between switches that enforces is on some routes and not on others, so it is named, not reckoned with.

Two ports can talk when some P_Key of one and some P_Key of the other match and packets with either get through in both
directions. Nothing here looks at pairs of ports: ports that no partition tells apart form one `Group`, and a fabric
has few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Final, Literal

from ibkeys.fabric.model import Fabric, Port
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, PKey, match_in_table, may_talk

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


@dataclass(slots=True)
class Group:
    """End ports that no partition tells apart."""

    profile: Profile
    ports: list[Port] = field(default_factory=list)


class Reach:
    """Who can talk to whom in *fabric*, whose P_Key tables were read.

    ``unread``: end ports of which nothing can be said: their table, or that of a switch port that enforces towards
    them, could not be read, or whether it enforces.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.unread: list[Port] = []
        self._groups: dict[Profile, Group] = {}
        self._profiles: dict[Port, Profile] = {}
        for port in fabric.end_ports():
            profile = _profile(port)
            if profile is None:
                self.unread.append(port)
                continue
            group = self._groups.get(profile)
            if group is None:
                group = self._groups[profile] = Group(profile)
            group.ports.append(port)
            self._profiles[port] = group.profile
        self._fabric = fabric
        self._answers: dict[tuple[Profile, Profile], bool] = {}

    @property
    def groups(self) -> list[Group]:
        """The groups, in the order in which the fabric shows their first ports."""
        return list(self._groups.values())

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

    def can_talk(self, a: Profile, b: Profile) -> bool:
        """Return whether a port of profile *a* and another of profile *b* can talk."""
        answer = self._answers.get((a, b))
        if answer is None:
            answer = self._answers[(a, b)] = self._answers[(b, a)] = profiles_can_talk(a, b)
        return answer

    def pairs(self) -> int:
        """Return how many pairs of different end ports can talk."""
        return sum(
            pair_count(a.ports, b.ports)
            for a, b in combinations_with_replacement(self.groups, 2)
            if self.can_talk(a.profile, b.profile)
        )

    def stops_in(self, membership: Membership) -> Iterator[Stop]:
        """Yield what the switch ports facing the members stop of that partition's packets: inbound the P_Keys that the
        member itself sends, outbound those that other members send and its own table would take."""
        sent = {key for port in membership.members for key in _keys(port) if key.partition == membership.partition}
        for port in membership.members:
            leaf = leaf_of(port)
            bits = _enforcement(leaf) if leaf is not None else 0
            if leaf is None or not bits or leaf.p_keys is None:
                continue
            own = [key for key in _keys(port) if key.partition == membership.partition]
            taken = [key for key in sorted(sent) if match_in_table(key, own) is not None]
            for direction, bit, keys in (("inbound", _INBOUND, own), ("outbound", _OUTBOUND, taken)):
                for key in keys:
                    if bits & bit and match_in_table(key, leaf.p_keys) is None:
                        yield Stop(leaf, direction, key)  # type: ignore[arg-type]

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
    for partition, (keys, takes, sends) in a:
        other = others.get(partition)
        if other is None:
            continue
        for one in keys:
            for two in other[0]:
                if may_talk(one, two) and all(
                    table is None or match_in_table(key, table) is not None
                    for key, tables in ((one, (takes, other[2])), (two, (other[1], sends)))
                    for table in tables
                ):
                    return True
    return False


def pair_count(a: list[Port], b: list[Port]) -> int:
    """Return how many unordered pairs of different ports two groups make; *a* and *b* may be the same group."""
    return len(a) * (len(a) - 1) // 2 if a is b else len(a) * len(b)


def leaf_of(port: Port) -> Port | None:
    """Return the switch port that faces an end port; None where there is none (port 0 of a switch, back to back)."""
    peer = port.peer
    return peer if port.num and not port.node.is_switch and peer is not None and peer.is_external else None


def partition_of_each(profile: Profile) -> Mapping[int, frozenset[int]]:
    """Return the P_Keys of a profile by partition."""
    return {partition: standing[0] for partition, standing in profile}


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
    return port.info[_ENFORCEMENT_BYTE] & (_INBOUND | _OUTBOUND) if port.info is not None else 0


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
        for end, direction, bit in ((source, "inbound", _INBOUND), (destination, "outbound", _OUTBOUND)):
            leaf = leaf_of(end)
            if leaf is not None and _enforcement(leaf) & bit and match_in_table(key, leaf.p_keys or ()) is None:
                found.append(Stop(leaf, direction, key))  # type: ignore[arg-type]
    return tuple(dict.fromkeys(found))
