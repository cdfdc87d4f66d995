"""The node name map: GUIDs with the names an administrator gave them, as infiniband-diags reads it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileFormatError

_LINE: Final = re.compile(r'\s*(0[xX][0-9a-fA-F]{1,16})\s+"([^"]*)"\s*(?:#.*)?')


def read_node_name_map(path: str | Path) -> dict[int, str]:
    """Return node GUID → name from lines of ``0x0002c90200401000 "leaf 1"``; ``#`` begins a comment.

    Raises FileFormatError with line and column for any other line, and when the file cannot be read.
    """
    with files.told_as(partial(FileFormatError, path=str(path)), "cannot read the node name map"):
        lines = files.read_text(path, files.LIST, "replace").splitlines()
    names: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            column = len(line) - len(line.lstrip()) + 1
            raise FileFormatError('expected GUID and name, as 0x0002c90200401000 "leaf 1"', str(path), number, column)
        names[int(match[1], 16)] = match[2]
    return names
