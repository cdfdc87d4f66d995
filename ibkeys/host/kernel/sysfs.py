"""Reading a tree of /sys that cannot be trusted: that of this host, or a copy of another host's.

Each file is read up to one page, which is all that a kernel writes into one. Links are followed inside the tree only.
Nothing is raised: a value that cannot be read or is invalid is None, and is recorded as a `SysfsTrouble`. A missing
file is recorded only if it is required.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from ibkeys.host.inside_root import open_inside, read_inside

T = TypeVar("T")

SYSFS: Final = Path("/sys")
PAGE: Final = 4096
"""Most bytes of a file: one page (Linux, Documentation/filesystems/sysfs.rst)."""
MOST_NAMES: Final = 1 << 16
"""Most names in a directory: a P_Key table has 65,535 entries at most."""
MOST_READS: Final = 1 << 18
"""Most files and directories that are read: sixteen ports with 16,000 entries each. Only a copy can have more."""

_NUMBERS: Final = {10: re.compile("[0-9]{1,20}"), 16: re.compile("0[xX][0-9a-fA-F]{1,16}")}


@dataclass(frozen=True, slots=True)
class SysfsTrouble:
    """A file or directory that could not be read or has an invalid value, or a required one that does not exist.
    ``path``: below /sys; ``error``: the reason in words."""

    path: str
    error: str

    def __str__(self) -> str:
        return f"{self.path}: {self.error}"


@dataclass(slots=True)
class Sysfs:
    """A tree of /sys, whose top is ``root``. All paths are relative to it, without a slash at the start. ``reads``: the
    number of files and directories read so far."""

    root: Path = field(default_factory=lambda: SYSFS)
    troubles: list[SysfsTrouble] = field(default_factory=list)
    reads: int = 0

    @property
    def is_this_host(self) -> bool:
        """Whether the tree is /sys itself, so that facts from other sources on this host belong to the same ports."""
        return self.root == SYSFS

    def text(self, path: str, required: bool = False) -> str | None:
        """Return the text of a file, without white space at its ends. Return None if the file does not exist or cannot
        be read. A missing file is a trouble only if it is *required*."""
        return self._read(path, lambda: read_inside(self.root, path, PAGE).decode("utf-8", "replace").strip(), required)

    def number(self, path: str, base: int, most: int, required: bool = False) -> int | None:
        """Return the number in a file: decimal for *base* 10, ``0x...`` for *base* 16. Return None where `text`
        does, and if the text is not a number or the number is above *most*."""
        return self.parsed(path, lambda text: _parse_number(text, base, most), required)

    def parsed(self, path: str, parse: Callable[[str], T], required: bool = False) -> T | None:
        """Return the result of *parse* for the text of a file. Return None as `text`, and if *parse* raises
        ValueError."""
        text = self.text(path, required)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            self.troubles.append(SysfsTrouble(path, str(error)))
            return None

    def names(self, path: str, required: bool = False) -> list[str] | None:
        """Return the sorted names in a directory. Return None as `text`, and for more than `MOST_NAMES` names."""
        return self._read(path, lambda: self._read_names(path), required)

    def _read_names(self, path: str) -> list[str]:
        with open_inside(self.root, path) as place, os.scandir(f"/proc/self/fd/{place.descriptor}") as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES + 1)]
        if len(names) > MOST_NAMES:
            raise OSError(errno.EFBIG, f"more than {MOST_NAMES} names: no kernel makes such a directory")
        return sorted(names)

    def link(self, path: str) -> str | None:
        """Return the last part of a symbolic link's target; None if there is no such link or it cannot be read. This is
        never a trouble."""
        folder, _, name = path.rpartition("/")
        try:
            with open_inside(self.root, folder) as place:
                return os.path.basename(os.readlink(f"/proc/self/fd/{place.descriptor}/{name}"))
        except OSError:
            return None

    def _read(self, path: str, read: Callable[[], T], required: bool) -> T | None:
        """Return the result of *read*; None if it raises OSError, or if `MOST_READS` files were read already. A failure
        is added to ``troubles``, unless the file does not exist and is not *required*."""
        self.reads += 1
        if self.reads == MOST_READS + 1:
            error = f"more than {MOST_READS} files and directories: this one and all later ones are not read"
            self.troubles.append(SysfsTrouble(path, error))
        if self.reads > MOST_READS:
            return None
        try:
            return read()
        except OSError as failure:
            if required or not isinstance(failure, FileNotFoundError):
                self.troubles.append(SysfsTrouble(path, failure.strerror or type(failure).__name__))
            return None


def numbers_in(names: list[str] | None, most: int) -> list[int]:
    """Return the decimal numbers up to *most* among *names*, sorted. The kernel names ports and table entries by their
    number."""
    found = (int(name) for name in names or () if name.isascii() and name.isdigit() and len(name) <= 5)
    return sorted({number for number in found if number <= most})


def _parse_number(text: str, base: int, most: int) -> int:
    if _NUMBERS[base].fullmatch(text) is None or int(text, base) > most:
        raise ValueError(f"{text[:40]!r} is not a number up to {most if base == 10 else hex(most)}")
    return int(text, base)
