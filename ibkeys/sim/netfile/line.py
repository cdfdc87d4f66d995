"""One line of a net file, with a cursor that has the column for error messages."""

from __future__ import annotations

import re
from typing import Final

from ibkeys.errors import FileFormatError

NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")


class LineCursor:
    """A cursor over one line; its errors have line and column."""

    __slots__ = ("at", "number", "path", "text")

    def __init__(self, text: str, path: str, number: int) -> None:
        self.text, self.path, self.number, self.at = text, path, number, 0

    def error(self, message: str, at: int | None = None) -> FileFormatError:
        """Return an error at the cursor, or at *at*."""
        return FileFormatError(message, self.path, self.number, (self.at if at is None else at) + 1)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Step over *pattern* if it is next."""
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def skip_blanks(self) -> None:
        """Step over blanks."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def take_quoted(self, what: str) -> str:
        """Step over a name in double quotes and return it. Raises FileFormatError."""
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
        """Step over a number (0x... or decimal) and return it. Raises FileFormatError."""
        start = self.at
        found = self.take(NUMBER)
        if not found:
            raise self.error(f"{what} is not a number (0x... or decimal)")
        value = to_number(found[0])
        if value > highest:
            raise self.error(f"{what} {found[0]} is more than {hex(highest) if highest > 0xFFFF else highest}", start)
        return value


def to_number(text: str) -> int:
    """Return the number in a text that `NUMBER` matched; a number too long for 64 bits becomes 2^64."""
    # A huge decimal would raise in int(); nothing in a net file has more than 20 digits.
    return 1 << 64 if len(text) > 20 else int(text, 16 if text[:2] in ("0x", "0X") else 10)
