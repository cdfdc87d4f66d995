"""Pairs of ports that can communicate, even in one direction only, although the policy forbids it.

Computed with sets, not pair by pair. Ports whose packets are treated alike and that have the same P_Keys in the policy
are one class. The ports that a class can reach, and those that the policy lets it reach, are each a set, put together
from the members of its partitions. A pair can only be forbidden when one of its ports has a P_Key that the policy does
not give it, so the pair is attributed to the classes that deviate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ibkeys.audit.inputs import AuditInput
from ibkeys.keys.pkey import FULL_BIT
from ibkeys.reach.count import MemberSets
from ibkeys.reach.forms import keys_of
from ibkeys.reach.reach import ReachedPorts, StandingSet
from ibkeys.reach.routes import numbers_in
from ibkeys.topology.nodes import Port

_NOTHING: Final[frozenset[int]] = frozenset()
_NOBODY: Final = ReachedPorts(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Partners:
    """Forbidden partners: ports that some port can talk to although the policy forbids it.

    ``places``: bits, each the place of a partner in ``of``, which is `Reach.ports`.
    """

    of: list[Port]
    places: int

    def __iter__(self) -> Iterator[Port]:
        return (self.of[at] for at in numbers_in(self.places))

    def __len__(self) -> int:
        return self.places.bit_count()


@dataclass(slots=True)
class Deviating:
    """A class of ports that reaches other ports although the policy forbids it.

    ``ports``: the ports of the class, one bit for the place of each in `Reach.ports`. ``found``: their forbidden
    partners, as such bits.
    """

    profile: StandingSet
    wanted: frozenset[int]
    ports: int = 0
    found: ReachedPorts = _NOBODY

    @property
    def deviates(self) -> bool:
        """Whether the ports of the class have a P_Key that the policy does not give them. A limited P_Key does not
        count if the policy gives the full form.
        """
        have = (key for base, standing in self.profile for key in keys_of(base, standing.holds))
        return any(key not in self.wanted and key | FULL_BIT not in self.wanted for key in have)

    @property
    def partners(self) -> int:
        """All forbidden partners of the class: those in either direction, and those of which it is not known whether
        they can talk.
        """
        return self.found.both | self.found.to | self.found.by | self.found.unknown


def deviating_classes(data: AuditInput) -> list[Deviating]:
    """Return the classes with a forbidden partner, in either direction.

    If both ports of a pair deviate, the pair is found from both sides.
    """
    reach = data.reach
    classes: dict[tuple[StandingSet, frozenset[int]], Deviating] = {}
    for at, port in enumerate(reach.ports):
        wanted = data.wanted.get(port.guid, _NOTHING)
        profile = reach.standings_of(port)
        assert profile is not None
        classes.setdefault((profile, wanted), Deviating(profile, wanted)).ports |= 1 << at
    allowed = MemberSets((each.wanted, each.ports) for each in classes.values())
    found = []
    for each in classes.values():
        if not each.deviates:
            continue
        others = ~allowed.reached_by(each.wanted)
        if each.ports.bit_count() == 1:
            others &= ~each.ports
        each.found = ReachedPorts(*(ports & others for ports in reach.reached(each.profile)))
        if each.partners:
            found.append(each)
    return found
