"""The binary file of ``ibnetdiscover --cache``: every node and port with the raw bytes of its attributes.

    file   := header, nodes, ports
    header := u32 magic, u32 version, u32 nodes, u32 ports, u64 GUID of the node where it began, u32 hops
    node   := u16 LID, u8 LMC, u8 enhanced port 0, SwitchInfo[64], u64 GUID, u8 type, u8 ports, NodeInfo[64],
              NodeDescription[64], u8 k, k times (u64 GUID, u8 port)
    port   := u64 GUID, u8 port, u8 external port, u16 LID, u8 LMC, PortInfo[64], u64 GUID of its node,
              u8 has a far end, u64 GUID and u8 port of that

Integers are little-endian and not aligned; attributes are as an SMP has them. The GUID of a switch's ports is that of
the switch. Source: libibnetdisc's ibnetdisc_cache.c, and files that ibnetdiscover of infiniband-diags 44 wrote.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.dumps.facts import CableEnd, DumpFacts, NodeFacts, PortFacts
from ibkeys.dumps.lines import format_errors_for
from ibkeys.errors import FileFormatError
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import NODE_TYPE_NAMES, NodeType

MAGIC: Final = 0x8FE7832B
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<IIIIQI")
_NODE: Final = struct.Struct("<HBB64sQBB64s64sB")
_PORT_KEY: Final = struct.Struct("<QB")
_PORT: Final = struct.Struct("<QBBHB64sQBQB")
_NOT_READ: Final = bytes(64)


def read_cache(path: Path, limit: int) -> DumpFacts:
    """Return the contents of a cache file. Raises FileFormatError, with the byte of the mistake."""
    with format_errors_for(path):
        data = files.read_bytes(path, limit)
    return _Reader(data, str(path)).read()


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name, self.at = data, name, 0
        self.facts = DumpFacts(links=[])
        self.nodes: dict[int, NodeFacts] = {}

    def read(self) -> DumpFacts:
        magic, version, nodes, ports, start, _ = self._take(_HEADER)
        if magic != MAGIC:
            raise self._error("is not a file of `ibnetdiscover --cache` (wrong magic number)", 0)
        if version != _VERSION:
            raise self._error(f"is of version {version} of `ibnetdiscover --cache`; version {_VERSION} is known", 4)
        self.facts.start = start or None
        for _ in range(nodes):
            self._node()
        far_ends: dict[CableEnd, CableEnd] = {}
        places: dict[CableEnd, CableEnd] = {}
        for _ in range(ports):
            self._port(places, far_ends)
        if self.at != len(self.data):
            raise self._error("goes on after its last port: it is damaged", self.at)
        self._link(places, far_ends)
        return self.facts

    def _node(self) -> None:
        begins = self.at
        _, _, _, switch_info, guid, kind, ports, info, description, keys = self._take(_NODE)
        for _ in range(keys):
            self._take(_PORT_KEY)
        view = NodeInfo(info)
        if kind not in NODE_TYPE_NAMES or not guid or not ports:
            raise self._error("has a node without GUID, type or ports: it is damaged", begins)
        if (view.node_guid, view.node_type, view.num_ports) != (guid, kind, ports):
            raise self._error("has a node that contradicts its NodeInfo: it is damaged", begins)
        if guid in self.nodes:
            raise self._error("has a node GUID twice", begins)
        node = NodeFacts(guid, kind, ports, description=description, info=info)
        if kind == NodeType.SWITCH and switch_info != _NOT_READ:
            node.switch_info = switch_info
        self.nodes[guid] = node
        self.facts.nodes.append(node)

    def _port(self, places: dict[CableEnd, CableEnd], far_ends: dict[CableEnd, CableEnd]) -> None:
        begins = self.at
        guid, num, _, _, _, info, node_guid, has_far_end, far_guid, far_num = self._take(_PORT)
        node = self.nodes.get(node_guid)
        if node is None or num > node.num_ports or (not num and node.type != NodeType.SWITCH) or not guid:
            raise self._error("has a port without a node: it is damaged", begins)
        if (guid, num) in places:
            raise self._error("has a port twice", begins)
        places[guid, num] = (node_guid, num)
        if has_far_end:
            far_ends[guid, num] = (far_guid, far_num)
        port = PortFacts(node_guid, num)
        if node.type != NodeType.SWITCH:
            port.guid = guid
        elif not num and node.info is not None:
            port.guid = NodeInfo(node.info).port_guid or None
        if info != _NOT_READ:
            port.info = info
            port.lid = PortInfo.lid.decode(info) or None
        self.facts.ports.append(port)

    def _link(self, places: dict[CableEnd, CableEnd], far_ends: dict[CableEnd, CableEnd]) -> None:
        assert self.facts.links is not None
        for near, far in far_ends.items():
            if far not in places or far_ends.get(far) != near:
                raise self._error("has a link whose two ends do not agree: it is damaged", self.at)
            if near <= far:  # equal for a loopback plug
                self.facts.links.append((places[near], places[far]))

    def _take(self, form: struct.Struct) -> tuple[Any, ...]:
        end = self.at + form.size
        if end > len(self.data):
            raise self._error("ends too early: it is cut off", len(self.data))
        values = form.unpack_from(self.data, self.at)
        self.at = end
        return values

    def _error(self, what: str, at: int) -> FileFormatError:
        return FileFormatError(f"{what} (byte {at})", self.name)
