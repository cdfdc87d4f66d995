"""A page for each command: what click knows of its arguments and options."""

from __future__ import annotations

from collections.abc import Iterator

from ibkeys.cli import COMMANDS, GROUPS, function_of


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of the page of each command, and of the list of them.

    Only the list is in the side bar: with every page there, each page would show all of them.
    """
    for name, entry in COMMANDS.items():
        yield (
            f"commands/{name}.rst",
            f":orphan:\n\n:doc:`../man/ibkeys-{name}.1` says what the command promises.\n\n"
            f".. click:: ibkeys.cli.{entry.module}:{function_of(name)}\n   :prog: ibkeys {name}\n   :nested: full\n",
        )
    text = "# Commands\n\n"
    for title, group in GROUPS.items():
        text += f"## {title}\n\n"
        text += "".join(f"- [{name}]({name}.rst): {entry.summary}\n" for name, entry in group.items()) + "\n"
    yield "commands/index.md", text
