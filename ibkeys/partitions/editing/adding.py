"""Adding items to a definition and definitions to a file, and changing memberships in place.

New items go to the end of a definition, and new definitions to the end of the file. The semicolon moves behind the last
new item, because OpenSM refuses a semicolon alone on its line. Comments stay on their lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ibkeys.partitions.editing.text import BodyLine, PolicyText, TextEdit
from ibkeys.partitions.model import Definition, MemberRule, MemberWord
from ibkeys.partitions.words import BLANKS
from ibkeys.printable import clean

_INDENT: Final = "    "


def block(rules: Sequence[MemberRule], labels: Mapping[int, str], indent: str = _INDENT) -> str:
    """Return *rules* as text, one on each line, ended by a semicolon. *labels*: names of ports by GUID, for
    comments."""
    lines = []
    for at, rule in enumerate(rules, 1):
        label = labels.get(rule.guid) if rule.who == "GUID" else None
        comment = f"  # {clean(label)}" if label else ""
        lines.append(f"{indent}{rule}={rule.membership}{' ;' if at == len(rules) else ','}{comment}\n")
    return "".join(lines)


def append_items(
    text: PolicyText, definition: Definition, rules: Sequence[MemberRule], labels: Mapping[int, str]
) -> list[TextEdit]:
    """Return the edits that put *rules* at the end of a definition, where they override earlier items. *labels*: as in
    `block`."""
    lines = text.body(definition)
    new = block(rules, labels, _indent(text, lines))
    last = lines[-1]
    if last.close is None:
        return _append_to_unclosed(text, lines, new)
    separator = _separator(text, last, last.close)
    if text.is_followed(last):
        return [TextEdit(separator.start, last.close + 1, f"{separator.new}\n{new}")]
    return [TextEdit(separator.start, last.close + 1, separator.new), _on_new_line(text, last.line_end, new)]


def append_definition(
    text: PolicyText, last: Definition, head: str, rules: Sequence[MemberRule], labels: Mapping[int, str]
) -> list[TextEdit]:
    """Return the edits that put a new definition at the end of the file. *last*: the present last definition.
    *head*: the text of the new header, without its colon. *labels*: as in `block`.
    """
    whole = text.text
    gap = "" if not whole or whole.endswith("\n\n") else "\n" if whole.endswith("\n") else "\n\n"
    return [*_close(text, last), TextEdit(len(whole), len(whole), f"{gap}{head} :\n{block(rules, labels)}")]


def change_memberships(
    text: PolicyText, definitions: Iterable[Definition], memberships: Mapping[int, MemberWord]
) -> list[TextEdit]:
    """Return the edits that change the memberships of items. *memberships*: the new ones, by the offset of each
    item."""
    lines = (line for each in definitions for line in text.body(each)) if memberships else ()
    items = (item for line in lines for item in line.items if item.start in memberships)
    return [TextEdit(item.name_end, item.end, f"={memberships[item.start]}") for item in items]


def _indent(text: PolicyText, lines: Sequence[BodyLine]) -> str:
    for line in reversed(lines):
        if line.items and not line.is_header:
            blanks = re.match(f"[{BLANKS}]*", text.text[line.line_start : line.end])
            return blanks[0] if blanks is not None else _INDENT
    return _INDENT


def _separator(text: PolicyText, line: BodyLine, end: int) -> TextEdit:
    """Return the edit that replaces the text between the last item of *line* and *end*, so that another item can follow
    on the next line: with a comma, if the last item needs one."""
    start = line.items[-1].end if line.items else line.start
    between = text.text[start:end]
    if not line.items or line.items[-1].is_group or "," in between:
        return TextEdit(start, end, between.rstrip(BLANKS))
    return TextEdit(start, end, ",")


def _append_to_unclosed(text: PolicyText, lines: Sequence[BodyLine], new: str) -> list[TextEdit]:
    last = next((line for line in reversed(lines) if line.items), lines[0])
    edits = []
    if last.items and not last.items[-1].is_group and "," not in text.text[last.items[-1].end : last.end]:
        edits.append(TextEdit(last.items[-1].end, last.items[-1].end, ","))
    return [*edits, _on_new_line(text, last.line_end, new)]


def _on_new_line(text: PolicyText, line_end: int, new: str) -> TextEdit:
    lacks_newline = text.text[line_end - 1 : line_end] != "\n"
    return TextEdit(line_end, line_end, f"\n{new}" if lacks_newline else new)


def _close(text: PolicyText, definition: Definition) -> list[TextEdit]:
    """Return the edits that end *definition*, the last one of a file, if no semicolon ends it yet."""
    lines = text.body(definition)
    if lines[-1].close is not None:
        return []
    last = next((line for line in reversed(lines) if line.items), lines[0])
    if last.items and not last.items[-1].is_group:
        end = text.code_end(last)
        return [TextEdit(end, end, " ;")]
    return [_on_new_line(text, last.line_end, f"{_INDENT}NONE ;\n")]
