"""A terminal that shows what is written to it, as far as a line of progress needs one."""

from __future__ import annotations

import re

PART = re.compile(r"\r|\n|\x1b\[K|\x1b\[[0-9;]*m|[^\r\n\x1b]+")


def shown_lines(text: str) -> list[str]:
    """Return the lines that stand on a terminal after *text*, colours and all. Fails where it moves the cursor in
    another way than back to the beginning of a line."""
    lines, column = [""], 0
    assert "".join(PART.findall(text)) == text, f"an unknown escape: {text!r}"
    for part in PART.findall(text):
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        else:
            lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part) :]
            column += len(part)
    return lines if lines[-1] else lines[:-1]
