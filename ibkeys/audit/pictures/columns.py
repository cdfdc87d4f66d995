"""The contents of the partition matrix: partitions as rows, ports as columns. Ports with the same memberships share one
column, so a fabric of 40,000 ports is only as wide as it has kinds of ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ibkeys.keys.pkey import DEFAULT_INBOUND_CHECK
from ibkeys.reach.forms import FULL, LIMITED, PortForms, Standing, forms_in, forms_passing_port
from ibkeys.reach.reach import Reach
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.nodes import Port

T = TypeVar("T")

_KINDS: Final = {FULL: "full", LIMITED: "limited", FULL | LIMITED: "both"}
MOST: Final = 400
"""The most rows, and the most columns, that a picture shows; each still has the size of a letter."""


@dataclass(frozen=True, slots=True)
class MatrixColumn:
    """End ports with the same P_Keys whose switch ports also let the same packets through.

    ``keys``: (partition, ``full``, ``limited`` or ``both``). ``names``: all the ports in few words. ``traffic``: which
    packets leave them and arrive in each partition; None if the attributes that decide were not read. ``stopped``: the
    partitions of which their switch ports stop some packets, or all. ``places``: where their switches are in each
    partition; between two places, ports on links between switches may stop packets
    (`ibkeys.reach.places`; 0: nowhere).
    """

    keys: tuple[tuple[int, str], ...]
    ports: tuple[Port, ...]
    names: tuple[str, ...]
    traffic: Mapping[int, PortForms] | None
    stopped: tuple[int, ...] = ()
    places: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A partition, its name or None, and its numbers of full and limited members; a port with both P_Keys counts in
    both."""

    partition: int
    name: str | None
    full: int
    limited: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """The contents of a picture.

    ``ports``: how many are in some partition; ``unread``: the ports whose partners are not known, in few words;
    ``left_out``: in words, the parts for which the picture has no room.
    """

    columns: Sequence[MatrixColumn]
    rows: Sequence[MatrixRow]
    ports: int
    unread: Sequence[str]
    left_out: str


def lay_out(reach: Reach, names: Mapping[int, str] | None = None, chosen: Collection[int] = ()) -> Matrix:
    """Return the contents of a picture of *reach*. If there are very many kinds of ports, the picture has only the
    kinds with the most ports, and of the partitions of these kinds only those with the most members.

    *names*: partition → its name. *chosen*: the only partitions to show; empty: all.
    """
    called = FoldedNames(port.identity() for port in (*reach.ports, *reach.unread))
    every_row = [
        MatrixRow(each.partition, (names or {}).get(each.partition), len(each.full), len(each.limited))
        for each in reach.memberships()
        if not chosen or each.partition in chosen
    ]
    every = sorted(_columns(reach, called, chosen), key=lambda column: column.keys)
    columns = _largest(every, [len(column.ports) for column in every])
    held = {partition for column in columns for partition, _ in column.keys}
    rows = [row for row in every_row if row.partition in held]
    rows = _largest(rows, [row.full + row.limited for row in rows])
    ports = sum(len(column.ports) for column in every)
    omitted = []
    if len(columns) < len(every):
        missing = ports - sum(len(column.ports) for column in columns)
        omitted.append(f"{len(every) - len(columns):,} kinds of ports ({missing:,} ports)")
    if len(rows) < len(every_row):
        omitted.append(f"{len(every_row) - len(rows):,} partitions")
    left_out = f"Left out for lack of space: {' and '.join(omitted)}; ibkeys matrix -f csv has them." if omitted else ""
    unread = called.words(port.identity() for port in reach.unread)
    return Matrix(columns, rows, ports, unread, left_out)


def _columns(reach: Reach, called: FoldedNames, chosen: Collection[int]) -> Iterator[MatrixColumn]:
    """Yield the groups of ports that are in some partition of *chosen*; empty: in any partition. Ports that differ only
    in other partitions share a column."""
    found: dict[tuple[tuple[tuple[int, str], ...], tuple[tuple[int, PortForms, int], ...] | None], list[Port]] = {}
    for group in reach.groups:
        decides = sorted(
            (partition, forms_passing_port(standing, reach.inbound_check), standing.place)
            for partition, standing in group.profile
            if not chosen or partition in chosen
        )
        found.setdefault((_kinds(group.ports[0], chosen), tuple(decides)), []).extend(group.ports)
    for port in reach.unread:
        found.setdefault((_kinds(port, chosen), None), []).append(port)
    for (keys, passing), ports in found.items():
        if not keys:
            continue
        names = tuple(called.words(port.identity() for port in ports))
        if passing is None:
            yield MatrixColumn(keys, tuple(ports), names, None)
        else:
            stopped = tuple(partition for partition, each, _ in passing if each != _unchecked(ports[0], partition))
            traffics = {partition: each for partition, each, _ in passing}
            places = {partition: place for partition, _, place in passing}
            yield MatrixColumn(keys, tuple(ports), names, traffics, stopped, places)


def _unchecked(port: Port, partition: int) -> PortForms:
    """Return the traffic of a port in a partition if no switch port checked anything."""
    return forms_passing_port(Standing(forms_in(port)[partition], None, None), DEFAULT_INBOUND_CHECK)


def _kinds(port: Port, chosen: Collection[int]) -> tuple[tuple[int, str], ...]:
    """Return the partitions of a port, each with its kind of membership."""
    forms = sorted(forms_in(port).items())
    return tuple((partition, _KINDS[held]) for partition, held in forms if not chosen or partition in chosen)


def _largest(things: Sequence[T], sizes: Sequence[int]) -> list[T]:
    """Return the `MOST` things of the largest sizes, in their order."""
    if len(things) <= MOST:
        return list(things)
    chosen = sorted(range(len(things)), key=lambda index: (-sizes[index], index))[:MOST]
    return [things[index] for index in sorted(chosen)]
