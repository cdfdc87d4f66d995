"""A change of one port in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ibkeys.cli import exits
from ibkeys.cli.screen.colour import paint

if TYPE_CHECKING:
    from ibkeys.fabric.compare import Difference
    from ibkeys.fabric.history import Event


def in_colour(each: Difference | Event) -> str:
    """Return `in_words` with the colour of what happened."""
    return paint(in_words(each), _ROLES.get(each.kind, "changed"))


_ROLES: Final[Mapping[str, str]] = {
    "appeared": "added",
    "disappeared": "removed",
    "pkey-added": "added",
    "pkey-removed": "removed",
}


_IN_WORDS: Final[Mapping[str, str]] = {
    "appeared": "the port is there",
    "disappeared": "the port is gone",
    "cable-moved": "cable moved: {0.before} -> {0.after}",
    "renamed": "renamed: {0.before!r} -> {0.after!r}",
    "pkey-added": "P_Key {0.after} added at index {0.index}",
    "pkey-removed": "P_Key {0.before} removed from index {0.index}",
    "pkey-moved": "P_Key {0.pkey} moved from index {0.before} to {0.after}: running QPs hold the old index",
    "m_key": "M_Key: {0.before} -> {0.after}",
}


def in_words(each: Difference | Event) -> str:
    """Return a change as one line without its port."""
    from ibkeys.mad.attributes import PortInfo

    if each.kind in _IN_WORDS:
        return exits.clean(_IN_WORDS[each.kind].format(each))
    if each.kind == "membership":
        what = "raised to full" if int(each.after, 16) & 0x8000 else "lowered to limited"
        return f"membership {what} at index {each.index}: {each.before} -> {each.after}"
    name = PortInfo.rows[each.field or each.kind].name
    if each.kind == "counter":
        return f"{name}: {each.before} -> {each.after} ({each.after - each.before:+d})"
    return f"{name}: {int(each.before)} -> {int(each.after)}"
