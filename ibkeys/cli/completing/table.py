"""Which source completes which parameter, by its name or its metavar; these are the same in all commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from ibkeys.cli.completing import sources

if TYPE_CHECKING:
    from ibkeys.cli.completing.offers import Item

CompletionSource = Callable[[click.Context, str], "list[Item]"]

_BY_WORD: Final[dict[str, CompletionSource]] = {
    **dict.fromkeys(("FILE", "FILE...", "PATH", "PLAN", "SNAPSHOT", "A", "B"), sources.files),
    "DIR": sources.directories,
    "ID": sources.rules,
    "GROUP": sources.groups,
    **dict.fromkeys(("GLOB", "WHO", "WHO..."), sources.hosts),
    "NODE": sources.simulated_nodes,
    "ADDR": sources.address,
    "WHAT": sources.address_or_directory,
    "PARTITION": sources.partitions,
    "COMMAND": sources.commands,
    "COMMAND...": sources.steering,
}
"""Sources by the first word of the metavar, such as ``FILE`` of ``FILE|opensm`` or ``ADDR`` of ``[ADDR] [PORTNUM]``."""
_BY_NAME: Final[dict[tuple[str, str | None], CompletionSource]] = {
    ("file", None): sources.files,
    ("a", None): sources.pair,
    ("b", None): sources.pair,
    ("override", "NAME"): sources.interlocks,
    ("operation", "[ID]"): sources.operations,
    ("partition", None): sources.partitions,
}
"""Sources by name and metavar, where the metavar alone is ambiguous."""


def let_complete(param: click.Parameter) -> None:
    """Give *param* a type with completion, if one of the tables has a source for it."""
    word = re.split(r"[][ |]", (param.metavar or "").lstrip("["))[0]
    source = _BY_NAME.get((param.name or "", param.metavar)) or _BY_WORD.get(word)
    if source is not None:
        # click takes shell_complete only in a parameter's constructor, and the decorators do not know the source.
        param.shell_complete = source  # type: ignore[assignment, method-assign]
