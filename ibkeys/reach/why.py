"""The proof for two end ports: by which P_Keys packets get from one to the other, and who stops them.

Reach has two directions. A packet carries one P_Key of its sender; the switch port behind the sender, the one before
the receiver and the receiver's own table decide, and for the answer the others do. So packets may get through one way
only, as from a host that gave itself the full form of a P_Key of which its switch port has the limited one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ibkeys.keys.pkey import (
    DEFAULT_INBOUND_CHECK,
    INBOUND_CHECKS,
    InboundCheck,
    PKey,
    match_in_table,
    match_inbound,
    may_talk,
)
from ibkeys.topology.enforcement import INBOUND, OUTBOUND, Direction, enforced, is_unread, leaf_of, unread_for
from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class Check:
    """A switch port that checks packets with ``p_key``: inbound those that come from the link, outbound those to it.

    ``index``: the entry of its P_Key table that lets them pass; None: it drops them.
    """

    port: Port
    direction: Direction
    p_key: PKey
    index: int | None

    @property
    def entry(self) -> PKey | None:
        """The entry that lets the packets pass."""
        return None if self.index is None or self.port.p_keys is None else self.port.p_keys[self.index]


@dataclass(frozen=True, slots=True)
class Match:
    """Two P_Keys of two ports that match, and what checks packets with them: those that a sends to b with ``a_pkey``,
    and those that b sends to a with ``b_pkey``."""

    a_pkey: PKey
    b_pkey: PKey
    a_to_b: tuple[Check, ...]
    b_to_a: tuple[Check, ...]

    @property
    def stops(self) -> tuple[Check, ...]:
        """What drops packets with them, in either direction; empty when nothing does."""
        return tuple(check for check in (*self.a_to_b, *self.b_to_a) if check.index is None)


class Ways(NamedTuple):
    """Whether two ports can talk (packets and answers, by two P_Keys that match), and whether any packet gets from a to
    b and from b to a. None: what was not read decides.

    ``can_talk`` False with both ways open: packets get each way in another partition, so no connection is made.
    """

    can_talk: bool | None
    a_to_b: bool | None
    b_to_a: bool | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What two end ports can do, and why: ``ways`` by the reading ``inbound_check`` of a switch's inbound check,
    ``otherwise`` by the other one. ``unread`` names the ports whose values were not read, ``virtualized`` those of the
    two with virtual ports, whose P_Keys cannot be read."""

    ways: Ways
    matches: tuple[Match, ...]
    unread: tuple[Port, ...]
    inbound_check: InboundCheck
    otherwise: Ways
    virtualized: tuple[Port, ...] = ()

    @property
    def can_talk(self) -> bool | None:
        """See `Ways`."""
        return self.ways.can_talk

    @property
    def a_to_b(self) -> bool | None:
        """See `Ways`."""
        return self.ways.a_to_b

    @property
    def b_to_a(self) -> bool | None:
        """See `Ways`."""
        return self.ways.b_to_a

    @property
    def depends_on_inbound_check(self) -> bool:
        """Whether the two readings of the inbound check give different answers."""
        return self.ways != self.otherwise


def prove(a: Port, b: Port, inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK) -> Verdict:
    """Return what two different end ports whose tables were read can do, and why."""
    (other,) = (each for each in INBOUND_CHECKS if each != inbound_check)
    unread = (*unread_for(a), *unread_for(b))
    matches = find_matches(a, b, inbound_check)
    virtualized = tuple(port for port in (a, b) if port.hides_p_keys)
    otherwise = _ways(a, b, find_matches(a, b, other))
    return Verdict(_ways(a, b, matches), matches, unread, inbound_check, otherwise, virtualized)


def keys_held(port: Port) -> list[PKey]:
    """Return the valid P_Keys of a port, each once, in the order of its table."""
    return list(dict.fromkeys(key for _, key in port.occupied or ()))


def find_matches(a: Port, b: Port, inbound_check: InboundCheck = DEFAULT_INBOUND_CHECK) -> tuple[Match, ...]:
    """Return the P_Keys of two end ports that match, with what checks packets with them."""
    return tuple(
        Match(one, other, _checks(a, b, one, inbound_check), _checks(b, a, other, inbound_check))
        for one in keys_held(a)
        for other in keys_held(b)
        if may_talk(one, other)
    )


def _checks(source: Port, destination: Port, key: PKey, inbound_check: InboundCheck) -> tuple[Check, ...]:
    """Return what checks packets with *key* from one port to another; what was not read is left out."""
    found = []
    behind, before = leaf_of(source), leaf_of(destination)
    if behind is not None and enforced(behind) & INBOUND and behind.p_keys is not None:
        found.append(Check(behind, "inbound", key, match_inbound(key, behind.p_keys, inbound_check)))
    if before is not None and enforced(before) & OUTBOUND and before.p_keys is not None:
        found.append(Check(before, "outbound", key, match_in_table(key, before.p_keys)))
    return tuple(found)


def _ways(a: Port, b: Port, matches: Sequence[Match]) -> Ways:
    known = a.p_keys is not None and b.p_keys is not None
    there, back = known and not _is_unsure(a, b), known and not _is_unsure(b, a)
    may_have_more = a.hides_p_keys or b.hides_p_keys  # behind virtual ports

    def verdict(gets_through: bool, is_sure: bool) -> bool | None:
        if gets_through:
            return True if is_sure else None
        return False if known and not may_have_more else None

    return Ways(
        verdict(any(not match.stops for match in matches), there and back),
        verdict(any(_passes(match.a_to_b) for match in matches), there),
        verdict(any(_passes(match.b_to_a) for match in matches), back),
    )


def _passes(checks: Sequence[Check]) -> bool:
    return all(check.index is not None for check in checks)


def _is_unsure(source: Port, destination: Port) -> bool:
    """Return whether a switch port on the way may stop packets, and was not read."""
    if not (source.says_peer and destination.says_peer):
        return True
    behind, before = leaf_of(source), leaf_of(destination)
    return (behind is not None and is_unread(behind, INBOUND)) or (before is not None and is_unread(before, OUTBOUND))
