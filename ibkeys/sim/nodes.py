"""The state of a simulated subnet: its nodes and ports, with the values that tests read and set without SMPs.

It takes little memory. PortInfo of a port is stored as the 64 bytes that an SMA answers, so a Get copies them. Tables
that most ports never have (P_Keys other than the default, further GUIDs) are created by the first write.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import GUIDS_PER_BLOCK, P_KEYS_PER_BLOCK, NodeType, PortState
from ibkeys.mad.performance import PortCounters
from ibkeys.sim.counters import SimCounters
from ibkeys.sim.history import SimHistory

CA_P_KEYS: Final = 64
SWITCH_PORT0_P_KEYS: Final = 8
MAX_P_KEYS: Final = 0xFFFF
BLOCK_SIZE: Final = 64
DEFAULT_BLOCK: Final = b"\xff\xff" + bytes(62)
"""P_Key block 0 after power-up: the default partition, full, and nothing else (IBA 10.9.2)."""
EMPTY_BLOCK: Final = bytes(BLOCK_SIZE)
NO_ROUTE: Final = 0xFF

# The places in PortInfo of fields that are read so often that decoding all of PortInfo would take too long.
KEY: Final = PortInfo.m_key.span
GUID_CAP_BYTE: Final = PortInfo.guid_cap.byte
LID: Final = PortInfo.lid.span
_STATE_BYTE: Final = PortInfo.port_state.byte
_STATE_BITS: Final = PortInfo.port_state.max
_INITIALIZE: Final = int(PortState.INITIALIZE)
_LMC_BYTE: Final = PortInfo.lmc.byte
_LMC_BITS: Final = PortInfo.lmc.max

_NODE_INFO: Final = struct.Struct(">BBBBQQQHHII24x")


class _PortInfoField:
    """A descriptor: an attribute of `SimPort` that reads and writes one field of its PortInfo."""

    __slots__ = ("row",)

    def __init__(self, name: str) -> None:
        self.row = PortInfo.rows[name]

    def __get__(self, port: SimPort, owner: type) -> int:
        return int(self.row.decode(port.info))

    def __set__(self, port: SimPort, value: int) -> None:
        self.row.patch(port.info, value)
        port.touch()


@dataclass(slots=True)
class ClassAgent:
    """The key of one management class at one end port.

    ``info``: the 16 bytes of its KeyInfo. ``capability_mask``: the CapabilityMask of its ClassPortInfo. ``deadline``:
    the time at which its lease runs out, None while the timer is stopped.
    """

    info: bytearray
    capability_mask: int = 0
    deadline: float | None = None


@dataclass(slots=True, eq=False)
class SimPort:
    """One port. Its attributes are its whole state, of which SMPs can read only a part.

    ``info``: PortInfo, M_Key included. ``peer``: the port at the other end of the cable, None without a cable;
    ``first_peer``: the same at the start. ``guids``: index → GUID of the GUIDs after the port GUID. ``virtualization``:
    VirtualizationInfo, None for a port without virtual ports. ``counters``: the counters of the PMA, None while all are
    0. ``class_agents``: MgmtClass → the key of that class (`ibkeys.sim.agents.class_keys`). ``lease_deadline``: the
    time at which the M_Key lease runs out, None while the timer is stopped. ``last_trap``: the time of the last
    security trap.
    """

    node: SimNode
    number: int
    guid: int
    info: bytearray
    peer: SimPort | None = None
    first_peer: SimPort | None = None
    guids: dict[int, int] | None = None
    virtualization: bytes | None = None
    counters: SimCounters | None = None
    class_agents: dict[int, ClassAgent] | None = None
    lease_deadline: float | None = None
    last_trap: float | None = None
    _p_keys: bytearray | None = field(default=None, init=False)

    lid = _PortInfoField("lid")
    lmc = _PortInfoField("lmc")
    sm_lid = _PortInfoField("master_sm_lid")
    gid_prefix = _PortInfoField("gid_prefix")
    capability_mask = _PortInfoField("capability_mask")
    state = _PortInfoField("port_state")
    physical_state = _PortInfoField("port_physical_state")
    protect_bits = _PortInfoField("m_key_protect_bits")
    lease_period = _PortInfoField("m_key_lease_period")
    m_key_violations = _PortInfoField("m_key_violations")
    p_key_violations = _PortInfoField("p_key_violations")
    q_key_violations = _PortInfoField("q_key_violations")
    subnet_timeout = _PortInfoField("subnet_timeout")
    inbound_enforcement = _PortInfoField("partition_enforcement_inbound")
    outbound_enforcement = _PortInfoField("partition_enforcement_outbound")

    @property
    def is_end_port(self) -> bool:
        """Whether this is a port of a CA or router, or port 0 of a switch: a port with a LID and an M_Key of its
        own."""
        return self.number == 0 or self.node.node_type != NodeType.SWITCH

    @property
    def m_key(self) -> int:
        """The M_Key that protects this port, which for an external port of a switch is the M_Key of port 0. It can be
        set to a number or an `MKey`."""
        return int.from_bytes(self.guard.info[KEY])

    @m_key.setter
    def m_key(self, key: int | MKey) -> None:
        value = key.reveal() if isinstance(key, MKey) else key
        self.guard.info[KEY] = value.to_bytes(8)
        self.guard.touch()

    @property
    def guard(self) -> SimPort:
        """The port whose M_Key protects this port: port 0 of a switch for all its ports, else the port itself (IBA
        14.2.4)."""
        return self.node.ports[0] if self.node.is_switch else self

    @property
    def gid(self) -> int:
        """The GID: GIDPrefix and port GUID as one number of 128 bits."""
        return self.gid_prefix << 64 | self.guid

    @property
    def p_key_capacity(self) -> int:
        """The number of entries of the P_Key table: PartitionCap, or PartitionEnforcementCap for an external port of a
        switch."""
        node = self.node
        return node.enforcement_capacity if node.is_switch and self.number else node.partition_capacity

    @property
    def p_keys(self) -> list[int]:
        """The whole P_Key table, empty entries included. Setting more P_Keys than it has entries raises UsageError."""
        raw = b"".join(self.p_key_block(block) for block in range(-(-self.p_key_capacity // P_KEYS_PER_BLOCK)))
        return list(struct.unpack(f">{len(raw) // 2}H", raw))[: self.p_key_capacity]

    @p_keys.setter
    def p_keys(self, keys: Sequence[int]) -> None:
        if len(keys) > self.p_key_capacity:
            raise UsageError(f"{self}: {len(keys)} P_Keys given, its table has {self.p_key_capacity} entries")
        table = self._table()
        table[:] = struct.pack(f">{len(keys)}H", *keys).ljust(len(table), b"\0")
        self.touch()

    def p_key_at(self, index: int) -> int:
        """Return one entry of the P_Key table, 0 past its end."""
        if index >= self.p_key_capacity:
            return 0
        block, place = divmod(index, P_KEYS_PER_BLOCK)
        return int.from_bytes(self.p_key_block(block)[2 * place : 2 * place + 2])

    def p_key_block(self, block: int) -> bytes:
        """Return one block of 32 P_Keys as 64 bytes. *block* must be within the capacity."""
        if self._p_keys is None:
            if block == 0 and self.p_key_capacity:
                return DEFAULT_BLOCK
            return EMPTY_BLOCK
        return bytes(self._p_keys[BLOCK_SIZE * block : BLOCK_SIZE * block + BLOCK_SIZE])

    def set_p_key_block(self, block: int, data: bytes) -> None:
        """Write the 64 bytes *data* to one block; entries past the capacity stay 0 (IBA 14.2.5.7)."""
        valid = 2 * (self.p_key_capacity - P_KEYS_PER_BLOCK * block)
        table = self._table()
        table[BLOCK_SIZE * block : BLOCK_SIZE * block + BLOCK_SIZE] = data[:valid].ljust(BLOCK_SIZE, b"\0")
        self.touch(reroutes=False)

    def _table(self) -> bytearray:
        if self._p_keys is None:
            size = BLOCK_SIZE * -(-self.p_key_capacity // P_KEYS_PER_BLOCK)
            self._p_keys = bytearray(DEFAULT_BLOCK.ljust(size, b"\0")[:size])
        return self._p_keys

    def resize_p_keys(self) -> None:
        """Fit the P_Key table to the current capacity; entries beyond it are lost."""
        if self._p_keys is not None:
            size = BLOCK_SIZE * -(-self.p_key_capacity // P_KEYS_PER_BLOCK)
            self._p_keys = bytearray(bytes(self._p_keys[: 2 * self.p_key_capacity]).ljust(size, b"\0"))
            self.touch()

    @property
    def p_key_bytes(self) -> bytes | None:
        """The P_Key table as stored; None while it is the table after power-up."""
        return None if self._p_keys is None else bytes(self._p_keys)

    @p_key_bytes.setter
    def p_key_bytes(self, raw: bytes | None) -> None:
        self._p_keys = None if raw is None else bytearray(raw)
        self.resize_p_keys()

    def guid_block(self, block: int) -> bytes:
        """Return one block of 8 GUIDs as 64 bytes; entry 0 of block 0 is the port GUID."""
        first = GUIDS_PER_BLOCK * block
        guids = self.guids or {}
        values = [guids.get(index, 0) for index in range(first, first + GUIDS_PER_BLOCK)]
        if block == 0:
            values[0] = self.guid
        return struct.pack(">8Q", *values)

    def covers(self, lid: int) -> bool:
        """Return whether *lid* is one of the LIDs of this end port."""
        base = int.from_bytes(self.info[LID])
        return base != 0 and base <= lid < base + (1 << (self.info[_LMC_BYTE] & _LMC_BITS))

    def up_peer(self) -> SimPort | None:
        """Return the port at the other end of the cable if SMPs pass the link, because both ends are at least
        Initialize; else None."""
        peer = self.peer
        if (
            peer is None
            or self.info[_STATE_BYTE] & _STATE_BITS < _INITIALIZE
            or peer.info[_STATE_BYTE] & _STATE_BITS < _INITIALIZE
        ):
            return None
        return peer

    @property
    def is_up(self) -> bool:
        """Whether SMPs pass this port's cable."""
        return self.up_peer() is not None

    def set_states(self, state: int, physical_state: int) -> None:
        """Write PortState and PortPhysicalState, without the checks of a Set."""
        self.state, self.physical_state = state, physical_state

    def count(self, name: str, number: int = 1) -> None:
        """Add *number* to the counter *name*: the Python name of a field of `PortCounters` or of
        `PortCountersExtended`."""
        if self.counters is None:
            self.counters = SimCounters()
        self.counters.add(name, number)
        self.touch()

    def counter(self, name: str) -> int:
        """Return the value of the counter *name*, the Python name of a field of `PortCounters`."""
        return int(PortCounters.rows[name].decode(self.counters.basic)) if self.counters is not None else 0

    def touch(self, *, reroutes: bool = True) -> None:
        """Record that this port may have changed. Code that writes ``info`` or ``peer`` has to call this.

        Otherwise the change is not saved, and cached routes are outdated. *reroutes* as for `SimHistory.touch_port`.
        """
        node = self.node
        node.history.touch_port(node.index, self.number, reroutes=reroutes)

    def record(self, kind: str, **detail: Any) -> None:
        """Record an event at this port."""
        self.node.history.record(kind, self.node.description, self.number, detail)

    def __str__(self) -> str:
        return f"{self.node.description} port {self.number}"

    def __repr__(self) -> str:
        return f"<Port {self}>"


