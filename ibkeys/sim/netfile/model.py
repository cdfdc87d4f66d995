"""The records of a fabric, and the check that both ends of every link agree.

A net file has the cabling, GUIDs, LIDs and rates. A snapshot has much more: the attributes as they were read. A value
that a record does not have is None or 0; `ibkeys.sim.netfile.build` has a default for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ibkeys.errors import FileFormatError
from ibkeys.mad.classes.gmp import KeyClass
from ibkeys.mad.const import NodeType
from ibkeys.printable import counted

End = tuple[int, int]
"""One end of a link: (index of the node, port number)."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A value that the source of a fabric does not have: ``what``, and the value ``assumed`` in its place.

    ``count``: the number of ports or nodes (``unit``) without the value; None: all of them, because no source of this
    kind has it.
    """

    what: str
    assumed: str
    count: int | None = None
    unit: Literal["port", "node"] = "port"

    def __str__(self) -> str:
        of = f" ({counted(self.count, self.unit)})" if self.count is not None else ""
        return f"{self.what}{of}: {self.assumed}"


@dataclass(slots=True)
class RecordedPortValues:
    """The values that were read from a port; None, or an empty mapping, for values that were not read.

    ``port_info``: 64 bytes. ``p_key_table``: 2 bytes for each entry. ``guids``: index → GUID, without the port GUID.
    ``virtualization``: VirtualizationInfo. ``counters``: name in `ibkeys.mad.performance.PortCounters` → value.
    ``class_keys``: class → the 16 bytes of KeyInfo. ``is_partial``: fields of PortInfo may be 0 because the source does
    not have them.
    """

    port_info: bytes | None = None
    p_key_table: bytes | None = None
    guids: dict[int, int] | None = None
    virtualization: bytes | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    class_keys: Mapping[KeyClass, bytes] = field(default_factory=dict)
    is_partial: bool = False


@dataclass(slots=True)
class FilePort:
    """A port of a node record. Most ports are from a line of their own; port 0 of a switch has a record only if values
    were read from it.

    ``line``, ``column``, ``path``: its place in the file. ``remote``: (node id, port number) of the far end; None if
    the line names the far end by an alias, ``remote_alias``, or only gives the port an ``alias``. Node ids and aliases
    begin with their module, if there is one. ``guid``: the GUID in parentheses, None if there is none. ``width`` and
    ``speed``: those of "4xQDR" at the end of the line, else 0 and "". ``enabled``: the values of the options w=, s= and
    e=, by default those of the node's ``defaults``. ``readings``: the values of a snapshot.
    """

    number: int
    line: int
    column: int
    path: str
    remote: tuple[str, int] | None = None
    alias: str = ""
    remote_alias: str = ""
    guid: int | None = None
    lid: int = 0
    lmc: int = 0
    width: int = 0
    speed: str = ""
    enabled: dict[str, int] = field(default_factory=dict)
    readings: RecordedPortValues | None = None


@dataclass(slots=True)
class FileNode:
    """A node record. ``ports``: port number → the port, for ports that have a line; ``defaults``: the values of width=,
    speed= and extspeed= that hold for it, as w, s and e.

    ``line``, ``path``: its place in the file. ``says_guid``: the file has the node's GUID, on a line before the record;
    otherwise the reader chose the GUID. ``port0_guid``: the GUID of a switch's port 0, if the file has it after the
    node's GUID. ``revision``, ``partition_cap`` and ``switch_info``: the values that were read, else None.
    """

    node_type: NodeType
    num_ports: int
    node_id: str
    description: bytes
    guid: int
    system_image_guid: int
    vendor_id: int
    device_id: int
    line: int
    path: str
    lid: int = 0
    lmc: int = 0
    enhanced_port0: bool = False
    says_guid: bool = False
    port0_guid: int | None = None
    ports: dict[int, FilePort] = field(default_factory=dict)
    defaults: dict[str, int] = field(default_factory=dict)
    revision: int | None = None
    partition_cap: int | None = None
    switch_info: bytes | None = None


@dataclass(slots=True)
class NetFile:
    """A checked net file. ``nodes``: in the order of the text; ``links``: pairs of (index of the node, port number).

    ``assumed``: the values that the source does not have. ``is_recorded``: it was made from readings of a real fabric,
    so its ports have ``readings``.
    """

    nodes: list[FileNode]
    links: list[tuple[End, End]]
    assumed: Sequence[Assumption] = ()
    is_recorded: bool = False


def connect(nodes: list[FileNode], aliases: dict[str, End]) -> list[tuple[End, End]]:
    """Return the links of *nodes*, each once. *aliases*: alias → port. Raises FileFormatError if the two ends of a link
    do not agree, or an end names an alias, a node or a port that does not exist."""
    by_id = {node.node_id: index for index, node in enumerate(nodes)}
    far_ends: dict[End, End] = {}
    for index, node in enumerate(nodes):
        for port in node.ports.values():
            far_end = _far_end(port, nodes, by_id, aliases)
            if far_end is not None:
                far_ends[index, port.number] = far_end
                if port.remote_alias:  # the port with the alias has no remote end of its own
                    far_ends.setdefault(far_end, (index, port.number))
    links = []
    for near, far in far_ends.items():
        answer = far_ends.get(far)
        if answer != near:
            port = nodes[near[0]].ports[near[1]]
            raise _error(port, _describe_disagreement(nodes, near, far, answer))
        if near <= far:  # equal for a loopback plug
            links.append((near, far))
    return links


def _far_end(port: FilePort, nodes: list[FileNode], by_id: dict[str, int], aliases: dict[str, End]) -> End | None:
    if port.remote_alias:
        if port.remote_alias not in aliases:
            raise _error(port, f'alias "{port.remote_alias}" is not defined')
        return aliases[port.remote_alias]
    if port.remote is None:
        return None
    name, number = port.remote
    index = by_id.get(name)
    if index is None:
        raise _error(port, f'no node has the id "{name}"')
    if number > nodes[index].num_ports:
        raise _error(port, f'node "{name}" has {nodes[index].num_ports} ports, no port {number}')
    return index, number


def _describe_disagreement(nodes: list[FileNode], near: End, far: End, answer: End | None) -> str:
    here, there = _end_name(nodes, near), _end_name(nodes, far)
    if answer is None:
        return f"{here} names {there}, which names no other end: a link is written at both of its ends"
    return f"{here} names {there}, which names {_end_name(nodes, answer)}"


def _end_name(nodes: list[FileNode], end: End) -> str:
    return f'"{nodes[end[0]].node_id}"[{end[1]}]'


def _error(port: FilePort, message: str) -> FileFormatError:
    return FileFormatError(message, port.path, port.line, port.column)
