"""Which links are still those that were known: by routing, and by what a sweep found.

A forwarding table names one link for each LID. Of parallel links to one switch that proves one; the others are proven
by the LIDs of the ports attached to that switch: whatever the SM sends to them over a link, it takes that link to lead
there. An SM routes anew before a replugged link is Active again. A link over which nothing is sent is proven by the way
round: through it and back by another link that is proven, to the switch that it begins at, whose key is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, Literal

from ibkeys.fabric.keyring import KeyRing, PortId
from ibkeys.fabric.model import Fabric, Node, Port

MOST_TOLD: Final = 20
"""More moved links than this are only counted: then the known topology is that of another day."""


class AttachedLids:
    """LIDs for which a switch is the only way: its own, and those of the CA and router ports attached to it."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._known: dict[int, set[int]] | None = None

    def of_found(self, node: Node) -> set[int]:
        """Return them as the sweep found them; of a CA or router its ports' own."""
        ports = [port for port in node.ports.values() if port.is_end_port]
        if node.is_switch:
            ports += [port.peer for port in node.ports.values() if port.peer and not port.peer.node.is_switch]
        return {port.lid for port in ports if port.lid}

    def of_known(self, guid: int) -> set[int]:
        """Return them as the known links and LIDs have them, for a switch that the sweep has not found."""
        if self._known is None:
            self._known = {}
            ends: dict[int, list[PortId]] = {}
            for near, far in self._ring.neighbors.items():
                ends.setdefault(near[0], []).append(far)
            for near_guid, fars in ends.items():
                lid = self._ring.lids.get(near_guid)
                if lid and len(fars) == 1:  # a port of a CA or router, or a switch with a single link
                    self._known.setdefault(fars[0][0], set()).add(lid)
        own = self._ring.lids.get(guid)
        return self._known.get(guid, set()) | ({own} if own else set())


def link_end(port: Port) -> PortId:
    """Return a port as a link's end is written in the ``neighbors`` file: switch GUID or port GUID, and number."""
    return (port.node.guid if port.node.is_switch else port.guid, port.num)


def blocks_of(lids: Collection[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield each LinearForwardingTable block that has some of *lids*, with them."""
    by_block: dict[int, list[int]] = {}
    for lid in sorted(lids):
        by_block.setdefault(lid // 64, []).append(lid)
    yield from by_block.items()


def way_round(near: Port, far: Node, candidates: Collection[Node]) -> tuple[int, ...] | None:
    """Return the ports to leave by, from *far* on, so that an SMP that left by *near* comes back to where it left.

    Whichever of the *candidates* (switches that *near* might lead to instead) it comes to, it must come back or get
    lost: the key of the switch that it began at must not arrive anywhere else. None when there is no such way.
    """
    home = near.node
    exits = [num for num, port in sorted(far.ports.items()) if num and port.peer is not None and port.peer.node is home]
    ways: list[tuple[int, ...]] = [(num,) for num in exits]
    for num, port in sorted(home.ports.items()):  # a host in the middle of a way lets nothing pass
        if num and port.peer is not None and port.peer.node.is_switch:
            ways += [(exit_port, num, port.peer.num) for exit_port in exits]
    harmless = (home, None)
    return next((way for way in ways if all(_end_of(node, way) in harmless for node in candidates)), None)


def _end_of(node: Node, way: Iterable[int]) -> Node | Literal["unknown"] | None:
    """Return where *way* leads from *node*, over links that were found; None where an SMP is lost."""
    for num in way:
        if not node.is_switch or num > node.num_ports:
            return None
        port = node.ports.get(num)
        if port is None or port.info is None:
            return "unknown"
        if port.peer is None:
            return "unknown" if port.is_linked else None
        node = port.peer.node
    return node


def moved_links(found: Fabric, ring: KeyRing) -> list[tuple[Port, PortId]]:
    """Return the ports whose link leads elsewhere than the known links say, and the end that was known there.

    A link is named once, by the switch at its end where there is one.
    """
    moved = []
    for port in found.ports():
        known = ring.neighbors.get(link_end(port))
        if known is None or port.peer is None or link_end(port.peer) == known:
            continue
        if not port.node.is_switch and port.peer.node.is_switch:
            back = ring.neighbors.get(link_end(port.peer))
            if back is not None and back != link_end(port):
                continue
        moved.append((port, known))
    return moved


def describe_moves(found: Fabric, ring: KeyRing) -> list[str]:
    """Return a line for each link that leads elsewhere than the known links say."""
    moved = moved_links(found, ring)
    lines = []
    for port, known in moved[:MOST_TOLD]:
        peer = port.peer
        assert peer is not None
        what = "switch" if peer.node.is_switch else "port"
        lines.append(
            f"{port} now leads to {peer} ({what} GUID 0x{link_end(peer)[0]:016x}); known there was GUID "
            f"0x{known[0]:016x} port {known[1]}"
        )
    if len(moved) > MOST_TOLD:
        lines.append(f"and {len(moved) - MOST_TOLD} more links lead elsewhere than known")
    return lines
