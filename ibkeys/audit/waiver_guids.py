"""Writing other GUIDs into a waiver file: the waivers of an adapter that was replaced."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from ibkeys.audit.waivers import Pattern
from ibkeys.errors import UsageError

_QUOTED: Final = re.compile(r"""(["'])([0-9a-fA-FxX:]{5,39})((?:/\d{1,3})?)\1""")


def with_other_guids(text: str, guids: Mapping[int, int], path: str) -> str:
    """Return the *text* of a waiver file in which each pattern with a former GUID has the new one; all else stays.

    *guids*: former GUID → new GUID. *path*: the name of the file, for messages. Raises UsageError if the file is not
    TOML, or if the text cannot be edited so that only these patterns change.
    """

    def renamed(match: re.Match[str]) -> str:
        new = guids.get(Pattern.parse(match[2]).guid or 0)
        if new is None:
            return match[0]
        digits = len(match[2]) - 2 if match[2].lower().startswith("0x") else 16
        return f"{match[1]}0x{new:0{digits}x}{match[3]}{match[1]}"

    after = "".join(
        line if line.lstrip().startswith("#") else _QUOTED.sub(renamed, line) for line in text.splitlines(keepends=True)
    )
    try:
        wanted = _with_patterns(tomllib.loads(text), guids)
        is_as_meant = tomllib.loads(after) == wanted
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not TOML, so no GUID in it can be replaced: {error}") from None
    if not is_as_meant:
        raise UsageError(f"{path}: replacing the GUIDs would change more than the ports of waivers: use an editor")
    return after


def _with_patterns(document: dict[str, Any], guids: Mapping[int, int]) -> dict[str, Any]:
    entries = document.get("waiver")
    if not isinstance(entries, list):
        return document
    return {**document, "waiver": [_of_entry(each, guids) if isinstance(each, dict) else each for each in entries]}


def _of_entry(entry: dict[str, Any], guids: Mapping[int, int]) -> dict[str, Any]:
    return {name: _replaced(value, guids) if name in ("ports", "pairs") else value for name, value in entry.items()}


def _replaced(value: Any, guids: Mapping[int, int]) -> Any:
    """Return a pattern, a list of patterns, or a list of pairs with the new GUIDs, spelled as in the edited text."""
    if isinstance(value, list):
        return [_replaced(each, guids) for each in value]
    pattern = Pattern.parse(value) if isinstance(value, str) else None
    new = guids.get(pattern.guid or 0) if pattern is not None else None
    if pattern is None or new is None:
        return value
    digits = len(pattern.name) - 2 if pattern.name.lower().startswith("0x") else 16
    return f"0x{new:0{digits}x}{'' if pattern.port is None else pattern.text[len(pattern.name) :]}"
