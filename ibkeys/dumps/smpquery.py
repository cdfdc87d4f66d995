"""The output of smpquery: nodeinfo, portinfo, switchinfo and pkeys, also several in sequence in one file.

    nodeinfo, portinfo, switchinfo := "# Node info: Lid 2" | "# Port info: Lid 2 port 0" | "# Switch info: Lid 2",
                                      lines "name:....value"
    pkeys                          := rows "%4u: " and 8 times " 0x%04x", "64 pkeys capacity for this port"

A P_Key table does not have its port's address, so the port has to be named for the file. Source: infiniband-diags 44,
smpquery.c.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ibkeys.dumps.dotted import NODE_INFO, SWITCH_INFO, node_of, split_dotted, take_port_info, value_of
from ibkeys.dumps.facts import DumpFacts, PortFacts, PortFields
from ibkeys.dumps.lines import TextLine, text_lines, without_messages
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import MAX_PORT, MAX_UNICAST_LID

_HEADING: Final = re.compile(r"# (Node|Port|Switch) info: (.*)")
_BY_LID: Final = re.compile(r"Lid ([0-9]{1,5})(?: port ([0-9]{1,3}))?", re.ASCII)
_ROW: Final = re.compile(r" *([0-9]{1,5}):((?: +0x[0-9a-fA-F]{4}){1,8}) *", re.ASCII)
_CAPACITY: Final = re.compile(r"([0-9]{1,5}) pkeys capacity for this port", re.ASCII)
_MOST_P_KEYS: Final = 65535


def read_smpquery(path: Path, limit: int, owner: PortFacts | None = None) -> DumpFacts:
    """Return the contents of a file of smpquery's output. *owner*: the port of its P_Key table. Raises
    FileFormatError."""
    reader = _Reader(owner)
    for line in without_messages(text_lines(path, limit)):
        reader.take(line)
        reader.facts.refuse_too_much(line.path)
    reader.end_part()
    if reader.row_line is not None:
        raise reader.row_line.error(
            "the P_Key table is cut off: its last line (N pkeys capacity for this port) is missing"
        )
    return reader.facts


class _Reader:
    def __init__(self, owner: PortFacts | None) -> None:
        self.facts = DumpFacts()
        self.owner = owner
        self.part = ""
        self.heading: TextLine | None = None
        self.lid = self.num = 0
        self.port = PortFields()
        self.numbers: dict[str, int] = {}
        self.keys = bytearray()
        self.row_line: TextLine | None = None

    def take(self, line: TextLine) -> None:
        heading = _HEADING.match(line.text)
        if heading:
            self.end_part()
            self._begin(line, heading)
            return
        keys = _ROW.fullmatch(line.text)
        if keys:
            self._row(line, keys)
            return
        capacity = _CAPACITY.fullmatch(line.text.strip())
        if capacity:
            self._table(line, int(capacity[1]))
            return
        pair = split_dotted(line.text)
        if pair is None or not self.part:
            return
        name, text = pair
        if self.part == "Port":
            take_port_info(line, name, text, self.port)
            return
        row = (NODE_INFO if self.part == "Node" else SWITCH_INFO).get(name)
        if row is not None:
            self.numbers[row.attr] = value_of(line, name, text, row)

    def _begin(self, line: TextLine, heading: re.Match[str]) -> None:
        self.part, self.heading = heading[1], line
        self.port, self.numbers = PortFields(), {}
        place = _BY_LID.match(heading[2])
        self.lid, self.num = (int(place[1]), int(place[2] or 0)) if place else (0, 0)
        if self.lid > MAX_UNICAST_LID or self.num > MAX_PORT:
            raise line.error("the heading has a LID or port number that is not possible")

    def end_part(self) -> None:
        """Add the part since the last heading to the contents."""
        heading, part = self.heading, self.part
        self.heading, self.part = None, ""
        if heading is None or not (self.numbers or self.port.present):
            return
        if part == "Node":
            node, ports = node_of(heading, self.numbers, self.lid)
            self.facts.nodes.append(node)
            self.facts.ports += ports
        elif not self.lid:
            self.facts.notes.append(
                f"{heading.path}:{heading.number}: the heading has no LID (asked by a directed route), so "
                "the port that answered is not known: the answer was left out"
            )
        elif part == "Port":
            self.facts.ports.append(self.port.into(PortFacts(None, self.num, heading.number, at_lid=self.lid)))
        elif SwitchInfo.partition_enforcement_cap.attr in self.numbers:
            self.facts.switch_infos.append((self.lid, SwitchInfo.new(**self.numbers).raw))

    def _row(self, line: TextLine, row: re.Match[str]) -> None:
        if 2 * int(row[1]) != len(self.keys):
            raise line.error("this row of a P_Key table does not follow the one before it")
        if len(self.keys) > 2 * _MOST_P_KEYS:
            raise line.error("this P_Key table is larger than any port can have")
        self.keys += bytes.fromhex(row[2].replace("0x", ""))
        self.row_line = line

    def _table(self, line: TextLine, capacity: int) -> None:
        keys, self.keys, self.row_line = bytes(self.keys), bytearray(), None
        if len(keys) < 2 * capacity:
            raise line.error("this P_Key table has fewer entries than its last line says: it is cut off")
        if self.owner is None:
            raise line.error(
                "a P_Key table does not say which port it belongs to: import each one with its port, "
                "`ibkeys import --pkeys-of PORT FILE`"
            )
        owner, self.owner = self.owner, None
        owner.table, owner.line = keys[: 2 * capacity], line.number
        self.facts.ports.append(owner)
