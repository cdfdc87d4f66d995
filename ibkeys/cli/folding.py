"""Ports that say the same in one row: ``stage[1-48] mlx5_0``. All are named, and unfolding gives each of them back.

A word of a folded row names ports: folded host names (ClusterShell's sets), the device part of the node description,
and the port numbers where the nodes have several ports here. Where a name repeats, is missing, or holds what a folded
set cannot, the node stands alone with its GUID beside it.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final

from ibkeys.cli.exits import write
from ibkeys.cli.options import Folding
from ibkeys.cli.render import Row, table_lines
from ibkeys.errors import UsageError
from ibkeys.printable import clean

_TAME: Final = re.compile(r"(?!.* port \d)[A-Za-z0-9._:;/+-]+(?: [A-Za-z0-9._:;/+ -]+)?")
"""Node descriptions that a folded set can hold; a node may call itself anything."""
_DIGITS: Final = re.compile(r"(\d+)")
_INDENT: Final = " " * 4
NARROW: Final = 80
"""Columns of what is no terminal."""


def is_folded(folding: Folding, format: str) -> bool:
    """Return whether equal rows are to be one: on a terminal, or as asked. Raises UsageError for what goes together
    with neither."""
    if folding.each and folding.fold:
        raise UsageError("--each and --fold: one of them")
    if folding.fold and format != "table":
        raise UsageError(f"--fold is a form of the table; -f {format} has one record for each port")
    return format == "table" and (folding.fold or (sys.stdout.isatty() and not folding.each))


def width_of_output() -> int:
    """Return how many columns a line may have."""
    return shutil.get_terminal_size((NARROW, 24)).columns if sys.stdout.isatty() else NARROW


def fold_rows(rows: Sequence[Row], said: Callable[[Row], Hashable]) -> list[list[Row]]:
    """Return *rows*, which carry a port's identity, in groups of which *said* is the same; hosts come before switch
    ports, names in natural order."""
    groups: dict[Hashable, list[Row]] = {}
    for row in sorted(rows, key=_order):
        groups.setdefault(said(row), []).append(row)
    return list(groups.values())


def write_folded(
    names: FoldedNames, rows: Sequence[Row], titles: Sequence[str], cells: Callable[[Row], Sequence[Any]]
) -> None:
    """Write `folded_lines`."""
    for line in folded_lines(names, rows, titles, cells):
        write(line)


def folded_lines(
    names: FoldedNames, rows: Sequence[Row], titles: Sequence[str], cells: Callable[[Row], Sequence[Any]]
) -> Iterator[str]:
    """Yield *rows* as a table with one row for all ports that have the same *cells*; below it stands who they are."""
    groups = fold_rows(rows, lambda row: tuple(map(_frozen, cells(row))))
    return table_lines(
        ("Ports", *titles),
        ([len(group), *cells(group[0])] for group in groups),
        [names.indented(group) for group in groups],
    )


class FoldedNames:
    """How the ports of a sheet are called. *rows*: all of them, so that what repeats is known."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._ports: dict[str, set[int]] = {}
        for row in rows:
            self._nodes.setdefault(row["node_desc"] or "", set()).add(row["node_guid"])
            self._ports.setdefault(row["node_guid"], set()).add(row["port"])

    def words(self, rows: Iterable[Row]) -> list[str]:
        """Return *rows* as few words, hosts before switches, in natural order; every port is in one of them."""
        ports: dict[str, set[int]] = {}
        first: dict[str, Row] = {}
        for row in sorted(rows, key=_order):
            ports.setdefault(row["node_guid"], set()).add(row["port"])
            first.setdefault(row["node_guid"], row)
        sets: dict[tuple[bool, str, str], list[str]] = {}
        alone: list[str] = []
        for guid, row in first.items():
            numbers = self._numbers(row, ports[guid])
            name = row["node_desc"] or ""
            if _TAME.fullmatch(name) and len(self._nodes[name]) == 1:
                host, _, device = name.partition(" ")
                sets.setdefault((row["node_type"] == "switch", device, numbers), []).append(host)
            else:
                alone.append(f"{clean(name)} ({guid})".strip() + numbers)
        named = [
            _folded(hosts) + (f" {device}" if device else "") + numbers for (_, device, numbers), hosts in sets.items()
        ]
        return named + alone

    def indented(self, rows: Iterable[Row]) -> list[str]:
        """Return the words of *rows* as lines below something: each on one of its own, or more where it is long."""
        width = width_of_output() - len(_INDENT)
        return [_INDENT + line for word in self.words(rows) for line in _wrapped(word, width)]

    def _numbers(self, row: Row, ports: set[int]) -> str:
        if row["node_type"] != "switch" and self._ports[row["node_guid"]] == ports and len(ports) == 1:
            return ""
        return f" port {_ranges(sorted(ports))}"


def _order(row: Row) -> tuple[Any, ...]:
    rank = 0 if row["node_type"] != "switch" else 1
    return rank, natural(row["node_desc"] or ""), row["node_guid"], row["port"]


def natural(name: str) -> list[tuple[int, int, str]]:
    """Return what sorts *name* as people do: 2 before 10."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(name) if part]


def _folded(hosts: Sequence[str]) -> str:
    from ibkeys.topology.name_patterns import folded

    return folded(hosts) if len(hosts) > 1 else hosts[0]


def _wrapped(word: str, width: int) -> list[str]:
    """Return *word* in lines of at most *width*, broken after commas where that is possible."""
    lines = [""]
    for part in re.split("(?<=,)", word):
        if lines[-1].strip() and len(lines[-1]) + len(part) > width:
            lines.append("  ")
        lines[-1] += part
    return lines


def _ranges(numbers: Sequence[int]) -> str:
    from ClusterShell.RangeSet import RangeSet

    return str(RangeSet.fromlist([str(number) for number in numbers]))


def _frozen(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value
