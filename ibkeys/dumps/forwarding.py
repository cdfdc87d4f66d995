"""Linear forwarding tables: the output of ``ibroute`` and ``dump_fts``, and OpenSM's ``opensm-lfts.dump`` and
``opensm.fdbs``.

    ibroute, dump_fts  := "Unicast lids [0x0-0x15] of switch" ("Lid" LID | "DR path" ...) "guid" GUID "(" name "):"
                          rows "0x0001 011 ...", "N valid lids dumped" | "N lids dumped"
    opensm-lfts.dump   := the same with "[0-21]" and "Lid" LID "guid" GUID "('" name "'):"
    opensm.fdbs        := "dump_ucast_routes: Switch" GUID, rows "0x0001 : 011 : ..." | "0x0001 : UNREACHABLE"

A LID of the range without a row is forwarded nowhere. Source: files of infiniband-diags 44 and opensm 3.3.23.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ibkeys.dumps.facts import DumpFacts
from ibkeys.dumps.lines import TextLine, text_lines, without_messages
from ibkeys.files import MIB
from ibkeys.mad.const import MAX_UNICAST_LID
from ibkeys.topology.forwarding import NO_PORT

_HEADING: Final = re.compile(
    r"Unicast lids \[(0x[0-9a-f]{1,4}|[0-9]{1,5})-(0x[0-9a-f]{1,4}|[0-9]{1,5})\] of switch "
    r"(?:Lid [0-9]{1,5}|DR path slid [0-9]{1,5}; dlid [0-9]{1,5}; [0-9,]+) guid (0x[0-9a-f]{1,16}) \(",
    re.ASCII,
)
_ROUTES_HEADING: Final = re.compile(r"dump_ucast_routes: Switch (0x[0-9a-f]{1,16})$", re.ASCII)
_ROW: Final = re.compile(r"0x([0-9a-fA-F]{4}) (?:: )?([0-9]{3}|UNREACHABLE)(?= |$)", re.ASCII)
_END: Final = re.compile(r"([0-9]{1,5}) (?:valid )?lids dumped *$", re.ASCII)

_MOST_ENTRIES: Final = 512 * MIB
"""Of all tables together: four times as many as those of 2,600 switches with all LIDs."""


def read_forwarding(path: Path, limit: int) -> DumpFacts:
    """Return the forwarding tables of a file; one that does not begin at LID 0 is left out, with a note.

    Raises FileFormatError, also for a table that is cut off. In opensm.fdbs a table counts as cut off only if it has
    fewer rows than the table before it.
    """
    reader = _Reader()
    last = None
    for line in without_messages(text_lines(path, limit)):
        reader.take(line)
        reader.facts.refuse_too_much(line.path)
        last = line
    if last is not None:
        reader.end(last)
    return reader.facts


class _Reader:
    def __init__(self) -> None:
        self.facts = DumpFacts()
        self.guid = 0
        self.entries: dict[int, int] | None = None
        """The rows of the table that is being read; None between tables."""
        self.range: tuple[int, int] | None = None
        """The first and the last LID by the heading; None if the heading has none."""
        self.rows_of_last = 0
        self.size = 0

    def take(self, line: TextLine) -> None:
        heading, routes_heading = _HEADING.match(line.text), _ROUTES_HEADING.match(line.text)
        if heading or routes_heading:
            self.end(line)
            self.entries = {}
        if heading:
            ends = [line.number_in(each, "the range of LIDs", MAX_UNICAST_LID) for each in heading.group(1, 2)]
            self.guid, self.range = line.guid_in(heading[3], "the GUID of the switch"), (ends[0], ends[1])
        elif routes_heading:
            self.guid, self.range = line.guid_in(routes_heading[1], "the GUID of the switch"), None
        elif self.entries is not None:
            self._take_row(line, self.entries)

    def _take_row(self, line: TextLine, entries: dict[int, int]) -> None:
        row, end = _ROW.match(line.text), _END.match(line.text)
        if row:
            lid, port = int(row[1], 16), NO_PORT if row[2] == "UNREACHABLE" else int(row[2])
            first, last = self.range or (0, MAX_UNICAST_LID)
            if not first <= lid <= last or port > NO_PORT or lid in entries:
                raise line.error("this row of a forwarding table has a port or LID that it cannot have")
            entries[lid] = port
        elif end:
            if int(end[1]) != len(entries):
                raise line.error("this forwarding table has another number of rows than its last line says")
            self._add(line, entries)

    def end(self, line: TextLine) -> None:
        """End a table that has no last line of its own. Raises FileFormatError if it is cut off."""
        if self.entries is None:
            return
        rows = len(self.entries)
        if self.range is not None or rows < self.rows_of_last:
            raise line.error("the forwarding table before this line is cut off: make the file again")
        self.rows_of_last = rows
        self._add(line, self.entries)

    def _add(self, line: TextLine, entries: dict[int, int]) -> None:
        self.entries = None
        first, last = self.range or (0, max(entries, default=0))
        if first:
            self.facts.notes.append(
                f"the table of switch 0x{self.guid:016x} does not begin at LID 0, so it was left out"
            )
            return
        self.size += last + 1
        if self.size > _MOST_ENTRIES:
            raise line.error("more forwarding entries than any fabric has")
        self.facts.forwarding.append((self.guid, bytes(entries.get(lid, NO_PORT) for lid in range(last + 1))))
