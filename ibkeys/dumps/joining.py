"""The contents of several files about one fabric, joined.

A port's own answer has precedence over the SM's data about the port. If two files of the same kind have a value, the
file that is named first counts. If files give a node different types or numbers of ports, they describe two fabrics,
which is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ibkeys.dumps.addresses import Addresses
from ibkeys.dumps.facts import (
    END_PORT_NEEDED,
    PORT_INFO_NEEDED,
    SWITCH_PORT_NEEDED,
    CableEnd,
    DumpFacts,
    NodeFacts,
    PortFacts,
)
from ibkeys.errors import FileFormatError
from ibkeys.fabric.sa_view import SaAnswer, SaPort, SaView
from ibkeys.fabric.snapshot import ImportedFile
from ibkeys.mad.attributes import NodeDescription, NodeInfo, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK, CapabilityMask, NodeType
from ibkeys.mad.fields import NumberRow
from ibkeys.mad.records import PKeyTableRecord, PortInfoRecord
from ibkeys.printable import counted
from ibkeys.topology.forwarding import LIDS_PER_BLOCK, NO_PORT
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port

MOST_NODES: Final = 100_000
MOST_SWITCH_PORTS: Final = 800_000
"""Twice the most that a sweep reads: more is no file of one fabric, and would take all memory."""
P_KEY_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One file: its ``name``, its contents, and its entry in the snapshot."""

    name: str
    facts: DumpFacts
    about: ImportedFile


@dataclass(slots=True)
class DescribedFabric:
    """The fabric that files describe.

    ``origins``: the file that an attribute of a port is from, as its place in the list of files. ``sm_view``: the SM's
    data, even about ports that answered themselves. ``why``: why an attribute in a file is still unknown.
    ``lists_links``: whether some file lists links. ``notes``: the parts that could not be used.
    """

    fabric: Topology = field(default_factory=Topology)
    origins: dict[tuple[Port, str], int] = field(default_factory=dict)
    sm_view: SaView = field(default_factory=SaView)
    why: dict[tuple[Port, str], str] = field(default_factory=dict)
    lists_links: bool = False
    notes: list[str] = field(default_factory=list)


def join(files: Sequence[FileFacts]) -> DescribedFabric:
    """Return the fabric that *files* describe together; nothing in it has a route yet.

    Raises FileFormatError if no file names a node, if two files contradict each other about a node, or if there are
    more nodes or switch ports than any fabric has.
    """
    joiner = _Joiner(files)
    joiner.nodes()
    joiner.links()
    joiner.named_ports()
    joiner.ports_by_address()
    joiner.forwarding()
    return joiner.joined


