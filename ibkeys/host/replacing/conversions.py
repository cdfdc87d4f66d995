"""Converting the bytes of a file for the journal, back to the file, and for people to read."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.printable import clean

LINES: Final = 60
"""Most lines of a difference."""
WIDTH: Final = 200
"""Most characters of each line."""
_COMPARED: Final = 2000


def _as_it_is(data: bytes) -> bytes:
    return data


@dataclass(frozen=True, slots=True)
class FileConversions:
    """The functions that convert the bytes of one kind of file. A file that may have keys needs all three; for other
    files none changes anything.

    ``record``: from the file to the journal, with a reference in place of each key; ``restore``: from the journal to
    the file; ``mask``: from the file to bytes that people may read, without keys. ``keeps_bytes``: whether ``restore``
    can give back the bytes of the file.
    """

    record: Callable[[bytes], bytes] = _as_it_is
    restore: Callable[[bytes], bytes] = _as_it_is
    mask: Callable[[bytes], bytes] = _as_it_is
    keeps_bytes: bool = True


WITHOUT_KEYS: Final = FileConversions()
"""The conversions of a file without keys, such as partitions.conf: none."""
NO_BYTES: Final = b"ibkeys: a file with keys, of which no bytes are kept\n"
"""The text in the journal in place of the bytes of a file that is nothing but keys."""


def _no_bytes(data: bytes) -> bytes:
    return NO_BYTES


NOT_KEPT: Final = FileConversions(_no_bytes, _no_bytes, _no_bytes, keeps_bytes=False)
"""The conversions of a file that is nothing but keys, such as guid2mkey. The journal records that the file was
replaced, but has none of its bytes, so the file can never be restored from the journal."""


def difference(
    written: bytes | None,
    present: bytes | None,
    conversions: FileConversions,
    titles: tuple[str, str] = ("as ibkeys wrote it", "as it is now"),
) -> str:
    """Return a unified diff from the bytes that ibkeys wrote to the present bytes of a file, without keys and with
    bounded length; "" if they are the same; a sentence if they differ only in masked values or line ends. None for
    either: no file. *titles*: the names of both in the diff."""
    left, right = (_masked_lines(data, conversions) for data in (written, present))
    start = _count_equal(left, right)
    end = _count_equal(left[start:][::-1], right[start:][::-1])
    first = max(0, start - 3)
    left, right = (lines[first : max(first, len(lines) - end) + 3] for lines in (left, right))
    found = list(
        difflib.unified_diff(
            left[:_COMPARED],
            right[:_COMPARED],
            _title(titles[0], written),
            _title(titles[1], present),
            lineterm="",
        )
    )
    if not found:
        return "" if written == present else "they differ only in masked values or line ends"
    shown = [line if len(line) <= WIDTH else f"{line[:WIDTH]}…" for line in found[:LINES]]
    if len(found) > LINES or max(len(left), len(right)) > _COMPARED:
        shown.append("… and more lines")
    return "\n".join(shown)


def _title(what: str, data: bytes | None) -> str:
    return f"{what}: no file" if data is None else what


def _masked_lines(data: bytes | None, conversions: FileConversions) -> list[str]:
    if data is None:
        return []
    return [clean(line) for line in conversions.mask(data).decode("utf-8", "replace").splitlines()]


def _count_equal(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning of both."""
    pairs = zip(left, right, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
