"""The values that an operation is to set on single ports, as the journal keeps them among the operation's options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ibkeys.store.journal.records import WANTED_VALUES, WantedValue
from ibkeys.store.sqlite import guid_number, guid_text


def values_to_keep(values: Iterable[WantedValue]) -> dict[str, Any]:
    """Return the values that an operation is to set on single ports, in the form that `Journal.operation` keeps."""
    rows = [(guid_text(each.node_guid), each.port, each.kind, each.index, each.before, each.after) for each in values]
    return {WANTED_VALUES: rows}


def values_in(options: Mapping[str, Any]) -> list[WantedValue] | None:
    """Return the values in the *options* of an operation, in the order of change; an empty list if there are none, None
    if they are damaged."""
    rows = options.get(WANTED_VALUES, [])
    try:
        found = [WantedValue(guid_number(guid), *rest) for guid, *rest in rows]
    except (TypeError, ValueError):
        return None
    return found if all(map(_is_possible, found)) else None


def _is_possible(value: WantedValue) -> bool:
    """Return whether a value that was read from the journal has the types that it was written with."""
    numbers = (value.port, 0 if value.index is None else value.index)
    texts = (value.before, value.after)
    return (
        all(type(each) is int and each >= 0 for each in numbers)
        and isinstance(value.kind, str)
        and all(each is None or isinstance(each, str | int) for each in texts)
    )