class _Joiner:
    def __init__(self, files: Sequence[FileFacts]) -> None:
        self.files = sorted(enumerate(files), key=lambda each: each[1].about.is_sm)
        """The files with their places: those with answers of ports first, and else in the order in which they were
        named."""
        self.names = [each.name for each in files]
        self.is_sm = [each.about.is_sm for each in files]
        self.joined = DescribedFabric(lists_links=any(each.facts.links is not None for each in files))
        self.by_guid: dict[int, Node] = {}
        self.blocks: dict[Port, tuple[int, dict[int, bytes]]] = {}
        """Port → the place of the first file with blocks of its P_Key table, and the blocks of all files by number."""

    # --- nodes -------------------------------------------------------------------------------------------------------

    def nodes(self) -> None:
        merged: dict[int, NodeFacts] = {}
        for _, file in self.files:
            for node in file.facts.nodes:
                known = merged.setdefault(node.guid, node)
                if known is not node:
                    _merge(known, node, file.name)
        if not merged:
            raise FileFormatError(
                "no file names a node: add an ibdiagnet2.db_csv, a file of ibnetdiscover, or an opensm-subnet.lst of "
                "this fabric",
                self.files[0][1].name if self.files else "",
            )
        if len(merged) > MOST_NODES or sum(_switch_ports(node) for node in merged.values()) > MOST_SWITCH_PORTS:
            raise FileFormatError(
                f"more than {MOST_NODES} nodes or {MOST_SWITCH_PORTS} switch ports, which no fabric has",
                self.files[0][1].name,
            )
        for facts in merged.values():
            made = self.by_guid[facts.guid] = _node(facts)
            self.joined.fabric.nodes.append(made)

    # --- links -------------------------------------------------------------------------------------------------------

    def links(self) -> None:
        for _, file in self.files:
            odd = 0
            for a, b in file.facts.links or ():
                near, far = self._end(a), self._end(b)
                if near is None or far is None:
                    odd += 1
                elif near.peer is None and far.peer is None:
                    near.peer, far.peer = far, near
                elif near.peer is not far:
                    odd += 1
            why = "of nodes that no file describes, or at a port that has another link"
            self._note_left_out(file, odd, "link", why)

    def _end(self, end: CableEnd) -> Port | None:
        node = self.by_guid.get(end[0])
        return node.port(end[1]) if node is not None and 0 <= end[1] <= node.num_ports else None

    # --- ports -------------------------------------------------------------------------------------------------------

    def named_ports(self) -> None:
        """Add the ports that are named by the GUID of their node: after it, their LIDs and GUIDs are known."""
        for place, file in self.files:
            strange = 0
            for facts in file.facts.ports:
                if facts.node is None:
                    continue
                port = self._end((facts.node, facts.num))
                if port is None or (not port.num and not port.node.is_switch):
                    strange += 1
                else:
                    self._take(port, facts, place)
            why = "of nodes that no file describes, or past the ports of its node"
            self._note_left_out(file, strange, "port", why)

    def ports_by_address(self) -> None:
        """Add the data about ports that are named by LID or GUID."""
        addresses = Addresses(self.joined.fabric.nodes)
        for place, file in self.files:
            lost = 0
            for facts in file.facts.ports:
                if facts.node is None:
                    port = addresses.find(facts.at_lid, facts.at_guid, facts.num)
                    if port is None:
                        lost += 1
                    else:
                        self._take(port, facts, place)
            for lid, info in file.facts.switch_infos:
                port = addresses.find(lid, None, 0)
                if port is None or not port.node.is_switch:
                    lost += 1
                elif port.node.switch_info_raw is None:
                    port.node.switch_info_raw = info
            why = "no file says which node has their LID or GUID, or two nodes have it"
            self._note_left_out(file, lost, "record", why)
        self._join_blocks()

    def forwarding(self) -> None:
        """Add the forwarding tables. The SwitchInfo of the switches has to be known.

        A table with the entry for LinearFDBTop is whole; of a shorter one the last block may have entries that were not
        asked for, so it is left out.
        """
        for place, file in self.files:
            lost = used = 0
            for guid, table in file.facts.forwarding:
                node = self.by_guid.get(guid)
                if node is None or node.switch_info_raw is None:
                    lost += 1
                    continue
                if node.forwarding is not None:
                    continue
                info, top = SwitchInfo(node.switch_info_raw), len(table) - 1
                if top > info.linear_fdb_top:
                    node.switch_info_raw = info.replace(linear_fdb_top=top).raw
                if top >= info.linear_fdb_top:
                    table = table.ljust(-(-len(table) // LIDS_PER_BLOCK) * LIDS_PER_BLOCK, bytes([NO_PORT]))
                whole = range(len(table) // LIDS_PER_BLOCK)
                node.forwarding = {at: table[at * LIDS_PER_BLOCK : (at + 1) * LIDS_PER_BLOCK] for at in whole}
                used += 1
            self._note_left_out(file, lost, "forwarding table", "no file has the SwitchInfo of these switches")
            if used and self.is_sm[place]:
                text = "as OpenSM computed them, which may differ from those in the switches"
                self.joined.notes.append(f"{file.name}: {counted(used, 'forwarding table')} {text}")

    def _note_left_out(self, file: FileFacts, number: int, what: str, why: str) -> None:
        if number:
            self.joined.notes.append(f"{file.name}: {counted(number, what)} left out: {why}")

    def _take(self, port: Port, facts: PortFacts, place: int) -> None:
        if port.is_end_port:
            port.guid = port.guid or facts.guid or 0
            if port.stated_lid is None:
                port.stated_lid = facts.lid
        if facts.info is not None and self.is_sm[place]:
            view = self.joined.sm_view
            view.answers.setdefault(PortInfoRecord.name, SaAnswer("answered"))
            view.ports.setdefault(port, SaPort()).port_info = PortInfo(facts.info).replace(m_key=0).raw
        if facts.info is not None and port.info is None:
            self._take_info(port, facts, facts.info, place)
        if facts.table is not None and port.p_key_raw is None:
            port.p_key_raw = facts.table
            self.joined.origins[port, PKeyTable.name] = place
            _learn_capacity(port, len(facts.table) // P_KEY_BYTES)
        for number, block in facts.blocks.items():
            self.blocks.setdefault(port, (place, {}))[1].setdefault(number, block)

    def _take_info(self, port: Port, facts: PortFacts, info: bytes, place: int) -> None:
        needed = (*PORT_INFO_NEEDED, *(END_PORT_NEEDED if port.is_end_port else SWITCH_PORT_NEEDED))
        missing = [row.name for row in (*needed, *_needed_for_virtual_ports(info)) if row.attr in facts.lacks]
        if missing:
            name = self.names[place]
            self.joined.why.setdefault((port, PortInfo.name), f"{name} does not say its {', '.join(missing)}")
            return
        port.info = info
        port.says_m_key = facts.says_m_key or not port.is_end_port
        self.joined.why.pop((port, PortInfo.name), None)
        self.joined.origins[port, PortInfo.name] = place

    def _join_blocks(self) -> None:
        """Make P_Key tables from blocks. A table has the length in the node's attributes, and the files must have every
        block of it.
        """
        for port, (place, blocks) in self.blocks.items():
            self.joined.sm_view.answers.setdefault(PKeyTableRecord.name, SaAnswer("answered"))
            capacity, key = port.capacity, (port, PKeyTable.name)
            if capacity is None:
                self.joined.why.setdefault(
                    key,
                    f"{self.names[place]} has blocks of its P_Key table, but no file says how many entries it has "
                    "(`ibnetdiscover --cache`, ibdiagnet2.db_csv and smpquery nodeinfo and switchinfo do)",
                )
                continue
            wanted = range(-(-capacity // P_KEYS_PER_BLOCK))
            missing = [number for number in wanted if number not in blocks]
            if missing:
                self.joined.why.setdefault(
                    key,
                    f"{self.names[place]} has {len(wanted) - len(missing)} of {len(wanted)} blocks of its P_Key table",
                )
                continue
            table = b"".join(blocks[number] for number in wanted)[: P_KEY_BYTES * capacity]
            self.joined.sm_view.ports.setdefault(port, SaPort()).p_key_raw = table
            if port.p_key_raw is None:
                port.p_key_raw = table
                self.joined.why.pop(key, None)
                self.joined.origins[key] = place


def _needed_for_virtual_ports(info: bytes) -> tuple[NumberRow, ...]:
    """Return the row of CapabilityMask2 for a port that has this field: without the field virtual ports cannot be
    excluded.
    """
    has_one = PortInfo.capability_mask.decode(info) & CapabilityMask.IS_CAPABILITY_MASK2_SUPPORTED
    return (PortInfo.capability_mask2,) if has_one else ()


def _merge(known: NodeFacts, other: NodeFacts, name: str) -> None:
    """Add the values of *other* that *known* does not have; the values of *known* stay. Raises FileFormatError if type
    or number of ports differ."""
    if (known.type, known.num_ports) != (other.type, other.num_ports):
        raise FileFormatError(
            f"node 0x{other.guid:016x} has another type or number of ports than in a file before it; import only files "
            "of one fabric together",
            name,
            other.line,
        )
    if known.description is None:
        known.description = other.description
    known.info = known.info or other.info
    known.switch_info = known.switch_info or other.switch_info
    known.fields = {**other.fields, **known.fields}


def _node(facts: NodeFacts) -> Node:
    """Return a node without a route. Its NodeInfo has zeros where no file has a field."""
    info = facts.info
    if info is None:
        who = {"node_type": facts.type, "num_ports": facts.num_ports, "node_guid": facts.guid}
        info = NodeInfo.new(base_version=1, class_version=1, **who, **facts.fields).raw
    node = Node(info, ())
    node.says_capacity = bool(NodeInfo(info).partition_cap)
    if facts.description is not None:
        raw = facts.description[: NodeDescription.size].ljust(NodeDescription.size, b"\0")
        node.description_raw, node.description = raw, NodeDescription(raw).node_description
    node.switch_info_raw = facts.switch_info if node.is_switch else None
    for num in range(node.num_ports + 1) if node.is_switch else ():
        node.port(num)
    return node


def _learn_capacity(port: Port, entries: int) -> None:
    """Take the length of a whole table as the node's PartitionCap, if no file has it."""
    node = port.node
    if port.is_end_port and not node.says_capacity and entries:
        node.info = NodeInfo(node.info).replace(partition_cap=entries).raw
        node.says_capacity = True


def _switch_ports(node: NodeFacts) -> int:
    return node.num_ports + 1 if node.type == NodeType.SWITCH else 0
