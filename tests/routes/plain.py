"""A fabric and a packet as plain data, for the walker of `tests.routes.walker`. Nothing of ibkeys is imported here.

A value that was not read is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

DOWN: Final = 1
INITIALIZE: Final = 2
ARMED: Final = 3
ACTIVE: Final = 4

QP0: Final = 0
QP1: Final = 1

Place = tuple[str, int]
"""A node and the number of one of its ports; port 0 is the switch itself."""
NodeKind = Literal["ca", "switch", "router"]
Reading = Literal["partition", "membership"]
"""The two readings of the inbound check of a switch port.

``membership``: the rule by which two P_Keys match, so a limited entry does not let a limited P_Key in. ``partition``:
an entry of the same partition lets the packet in, whatever the memberships are. Both look at the table of the port by
which the packet comes in.
"""


@dataclass(frozen=True)
class Port:
    """One port. ``lid``, ``lmc``: of an end port (of a switch only port 0). ``table``: its P_Keys by index.
    ``inbound``, ``outbound``: PartitionEnforcementInbound and PartitionEnforcementOutbound."""

    table: tuple[int, ...] | None = ()
    lid: int = 0
    lmc: int = 0
    state: int = ACTIVE
    inbound: bool | None = False
    outbound: bool | None = False


@dataclass(frozen=True)
class Node:
    """One node. ``partition_cap``: the entries of a table of an end port.

    The rest is for switches. ``enforcement_cap``, ``inbound_cap``, ``outbound_cap``: PartitionEnforcementCap,
    InboundEnforcementCap, OutboundEnforcementCap. ``routes``: the linear forwarding table, LID → port. ``top``:
    LinearFDBTop. ``is_linear``: LinearFDBCap is not 0. ``is_adaptive``: whether it chooses among ports by itself.
    ``corrupts``: whether it passes on a packet that fails the check, corrupted, instead of dropping it.
    """

    kind: NodeKind
    ports: Mapping[int, Port]
    partition_cap: int = 8
    enforcement_cap: int = 8
    inbound_cap: bool = True
    outbound_cap: bool = True
    routes: Mapping[int, int] | None = field(default_factory=dict)
    top: int = 0
    is_linear: bool = True
    is_adaptive: bool | None = False
    corrupts: bool = False


@dataclass(frozen=True)
class Fabric:
    """Nodes by name, and the cables, each in both directions."""

    nodes: Mapping[str, Node]
    cables: Mapping[Place, Place]

    def port(self, place: Place) -> Port:
        """Return one port."""
        return self.nodes[place[0]].ports[place[1]]


@dataclass(frozen=True)
class Packet:
    """A unicast packet. ``source``: the end port that sends it. ``source_lid``: one of the LIDs of that port; None: its
    base LID. ``qp``: the QP that receives it. ``index``: of a QP above 1, the index of its P_Key. ``leaves_subnet``:
    its GRH names an end port of another subnet, so a router passes it on."""

    source: Place
    destination_lid: int
    p_key: int
    source_lid: int | None = None
    qp: int = QP1
    index: int | None = None
    leaves_subnet: bool = False
