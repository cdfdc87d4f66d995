"""Which parameter completes to what: by the name and the word for its value, which are the same in all commands."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli.completing import sources

if TYPE_CHECKING:
    from ibkeys.cli.completing.offers import Item

    _ParamType = click.ParamType[Any]
else:  # no generic class before click 8.4
    _ParamType = click.ParamType

Source = Callable[[click.Context, str], "list[Item]"]

_BY_WORD: Final[dict[str, Source]] = {
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
"""By the first word for the value: ``FILE`` of ``FILE|opensm``, ``ADDR`` of ``[ADDR] [PORTNUM]``, ``ID`` of
``ID[,ID...]``."""
_BY_NAME: Final[dict[tuple[str, str | None], Source]] = {
    ("file", None): sources.files,
    ("a", None): sources.pair,
    ("b", None): sources.pair,
    ("override", "NAME"): sources.interlocks,
    ("operation", "[ID]"): sources.operations,
    ("partition", None): sources.partitions,
}
"""Where the word for the value says too little."""


class Completed(_ParamType):
    """A type whose values a shell completes from *source*; all else is that of the type *inner*."""

    def __init__(self, inner: _ParamType, source: Source) -> None:
        self.name = inner.name
        self.inner = inner
        self.source = source

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the value."""
        return self.inner.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Item]:
        """Return what the value can be."""
        return self.source(ctx, incomplete)


def let_complete(param: click.Parameter) -> None:
    """Give *param* what it completes to, where the tables have it."""
    word = re.split(r"[][ |]", (param.metavar or "").lstrip("["))[0]
    source = _BY_NAME.get((param.name or "", param.metavar)) or _BY_WORD.get(word)
    if source is not None:
        param.type = Completed(param.type, source)
