"""Ports that say the same in one row: ``stage[1-48] mlx5_0`` (`ibkeys.topology.folded_names`).

All are named, and unfolding gives each of them back.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final

from ibkeys.cli.exits import write
from ibkeys.cli.options import Folding
from ibkeys.cli.render import Row, table_lines
from ibkeys.cli.screen.lines import NARROW, width_of
from ibkeys.errors import UsageError
from ibkeys.topology.folded_names import FoldedNames, in_order

_INDENT: Final = " " * 4
_WITH_GUID: Final = re.compile(r"(?P<name>.*)\((?P<guid>0x[0-9a-f]{16})\)(?P<ports>(?: port [0-9,-]+)?)", re.DOTALL)
"""A word of a node that needs its GUID: see `FoldedNames.words`."""


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
    return width_of(sys.stdout) or NARROW


def fold_rows(rows: Sequence[Row], said: Callable[[Row], Hashable]) -> list[list[Row]]:
    """Return *rows*, which carry a port's identity, in groups of which *said* is the same; hosts come before switch
    ports, names in natural order."""
    groups: dict[Hashable, list[Row]] = {}
    for row in sorted(rows, key=in_order):
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
        [indented(names, group) for group in groups],
    )


def indented(names: FoldedNames, rows: Iterable[Row]) -> list[str]:
    """Return the words of *rows* as lines below something: each on one of its own, or more where it is long. Nodes of
    one name stand together, with all their GUIDs."""
    width = width_of_output() - len(_INDENT)
    return [_INDENT + line for word in _together(names.words(rows)) for line in _wrapped(word, width)]


def _together(words: Iterable[str]) -> list[str]:
    """Return *words* with those that differ by a GUID only as one: ``NAME (0x...01,0x...02) port 3``."""
    guids: dict[tuple[str, str], list[str]] = {}
    others: list[str] = []
    for word in words:
        found = _WITH_GUID.fullmatch(word)
        if found is None:
            others.append(word)
        else:
            guids.setdefault((found["name"], found["ports"]), []).append(found["guid"])
    return [*others, *(f"{name}({','.join(several)}){ports}" for (name, ports), several in guids.items())]


def _wrapped(word: str, width: int) -> list[str]:
    """Return *word* in lines of at most *width*, broken after commas where that is possible."""
    lines = [""]
    for part in re.split("(?<=,)", word):
        if lines[-1].strip() and len(lines[-1]) + len(part) > width:
            lines.append("  ")
        lines[-1] += part
    return lines


def _frozen(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value
