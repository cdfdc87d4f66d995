"""Pairs of ports that can talk and may not: tables and switches as they are against a policy. By sets, not by pairs.

Ports with the same standing on the wire and the same P_Keys in the policy are one class. A pair can only be forbidden
when one of the two has something that the policy does not give it, so only classes that deviate are looked at, each
with the classes that share a partition with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ibkeys.audit.inputs import AuditInput
from ibkeys.fabric.model import Port
from ibkeys.fabric.reach import Profile, profiles_can_talk
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, may_talk

_NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(slots=True, eq=False)
class PortClass:
    """Ports that no partition tells apart, neither as they are nor in the policy."""

    profile: Profile
    wanted: frozenset[int]
    ports: list[Port] = field(default_factory=list)

    @property
    def bases(self) -> frozenset[int]:
        """The partitions that its ports are in."""
        return frozenset(base for base, _ in self.profile)

    @property
    def deviates(self) -> bool:
        """Whether its ports have a P_Key that the policy does not give them, a limited one aside where it gives the
        full one."""
        have = (key for _, standing in self.profile for key in standing[0])
        return any(key not in self.wanted and key | FULL_BIT not in self.wanted for key in have)


@dataclass(frozen=True, slots=True)
class ForbiddenPair:
    """Two classes all of whose ports can talk to each other, and may not. ``bases``: where they meet."""

    a: PortClass
    b: PortClass
    bases: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many pairs of different ports that is."""
        own = len(self.a.ports)
        return own * (own - 1) // 2 if self.a is self.b else own * len(self.b.ports)


def forbidden_pairs(data: AuditInput) -> list[ForbiddenPair]:
    """Return the forbidden pairs of classes, each once."""
    classes = _classes(data)
    by_base: dict[int, list[PortClass]] = {}
    for each in classes:
        for base in each.bases:
            by_base.setdefault(base, []).append(each)
    found, seen = [], set()
    for one in classes:
        if not one.deviates:
            continue
        for other in dict.fromkeys(other for base in one.bases for other in by_base[base]):
            pair = frozenset((id(one), id(other)))
            if pair in seen:
                continue
            seen.add(pair)
            if _allowed(one.wanted, other.wanted) or not profiles_can_talk(one.profile, other.profile):
                continue
            together = ForbiddenPair(one, other, tuple(sorted(_meeting(one.profile, other.profile))))
            if together.size:
                found.append(together)
    return found


def _classes(data: AuditInput) -> list[PortClass]:
    classes: dict[tuple[Profile, frozenset[int]], PortClass] = {}
    for group in data.reach.groups:
        for port in group.ports:
            wanted = data.wanted.get(port.guid, _NOTHING)
            each = classes.get((group.profile, wanted))
            if each is None:
                each = classes[(group.profile, wanted)] = PortClass(group.profile, wanted)
            each.ports.append(port)
    return list(classes.values())


def _allowed(a: frozenset[int], b: frozenset[int]) -> bool:
    return any(may_talk(one, two) for one, two in _same_base(a, b))


def _same_base(a: frozenset[int], b: frozenset[int]) -> Iterator[tuple[int, int]]:
    for one in a:
        base = one & PARTITION_MASK
        for two in (base, base | FULL_BIT):
            if two in b:
                yield one, two


def _meeting(a: Profile, b: Profile) -> set[int]:
    theirs = {base: standing[0] for base, standing in b}
    return {
        base
        for base, (keys, _, _) in a
        if any(may_talk(one, two) for one in keys for two in theirs.get(base, _NOTHING))
    }
