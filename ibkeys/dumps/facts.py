"""The contents of one file about a fabric, before a model is made. A value that a file does not have is None or
missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from ibkeys.errors import FileFormatError
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.fields import NumberRow

PORT_INFO_NEEDED: Final[tuple[NumberRow, ...]] = (
    PortInfo.master_sm_lid,
    PortInfo.capability_mask,
    PortInfo.port_state,
    PortInfo.port_physical_state,
    PortInfo.p_key_violations,
    PortInfo.q_key_violations,
)
"""Fields without which a PortInfo counts as not read: a command would take the zeros in their place for values."""
END_PORT_NEEDED: Final[tuple[NumberRow, ...]] = (
    PortInfo.lid,
    PortInfo.lmc,
    PortInfo.m_key_protect_bits,
    PortInfo.m_key_lease_period,
    PortInfo.m_key_violations,
)
"""Further ones, of a port that owns an M_Key and a LID."""
SWITCH_PORT_NEEDED: Final[tuple[NumberRow, ...]] = (
    PortInfo.partition_enforcement_inbound,
    PortInfo.partition_enforcement_outbound,
    PortInfo.filter_raw_inbound,
    PortInfo.filter_raw_outbound,
)
"""Further ones, of an external port of a switch."""

MOST_RECORDS: Final = 1_000_000
"""The most nodes, ports, links or remarks of one file; the largest fabric has fewer, and more would take all memory."""

CableEnd = tuple[int, int]
"""One end of a link: node GUID and port number."""


@dataclass(slots=True)
class NodeFacts:
    """A node.

    ``type`` as NodeInfo has it. ``fields``: fields of NodeInfo by JSON name, as far as the file has them; ``info``: the
    whole NodeInfo of 64 bytes, where the file has it raw. ``switch_info``: 64 bytes. ``line``: its line in the file, 0
    in one without lines.
    """

    guid: int
    type: int
    num_ports: int
    line: int = 0
    description: bytes | None = None
    fields: dict[str, int] = field(default_factory=dict)
    info: bytes | None = None
    switch_info: bytes | None = None


@dataclass(slots=True)
class PortFacts:
    """A port.

    ``node``: the GUID of its node; None where the port is named by ``at_lid``, or by ``at_guid``, a port or node GUID.
    If a CA port is named so, ``num`` 0 means the port that has that LID or GUID. ``info``: PortInfo of 64 bytes; fields
    that the file does not have are 0 in it, and ``lacks`` has their JSON names. ``says_m_key``: whether the file has
    the M_Key. ``blocks``: blocks of the P_Key table by number, 64 bytes each. ``table``: the whole P_Key table.
    """

    node: int | None
    num: int
    line: int = 0
    at_lid: int | None = None
    at_guid: int | None = None
    guid: int | None = None
    lid: int | None = None
    info: bytes | None = None
    lacks: frozenset[str] = frozenset()
    says_m_key: bool = True
    blocks: dict[int, bytes] = field(default_factory=dict)
    table: bytes | None = None


@dataclass(slots=True)
class DumpFacts:
    """The contents of one file.

    ``links``: None where files of this kind list no links. ``switch_infos``: SwitchInfo of 64 bytes by LID.
    ``forwarding``: forwarding tables of switches by node GUID, an entry for each LID from 0. ``start``: port GUID or
    node GUID of the port where the tool ran, None when not known. ``notes``: the parts that were left out, in
    sentences.
    """

    nodes: list[NodeFacts] = field(default_factory=list)
    ports: list[PortFacts] = field(default_factory=list)
    links: list[tuple[CableEnd, CableEnd]] | None = None
    switch_infos: list[tuple[int, bytes]] = field(default_factory=list)
    forwarding: list[tuple[int, bytes]] = field(default_factory=list)
    start: int | None = None
    notes: list[str] = field(default_factory=list)

    def refuse_too_much(self, name: str) -> None:
        """Raise FileFormatError when the file *name* has more records than any fabric.

        Call it while the file is read: afterwards the memory is already used.
        """
        for records in (self.nodes, self.ports, self.links or (), self.switch_infos, self.forwarding, self.notes):
            if len(records) > MOST_RECORDS:
                raise FileFormatError(f"more than {MOST_RECORDS} nodes, ports or links, which no fabric has", name)

    @property
    def m_keys(self) -> int:
        """The number of ports for which the file has an M_Key other than 0."""
        return sum(port.info is not None and port.says_m_key and any(port.info[:8]) for port in self.ports)


class PortFields:
    """Collects fields of one PortInfo from a file."""

    __slots__ = ("_buffer", "present")

    def __init__(self) -> None:
        self._buffer = bytearray(PortInfo.size)
        self.present: set[str] = set()

    def put(self, row: NumberRow, value: int) -> bool:
        """Add a field; return False for a value that the field cannot have, which is then left out."""
        if not 0 <= value <= row.max:
            return False
        row.patch(self._buffer, value)
        self.present.add(row.attr)
        return True

    def into(self, port: PortFacts) -> PortFacts:
        """Put the collected fields into *port*, and return it."""
        port.info = bytes(self._buffer)
        port.lacks = _all_but(frozenset(self.present))
        port.says_m_key = PortInfo.m_key.attr in self.present
        if PortInfo.lid.attr in self.present:
            port.lid = PortInfo.lid.decode(port.info) or None
        return port


@lru_cache(maxsize=64)
def _all_but(present: frozenset[str]) -> frozenset[str]:
    """Return the names of the fields of PortInfo that are not in *present*.

    The rows of a file have the same fields and share one set: a set for each port takes 3 KB, ten times as much as the
    rest of a port.
    """
    return frozenset(PortInfo.rows) - present
