"""Names as people type them: ``stage[1-48]``, ``tank*``, ``leaf1 mlx5_0``.

A node description begins with the host's name; the text after the first blank is the device (``mlx5_0``, ``HCA-1``). A
pattern without a blank names no device, so it matches all devices of the host. Brackets are folded sets
(`ibkeys.topology.names.sets`); ``*`` and ``?`` are wildcards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import AddressError
from ibkeys.similar_names import split_description
from ibkeys.topology.names.sets import unfold

MOST_NAMES: Final = 100_000
"""The most names of one pattern: no subnet has as many LIDs."""
_LONG_NUMBER: Final = re.compile(r"\d{7,}")
_FOLDED: Final = re.compile(r"[\[\],]")
_WILD: Final = re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A parsed pattern: ``hosts``, one for each name that it unfolds to, and ``devices``, None for any."""

    hosts: tuple[str, ...]
    devices: tuple[str, ...] | None


def parse_pattern(text: str) -> NamePattern:
    """Read a pattern. Raises AddressError for an invalid folded set, one with a number of more than six digits, and one
    of no name or more than `MOST_NAMES` names."""
    host, device = split_description(text)
    return NamePattern(_unfolded(host, text), _unfolded(device, text) if device is not None else None)


def is_wild(name: str) -> bool:
    """Return whether *name* has a wildcard."""
    return _WILD.search(name) is not None


def is_pattern(name: str) -> bool:
    """Return whether *name* may mean several names: it has a wildcard, or is a folded set."""
    return is_wild(name) or _FOLDED.search(name) is not None


def wildcard(name: str) -> re.Pattern[str]:
    """Return the regular expression for *name* with its wildcards; case counts."""
    return re.compile("".join({"*": ".*", "?": "."}.get(char) or re.escape(char) for char in name), re.DOTALL)


def _unfolded(text: str, whole: str) -> tuple[str, ...]:
    if not _FOLDED.search(text):
        return (text,)
    if _LONG_NUMBER.search(text):
        raise AddressError(f"{whole!r}: a number of more than six digits in a set of names")
    try:
        found = unfold(text, MOST_NAMES)
    except ValueError as error:
        raise AddressError(f"{whole!r} is not a set of names such as stage[1-48]: {error}") from None
    except OverflowError as many:
        raise AddressError(f"{whole!r} stands for {many} names; 1 to {MOST_NAMES} are allowed") from None
    if not found:
        raise AddressError(f"{whole!r} stands for 0 names; 1 to {MOST_NAMES} are allowed")
    return found
