"""The page of the attribute tables: each field with its place, as `ibkeys decode` names it."""

from __future__ import annotations

import inspect
from typing import Any

from ibkeys.mad.decode import ATTRIBUTES_BY_NAME
from ibkeys.mad.fields import FieldRow, Layout


def page() -> str:
    """Return the text of the page: a table for each attribute."""
    text = (
        "# Attribute fields\n\nEach attribute that `ibkeys decode` knows. Bytes and bits count from the beginning of "
        "the attribute, the most significant bit first.\n\n"
    )
    for name, layout in ATTRIBUTES_BY_NAME.items():
        about = " ".join((inspect.getdoc(layout) or "").split())
        text += f"## {name}\n\n```{{eval-rst}}\n{about}\n```\n\n"
        text += "| Field | JSON key | Byte | Bit | Bits | Unit |\n|---|---|---|---|---|---|\n"
        text += "".join(_line(row) for row in _rows(layout)) + "\n"
    return text


def _rows(layout: type[Layout]) -> list[FieldRow[Any]]:
    return sorted(layout.rows.values(), key=lambda row: (row.first_bit, -row.width))


def _line(row: FieldRow[Any]) -> str:
    bits = f"{row.count} x {row.width}" if row.count > 1 else str(row.width)
    secret = " (secret, masked)" if row.secret else ""
    unit = row.unit.replace("*", "\\*")
    return f"| {row.name}{secret} | `{row.attr}` | {row.byte} | {row.bit} | {bits} | {unit} |\n"
