"""Finding ports that are not at their known place: links that lead elsewhere, and ports that may have been swapped.

They are computed from the result of a sweep and the known links. Nothing is sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ibkeys.discovery.keyring import KeyRing
from ibkeys.printable import counted, names_all
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Port

_MOST_TOLD: Final = 20
"""The most moved links that are listed; further ones are only counted, because so many mean outdated known links."""
_MOST_PLACES: Final = 256
"""The most missing ports among which swaps are searched: more of them mean that the known links are outdated."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place behind ``near`` where the port ``expected`` was not found; it was found nowhere else either. ``sm_guid``:
    the GUID that the SM has at this place, None if it has none."""

    near: Port
    expected: LinkEnd
    sm_guid: int | None


def describe_moves(topology: Topology, ring: KeyRing) -> list[str]:
    """Return a line for each link whose far end is another port than by the known links of *ring*. More than
    `_MOST_TOLD` of them are counted in one line, unless all names are wanted (`names_all`).
    """
    moved = list(_moved_links(topology, ring))
    lines = []
    shown = moved if names_all() else moved[:_MOST_TOLD]
    for port, expected in shown:
        peer = port.peer
        assert peer is not None
        what = "switch" if peer.node.is_switch else "port"
        lines.append(
            f"{port} now leads to {peer} ({what} GUID 0x{peer.link_end[0]:016x}); before, GUID "
            f"0x{expected[0]:016x} port {expected[1]} was there"
        )
    if len(moved) > len(shown):
        lines.append(f"and {counted(len(moved) - len(shown), 'more link')} elsewhere than known (all of them: -v)")
    return lines


def _moved_links(topology: Topology, ring: KeyRing) -> Iterator[tuple[Port, LinkEnd]]:
    """Yield each port whose link leads elsewhere than the known link, and the far end of the known link.

    A link between a switch and an end port is yielded for the switch only.
    """
    for port in topology.ports():
        expected = ring.neighbors.get(port.link_end)
        if expected is None or port.peer is None or port.peer.link_end == expected:
            continue
        if not port.node.is_switch and port.peer.node.is_switch:
            back = ring.neighbors.get(port.peer.link_end)
            if back is not None and back != port.link_end:
                continue
        yield port, expected


def describe_swaps(topology: Topology, ring: KeyRing) -> list[str]:
    """Return a line for each pair of known ports that may have been swapped. Neither port was found anywhere.

    Two ports are a pair if the SA or a forwarding table has one of them at the other's place, and does not contradict
    the reverse. The last two missing ports without a partner are a pair even without such evidence, if the SM names no
    port at their places. Returns [] if more than `_MOST_PLACES` ports are missing.
    """
    places = _places(topology, ring)
    if len(places) > _MOST_PLACES:
        return []
    lines: list[str] = []
    paired: set[Port] = set()
    for one, other in itertools.combinations(places, 2):
        if one.near not in paired and other.near not in paired and _are_swapped(one, other):
            paired |= {one.near, other.near}
            lines.append(_line(one, other, "were swapped according to the SM"))
    unpaired = [place for place in places if place.near not in paired]
    if len(unpaired) == 2 and not any(place.sm_guid for place in unpaired):
        lines.append(_line(unpaired[0], unpaired[1], "may have been swapped"))
    return lines


def _places(topology: Topology, ring: KeyRing) -> list[_Place]:
    found_guids = {port.link_end[0] for port in topology.end_ports() if port not in topology.doubtful}
    named = {place.near: place.named for place in topology.unasked}
    places: dict[Port, _Place] = {}
    for trouble in topology.troubles:
        near = trouble.port
        expected = ring.expected_behind(near.link_end)
        if trouble.is_behind and near.peer is None and expected is not None and expected[0] not in found_guids:
            end = named.get(near)
            places[near] = _Place(near, expected, end[0] if end else None)
    return list(places.values())


def _are_swapped(one: _Place, other: _Place) -> bool:
    """Return whether the SM has the known port of one place at the other place, and does not contradict the reverse."""
    pairs = ((one.sm_guid, other.expected[0]), (other.sm_guid, one.expected[0]))
    has_evidence = any(sm_guid is not None for sm_guid, _ in pairs)
    return has_evidence and all(sm_guid in (None, expected) for sm_guid, expected in pairs)


def _line(one: _Place, other: _Place, what: str) -> str:
    return (
        f"GUID 0x{one.expected[0]:016x}, known behind {one.near}, and GUID 0x{other.expected[0]:016x}, known behind "
        f"{other.near}, {what}: put the two cables back, or let `ibkeys keystore list --settle` record where they "
        "are now"
    )
