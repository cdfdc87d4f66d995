"""The values that a snapshot or file lacks about a fabric, and the values that the simulated subnet has instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

from ibkeys.mad.attributes import GUIDInfo, NodeDescription, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.printable import counted
from ibkeys.sim.netfile.build import NEVER_ZERO
from ibkeys.sim.netfile.model import Assumption
from ibkeys.topology.nodes import Node, Port

if TYPE_CHECKING:
    from ibkeys.fabric.snapshot import Snapshot

_FIRST_P_KEY: Final = "0xffff at index 0"
_PORT: Final = "4x SDR, MTU 2048, no M_Key"
_TABLES: Final = (
    Assumption("forwarding tables", "shortest paths"),
    Assumption("tables of multicast, SL to VL and VL arbitration", "as after power-up"),
)
NET_FILE: Final = (
    Assumption(PKeyTable.name, _FIRST_P_KEY),
    Assumption("M_Keys", "none"),
    Assumption("the rest of PortInfo", "MTU 2048, 4 VLs"),
    Assumption("PortCounters", "0"),
    *_TABLES,
)
"""The assumptions for a net file or for output of ibnetdiscover: neither has any of these values."""


def assumptions(snapshot: Snapshot, unmatched_ports: int) -> Sequence[Assumption]:
    """Return the assumptions for simulating *snapshot*.

    *unmatched_ports*: the number of ports that have a neighbour in the snapshot and no link in the simulated subnet.
    """
    return [
        *_missing_values(snapshot, unmatched_ports),
        Assumption("PortCounters", "0, but for constraint errors"),
        *_TABLES,
    ]


def is_partial(snapshot: Snapshot, port: Port) -> bool:
    """Return whether a file gave only some fields of the PortInfo of *port*. Such a PortInfo has a 0 where no real port
    has one. False without PortInfo, or if a sweep read it.
    """
    info = port.info
    if info is None or (port, PortInfo.name) not in snapshot.origins:
        return False
    return any(not row.decode(info) for row in NEVER_ZERO)


def lacks_table_sizes(node: Node) -> bool:
    """Return whether the SwitchInfo of *node* has LinearFDBCap 0. No real switch has 0: the file has only some fields.
    False for a node without SwitchInfo.
    """
    return node.switch_info is not None and not node.switch_info.linear_fdb_cap


def _missing_values(snapshot: Snapshot, unmatched_ports: int) -> Iterator[Assumption]:
    fabric = snapshot.fabric
    ports, ends, nodes = list(fabric.ports()), list(fabric.end_ports()), fabric.nodes
    switches = [node for node in nodes if node.is_switch]
    yield from _if_any("subnet managers", "none runs", (port.is_sm for port in ends))
    yield from _m_keys(ends)
    yield from _if_any("hidden M_Keys", "none", (port.m_key_state == "hidden" for port in ends))
    yield from _if_any("M_Keys", "none", (port.info is not None and not port.says_m_key for port in ends))
    yield from _if_any(PortInfo.name, _PORT, (port.info is None for port in ports))
    lacking = (is_partial(snapshot, port) for port in ports)
    yield from _if_any("widths, speeds, MTU or VLs", "4x SDR, MTU 2048, 4 VLs", lacking)
    yield from _if_any("LIDs", "free ones", (port.lid is None for port in ends))
    yield from _if_any("port GUIDs", "node GUID + port number", (not port.guid for port in ends))
    yield from _if_any(PKeyTable.name, _FIRST_P_KEY, (port.p_key_raw is None and port.capacity != 0 for port in ports))
    yield from _if_any("PartitionCap", "64, of a switch 8", (not node.says_capacity for node in nodes), "node")
    yield from _if_any(SwitchInfo.name, "64 P_Keys a port", (node.switch_info is None for node in switches), "node")
    yield from _if_any(
        "sizes of forwarding tables", "30,720, of multicast 1,024", map(lacks_table_sizes, nodes), "node"
    )
    unnamed = (node.description_raw is None for node in nodes)
    yield from _if_any(NodeDescription.name, "the node GUID", unnamed, "node")
    yield from _if_any(GUIDInfo.name, "the port GUID", (port.guid_info is None for port in ends))
    yield from _if_any(VirtualizationInfo.name, "no virtual ports", (port.virtual_ports == "unknown" for port in ports))
    yield from _if_any("far ends of links", "nothing answers there", map(_lacks_far_end, ports))
    if unmatched_ports:
        yield Assumption("cables that do not lead back", "no cable", unmatched_ports)
    if fabric.unreached:
        yield Assumption("ports that no link reaches", "Down", fabric.unreached)
    if snapshot.class_keys is None:
        yield Assumption("keys of other classes", "no port has such a class")
    else:
        from ibkeys.classkeys.reading import ANSWERED

        unknown = {each.port for each in snapshot.class_keys if each.state not in {*ANSWERED, "absent"}}
        yield from _if_any("keys of other classes", "no such class", (port in unknown for port in ends))


def _if_any(
    what: str, assumed: str, lacking: Iterable[bool], unit: Literal["port", "node"] = "port"
) -> Iterator[Assumption]:
    number = sum(lacking)
    if number:
        yield Assumption(what, assumed, number, unit)


def _m_keys(ends: Iterable[Port]) -> Iterator[Assumption]:
    m_keys = [port.info[PortInfo.m_key.span] for port in ends if port.info is not None and port.m_key_state == "set"]
    if m_keys:
        different = counted(len(set(m_keys)), "made-up key")
        yield Assumption(
            "M_Keys", f"{different}, the same at ports that had the same key; no lease timer runs", len(m_keys)
        )


def _lacks_far_end(port: Port) -> bool:
    return port.peer is None and port.num != 0 and port.is_linked
