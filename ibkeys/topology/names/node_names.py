"""The node name map: GUIDs with the names an administrator gave them, as infiniband-diags reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileFormatError

_LINE: Final = re.compile(r'\s*(0[xX][0-9a-fA-F]{1,16})\s+"([^"]*)"\s*(?:#.*)?')


def read_node_name_map(path: str | Path) -> dict[int, str]:
    """Return node GUID → name from lines of ``0x0002c90200401000 "leaf 1"``; ``#`` begins a comment.

    An empty name has no effect. Raises FileFormatError with line and column for any other line, and when the file
    cannot be read.
    """
    with files.os_errors_as(partial(FileFormatError, path=str(path)), "cannot read the node name map"):
        lines = files.read_text(path, files.LIST, "replace").splitlines()
    names: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            column = len(line) - len(line.lstrip()) + 1
            raise FileFormatError('expected GUID and name, as 0x0002c90200401000 "leaf 1"', str(path), number, column)
        if match[2]:
            names[int(match[1], 16)] = match[2]
    return names


def with_other_guids(text: str, guids: Mapping[int, int]) -> str:
    """Return the *text* of a node name map in which each line of a former GUID has the new one; all else stays.

    *guids*: former GUID → new GUID. A line whose new GUID has a line of its own already stays as it is.
    """
    taken = {int(match[1], 16) for line in text.splitlines() if (match := _LINE.fullmatch(line))}

    def renamed(line: str) -> str:
        match = _LINE.fullmatch(line)
        new = guids.get(int(match[1], 16)) if match is not None else None
        if match is None or new is None or new in taken:
            return line
        return f"{line[: match.start(1)]}0x{new:0{len(match[1]) - 2}x}{line[match.end(1) :]}"

    return "".join(renamed(bare := line.rstrip("\r\n")) + line[len(bare) :] for line in text.splitlines(keepends=True))
