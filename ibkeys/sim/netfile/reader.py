"""Parsing net files: topologies in the format that ibsim reads and ibnetdiscover writes.

A file is a list of node records with their port lines. `parse_net_file` returns only the contents of the text, checked
for consistency; `ibkeys.sim.netfile.build` builds nodes from it, with defaults for states and tables. Lines that are
not part of the grammar are skipped, as in ibsim, so a file that begins with an error message can be loaded. A mistake
in a line that is part of the grammar raises FileFormatError with line and column. Source: ibsim's sim_net.c and the
output of ibnetdiscover.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileFormatError
from ibkeys.mad.const import MAX_UNICAST_LID, NodeType
from ibkeys.sim.netfile.line import LineCursor, to_number
from ibkeys.sim.netfile.model import FileNode, FilePort, NetFile, connect

MAX_INCLUDES: Final = 9
MAX_PORTS: Final = 254
_BYTES_OF_A_FILE: Final = files.LARGE // 1000
"""The bytes that each included file counts in addition to its size, so that at most 1,000 files are read."""
DESCRIPTION_SIZE: Final = 64

_KINDS: Final = {"Switch": NodeType.SWITCH, "Ca": NodeType.CA, "Hca": NodeType.CA, "Rt": NodeType.ROUTER}
_GUID_SETTINGS: Final = {f"{kind.lower()}guid{s}": node_type for kind, node_type in _KINDS.items() for s in ("", "s")}
"""The settings switchguid, switchguids, caguid and so on, with the type of node that each is for."""
_FIRST_GUIDS: Final = {NodeType.CA: 0x100000, NodeType.SWITCH: 0x200000, NodeType.ROUTER: 0x300000}
_HIGHEST: Final = {"width": 31, "speed": 7, "extspeed": 15, "w": 31, "s": 7, "e": 15}

_HEADER: Final = re.compile(r"(Switch|Hca|Ca|Rt)\b[^0-9\"]*")
_SETTING: Final = re.compile(r"([a-z]+)\s*(=|\+)\s*(\+?)\s*")
_OTHER_SETTINGS: Final = ("vendid", "devid", "sysimgguid", "width", "speed", "extspeed", "pdebug")
_SETTING_NAMES: Final = frozenset({*_GUID_SETTINGS, *_OTHER_SETTINGS})
_PORT_NUMBER: Final = re.compile(r"\[\s*([0-9]+)\s*\]")
_PORT_GUID: Final = re.compile(r"\(\s*(?:0[xX])?([0-9a-fA-F]{1,16})\s*\)")
_OPTION: Final = re.compile(r"([A-Za-z]+)\s*=\s*")
_LID: Final = re.compile(r"\blid\s+(0[xX][0-9a-fA-F]+|[0-9]+)")
_LMC: Final = re.compile(r"\blmc\s+([0-9]+)")
_RATE: Final = re.compile(r"\b([0-9]{1,2})x([A-Z][A-Z0-9]*)\s*$")
_DESCRIPTION_END: Final = re.compile(r"\s(?:enhanced port|base port|lid|lmc)\s")


def parse_net_file(path: str | Path) -> NetFile:
    """Return the contents of the net file *path*, with the files that it includes. Raises FileFormatError, also if a
    file cannot be read."""
    reader = _Reader()
    reader.read_file(Path(path), str(path))
    return reader.finish(str(path))


def parse_net_text(text: str, name: str = "<text>") -> NetFile:
    """Return the contents of the net file *text*, which may not include files. *name*: its path in errors. Raises
    FileFormatError."""
    reader = _Reader()
    reader.read_text(text, name, None)
    return reader.finish(name)


class NoNodeRecord(FileFormatError):
    """The error for a file without any node record: it is not a net file."""


class _Reader:
    def __init__(self) -> None:
        self.nodes: list[FileNode] = []
        self.by_id: dict[str, int] = {}
        self.guids: dict[int, FileNode] = {}
        self.aliases: dict[str, tuple[int, int]] = {}
        self.bases = dict(_FIRST_GUIDS)
        self.next_guids = dict(_FIRST_GUIDS)
        self.says_guid = False
        self.port0_guid: int | None = None
        self.vendor_id = 0
        self.device_id = 0
        self.system_image_guid: int | None = None
        self.module = ""
        self.defaults: dict[str, int] = {}
        self.node: FileNode | None = None
        self.depth = 0
        self.bytes_left = files.LARGE

    def read_file(self, path: Path, name: str) -> None:
        with files.os_errors_as(partial(FileFormatError, path=name), "cannot be read"):
            data = files.read_bytes(path, self.bytes_left)
        # The limit is for all files together: a file may include another one twice, which includes a third one twice,
        # and so on.
        self.bytes_left -= len(data) + _BYTES_OF_A_FILE
        if self.bytes_left < 0:
            raise FileFormatError("the files that it includes are too large together", name)
        self.read_text(data.decode("utf-8", "surrogateescape"), name, path.parent)

    def read_text(self, text: str, name: str, folder: Path | None) -> None:
        self.depth += 1
        # Not splitlines(): a form feed or U+2028 inside a description does not end a line.
        for number, raw in enumerate(text.split("\n"), 1):
            self.read_line(LineCursor(raw.removesuffix("\r"), name, number), folder)
        self.depth -= 1
        self.node = None

    def read_line(self, line: LineCursor, folder: Path | None) -> None:
        first = line.text[:1]
        if first == "#":  # A comment does not end a record.
            return
        if first in ("[", "@"):
            self.read_port(line)
            return
        self.node = None
        header = line.take(_HEADER)
        if header:
            self.read_header(line, _KINDS[header[1]])
            return
        setting = line.take(_SETTING)
        if setting and setting[1] in _SETTING_NAMES:
            self.read_setting(line, setting)
            return
        line.at = 0
        word = re.match(r"[a-z]+", line.text)
        if not word:
            return
        if word[0] in _SETTING_NAMES:
            raise line.error(f"'=' is missing after {word[0]}", word.end())
        if word[0] == "module":
            line.at = word.end()
            line.skip_blanks()
            if line.text[line.at : line.at + 1] != "=":
                raise line.error("'=' is missing after module")
            line.at += 1
            self.module = line.take_quoted("the module's name")
        elif word[0] == "include":
            line.at = word.end()
            self.include(line, folder)

    def include(self, line: LineCursor, folder: Path | None) -> None:
        start = line.at
        name = line.take_quoted("the file's name")
        if folder is None:
            raise line.error("include works in a file only", start)
        if self.depth > MAX_INCLUDES:
            raise line.error(f"includes that are nested more than {MAX_INCLUDES} deep", start)
        self.read_file(folder / name, str(folder / name))

    def read_setting(self, line: LineCursor, setting: re.Match[str]) -> None:
        name = setting[1]
        node_type = _GUID_SETTINGS.get(name)
        if node_type is not None:
            relative = setting[2] == "+" or setting[3] == "+"
            guid = line.take_number(name, (1 << 64) - 1)
            if relative:
                guid = guid + self.bases[node_type] & (1 << 64) - 1
            else:
                self.bases[node_type] = guid
            self.next_guids[node_type] = guid
            port_guid = line.take(_PORT_GUID)
            self.says_guid, self.port0_guid = True, int(port_guid[1], 16) if port_guid else None
        elif name == "vendid":
            self.vendor_id = line.take_number(name, 0xFFFFFF)
        elif name == "devid":
            self.device_id = line.take_number(name, 0xFFFF)
        elif name == "sysimgguid":
            self.system_image_guid = line.take_number(name, (1 << 64) - 1)
        elif name != "pdebug":
            self.defaults = {**self.defaults, name[0]: line.take_number(name, _HIGHEST[name])}

    def read_header(self, line: LineCursor, node_type: NodeType) -> None:
        start = line.at
        num_ports = line.take_number("the number of ports", MAX_PORTS)
        if num_ports == 0:
            raise line.error("a node has at least one port", start)
        line.skip_blanks()
        start = line.at
        own_id = line.take_quoted("the node id")
        self.check_name(line, own_id, start)
        node_id = f"{self.module}#{own_id}" if self.module else own_id
        if node_id in self.by_id:
            other = self.nodes[self.by_id[node_id]]
            raise line.error(f'node id "{node_id}" is taken by the node of line {other.line}', start)
        guid = self.next_guids[node_type]
        if guid in self.guids:
            other = self.guids[guid]
            raise line.error(f'GUID 0x{guid:016x} is already used by node "{other.node_id}" on line {other.line}', 0)
        description, rest = _description(line.text[line.at :])
        node = FileNode(
            node_type,
            num_ports,
            node_id,
            (description or node_id).encode("utf-8", "surrogateescape")[:DESCRIPTION_SIZE],
            guid,
            guid if self.system_image_guid is None else self.system_image_guid,
            self.vendor_id,
            self.device_id,
            line.number,
            line.path,
            defaults=self.defaults,
            says_guid=self.says_guid,
        )
        if node_type == NodeType.SWITCH:
            node.enhanced_port0, node.port0_guid = "enhanced port 0" in rest, self.port0_guid
            node.lid, node.lmc = _lid_and_lmc(line, rest)
        # ibsim reserves one GUID for a switch, and one for each port and the node of a CA.
        self.next_guids[node_type] = guid + (1 if node_type == NodeType.SWITCH else num_ports + 1) & (1 << 64) - 1
        self.vendor_id, self.system_image_guid, self.says_guid, self.port0_guid = 0, None, False, None
        self.by_id[node_id] = len(self.nodes)
        self.guids[guid] = node
        self.nodes.append(node)
        self.node = node

    def check_name(self, line: LineCursor, name: str, at: int) -> None:
        if "#" in name or "@" in name:
            raise line.error(f'"{name}": # and @ are reserved in names', at)

    def read_port(self, line: LineCursor) -> None:
        node = self.node
        if node is None:
            raise line.error("a port line without a node record before it")
        is_alias = line.text[0] == "@"
        line.at = 1 if is_alias else 0
        start = line.at
        found = line.take(_PORT_NUMBER)
        if not found:
            raise line.error("a port number in brackets, as [1], is expected")
        number = to_number(found[1])
        if not 1 <= number <= node.num_ports:
            raise line.error(f'port {number} is not in 1..{node.num_ports} of node "{node.node_id}"', start)
        port = node.ports.get(number)
        if port is not None and (is_alias or not port.alias):
            raise line.error(f"port {number} was described in line {port.line} already", start)
        if port is None:
            port = node.ports[number] = FilePort(number, line.number, start + 1, line.path, enabled=dict(node.defaults))
        guid = line.take(_PORT_GUID)
        if guid:
            port.guid = int(guid[1], 16)
        line.skip_blanks()
        name_at = line.at
        name = line.take_quoted("the alias" if is_alias else "the remote node's id")
        if is_alias:
            self.check_name(line, name, name_at)
            port.alias = f"{self.module}@{name}"
            if port.alias in self.aliases:
                raise line.error(f'alias "{port.alias}" is taken', name_at)
            self.aliases[port.alias] = (len(self.nodes) - 1, port.number)
        elif "@" in name:
            port.remote_alias = f"{self.module}{name}" if name.startswith("@") else name
        else:
            self.set_remote(line, port, name)
        self.read_rest(line, node, port)

    def set_remote(self, line: LineCursor, port: FilePort, name: str) -> None:
        remote_port = 1
        if line.text[line.at : line.at + 1] == "[":
            start = line.at
            found = line.take(_PORT_NUMBER)
            remote_port = to_number(found[1]) if found else 0
            if not 1 <= remote_port <= MAX_PORTS:
                raise line.error("the remote port's number is missing or not in 1..254", start)
            line.take(_PORT_GUID)
        port.remote = (f"{self.module}#{name}" if self.module and "#" not in name else name, remote_port)

    def read_rest(self, line: LineCursor, node: FileNode, port: FilePort) -> None:
        comment_at = line.text.find("#", line.at)
        stop = len(line.text) if comment_at < 0 else comment_at
        while (found := _OPTION.search(line.text, line.at, stop)) is not None:
            name = found[1][0]
            if name not in "wse":
                raise line.error(f"unknown option {found[1]}= (w=, s= and e= are known)", found.start())
            line.at = found.end()
            port.enabled[name] = line.take_number(found[1], _HIGHEST[name])
        rest = line.text[line.at :]
        if node.node_type != NodeType.SWITCH:
            # The port's own LID is before the quoted description of the far end, the LID of the far end after it.
            port.lid, port.lmc = _lid_and_lmc(line, rest.partition('"')[0])
        rate = _RATE.search(rest)
        if rate:
            port.width, port.speed = int(rate[1]), rate[2]

    def finish(self, name: str) -> NetFile:
        if not self.nodes:
            raise NoNodeRecord("no node record (Switch, Ca or Rt) in it", name)
        return NetFile(self.nodes, connect(self.nodes, self.aliases))


def _description(rest: str) -> tuple[str, str]:
    """Return the description in *rest*, the text after a node id, and the text after it (``enhanced port 0 lid 1``)."""
    _, hash_sign, comment = rest.partition("#")
    comment = comment.strip()
    if not hash_sign or not comment:
        return "", rest
    if comment.startswith('"'):
        # The last quote of the line ends the description: nothing after the description is quoted.
        end = comment.rfind('"')
        return (comment[1:end], comment[end + 1 :]) if end > 0 else (comment[1:], "")
    stop = _DESCRIPTION_END.search(comment)
    return (comment[: stop.start()], comment[stop.start() :]) if stop else (comment, "")


def _lid_and_lmc(line: LineCursor, text: str) -> tuple[int, int]:
    return _named_number(line, text, _LID, "LID", MAX_UNICAST_LID), _named_number(line, text, _LMC, "LMC", 7)


def _named_number(line: LineCursor, text: str, pattern: re.Pattern[str], what: str, highest: int) -> int:
    """Return the number that group 1 of *pattern* matches in *text*, a part of the line; 0 without a match. Raises
    FileFormatError if it is more than *highest*; *what*: its name in the message."""
    found = pattern.search(text)
    value = to_number(found[1]) if found else 0
    if found and value > highest:
        raise line.error(f"{what} {found[1]} is not in 0..{highest}", line.text.rfind(text) + found.start())
    return value
