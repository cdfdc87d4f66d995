"""The words for a change of one port, made from its row in JSON and CSV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ibkeys.cli import exits
from ibkeys.cli.documents.field import JsonRow
from ibkeys.cli.screen.colour import paint


def in_colour(row: JsonRow) -> str:
    """Return `in_words` in the colour of the change."""
    return paint(in_words(row), _ROLES.get(row["kind"], "changed"))


_ROLES: Final[Mapping[str, str]] = {
    "appeared": "added",
    "disappeared": "removed",
    "pkey-added": "added",
    "pkey-removed": "removed",
}


_IN_WORDS: Final[Mapping[str, str]] = {
    "appeared": "the port is there",
    "disappeared": "the port is gone",
    "cable-moved": "cable moved: {before} -> {after}",
    "renamed": "renamed: {before!r} -> {after!r}",
    "pkey-added": "P_Key {after} added at index {index}",
    "pkey-removed": "P_Key {before} removed from index {index}",
    "pkey-moved": "P_Key {pkey} moved from index {before} to {after}: running QPs hold the old index",
    "m_key": "M_Key: {before} -> {after}",
}


def in_words(row: JsonRow) -> str:
    """Return a change of `diff` or `history` as one line, without its port."""
    from ibkeys.mad.attributes import PortInfo

    kind, before, after = row["kind"], row["before"], row["after"]
    if kind in _IN_WORDS:
        return exits.clean(_IN_WORDS[kind].format_map(row))
    if kind == "membership":
        what = "raised to full" if int(after, 16) & 0x8000 else "lowered to limited"
        return f"membership {what} at index {row['index']}: {before} -> {after}"
    name = PortInfo.rows[row["field"] or kind].name
    if kind == "counter":
        return f"{name}: {before} -> {after} ({after - before:+d})"
    return f"{name}: {int(before)} -> {int(after)}"
