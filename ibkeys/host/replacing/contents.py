"""The conversions of a file's bytes: for the journal, for the rollback, and for people."""

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
class FileContents:
    """The conversions of the bytes of one kind of file. A file that may have keys needs all three; another file none.
    ``record``: to the bytes in the journal, with a reference in place of each key; ``restore``: from the journal to the
    file; ``mask``: to bytes for people, without keys. ``keeps_bytes``: whether the bytes can be restored.
    """

    record: Callable[[bytes], bytes] = _as_it_is
    restore: Callable[[bytes], bytes] = _as_it_is
    mask: Callable[[bytes], bytes] = _as_it_is
    keeps_bytes: bool = True


WITHOUT_KEYS: Final = FileContents()
"""A file that holds no key, such as partitions.conf."""
NO_BYTES: Final = b"ibkeys: a file with keys, of which no bytes are kept\n"
"""The text in the journal in place of the bytes of a file that is nothing but keys."""


def _no_bytes(data: bytes) -> bytes:
    return NO_BYTES


NOT_KEPT: Final = FileContents(_no_bytes, _no_bytes, _no_bytes, keeps_bytes=False)
"""A file that is nothing but keys, such as guid2mkey: the journal notes that it was replaced, but has none of its
bytes. It can never be restored from there."""


def difference(
    written: bytes | None,
    present: bytes | None,
    contents: FileContents,
    titles: tuple[str, str] = ("what ibkeys wrote", "what is there"),
) -> str:
    """Return a unified diff from the bytes that ibkeys wrote to the present ones, without keys and of bounded length.
    *titles*: the names of the two."""
    left, right = (_lines(data, contents) for data in (written, present))
    start = _same(left, right)
    end = _same(left[start:][::-1], right[start:][::-1])
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


def _lines(data: bytes | None, contents: FileContents) -> list[str]:
    if data is None:
        return []
    return [clean(line) for line in contents.mask(data).decode("utf-8", "replace").splitlines()]


def _same(left: Sequence[str], right: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning of both."""
    pairs = zip(left, right, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
