"""The output of ``saquery NodeRecord``, ``PortInfoRecord`` and ``PKeyTableRecord``: values that the SM reports, not
answers of the ports.

    record := NAME"Record dump:", lines "name....value"; of a P_Key table 4 lines of 8 "0x%04x" too, and an empty line

A port is named by the LID of its end port and its number. Without the SM_Key the SA shows 0 as the M_Key of any port,
so a zero proves nothing. Source: infiniband-diags 44, saquery.c.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ibkeys.dumps.dotted import NODE_RECORD, node_of, split_dotted, take_port_info, value_of
from ibkeys.dumps.facts import DumpFacts, PortFacts, PortFields
from ibkeys.dumps.lines import TextLine, text_lines, without_messages
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import MAX_PORT, MAX_UNICAST_LID, P_KEYS_PER_BLOCK

PORT_INFO_RECORD: Final = "PortInfoRecord"
P_KEY_RECORD: Final = "PKeyTableRecord"
NODE: Final = "NodeRecord"
_HEADING: Final = re.compile(r"(\w+Record) dump:")
_KEYS: Final = re.compile(r"(?:0x[0-9a-fA-F]{4} ?){8}", re.ASCII)
_MOST: Final = {
    "lid": MAX_UNICAST_LID,
    "LID": MAX_UNICAST_LID,
    "EndPortLid": MAX_UNICAST_LID,
    "Port": MAX_PORT,
    "PortNum": MAX_PORT,
    "Block": 2047,
}


def read_saquery(path: Path, limit: int) -> DumpFacts:
    """Return the contents of a file of saquery's output. Raises FileFormatError."""
    reader = _Reader()
    for line in without_messages(text_lines(path, limit)):
        reader.take(line)
        reader.facts.refuse_too_much(line.path)
    reader.end_record()
    return reader.facts


class _Reader:
    def __init__(self) -> None:
        self.facts = DumpFacts()
        self.record = ""
        self.heading: TextLine | None = None
        self.numbers: dict[str, int] = {}
        self.fields = PortFields()
        self.keys = bytearray()
        self.node: dict[str, int] = {}
        self.description: bytes | None = None
        self.nodes: set[int] = set()
        self.tables: dict[tuple[int, int], PortFacts] = {}

    def take(self, line: TextLine) -> None:
        heading = _HEADING.fullmatch(line.text.strip())
        if heading:
            self.end_record()
            self.record, self.heading = heading[1], line
            self.numbers, self.fields, self.keys = {}, PortFields(), bytearray()
            self.node, self.description = {}, None
            return
        keys = line.text.strip()
        if self.record == P_KEY_RECORD and _KEYS.fullmatch(keys):
            self.keys += bytes.fromhex(keys.replace("0x", ""))
            return
        pair = split_dotted(line.text)
        if pair is None:
            return
        name, text = pair
        if name in _NUMBERS.get(self.record, ()) and name not in self.numbers:
            self.numbers[name] = line.number_in(text, name, _MOST[name])
        elif self.record == NODE and name == "NodeDescription":
            self.description = text.encode("utf-8", "surrogateescape")
        elif self.record == NODE and name in NODE_RECORD:
            row = NODE_RECORD[name]
            self.node[row.attr] = value_of(line, name, text, row)
        elif self.record == PORT_INFO_RECORD:
            take_port_info(line, name, text, self.fields)

    def end_record(self) -> None:
        """Add the record that was read to the contents. Raises FileFormatError if a part of it is missing."""
        heading, record = self.heading, self.record
        self.heading, self.record = None, ""
        if heading is None or record not in _NUMBERS:
            return
        if record == NODE:
            self._node(heading)
            return
        place = _NUMBERS[record][:2]
        lid, num = map(self.numbers.get, place)
        if lid is None or num is None:
            raise heading.error(f"this {record} does not say {' or '.join(place)}")
        if record == PORT_INFO_RECORD:
            port = self.fields.into(PortFacts(None, num, heading.number, at_lid=lid))
            assert port.info is not None
            port.says_m_key = port.says_m_key and bool(PortInfo(port.info).m_key)
            self.facts.ports.append(port)
            return
        block = self.numbers.get("Block")
        if block is None or len(self.keys) != 2 * P_KEYS_PER_BLOCK:
            raise heading.error(f"this {record} has no Block, or not {P_KEYS_PER_BLOCK} P_Keys: it is cut off")
        self._block(heading, (lid, num), block)

    def _node(self, heading: TextLine) -> None:
        node, ports = node_of(heading, self.node, self.numbers.get("lid", 0))
        node.description = self.description
        if node.guid not in self.nodes:  # one record for each port of a CA
            self.nodes.add(node.guid)
            self.facts.nodes.append(node)
        self.facts.ports += ports

    def _block(self, heading: TextLine, place: tuple[int, int], block: int) -> None:
        port = self.tables.get(place)
        if port is None:
            port = self.tables[place] = PortFacts(None, place[1], heading.number, at_lid=place[0])
            self.facts.ports.append(port)
        if port.blocks.setdefault(block, bytes(self.keys)) != bytes(self.keys):
            raise heading.error("this block of the P_Key table was there before, with other P_Keys")


_NUMBERS: Final = {
    NODE: ("lid",),
    PORT_INFO_RECORD: ("EndPortLid", "PortNum"),
    P_KEY_RECORD: ("LID", "Port", "Block"),
}
"""The lines that identify a record: LID, port, block."""
