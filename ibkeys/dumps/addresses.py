"""Finding the port with a LID or a GUID, in a fabric that files describe."""

from __future__ import annotations

from collections.abc import Iterable

from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import MAX_UNICAST_LID
from ibkeys.topology.nodes import Node, Port


def end_ports(node: Node) -> list[Port]:
    """Return the end ports of a node that files describe, by number. For a switch this is port 0, even if no file has
    it.
    """
    return [node.port(0)] if node.is_switch else [port for _, port in sorted(node.ports.items())]


class Addresses:
    """Ports by LID, port GUID and node GUID. An address that two nodes have finds no port."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_lid: dict[int, Port | None] = {}
        self._by_guid: dict[int, Port | None] = {}
        for node in nodes:
            for port in end_ports(node):
                for lid in _lids(port):
                    _enter(self._by_lid, lid, port)
                for guid in {port.guid, node.guid} - {0}:
                    _enter(self._by_guid, guid, port)

    def find(self, lid: int | None, guid: int | None, num: int) -> Port | None:
        """Return port *num* of the node with that LID or, if *lid* is None, with that GUID; None if there is none.

        A port of a CA is found only by its own address; *num* may be 0 for it.
        """
        port = self._by_lid.get(lid) if lid is not None else self._by_guid.get(guid or 0)
        if port is None or num > port.node.num_ports:
            return None
        if port.node.is_switch:
            return port.node.port(num)
        return port if num in (0, port.num) else None


def _enter(table: dict[int, Port | None], address: int, port: Port) -> None:
    known = table.setdefault(address, port)
    if known is not port:
        table[address] = None


def _lids(port: Port) -> range:
    lid = port.lid
    if not lid or lid > MAX_UNICAST_LID:
        return range(0)
    lmc = PortInfo.lmc.decode(port.info) if port.info is not None else 0
    return range(lid, lid + (1 << lmc))
