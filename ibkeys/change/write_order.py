"""The order in which ports are written: the ports that ibkeys itself needs come last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

from ibkeys.change.writer import ChangeWriter
from ibkeys.topology.nodes import Port

Item = TypeVar("Item")


def in_order(items: Iterable[tuple[Item, int]]) -> Iterator[list[Item]]:
    """Divide *items*, each with its rank (`rank_of`), into one list for each rank, lower ranks first."""
    rank = itemgetter(1)
    for _, same in groupby(sorted(items, key=rank), key=rank):
        yield [item for item, _ in same]


def rank_of(writer: ChangeWriter, port: Port) -> int:
    """Return the rank of a port in the order of writing: 2 for the local port and its leaf port, 1 for the SM's port
    and its leaf port, 0 for every other. Until a port of rank 1 or 2 is written, ibkeys can still roll back."""
    return max(_rank(writer, each) for each in (port, port.peer) if each is port or (each and each.is_end_port))


def _rank(writer: ChangeWriter, port: Port) -> int:
    return 2 if port.port_guid == writer.fabric.own_guid else int(writer.holds_sm(port))
