"""Removing items from a definition. A line that loses all its items is removed with its comment, unless it has the
header or another definition too.

The semicolon must not stay alone on its line, because OpenSM refuses that. It is moved behind the last remaining item,
or NONE takes the place of the last item.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from ibkeys.partitions.editing.text import BodyLine, ListItem, PolicyText, TextEdit
from ibkeys.partitions.model import Definition


def remove_items(text: PolicyText, definition: Definition, starts: Collection[int]) -> list[TextEdit]:
    """Return the edits that remove items from the port list of a definition. *starts*: the offsets at which they
    begin."""
    lines = text.body(definition)
    emptied = [line for line in lines if line.items and not _remaining_items(line, starts)]
    none_line, closer = None, None  # the line that gets NONE, and the line that gets the semicolon
    if not any(_remaining_items(line, starts) for line in lines):
        none_line = emptied[-1] if emptied else None
    elif emptied and emptied[-1] is lines[-1] and lines[-1].close is not None:
        closer = next(line for line in reversed(lines) if _remaining_items(line, starts))
        # OpenSM accepts no semicolon behind an mgid= item on the same line.
        if _remaining_items(closer, starts)[-1].is_group:
            none_line, closer = lines[-1], None
    edits: list[TextEdit] = []
    for line in lines:
        if line is closer:
            edits += _remove_and_close(text, line, starts)
        elif line is none_line:
            edits.append(_replace_by_none(text, line))
        elif line in emptied:
            edits.append(_remove_line(text, line))
        else:
            edits += _remove_some(line, starts)
    return edits


def _remaining_items(line: BodyLine, starts: Collection[int]) -> list[ListItem]:
    return [item for item in line.items if item.start not in starts]


def _remove_some(line: BodyLine, starts: Collection[int]) -> list[TextEdit]:
    """Return the edits that remove some items of a line, each with one comma, while others stay."""
    kept = _remaining_items(line, starts)
    if len(kept) == len(line.items):
        return []
    edits = _item_removals(line.items, kept[-1], starts)
    if line.items[-1] is not kept[-1]:
        edits.append(TextEdit(kept[-1].end, line.items[-1].end, ""))
    return edits


def _remove_and_close(text: PolicyText, line: BodyLine, starts: Collection[int]) -> list[TextEdit]:
    """Return the edits that remove items of a line, and put the semicolon behind the last item that stays."""
    last = _remaining_items(line, starts)[-1]
    return [*_item_removals(line.items, last, starts), TextEdit(last.end, max(last.end, text.code_end(line)), " ;")]


def _item_removals(items: Sequence[ListItem], last: ListItem, starts: Collection[int]) -> list[TextEdit]:
    """Return the edits that remove the items at *starts* before *last*, each with the text up to the next item."""
    return [
        TextEdit(item.start, after.start, "")
        for item, after in pairwise(items)
        if item.start in starts and after.start <= last.start
    ]


def _replace_by_none(text: PolicyText, line: BodyLine) -> TextEdit:
    """Return the edit that replaces all items of a line by NONE."""
    first, last = line.items[0], line.items[-1]
    if line.is_header or (line.close is not None and text.is_followed(line)):
        return TextEdit(first.start, last.end, "NONE")
    closed = " ;" if line.close is not None else ""
    newline = "\n" if text.text[line.line_end - 1 : line.line_end] == "\n" else ""
    return TextEdit(first.start, line.line_end, f"NONE{closed}{newline}")


def _remove_line(text: PolicyText, line: BodyLine) -> TextEdit:
    """Return the edit that removes a line of which no item stays. Of a header line, or if another definition follows on
    the line, it removes only the part of this definition's port list."""
    if line.is_header:
        return TextEdit(line.start, text.code_end(line), "")
    if line.close is not None and text.is_followed(line):
        return TextEdit(line.line_start, line.close + 1, "")
    return TextEdit(line.line_start, line.line_end, "")
