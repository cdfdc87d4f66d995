"""Converting the contents of a snapshot into records for the simulator.

Two things always differ from the fabric. No subnet manager runs: the user starts a real one. No real M_Key is in the
simulated subnet: a made-up key replaces each, and equal keys have equal replacements. From a snapshot the made-up key
is the fingerprint of the M_Key, so two snapshots whose fingerprints come from the same secret give the same keys. Files
of other tools have the M_Keys themselves: their made-up keys depend only on the order in which the M_Keys occur.
Neither reveals anything about a real key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ibkeys.classkeys.reading import ANSWERED, ClassKeyReading
from ibkeys.errors import FileFormatError
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.classes.gmp import KEY_CLASSES, KeyClass
from ibkeys.mad.const import NODE_TYPE_NAMES, CapabilityMask, NodeType
from ibkeys.printable import counted
from ibkeys.replica.assumed import assumptions, is_partial, lacks_table_sizes
from ibkeys.sim.netfile.build import LINEAR_FDB_CAP, MULTICAST_FDB_CAP
from ibkeys.sim.netfile.model import End, FileNode, FilePort, NetFile, RecordedPortValues
from ibkeys.topology.nodes import Node, Port

MOST_NODES: Final = 100_000
MOST_PORTS: Final = 1_000_000
"""No fabric has more nodes or ports than these, and a file that claims more would need all memory."""
_IS_SM: Final = int(CapabilityMask.IS_SM)
_LETTERS: Final = {NodeType.CA: "H", NodeType.SWITCH: "S", NodeType.ROUTER: "R"}
_POWER_UP: Final = b"\xff\xff"
_NO_KEY: Final = bytes(8)


def records_of(snapshot: Snapshot, name: str) -> NetFile:
    """Return the fabric in *snapshot* as records; *name* is the file name in errors.

    Raises FileFormatError for a node of an unknown type, a node without ports, a port number that its node does not
    have, several nodes without any link, and more nodes or ports than any fabric has.
    """
    nodes = snapshot.fabric.nodes
    for node in nodes:
        _check(node, name)
    if len(nodes) > MOST_NODES or sum(node.num_ports for node in nodes) > MOST_PORTS:
        raise FileFormatError(f"more than {MOST_NODES} nodes or {MOST_PORTS} ports, which no fabric has", name)
    links, left_out = _links(nodes)
    if not links and len(nodes) > 1:
        raise FileFormatError(
            f"{counted(len(nodes), 'node')} and no link between them: add a file that lists links (of ibnetdiscover, "
            "ibdiagnet2.db_csv, opensm-subnet.lst)",
            name,
        )
    records = _Records(snapshot, name)
    return NetFile(
        [records.node_record(node) for node in nodes], links, assumptions(snapshot, left_out), is_recorded=True
    )


def _check(node: Node, name: str) -> None:
    if node.type not in NODE_TYPE_NAMES:
        raise FileFormatError(f"node 0x{node.guid:016x} has NodeType {node.type}, which is none of 1, 2 and 3", name)
    if not node.num_ports:
        raise FileFormatError(f"node 0x{node.guid:016x} has no ports", name)
    least = 0 if node.is_switch else 1
    invalid = [num for num in node.ports if not least <= num <= node.num_ports]
    if invalid:
        valid = f"node 0x{node.guid:016x} has ports {least} to {node.num_ports}"
        raise FileFormatError(f"{valid}, but the file has values of a port {invalid[0]} of this node", name)


def _links(nodes: Sequence[Node]) -> tuple[list[tuple[End, End]], int]:
    """Return the links as (index in *nodes*, port number) of both ends, and the number of ports that have a neighbour
    and are in no link: the neighbour is not a port of *nodes*, or one of the two is port 0 of a switch. A loopback plug
    is a link from a port to itself.
    """
    indexes = {node: index for index, node in enumerate(nodes)}
    links, left_out = [], 0
    for node, index in indexes.items():
        for num, port in node.ports.items():
            far = port.peer
            if far is None:
                continue
            # A cable has no end at port 0 of a switch.
            if far.node not in indexes or not (num and far.num):
                left_out += 1
            elif (index, num) <= (indexes[far.node], far.num):
                links.append(((index, num), (indexes[far.node], far.num)))
    return links, left_out


class _Records:
    def __init__(self, snapshot: Snapshot, name: str) -> None:
        self.snapshot, self.name = snapshot, name
        self.made_up_keys: dict[int, int] = {0: 0}
        self.class_keys: dict[Port, list[ClassKeyReading]] = {}
        for each in snapshot.class_keys or ():
            self.class_keys.setdefault(each.port, []).append(each)

    def node_record(self, node: Node) -> FileNode:
        info, twin = node.node_info, f"-{node.twin + 1}" if node.twin else ""
        node_type = NodeType(node.type)
        node_id = f"{_LETTERS[node_type]}-{node.guid:016x}{twin}"
        described = node.description_raw.rstrip(b"\0") if node.description_raw is not None else node_id.encode()
        record = FileNode(
            node_type,
            node.num_ports,
            node_id,
            described,
            node.guid,
            info.system_image_guid,
            info.vendor_id,
            info.device_id,
            0,
            self.name,
            says_guid=True,
            revision=info.revision,
            partition_cap=info.partition_cap if node.says_capacity else None,
            switch_info=_switch_info(node),
        )
        if node.is_switch:
            record.port0_guid = node.port(0).guid or None
            record.lid = node.port(0).stated_lid or 0
        for num, port in sorted(node.ports.items()):
            record.ports[num] = self.port_record(port)
        return record

    def port_record(self, port: Port) -> FilePort:
        record = FilePort(port.num, 0, 0, self.name, lid=port.stated_lid or 0)
        if port.is_end_port:
            record.guid = port.guid or None
        if port.peer is not None:  # without a cable the simulated port would send no traps of link changes
            record.remote = (f"{port.peer.node.guid:016x}", port.peer.num)
        table, info = port.p_key_raw, self.port_info(port)
        errors = self.snapshot.constraint_errors.get(port)
        counters = {
            "port_rcv_constraint_errors": (errors.received if errors is not None else None) or 0,
            "port_xmit_constraint_errors": (errors.transmitted if errors is not None else None) or 0,
        }
        record.readings = RecordedPortValues(
            info,
            # A new port has the table of power-up anyway, and very many ports have no other.
            table if table is not None and table.rstrip(b"\0") != _POWER_UP else None,
            dict(_guids(port.guid_info or b"")) or None,
            port.virtualization_raw or None,
            {name: count for name, count in counters.items() if count},
            self.class_key_info(port),
            is_partial=is_partial(self.snapshot, port),
        )
        return record

    def port_info(self, port: Port) -> bytes | None:
        """Return the 64 bytes of PortInfo without IsSM and with a made-up M_Key; None if the snapshot has none.

        Ports of a switch other than port 0 have no M_Key: theirs is 0.
        """
        info = port.info
        if info is None:
            return None
        if not port.is_end_port:
            return _NO_KEY + info[len(_NO_KEY) :]
        view = PortInfo(info)
        return view.replace(m_key=self.made_up_key(view.m_key), capability_mask=view.capability_mask & ~_IS_SM).raw

    def made_up_key(self, m_key: int) -> int:
        """Return the number that replaces an M_Key of the snapshot. A fingerprint in place of the key is returned
        unchanged. A key gets a made-up number, the same wherever the key occurs; 0 stays 0.
        """
        if not self.snapshot.about.has_keys:
            return m_key
        name = b"ibkeys made-up M_Key %d" % len(self.made_up_keys)
        return self.made_up_keys.setdefault(m_key, int.from_bytes(hashlib.sha256(name).digest()[:8]))

    def class_key_info(self, port: Port) -> Mapping[KeyClass, bytes]:
        readings = self.class_keys.get(port, ())
        return {
            KEY_CLASSES[each.of]: each.info for each in readings if each.info is not None and each.state in ANSWERED
        }


def _switch_info(node: Node) -> bytes | None:
    info = node.switch_info
    if info is None or not lacks_table_sizes(node):
        return node.switch_info_raw
    return info.replace(linear_fdb_cap=LINEAR_FDB_CAP, multicast_fdb_cap=MULTICAST_FDB_CAP).raw


def _guids(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield (index, GUID) of each GUID in the bytes of GUIDInfo. Empty entries are left out, and index 0, the port
    GUID."""
    for index, (guid,) in enumerate(struct.iter_unpack(">Q", raw)):
        if index and guid:
            yield index, guid
