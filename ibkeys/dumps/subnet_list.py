"""OpenSM's ``opensm-subnet.lst``: one line for each end of each link, as in the memory of the subnet manager.

    line := end end "PHY=" 4x "LOG=" ACT "SPD=" 10
    end  := "{" CA|SW|Rt ["-SM"] "Ports:"HH "SystemGUID:"H… "NodeGUID:"H… "PortGUID:"H… "VenID:"H… "DevID:"H… "Rev:"H…
            "{"name"}" "LID:"HHHH "PN:"HH "}"

Numbers are hex without 0x. The second end of a line writes VenID and DevID otherwise, so they are taken from the first
one; each end of a link is the first one of some line. Source: opensm osm_subnet dump, and files of opensm 3.3.23.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ibkeys.dumps.facts import CableEnd, DumpFacts, NodeFacts, PortFacts
from ibkeys.dumps.lines import TextLine, text_lines
from ibkeys.mad.const import NodeType

_TYPES: Final = {"CA": NodeType.CA, "SW": NodeType.SWITCH, "Rt": NodeType.ROUTER}
_HEX: Final = r"[0-9a-fA-F]"
_ABOUT: Final = (
    rf"\{{ (?P<type>CA|SW|Rt)(?:-SM)? Ports:(?P<ports>{_HEX}{{2}}) SystemGUID:(?P<system>{_HEX}{{1,16}}) "
    rf"NodeGUID:(?P<node>{_HEX}{{1,16}}) PortGUID:(?P<port>{_HEX}{{1,16}}) VenID:(?P<vendor>{_HEX}{{1,8}}) "
    rf"DevID:(?P<device>{_HEX}{{1,8}}) Rev:(?P<revision>{_HEX}{{1,8}}) "
)
_PLACE: Final = rf"LID:(?P<lid>{_HEX}{{4}}) PN:(?P<number>{_HEX}{{2}}) \}}"
_END: Final = re.compile(rf"{_ABOUT}\{{(?P<name>.*)\}} {_PLACE}", re.DOTALL)
_BETWEEN: Final = re.compile(rf"\}} LID:{_HEX}{{4}} PN:{_HEX}{{2}} \}}(?= \{{ (?:CA|SW|Rt))")
_TAIL: Final = re.compile(r" PHY=\S* LOG=\S* SPD=\S*\s*$")
_ID_BITS: Final = {"vendor": ("vendor_id", 24), "device": ("device_id", 16), "revision": ("revision", 32)}


def read_subnet_list(path: Path, limit: int) -> DumpFacts:
    """Return the contents of an opensm-subnet.lst. Raises FileFormatError."""
    reader = _Reader()
    for line in text_lines(path, limit):
        if line.text.strip():
            reader.take(line)
            reader.facts.refuse_too_much(line.path)
    return reader.facts


class _Reader:
    def __init__(self) -> None:
        self.facts = DumpFacts(links=[])
        self.nodes: dict[int, NodeFacts] = {}
        self.ports: dict[CableEnd, PortFacts] = {}
        self.linked: set[tuple[CableEnd, CableEnd]] = set()

    def take(self, line: TextLine) -> None:
        ends = self._ends(line)
        if ends is None:
            self.facts.notes.append(
                f"{line.path}:{line.number}: the name of a node looks like the rest of the line, so the "
                "link was left out"
            )
            return
        near, far = (self._end(line, end, first) for first, end in zip((True, False), ends, strict=True))
        pair = (min(near, far), max(near, far))
        if pair not in self.linked:
            self.linked.add(pair)
            assert self.facts.links is not None
            self.facts.links.append(pair)

    def _ends(self, line: TextLine) -> tuple[re.Match[str], re.Match[str]] | None:
        """Return both ends of the link in a line; None if a name makes it unclear where the first end stops and the
        second begins.
        """
        tail = _TAIL.search(line.text)
        splits = list(_BETWEEN.finditer(line.text))
        if tail is None or not splits:
            raise line.error("is not a line of an opensm-subnet.lst: { CA ... LID: PN: } { ... } PHY= LOG= SPD=")
        ends = (
            (_END.fullmatch(line.text[: split.end()]), _END.fullmatch(line.text[split.end() + 1 : tail.start()]))
            for split in splits
        )
        whole = [(first, second) for first, second in ends if first is not None and second is not None]
        if not whole:
            raise line.error(
                "has a link end that is not of the form { CA Ports: SystemGUID: NodeGUID: ... { name } LID: PN: }"
            )
        return whole[0] if len(whole) == 1 else None

    def _end(self, line: TextLine, end: re.Match[str], is_first: bool) -> CableEnd:
        guid, num = line.guid_in(end["node"], "NodeGUID"), int(end["number"], 16)
        kind, ports = _TYPES[end["type"]], int(end["ports"], 16)
        node = self.nodes.get(guid)
        if node is None:
            description = end["name"].encode("utf-8", "surrogateescape")
            node = self.nodes[guid] = NodeFacts(guid, kind, ports, line.number, description)
            node.fields["system_image_guid"] = int(end["system"], 16)
            self.facts.nodes.append(node)
        elif (node.type, node.num_ports) != (kind, ports):
            raise line.error(f"the node of line {node.line} has another type or number of ports here")
        if is_first:
            for group, (attr, bits) in _ID_BITS.items():
                if int(end[group], 16) < 1 << bits:
                    node.fields[attr] = int(end[group], 16)
        if not 1 <= num <= ports:
            raise line.error("PN is not one of the node's ports")
        # The LID and PortGUID of a switch are those of its port 0.
        own = 0 if kind == NodeType.SWITCH else num
        port = self.ports.get((guid, own))
        if port is None:
            port = self.ports[guid, own] = PortFacts(guid, own, line.number, guid=line.guid_in(end["port"], "PortGUID"))
            self.facts.ports.append(port)
        port.lid = int(end["lid"], 16) or port.lid
        return guid, num
