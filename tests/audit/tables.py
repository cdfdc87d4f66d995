"""Fabrics made of nothing but P_Key tables: for pictures of partitions, without a sweep."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from ibkeys.reach.reach import Reach
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node

Partition = tuple[int, Sequence[int], Sequence[int]]
"""A partition, and the GUIDs of its full and of its limited members."""


def channel_adapter(guid: int, keys: Iterable[int] | None, name: str | None = None) -> Node:
    """Return a channel adapter with one port, which has *keys*; None: its table was not read."""
    info = struct.pack(">4B3Q4H", 1, 1, 1, 1, guid, guid, guid, 128, 0, 0, 0)
    node = Node(info.ljust(64, b"\0"), (1,))
    node.description = name if name is not None else f"host{guid:05d} mlx5_0"
    port = node.port(1)
    port.guid, port.path = guid, (1,)
    if keys is not None:
        held = list(keys)
        port.p_key_raw = struct.pack(f">{len(held)}H", *held).ljust(64, b"\0")
    return node


def fabric_of(partitions: Sequence[Partition], names: Mapping[int, str] | None = None) -> Topology:
    """Return channel adapters that are in *partitions*, by GUID. *names*: GUID → node description."""
    keys: dict[int, list[int]] = {}
    for partition, full, limited in partitions:
        for guid in full:
            keys.setdefault(guid, []).append(partition | 0x8000)
        for guid in limited:
            keys.setdefault(guid, []).append(partition)
    return Topology([channel_adapter(guid, held, (names or {}).get(guid)) for guid, held in sorted(keys.items())])


def reach_of(partitions: Sequence[Partition], names: Mapping[int, str] | None = None) -> Reach:
    """Return who can talk to whom in `fabric_of`."""
    return Reach(fabric_of(partitions, names))
