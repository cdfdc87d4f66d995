"""The route of a packet by the linear forwarding tables of the switches, as far as they were read (IBA 14.2.5.10,
18.2.4.3).

Each switch sends a packet to the port that its table has for the destination LID; LinearFDBTop is the highest LID with
an entry. So each LID of a port has a route of its own from each switch, and the way back may be a different one.
Switches that route adaptively may deviate from their tables. No public attribute tells whether they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.mad.const import PortState
from ibkeys.topology.nodes import Node, Port

LIDS_PER_BLOCK: Final = 64
NO_PORT: Final = 255
"""The entry of a forwarding table for a LID that the switch does not forward to."""
_LIDS: Final = 1 << 16

RouteEnd = Literal[
    "arrives",
    "no entry",
    "above LinearFDBTop",
    "no such port",
    "link not active",
    "loop",
    "LID of another port",
    "table not read",
    "RandomForwardingTable",
    "own LID not at port 0",
    "link not read",
]
"""How a route ends. All but ``arrives`` and those of `UNKNOWN_ENDS` lose the packet."""
UNKNOWN_ENDS: Final[frozenset[RouteEnd]] = frozenset(
    ("table not read", "RandomForwardingTable", "own LID not at port 0", "link not read")
)
"""The ends behind which it is not known where the packet goes."""


class Hop(NamedTuple):
    """A node that a packet comes to. ``in_port``: None at the sender. ``out_port``: None where the packet ends."""

    node: Node
    in_port: Port | None
    out_port: Port | None


@dataclass(frozen=True, slots=True)
class ForwardingRoute:
    """The route of packets from the end port ``source`` to a LID. ``hops``: the sender first. ``end``: how the route
    ends at the last hop."""

    source: Port
    lid: int
    hops: tuple[Hop, ...]
    end: RouteEnd

    @property
    def arrives(self) -> bool | None:
        """Whether the packets get to the LID if no switch drops them; None if it is not known."""
        return None if self.end in UNKNOWN_ENDS else self.end == "arrives"

    @property
    def missing_block(self) -> tuple[Node, int] | None:
        """The switch and the block of its table that has to be read to follow the route further; None if none has."""
        return (self.hops[-1].node, self.lid // LIDS_PER_BLOCK) if self.end == "table not read" else None


def lids_of(port: Port) -> range:
    """Return the LIDs that an end port answers to: 2^LMC from its base LID; empty if it has none, or none was read."""
    info = port.info
    base = port.lid
    if not base:
        return range(0)
    return range(base, base + (1 << PortInfo.lmc.decode(info) if info is not None else 1))


def follow(source: Port, lid: int, destination: Port | None = None) -> ForwardingRoute:
    """Return the route of data packets from the end port *source* to *lid*.

    *destination*: the end port where they must arrive, because several ports may have that LID; None: any of them.
    A packet passes a link whose sending end is Active and whose receiving end is Armed or Active (IBA 7.2.7). A
    packet that comes to a switch for the second time circulates for ever.
    """
    hops: list[Hop] = []
    node, entered = source.node, None
    passed: set[Node] = set()
    while True:
        exit_or_end = exit_to(node, lid) if node.is_switch else source if entered is None else None
        if entered is None and lid in lids_of(source):
            exit_or_end = None
        if exit_or_end is None:
            hops.append(Hop(node, entered, None))
            here = node.ports.get(0) if node.is_switch else entered or source
            is_own = here is not None and lid in lids_of(here) and destination in (None, here)
            return ForwardingRoute(source, lid, tuple(hops), "arrives" if is_own else "LID of another port")
        if isinstance(exit_or_end, str):
            hops.append(Hop(node, entered, None))
            return ForwardingRoute(source, lid, tuple(hops), exit_or_end)
        hops.append(Hop(node, entered, exit_or_end))
        passed.add(node)
        problem = link_problem(exit_or_end)
        if problem is not None:
            return ForwardingRoute(source, lid, tuple(hops), problem)
        assert exit_or_end.peer is not None
        entered = exit_or_end.peer
        node = entered.node
        if node.is_switch and node in passed:
            hops.append(Hop(node, entered, None))
            return ForwardingRoute(source, lid, tuple(hops), "loop")


def exit_to(switch: Node, lid: int) -> Port | RouteEnd | None:
    """Return the port by which *switch* sends packets to *lid*; None: it takes them itself; else why there is none."""
    info = switch.switch_info_raw
    if info is None or switch.forwarding is None:
        return "table not read"
    if not SwitchInfo.linear_fdb_cap.decode(info):
        return "RandomForwardingTable"
    is_above = lid > SwitchInfo.linear_fdb_top.decode(info)
    block = None if is_above else switch.forwarding.get(lid // LIDS_PER_BLOCK)
    if block is None and not is_above:
        return "table not read"
    entry = NO_PORT if block is None else block[lid % LIDS_PER_BLOCK]
    own = switch.ports.get(0)
    if entry and own is not None and lid in lids_of(own):
        return "own LID not at port 0"
    if is_above:
        return "above LinearFDBTop"
    if entry == NO_PORT:
        return "no entry"
    if not entry:
        return None
    return switch.ports.get(entry) or "no such port"


def exits_to(switch: Node, lids: Sequence[int]) -> bytes:
    """Return for each of *lids* the number of the port by which *switch* sends packets to it: 0 if it takes them
    itself, `NO_PORT` if it sends them nowhere or its table was not read.

    It is `exit_to` for many LIDs. A port of that number need not exist.
    """
    info = switch.switch_info_raw
    if info is None or not switch.forwarding or not SwitchInfo.linear_fdb_cap.decode(info):
        return bytes([NO_PORT]) * len(lids)
    end = SwitchInfo.linear_fdb_top.decode(info) + 1
    nothing = bytes([NO_PORT]) * LIDS_PER_BLOCK
    blocks = (switch.forwarding.get(block, nothing) for block in range(-(-end // LIDS_PER_BLOCK)))
    table = bytearray(b"".join(blocks)[:end].ljust(_LIDS, nothing[:1]))
    own = switch.ports.get(0)
    for lid in lids_of(own) if own is not None else ():
        if table[lid]:
            table[lid] = NO_PORT  # own LID not at port 0
    return bytes(map(table.__getitem__, lids))


def link_problem(port: Port) -> RouteEnd | None:
    """Return why data packets do not pass the link behind *port*, or why it is not known; None if they pass."""
    peer = port.peer
    if port.info is None:
        return "link not read"
    if not port.is_active:
        return "link not active"
    if peer is None or peer.info is None:
        return "link not read"
    if PortInfo.port_state.decode(peer.info) not in (PortState.ARMED, PortState.ACTIVE):
        return "link not active"
    return None
