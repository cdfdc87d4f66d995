"""ibdiagnet2.db_csv, the tables of ibdiagnet 2: nodes, ports, links, PortInfo with the M_Keys in clear.

    file    := { section }, anything else between them
    section := "START_"NAME, header line, rows, "END_"NAME; values with commas between them, text in double quotes

Columns differ between versions, so they are found by their header. ibdiagnet is closed source: sections and
columns are those that public parsers and public copies of its headers have. The columns of its section PKEY are not
known, so P_Key tables are not read from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ibkeys.dumps.facts import DumpFacts, NodeFacts, PortFacts, PortFields
from ibkeys.dumps.lines import TextLine, text_lines
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import MAX_PORT, NODE_TYPE_NAMES, NodeType
from ibkeys.mad.fields import NumberRow

_MARK: Final = re.compile(r"(START|END)_([A-Z0-9_]{1,64})\s*", re.ASCII)
_SIMPLE: Final = re.compile(r'(?:^|,)("[^"]*"|[^,]*)')
_ABSENT: Final = frozenset(("", "N/A", "NA", "ERR"))

NODE_COLUMNS: Final[Mapping[str, NumberRow]] = {
    "SystemImageGUID": NodeInfo.system_image_guid,
    "PartitionCap": NodeInfo.partition_cap,
    "DeviceID": NodeInfo.device_id,
    "revision": NodeInfo.revision,
    "VendorID": NodeInfo.vendor_id,
}
SWITCH_COLUMNS: Final[Mapping[str, NumberRow]] = {
    "LinearFDBCap": SwitchInfo.linear_fdb_cap,
    "LinearFDBTop": SwitchInfo.linear_fdb_top,
    "PartEnfCap": SwitchInfo.partition_enforcement_cap,
    "InbEnfCap": SwitchInfo.inbound_enforcement_cap,
    "OutbEnfCap": SwitchInfo.outbound_enforcement_cap,
    "FilterRawInbCap": SwitchInfo.filter_raw_inbound_cap,
    "FilterRawOutbCap": SwitchInfo.filter_raw_outbound_cap,
    "ENP0": SwitchInfo.enhanced_port0,
}
_SWITCH_NEEDED: Final = ("PartEnfCap", "InbEnfCap", "OutbEnfCap")
PORT_COLUMNS: Final[Mapping[str, NumberRow]] = {
    "MKey": PortInfo.m_key,
    "GIDPrfx": PortInfo.gid_prefix,
    "MSMLID": PortInfo.master_sm_lid,
    "LID": PortInfo.lid,
    "CapMsk": PortInfo.capability_mask,
    "M_KeyLeasePeriod": PortInfo.m_key_lease_period,
    "DiagCode": PortInfo.diag_code,
    "LocalPortNum": PortInfo.local_port_num,
    "LMC": PortInfo.lmc,
    "MKeyProtBits": PortInfo.m_key_protect_bits,
    "LinkDownDefState": PortInfo.link_down_default_state,
    "PortPhyState": PortInfo.port_physical_state,
    "PortState": PortInfo.port_state,
    "VLHighLimit": PortInfo.vl_high_limit,
    "MSMSL": PortInfo.master_sm_sl,
    "FilterRawOutb": PortInfo.filter_raw_outbound,
    "FilterRawInb": PortInfo.filter_raw_inbound,
    "PartEnfOutb": PortInfo.partition_enforcement_outbound,
    "PartEnfInb": PortInfo.partition_enforcement_inbound,
    "PKeyViolations": PortInfo.p_key_violations,
    "MKeyViolations": PortInfo.m_key_violations,
    "QKeyViolations": PortInfo.q_key_violations,
    "SubnTmo": PortInfo.subnet_timeout,
    "MulticastPKeyTrapSuppressionEnabled": PortInfo.multicast_p_key_trap_suppression_enabled,
    "ClientReregister": PortInfo.client_reregister,
    "GUIDCap": PortInfo.guid_cap,
    "MaxCreditHint": PortInfo.max_credit_hint,
    "CapMsk2": PortInfo.capability_mask2,
}
"""Widths and speeds are left out: newer versions put several fields of PortInfo into one number."""

Values = Mapping[str, str]


def read_db_csv(path: Path, limit: int) -> DumpFacts:
    """Return the contents of an ibdiagnet2.db_csv. Raises FileFormatError; no message shows a value."""
    reader = _Reader()
    for line in text_lines(path, limit):
        reader.take(line)
        reader.facts.refuse_too_much(line.path)
    if reader.section and reader.begun is not None:
        raise reader.begun.error("this section has no END_ line: the file is cut off")
    return reader.facts


class _Reader:
    def __init__(self) -> None:
        self.facts = DumpFacts()
        self.nodes: dict[int, NodeFacts] = {}
        self.ports: set[tuple[int, int]] = set()
        self.begun: TextLine | None = None
        self.section = ""
        self.header: Sequence[str] | None = None
        self.rows: Mapping[str, Callable[[TextLine, Values], None]] = {
            "NODES": self._node,
            "SWITCHES": self._switch,
            "PORTS": self._port,
            "LINKS": self._link,
        }

    def take(self, line: TextLine) -> None:
        mark = _MARK.fullmatch(line.text) if line.text.startswith(("START_", "END_")) else None
        if mark:
            self._mark(line, mark[1], mark[2])
            return
        if self.section not in self.rows or not line.text.strip():
            return
        if self.header is None:
            self.header = [name.strip() for name in line.text.split(",")]
            if len(set(self.header)) != len(self.header):
                raise line.error("the header of this section has a column twice")
            return
        values = dict(zip(self.header, split_row(line, len(self.header)), strict=True))
        self.rows[self.section](line, values)

    def _mark(self, line: TextLine, kind: str, name: str) -> None:
        if kind == "START":
            if self.section:
                raise line.error("a section begins inside another one, whose END_ line is missing")
            self.section, self.header, self.begun = name, None, line
            if name == "LINKS" and self.facts.links is None:
                self.facts.links = []
            if name == "PKEY":
                self.facts.notes.append(
                    f"{line.path}:{line.number}: the columns of section PKEY are not publicly known, so its P_Key "
                    "tables were not read"
                )
            return
        if name != self.section:
            raise line.error("this END_ line does not belong to the section that began last")
        self.section, self.header = "", None

    def _node(self, line: TextLine, values: Values) -> None:
        guid = _guid(line, values, "NodeGUID")
        kind, ports = _number(line, values, "NodeType", 255), _number(line, values, "NumPorts", 255)
        if kind not in NODE_TYPE_NAMES or not 1 <= ports <= MAX_PORT:
            raise line.error("NodeType or NumPorts is not valid")
        if guid in self.nodes:
            raise line.error("this NodeGUID appears twice")
        description = _text(values.get("NodeDesc"))
        fields = _fields(line, values, NODE_COLUMNS)
        node = self.nodes[guid] = NodeFacts(guid, kind, ports, line.number, description, fields)
        self.facts.nodes.append(node)

    def _switch(self, line: TextLine, values: Values) -> None:
        node = self.nodes.get(_guid(line, values, "NodeGUID"))
        numbers = _fields(line, values, SWITCH_COLUMNS)
        is_whole = all(SWITCH_COLUMNS[column].attr in numbers for column in _SWITCH_NEEDED)
        if node is not None and node.type == NodeType.SWITCH and is_whole:
            node.switch_info = SwitchInfo.new(**numbers).raw

    def _port(self, line: TextLine, values: Values) -> None:
        guid, num = _guid(line, values, "NodeGuid"), _number(line, values, "PortNum", MAX_PORT)
        if (guid, num) in self.ports:
            raise line.error("this port appears twice")
        self.ports.add((guid, num))
        fields = PortFields()
        for column, row in PORT_COLUMNS.items():
            value = _maybe(line, values, column, (1 << 64) - 1)
            if value is not None and not fields.put(row, value):
                raise line.error(f"{column} has a value that this field cannot have")
        port = PortFacts(guid, num, line.number)
        if values.get("PortGuid", "") not in _ABSENT:
            port.guid = line.guid_in(values["PortGuid"], "PortGuid")
        self.facts.ports.append(fields.into(port))

    def _link(self, line: TextLine, values: Values) -> None:
        ends = []
        for which in "12":
            num = _number(line, values, f"PortNum{which}", MAX_PORT)
            ends.append((_guid(line, values, f"NodeGuid{which}"), num))
        if not (ends[0][1] and ends[1][1]):
            raise line.error("a link to a port 0")
        assert self.facts.links is not None
        self.facts.links.append((ends[0], ends[1]))


def split_row(line: TextLine, count: int) -> list[str]:
    """Return the *count* values of a row. A name may hold quotes and commas: then all between the first quote and the
    last one is the name. Raises FileFormatError if the row has another number of values."""
    found = _SIMPLE.findall(line.text)
    if len(found) == count and ",".join(found) == line.text:
        return [part.strip() for part in found]
    parts: list[str] = []
    first, last = line.text.find('"'), line.text.rfind('"')
    if first < last:
        before, after = line.text[:first].split(",")[:-1], line.text[last + 1 :].split(",")[1:]
        parts = [*(part.strip() for part in before), line.text[first : last + 1], *(part.strip() for part in after)]
    if len(parts) != count:
        raise line.error("this row has another number of values than its section has columns")
    return parts


def _text(value: str | None) -> bytes | None:
    if value is None or value in _ABSENT:
        return None
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return value.encode("utf-8", "surrogateescape")


def _guid(line: TextLine, values: Values, column: str) -> int:
    return line.guid_in(_given(line, values, column), column)


def _number(line: TextLine, values: Values, column: str, highest: int) -> int:
    return line.number_in(_given(line, values, column), column, highest)


def _given(line: TextLine, values: Values, column: str) -> str:
    value = values.get(column)
    if value is None or value in _ABSENT:
        raise line.error(f"the column {column} is missing or empty")
    return value


def _fields(line: TextLine, values: Values, columns: Mapping[str, NumberRow]) -> dict[str, int]:
    """Return the fields that a row has of *columns*."""
    found = ((row, _maybe(line, values, column, row.max)) for column, row in columns.items())
    return {row.attr: value for row, value in found if value is not None}


def _maybe(line: TextLine, values: Values, column: str, highest: int) -> int | None:
    value = values.get(column)
    return None if value is None or value in _ABSENT else line.number_in(value, column, highest)
