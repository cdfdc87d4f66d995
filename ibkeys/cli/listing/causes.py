"""Grouping errors of many ports by cause: each cause once, with the number and names of the ports.

``40 ports: SubnGet(PortInfo): no reply after 3 attempts: stage[1-40] mlx5_0``; with -v each port has a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ibkeys.cli import exits
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.render import heading_of
from ibkeys.port_text import PortText, common_of
from ibkeys.printable import counted
from ibkeys.topology.names.folded import FoldedNames, in_order

LISTED: Final = 10
"""Most causes in a table; further ones are only counted. JSON lists all."""
_MOST_WORDS: Final = 8
_MOST_CHARACTERS: Final = 200
"""Most words and most characters that name the ports of one cause. Each word may stand for many ports.

If the names are longer, only the first `_MOST_WORDS` ports are named, and the others are counted.
"""


def say_by_cause(
    troubles: Sequence[tuple[JsonRow | None, str]],
    kind: str,
    format: str,
    names: FoldedNames | None = None,
    each: bool = False,
) -> None:
    """Write each cause of *troubles* with its ports to standard error.

    A trouble is a port's identity (None: no port) and the reason. Reasons that are equal except for the port
    (`PortText`) are one cause. *kind*: the word before each line. With a *format* other than table no cause is left
    out. *names*: the names of ports; None: they are made from *troubles*. *each*: write a line for each port, as with
    -v.
    """
    each = each or exits.explains_all()
    lines = lines_by_cause(troubles, each, names)
    listed = lines if format != "table" or each else lines[:LISTED]
    for line, details in listed:
        exits.warn(line, kind)
        exits.show_details(details)
    if len(lines) > len(listed):
        exits.warn(f"and {counted(len(lines) - len(listed), 'other reason')} (all of them: -v, or -f json)", kind)


def lines_by_cause(
    troubles: Sequence[tuple[JsonRow | None, str]], each: bool, names: FoldedNames | None = None
) -> list[tuple[str, str]]:
    """Return a line for each cause, and the details to show below it, in the order of *troubles*.

    *troubles*, *names*: as for `say_by_cause`. *each*: return a line for each trouble instead.
    """
    if names is None:
        names = FoldedNames(row for row, _ in troubles if row is not None)
    groups: dict[Any, list[tuple[JsonRow | None, str]]] = {}
    for at, (row, text) in enumerate(troubles):
        key = at if each or row is None else common_of(text)
        groups.setdefault(key, []).append((row, text))
    return [_line(group, names) for group in groups.values()]


def _line(group: Sequence[tuple[JsonRow | None, str]], names: FoldedNames) -> tuple[str, str]:
    row, text = group[0]
    details = text.details if isinstance(text, PortText) else ""
    if row is None:
        return text, details
    if len(group) == 1:
        return f"{heading_of(row)}: {text}", details
    ports = {(each["node_guid"], each["port"]): each for each, _ in group if each is not None}
    if len(ports) == 1:
        return f"{heading_of(row)}: {len(group)} times: {common_of(text)}", details
    return f"{counted(len(ports), 'port')}: {common_of(text)}: {_ports(list(ports.values()), names)}", details


def _ports(rows: Sequence[JsonRow], names: FoldedNames) -> str:
    """Return the folded names of ports as text; if that is too long, those of the first ports, and the number of other
    ports."""
    words = names.words(rows)
    text = ", ".join(words)
    if len(words) <= _MOST_WORDS and len(text) <= _MOST_CHARACTERS:
        return text
    first = sorted(rows, key=in_order)[:_MOST_WORDS]
    return f"{', '.join(names.words(first))} and {len(rows) - len(first)} more (all of them: -v)"
