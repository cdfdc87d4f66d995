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


def in_words(each: Difference | Event) -> str:
    """Return a change as one line without its port."""
    if each.kind in ("appeared", "disappeared"):
        return "the port is there" if each.kind == "appeared" else "the port is gone"
    if each.kind == "cable-moved":
        return exits.clean(f"cable moved: {each.before} -> {each.after}")
    if each.kind == "renamed":
        return exits.clean(f"renamed: {each.before!r} -> {each.after!r}")
    if each.kind == "pkey-added":
        return f"P_Key {each.after} added at index {each.index}"
    if each.kind == "pkey-removed":
        return f"P_Key {each.before} removed from index {each.index}"
    if each.kind == "pkey-moved":
        return f"P_Key {each.pkey} moved from index {each.before} to {each.after}: running QPs hold the old index"
    if each.kind == "membership":
        what = "raised to full" if int(each.after, 16) & 0x8000 else "lowered to limited"
        return f"membership {what} at index {each.index}: {each.before} -> {each.after}"
    if each.kind == "counter":
        return f"{_name(each)}: {each.before} -> {each.after} ({each.after - each.before:+d})"
    if each.kind == "m_key":
        return f"M_Key: {each.before} -> {each.after}"
    return f"{_name(each)}: {int(each.before)} -> {int(each.after)}"


def _name(each: Difference | Event) -> str:
    from ibkeys.mad.attributes import PortInfo

    return PortInfo.rows[each.field or each.kind].name
