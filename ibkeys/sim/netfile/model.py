"""What a net file says, as records, and the check that both ends of every link agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from ibkeys.errors import FileFormatError
from ibkeys.mad.const import NodeType

End = tuple[int, int]
"""One end of a link: (index of the node, port number)."""


@dataclass(slots=True)
class FilePort:
    """One port line. ``remote`` is (node id, port) as written, None when the line only gives the port an alias.

    ``width`` and ``speed`` are those of "4xQDR" at the end of the line, 0 and "" when it has none; ``enabled`` holds
    the w=, s= and e= options; ``guid`` is the one printed in parentheses.
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


@dataclass(slots=True)
class FileNode:
    """One record. ``ports`` holds the ports that have a line; ``defaults`` the width=, speed=, extspeed= in force.
    ``says_guid``: a line before it gives its GUID, else it was numbered here; ``port0_guid``: that of a switch's port
    0, where it is printed behind it.
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


@dataclass(slots=True)
class NetFile:
    """A checked net file: ``nodes`` in the order of the text, ``links`` as pairs of (node index, port number)."""

    nodes: list[FileNode]
    links: list[tuple[End, End]]


def connect(nodes: list[FileNode], aliases: dict[str, End]) -> list[tuple[End, End]]:
    """Return the links, each once. Raises FileFormatError if the two ends of one do not agree."""
    by_id = {node.node_id: index for index, node in enumerate(nodes)}
    far_ends: dict[End, End] = {}
    for index, node in enumerate(nodes):
        for port in node.ports.values():
            far_end = _far_end(port, nodes, by_id, aliases)
            if far_end is not None:
                far_ends[index, port.number] = far_end
                if port.remote_alias:  # the port with the alias names nothing itself
                    far_ends.setdefault(far_end, (index, port.number))
    links = []
    for near, far in far_ends.items():
        back = far_ends.get(far)
        if back != near or near == far:
            port = nodes[near[0]].ports[near[1]]
            raise _error(port, _disagreement(nodes, near, far, back))
        if near < far:
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


def _disagreement(nodes: list[FileNode], near: End, far: End, back: End | None) -> str:
    here, there = _end_name(nodes, near), _end_name(nodes, far)
    if near == far:
        return f"{here} is connected to itself"
    if back is None:
        return f"{here} names {there}, which names no other end: a link is written at both of its ends"
    return f"{here} names {there}, which names {_end_name(nodes, back)}"


def _end_name(nodes: list[FileNode], end: End) -> str:
    return f'"{nodes[end[0]].node_id}"[{end[1]}]'


def _error(port: FilePort, message: str) -> FileFormatError:
    return FileFormatError(message, port.path, port.line, port.column)
