"""Known neighbours that may have changed places: what a sweep could not find, put side by side."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Final

from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.model import Fabric, LinkEnd, Port

_MOST: Final = 256
"""With more places than this nobody was swapped: the keys at hand are those of another day."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A port behind which a known port should be that was found nowhere. ``named``: the GUID that the SM has there."""

    near: Port
    known: LinkEnd
    named: int | None


def describe_swaps(found: Fabric, ring: KeyRing) -> list[str]:
    """Return a line for each two known ports that may have been swapped: neither was found, at its place or elsewhere.

    Where the SA or a forwarding table names each at the other's place, that is said; without such a word two are only
    put side by side where they are the only ones that are missing. Nothing is asked.
    """
    places = _places(found, ring)
    if len(places) > _MOST:
        return []
    lines: list[str] = []
    paired: set[Port] = set()
    for one, other in itertools.combinations(places, 2):
        if one.near not in paired and other.near not in paired and _cross(one, other):
            paired |= {one.near, other.near}
            lines.append(_line(one, other, "were swapped as the SM sees it"))
    left = [place for place in places if place.near not in paired]
    if len(left) == 2 and not any(place.named for place in left):
        lines.append(_line(left[0], left[1], "may have been swapped"))
    return lines


def _places(found: Fabric, ring: KeyRing) -> list[_Place]:
    there = {port.link_end[0] for port in found.end_ports() if port not in found.doubtful}
    named = {place.near: place.named for place in found.unasked}
    places: dict[Port, _Place] = {}
    for trouble in found.troubles:
        near = trouble.port
        known = ring.expected_behind(near.link_end)
        if trouble.is_behind and near.peer is None and known is not None and known[0] not in there:
            at = named.get(near)
            places[near] = _Place(near, known, at[0] if at else None)
    return list(places.values())


def _cross(one: _Place, other: _Place) -> bool:
    """Whether the SM names one of the two at the place of the other, and says nothing else of that one's place."""
    ways = ((one.named, other.known[0]), (other.named, one.known[0]))
    return any(named is not None for named, _ in ways) and all(named in (None, known) for named, known in ways)


def _line(one: _Place, other: _Place, what: str) -> str:
    return (
        f"GUID 0x{one.known[0]:016x}, known behind {one.near}, and GUID 0x{other.known[0]:016x}, known behind "
        f"{other.near}, {what}: put the two cables back, or let `ibkeys mkey-list --settle` record where they are now"
    )
