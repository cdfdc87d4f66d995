"""Names that a terminal must not be given as they are."""

from __future__ import annotations

HOSTILE = [
    'a"b\\c',
    "two\nlines",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eesrever",
    "x" * 64,
    "node02[1] > node03[1], stopped",
    "\udcff\udcfe",
    "",
]