@dataclass(slots=True, eq=False)
class SimSubnetManager:
    """A subnet manager of a node, by its values in SMInfo. ``port``: the end port at which it runs."""

    port: SimPort
    state: int
    priority: int
    sm_key: int = 0
    act_count: int = 0


@dataclass(slots=True, eq=False)
class SimNode:
    """One node. ``ports[n]`` is port n; a CA or router has no ``ports[0]``, so that entry repeats port 1.

    ``silent``: 0: the node answers; 1: it answers nothing, but forwards; 2: it also forwards nothing. ``history``: the
    history of the subnet. ``first_routes``: computes the forwarding table with which a switch starts; ``routes``: its
    current table, None until it is needed. ``tables``: see `store_table`. ``sm``: the subnet manager on it.
    """

    history: SimHistory
    index: int
    node_id: str
    node_type: int
    num_ports: int
    guid: int
    system_image_guid: int
    description_bytes: bytes
    vendor_id: int
    device_id: int
    revision: int = 0xA1
    enforcement_capacity: int = 0
    ports: list[SimPort] = field(default_factory=list)
    first_routes: Callable[[SimNode], bytearray] = lambda _: bytearray()
    switch_info: bytearray | None = None
    routes: bytearray | None = None
    tables: dict[tuple[int, int], bytes] | None = None
    silent: int = 0
    sm: SimSubnetManager | None = None
    is_switch: bool = field(init=False)
    partition_capacity: int = field(init=False)

    def __post_init__(self) -> None:
        self.is_switch = self.node_type == NodeType.SWITCH
        self.partition_capacity = SWITCH_PORT0_P_KEYS if self.is_switch else CA_P_KEYS

    @property
    def description(self) -> str:
        """NodeDescription as text."""
        return self.description_bytes.partition(b"\0")[0].decode("utf-8", "replace")

    @property
    def end_ports(self) -> Iterable[SimPort]:
        """The ports with a LID and M_Key of their own: port 0 of a switch, every port of a CA or router."""
        return self.ports[:1] if self.is_switch else self.ports[1:]

    @property
    def all_ports(self) -> Iterable[SimPort]:
        """Each port once, the lowest number first; of a switch port 0 too."""
        return self.ports if self.is_switch else self.ports[1:]

    def arrival_port(self, ingress: int) -> SimPort:
        """Return the port that receives packets for this node that arrive by port *ingress*: port 0 of a switch, else
        the port *ingress*."""
        return self.ports[0 if self.is_switch else ingress]

    def store_table(self, place: tuple[int, int], data: bytes) -> None:
        """Store 64 bytes that the simulator does not interpret. *place*: the AttributeID, and the number of its
        table."""
        if self.tables is None:
            self.tables = {}
        self.tables[place] = data

    def node_info(self, ingress: int) -> bytes:
        """Return NodeInfo as the SMA answers it to an SMP that arrived by port *ingress*."""
        return _NODE_INFO.pack(
            1,
            1,
            self.node_type,
            self.num_ports,
            self.system_image_guid,
            self.guid,
            self.arrival_port(ingress).guid,
            self.partition_capacity,
            self.device_id,
            self.revision,
            ingress << 24 | self.vendor_id,  # LocalPortNum and VendorID are one number
        )

    def touch(self, *, reroutes: bool = True) -> None:
        """Record that this node may have changed. Code that writes to it has to call this, as for `SimPort.touch`."""
        self.history.touch_node(self.index, reroutes=reroutes)

    def __repr__(self) -> str:
        return f"<Node {self.node_id} {self.description!r}>"
