"""Values that no file has, port by port, as troubles, so that they are unknown everywhere."""

from __future__ import annotations

from ibkeys.dumps.joining import Joined
from ibkeys.mad.attributes import NodeInfo, PKeyTable, PortInfo, SwitchInfo
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import Port

_NO_LINKS = "no imported file says what is at the far end of its link"


def name_unread(joined: Joined) -> None:
    """Add a trouble for each attribute that a sweep would have read and no file has."""
    fabric = joined.fabric
    for node in fabric.nodes:
        if node.is_switch and node.switch_info_raw is None:
            _name(joined, node.port(0), SwitchInfo.name)
    for port in fabric.ports():
        if port.info is None:
            _name(joined, port, PortInfo.name)
        if port.p_key_raw is None and port.capacity == 0 and not port.is_end_port:
            port.p_key_raw = b""
        if port.p_key_raw is None:
            _name(joined, port, PKeyTable.name)
        if port.virtual_ports == "unknown":
            _name(joined, port, VirtualizationInfo.name)
        if not joined.lists_links and port.peer is None and port.num and (port.info is None or port.is_linked):
            port.says_peer = False
            fabric.troubles.append(Trouble(port, _NO_LINKS, NodeInfo.name, "not-in-file"))


def _name(joined: Joined, port: Port, attribute: str) -> None:
    why = joined.why.get((port, attribute), f"{attribute} is in no imported file")
    joined.fabric.troubles.append(Trouble(port, why, attribute, "not-in-file"))
