"""The output of ``ibnetdiscover``: nodes, ports with a link, GUIDs, LIDs. It has no PortInfo and no P_Key.

The grammar is that of net files (`ibkeys.sim.netfile.reader`), which were made after it. Two things are stricter here:
a node without a GUID of its own is a mistake, and no other file is included.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ibkeys.dumps.facts import DumpFacts, NodeFacts, PortFacts
from ibkeys.dumps.lines import text_lines
from ibkeys.errors import FileFormatError
from ibkeys.mad.const import NodeType
from ibkeys.sim.netfile.model import FileNode
from ibkeys.sim.netfile.reader import parse_net_text

_START: Final = re.compile(r"# Initiated from node ([0-9a-fA-F]{1,16}) port ([0-9a-fA-F]{1,16})")


def read_netdiscover(path: Path, limit: int) -> DumpFacts:
    """Return the contents of a file of ibnetdiscover's output. Raises FileFormatError."""
    facts = DumpFacts(links=[])
    texts = []
    for line in text_lines(path, limit):
        found = _START.match(line.text)
        if found and facts.start is None:
            facts.start = int(found[2], 16) or None
        texts.append(line.text)
    net = parse_net_text("\n".join(texts), str(path))
    for node in net.nodes:
        facts.nodes.append(_node(node))
        facts.ports += _ports(node)
    guids = [node.guid for node in net.nodes]
    facts.links = [((guids[a], x), (guids[b], y)) for (a, x), (b, y) in net.links]
    return facts


def _node(node: FileNode) -> NodeFacts:
    if not node.says_guid or not node.guid:
        raise FileFormatError("this node has no switchguid=, caguid= or rtguid= before it", node.path, node.line)
    fields = {"vendor_id": node.vendor_id, "device_id": node.device_id, "system_image_guid": node.system_image_guid}
    described = node.description != node.node_id.encode("utf-8", "surrogateescape")
    return NodeFacts(
        node.guid, node.node_type, node.num_ports, node.line, node.description if described else None, fields
    )


def _ports(node: FileNode) -> list[PortFacts]:
    if node.node_type == NodeType.SWITCH:
        return [PortFacts(node.guid, 0, node.line, guid=node.port0_guid, lid=node.lid or None)]
    return [
        PortFacts(node.guid, port.number, port.line, guid=port.guid or None, lid=port.lid or None)
        for port in node.ports.values()
    ]
