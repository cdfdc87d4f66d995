"""Text files of other tools, read line by line, so only one line is in memory. No message shows the text of a line,
because it may be an M_Key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from string import hexdigits
from typing import Final

from ibkeys import files
from ibkeys.errors import FileFormatError

LONGEST_LINE: Final = 64 * files.KIB
"""The most bytes of a line; the longest known ones, of ibdiagnet's counters, have about 4,000."""
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}", re.ASCII)
_STDERR: Final = ("ibwarn:", "ibpanic:", "ibdebug:")


class TextLine:
    """One line of a file, without its end. ``number`` counts from 1."""

    __slots__ = ("number", "path", "text")

    def __init__(self, text: str, path: str, number: int) -> None:
        self.text, self.path, self.number = text, path, number

    def error(self, message: str) -> FileFormatError:
        """Return an error at this line. *message* must not hold a value of the file."""
        return FileFormatError(message, self.path, self.number)

    def number_in(self, text: str, what: str, highest: int) -> int:
        """Return the number *text*, 0x... or decimal. Raises FileFormatError, whose message has *what* and not the
        text."""
        value = to_number(text)
        if value is None:
            raise self.error(f"{what} is not a number (0x... or decimal)")
        if value > highest:
            raise self.error(f"{what} is more than {highest:#x}")
        return value

    def guid_in(self, text: str, what: str) -> int:
        """Return the GUID *text*, hex with or without 0x. Raises FileFormatError."""
        digits = text[2:] if text[:2] in ("0x", "0X") else text
        if not 1 <= len(digits) <= 16 or not set(digits) <= set(hexdigits):
            raise self.error(f"{what} is not a GUID (up to 16 hex digits)")
        guid = int(digits, 16)
        if not guid:
            raise self.error(f"{what} is 0, which is not a GUID")
        return guid


def to_number(text: str) -> int | None:
    """Return a number that is written as 0x... or decimal; None for anything else."""
    if not _NUMBER.fullmatch(text):
        return None
    return int(text, 16 if text[:2] in ("0x", "0X") else 10)


def text_lines(path: Path, limit: int) -> Iterator[TextLine]:
    """Yield the lines of a file, with only one line in memory at a time. Bytes that are not UTF-8 become surrogates.

    Raises FileFormatError if the file cannot be read, is larger than *limit*, has a longer line than LONGEST_LINE, or
    is no text.
    """
    name = str(path)
    with format_errors_for(path), files.open_to_read(path, limit) as file:
        size = number = 0
        while raw := file.readline(LONGEST_LINE + 1):
            number, size = number + 1, size + len(raw)
            if size > limit:
                raise files.too_large(limit)
            if len(raw) > LONGEST_LINE:
                raise FileFormatError(
                    f"a line of more than {LONGEST_LINE} bytes, the limit for such a file", name, number
                )
            if b"\0" in raw:
                raise FileFormatError("a NUL byte, which is not text", name, number)
            text = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
            yield TextLine(text, name, number)


def format_errors_for(path: Path) -> AbstractContextManager[None]:
    """Raise FileFormatError in place of an OSError in this block, for a file that cannot be read."""
    return files.os_errors_as(partial(FileFormatError, path=str(path)), "cannot be read")


def without_messages(lines: Iterator[TextLine]) -> Iterator[TextLine]:
    """Yield *lines* without the messages that infiniband-diags writes to standard error, which are often in the same
    file.
    """
    return (line for line in lines if not line.text.startswith(_STDERR))
