"""Nodes and their ports as they were read, each attribute kept as its raw bytes.

Views (`Port.port_info`, `Node.node_info`) are made on demand, so that 40,000 ports stay small. An attribute that could
not be read is None, never zero.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import (
    NODE_TYPE_NAMES,
    PORT_STATE_NAMES,
    CapabilityMask,
    CapabilityMask2,
    NodeType,
    PortPhysicalState,
    PortState,
)
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.printable import counted
from ibkeys.topology.port_id import PortId, identity

MKeyState = Literal["zero", "set", "hidden", "unreadable"]
Reading = Literal["with-key", "without-key", "refused", "silent", "not-asked", "imported", "sm-word", "not-in-file"]
"""How a value was read, or why it was not.

``with-key``, ``without-key``: read with the node's M_Key or without a key. ``not-asked``: not queried. ``refused``: the
answer had an error status. ``silent``: no answer, which is also how a port treats a wrong M_Key: a client cannot
distinguish the two. For files of other tools (`ibkeys.dumps`): ``imported``: the file has the port's answer;
``sm-word``: the file has the SM's data; ``not-in-file``: no file has it.
"""

VirtualPorts = Literal["none", "off", "on", "unknown"]
"""Whether virtual ports are behind a port: the port cannot have them, has them off or on, or this could not be read."""

LinkEnd = tuple[int, int]
"""One end of a link, as the ``neighbors`` file writes it: node GUID of a switch or port GUID, and port number."""


class _PKeys(dict[int, PKey]):
    """A cache of P_Key objects: a fabric has few different P_Keys in very many entries."""

    def __missing__(self, value: int) -> PKey:
        key = self[value] = PKey(value)
        return key


_p_keys: Final = _PKeys()
_NOTHING: Final[frozenset[str]] = frozenset()
_LINK_UP: Final = int(PortPhysicalState.LINK_UP)
# These fields are read many times from every node and port. A view of the whole attribute would cost more.
_NODE_TYPE: Final = NodeInfo.node_type.byte
_NUM_PORTS: Final = NodeInfo.num_ports.byte
_NODE_GUID: Final = NodeInfo.node_guid.span
_PARTITION_CAP: Final = NodeInfo.partition_cap.span
_ENFORCEMENT_CAP: Final = SwitchInfo.partition_enforcement_cap.span
_M_KEY: Final = PortInfo.m_key.span
_LID: Final = PortInfo.lid.span
_STATE: Final = PortInfo.port_state.byte
_STATE_BITS: Final = PortInfo.port_state.bits
_PHYSICAL_STATE: Final = PortInfo.port_physical_state.byte
_PHYSICAL_STATE_SHIFT: Final = PortInfo.port_physical_state.shift
# CapabilityMask2 means something where this bit of CapabilityMask is set (IBA 14.2.5.6).
_HAS_MASK2_BYTE: Final = PortInfo.capability_mask.byte + 2
_HAS_MASK2_BIT: Final = CapabilityMask.IS_CAPABILITY_MASK2_SUPPORTED >> 8


def occupied_entries(raw: bytes) -> list[tuple[int, PKey]]:
    """Return the valid entries of a P_Key table with their indexes."""
    # Most tables have few entries, at their beginning: the empty rest is not examined entry by entry.
    used = (len(raw.rstrip(b"\0")) + 1) // 2
    values = enumerate(struct.unpack_from(f">{used}H", raw))
    return [(index, _p_keys[value]) for index, value in values if value & PARTITION_MASK]


@dataclass(slots=True, eq=False)
class Node:
    """One node.

    ``path``: the directed route by which the node was first reached, as the ports to leave by; () is the local node.

    Two nodes with the same GUID are two objects; ``twin`` numbers them from 0. ``says_capacity``: false if NodeInfo was
    put together from files that lack PartitionCap. ``forwarding``: the blocks of a switch's LinearForwardingTable that
    were read, by number; None if none was wanted.
    """

    info: bytes
    path: tuple[int, ...]
    twin: int = 0
    says_capacity: bool = True
    description: str | None = None
    description_raw: bytes | None = None
    switch_info_raw: bytes | None = None
    forwarding: dict[int, bytes] | None = None
    ports: dict[int, Port] = field(default_factory=dict)
    is_switch: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_switch = self.info[_NODE_TYPE] == NodeType.SWITCH

    @property
    def node_info(self) -> NodeInfo:
        """NodeInfo as it was read through the first port reached."""
        return NodeInfo(self.info)

    @property
    def guid(self) -> int:
        """NodeGUID."""
        return int.from_bytes(self.info[_NODE_GUID])

    @property
    def type(self) -> int:
        """NodeType: 1 CA, 2 switch, 3 router."""
        return self.info[_NODE_TYPE]

    @property
    def type_name(self) -> str:
        """``ca``, ``switch`` or ``router``; ``type N`` for any other number N."""
        kind = self.info[_NODE_TYPE]
        return NODE_TYPE_NAMES.get(kind) or f"type {kind}"

    @property
    def num_ports(self) -> int:
        """NumPorts: the physical ports; port 0 of a switch is not counted."""
        return self.info[_NUM_PORTS]

    @property
    def switch_info(self) -> SwitchInfo | None:
        """SwitchInfo; None if the node is no switch, or if SwitchInfo could not be read."""
        return SwitchInfo(self.switch_info_raw) if self.switch_info_raw is not None else None

    def port(self, num: int) -> Port:
        """Return port *num*, which is created if it is not known yet."""
        port = self.ports.get(num)
        if port is None:
            port = self.ports[num] = Port(self, num)
        return port

    def first_end_port(self) -> Port:
        """Return the known end port with the lowest number; if none is known, port 0 of a switch, else port 1."""
        ends = (port for _, port in sorted(self.ports.items()) if port.is_end_port)
        return next(ends, None) or self.port(0 if self.is_switch else 1)

    def __repr__(self) -> str:
        return f"<Node 0x{self.guid:016x} {self.type_name} {self.description!r}>"


@dataclass(slots=True, eq=False)
class Port:
    """One port of a node. ``path`` is the directed route that ends at it (on a switch: at the node).

    ``info`` (PortInfo) and ``p_key_raw`` are raw bytes, None when not read. The next three are raw bytes too, and None
    unless a caller wanted them: ``guid_info`` has all blocks of GUIDInfo, one after the other; ``sm_info`` has SMInfo;
    ``virtualization_raw`` has VirtualizationInfo, empty for a port without it. ``guid`` is 0 when not known. ``m_key``
    is the key in the MADs to the port's node. ``link_downed``: LinkDownedCounter right before the far end of the link
    was queried; None if it was not wanted or could not be read. ``says_m_key``: false if PortInfo is from a file that
    lacks the M_Key. ``says_peer``: false if no file has the port's links. ``attributes_from_sm``: those
    that a file has from the SM. ``stated_lid``: the LID from a file that lacks PortInfo. ``is_external``: an external
    port of a switch.
    """

    node: Node
    num: int
    guid: int = 0
    path: tuple[int, ...] | None = None
    info: bytes | None = None
    p_key_raw: bytes | None = None
    guid_info: bytes | None = None
    sm_info: bytes | None = None
    virtualization_raw: bytes | None = None
    link_downed: int | None = None
    peer: Port | None = None
    m_key: MKey = NO_MKEY
    says_m_key: bool = True
    says_peer: bool = True
    attributes_from_sm: frozenset[str] = _NOTHING
    stated_lid: int | None = None
    is_external: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_external = self.num != 0 and self.node.is_switch

    def number_meant(self, portnum: int | None) -> int:
        """Return the number of the port that *portnum* means on this port's node, which was reached at this port. None
        means this port, and so does 0 if the node is no switch.

        Raises UsageError for a port that the node does not have.
        """
        node = self.node
        num = self.num if portnum is None or (portnum == 0 and not node.is_switch) else portnum
        if not 0 <= num <= node.num_ports:
            raise UsageError(f"{self}: there is no port {num}, the node has {counted(node.num_ports, 'port')}")
        return num

    @property
    def is_end_port(self) -> bool:
        """Whether this is a port that owns an M_Key and a LID: a CA or router port, or port 0 of a switch."""
        return not self.is_external

    @property
    def end_port(self) -> Port:
        """The port whose LID, GUID and M_Key hold for this one: port 0 for an external port of a switch."""
        return self.node.port(0) if self.is_external else self

    @property
    def agent_path(self) -> tuple[int, ...]:
        """The directed route to the agent of this port. All ports of a switch share the agent of the switch."""
        return self.path if self.path is not None else self.node.path

    @property
    def is_between_switches(self) -> bool:
        """Whether both ends of the link are external ports of switches."""
        return self.is_external and self.peer is not None and self.peer.is_external

    @property
    def port_info(self) -> PortInfo | None:
        """PortInfo, None when it could not be read."""
        return PortInfo(self.info) if self.info is not None else None

    @property
    def port_guid(self) -> int:
        """The port GUID; an external port has that of port 0. 0 if it is not known."""
        return self.end_port.guid

    @property
    def lid(self) -> int | None:
        """The base LID; an external port has that of port 0. None if it could not be read."""
        owner = self.end_port
        return int.from_bytes(owner.info[_LID]) if owner.info is not None else owner.stated_lid

    @property
    def is_sm(self) -> bool:
        """Whether CapabilityMask shows that a subnet manager runs behind this port (IsSM)."""
        return self.info is not None and bool(PortInfo.capability_mask.decode(self.info) & CapabilityMask.IS_SM)

    @property
    def is_linked(self) -> bool:
        """Whether the physical link is up."""
        return self.info is not None and self.info[_PHYSICAL_STATE] >> _PHYSICAL_STATE_SHIFT == _LINK_UP

    @property
    def is_active(self) -> bool:
        """Whether PortState, as it was read, is Active."""
        return self.info is not None and self.info[_STATE] & _STATE_BITS == PortState.ACTIVE

    @property
    def is_known_inactive(self) -> bool:
        """Whether PortState was read and lets no data packets pass; False for port 0 of a switch, which has no link."""
        return self.info is not None and not self.is_active and not (self.num == 0 and self.node.is_switch)

    @property
    def state_name(self) -> str:
        """The name of PortState as it was read; that of state 0 if it was not read."""
        state = self.info[_STATE] & _STATE_BITS if self.info is not None else 0
        return PORT_STATE_NAMES.get(state, f"in state {state}")

    @property
    def link_end(self) -> LinkEnd:
        """This port as one end of its link."""
        return (self.node.guid if self.node.is_switch else self.guid, self.num)

    @property
    def capacity(self) -> int | None:
        """Entries of the P_Key table; None when it could not be read.

        SwitchInfo.PartitionEnforcementCap for an external port of a switch, NodeInfo.PartitionCap for all others.
        """
        if not self.is_external:
            return int.from_bytes(self.node.info[_PARTITION_CAP]) if self.node.says_capacity else None
        raw = self.node.switch_info_raw
        return None if raw is None else int.from_bytes(raw[_ENFORCEMENT_CAP])

    def p_key_modifier(self, block: int) -> int:
        """Return the AttributeModifier of a block of P_KeyTable: on a switch the port is in bits 31..16 (14.2.5.7)."""
        return self.num << 16 | block if self.is_external else block

    @property
    def p_keys(self) -> tuple[PKey, ...] | None:
        """All entries of the P_Key table in order, empty ones included; None when it could not be read."""
        raw = self.p_key_raw
        if raw is None:
            return None
        return tuple(map(_p_keys.__getitem__, struct.unpack(f">{len(raw) // 2}H", raw)))

    @property
    def occupied(self) -> list[tuple[int, PKey]] | None:
        """The valid entries of the P_Key table with their indexes; None when it could not be read."""
        return None if self.p_key_raw is None else occupied_entries(self.p_key_raw)

    @property
    def m_key_state(self) -> MKeyState:
        """The state of the M_Key by PortInfo of the end port.

        A zero at level 1 proves nothing, because the port hides its key from a requester who does not send it. At level
        2 and 3 a port answers only a Get with its key, so a zero there is the key. Source: IBA 14.2.4.
        """
        owner = self.end_port
        info = owner.info
        if info is None or not owner.says_m_key:
            return "unreadable"
        if any(info[_M_KEY]):
            return "set"
        return "hidden" if PortInfo.m_key_protect_bits.decode(info) == 1 else "zero"

    @property
    def can_have_virtual_ports(self) -> bool:
        """Whether the port reports that it may have virtual ports (IsVirtualizationSupported); False when not known."""
        info = self.info
        if info is None or self.node.is_switch or not info[_HAS_MASK2_BYTE] & _HAS_MASK2_BIT:
            return False
        return bool(PortInfo.capability_mask2.decode(info) & CapabilityMask2.IS_VIRTUALIZATION_SUPPORTED)

    @property
    def virtual_ports(self) -> VirtualPorts:
        """Whether virtual ports are behind this one. Their P_Key tables cannot be read: no public query for them is
        known."""
        if not self.can_have_virtual_ports:
            return "none"
        if self.virtualization_raw is None:
            return "unknown"
        return "on" if self.virtualization_raw and self.virtualization_info.virtualization_enable else "off"

    @property
    def virtualization_info(self) -> VirtualizationInfo:
        """VirtualizationInfo; all zeros if the port has none."""
        return VirtualizationInfo(self.virtualization_raw or None)

    @property
    def hides_p_keys(self) -> bool:
        """Whether virtual ports behind this one may have P_Keys that cannot be read."""
        return self.virtual_ports in ("on", "unknown")

    @property
    def id(self) -> PortId:
        """The identity of this port."""
        node = self.node
        return PortId(node.guid, self.port_guid or None, node.description, node.type_name, self.num, self.lid)

    def identity(self) -> dict[str, Any]:
        """Return the fields that identify the port; every JSON document has them for each port."""
        # equal to `id`, but cheaper for each row of a long list
        node, own = self.node, self.end_port
        lid = own.stated_lid if own.info is None else int.from_bytes(own.info[_LID])
        return identity(node.guid, own.guid or None, node.description, node.type_name, self.num, lid)

    def __str__(self) -> str:
        name = f"{self.node.description!r} " if self.node.description else ""
        return f"{name}0x{self.node.guid:016x} port {self.num}"

    def __repr__(self) -> str:
        return f"<Port {self}>"
