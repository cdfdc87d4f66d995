"""Folding ports with equal values into one row: ``stage[1-48] mlx5_0`` (`ibkeys.topology.names.folded`).

Every port is named: unfolding a row gives all of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final

from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.exits import write_each
from ibkeys.cli.options import Folding
from ibkeys.cli.render import table_lines
from ibkeys.cli.screen.lines import NARROW, width_of
from ibkeys.grouping import grouped
from ibkeys.topology.names.folded import FoldedNames, in_order

_INDENT: Final = " " * 4


def gives_each(folding: Folding, format: str) -> bool:
    """Return whether each port has its own row in the text that shows a change before it is made.

    If *format* is a table, each port has a row unless `Folding.is_folded` is true. Beside a document of another format,
    each port has a row only with --each. Raises UsageError as `Folding.is_folded` does.
    """
    folded = folding.is_folded(format)
    return folding.each if format != "table" else not folded


def width_of_output() -> int:
    """Return the width of a line of output, in columns."""
    return width_of(sys.stdout) or NARROW


def fold_rows(rows: Sequence[JsonRow], content: Callable[[JsonRow], Hashable]) -> list[list[JsonRow]]:
    """Return *rows* in groups of the same *content*. Each row holds a port's identity.

    Hosts come before switches, and names are in natural order.
    """
    return list(grouped(sorted(rows, key=in_order), content).values())


def write_folded(
    names: FoldedNames, rows: Sequence[JsonRow], titles: Sequence[str], cells: Callable[[JsonRow], Sequence[Any]]
) -> None:
    """Write the lines of `folded_lines`."""
    write_each(folded_lines(names, rows, titles, cells))


def folded_lines(
    names: FoldedNames, rows: Sequence[JsonRow], titles: Sequence[str], cells: Callable[[JsonRow], Sequence[Any]]
) -> Iterator[str]:
    """Yield the lines of a table of *rows*: one row for all ports with the same *cells*, and their names below it.

    *titles*: the titles of the columns, without the first, which is the number of ports.
    """
    groups = fold_rows(rows, lambda row: tuple(map(_frozen, cells(row))))
    return table_lines(
        ("Ports", *titles),
        ([len(group), *cells(group[0])] for group in groups),
        [indented(names, group) for group in groups],
    )


def indented(names: FoldedNames, rows: Iterable[JsonRow], indent: str = _INDENT) -> list[str]:
    """Return the folded names of *rows* as indented lines. A folded name that is too long goes on in further lines.

    *indent*: the text before the first line of each name; further lines have blanks in its place.
    """
    width = width_of_output() - len(indent)
    return [
        (" " * len(indent) if at else indent) + line
        for word in names.words(rows)
        for at, line in enumerate(wrapped(word, width))
    ]


def wrapped(word: str, width: int) -> list[str]:
    """Return *word* in lines of at most *width*, broken after commas where that is possible."""
    lines = [""]
    for part in re.split("(?<=,)", word):
        if lines[-1].strip() and len(lines[-1]) + len(part) > width:
            lines.append("  ")
        lines[-1] += part
    return lines


def _frozen(value: Any) -> Hashable:
    return tuple(value) if isinstance(value, list) else value
