"""A cursor over one line of a net file, which knows the column for error messages."""

from __future__ import annotations

import re
from typing import Final

from ibkeys.errors import FileFormatError

NUMBER: Final = re.compile(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)(?![\w.])")
"""A whole number: of ``0x2c9030.0a1060``, a damaged GUID, not the part before the dot."""


class LineCursor:
    """A cursor at the offset ``at`` of the line ``text``. ``number``: the line number in the file ``path``."""

    __slots__ = ("at", "number", "path", "text")

    def __init__(self, text: str, path: str, number: int) -> None:
        self.text, self.path, self.number, self.at = text, path, number, 0

    def error(self, message: str, at: int | None = None) -> FileFormatError:
        """Return the error *message* with line and column of the cursor, or of the offset *at*."""
        return FileFormatError(message, self.path, self.number, (self.at if at is None else at) + 1)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Match *pattern* at the cursor and step over the match. Returns the match; None, without a step, if there is
        none."""
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def skip_blanks(self) -> None:
        """Step over blanks."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take_quoted(self, what: str) -> str:
        """Step over blanks and a name in double quotes, and return the name. Raises FileFormatError, whose message
        calls it *what*."""
        self.skip_blanks()
        if self.text[self.at : self.at + 1] != '"':
            raise self.error(f"{what} in double quotes is missing")
        end = self.text.find('"', self.at + 1)
        if end < 0:
            raise self.error(f"the quote of {what} is not closed")
        value = self.text[self.at + 1 : end]
        if not value:
            raise self.error(f"{what} is empty")
        self.at = end + 1
        return value

    def take_number(self, what: str, highest: int) -> int:
        """Step over a number from 0 to *highest* (0x... or decimal) and return it. Raises FileFormatError, whose
        message calls it *what*."""
        start = self.at
        found = self.take(NUMBER)
        if not found:
            raise self.error(f"{what} is not a number (0x... or decimal)")
        value = to_number(found[0])
        if value > highest:
            raise self.error(f"{what} {found[0]} is more than {hex(highest) if highest > 0xFFFF else highest}", start)
        return value


def to_number(text: str) -> int:
    """Return the number in *text*, which `NUMBER` matched. A number of more than 20 characters becomes 2**64."""
    # int() raises an error for a very long decimal number. No valid number in a net file has more than 20 characters.
    return 1 << 64 if len(text) > 20 else int(text, 16 if text[:2] in ("0x", "0X") else 10)
