"""A page for each command: what click knows of its arguments and options; and the list of commands in ibkeys(1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys.cli import COMMANDS, GROUPS, function_of

_LIST: Final = re.compile(r'(?<=\.\\" made from ibkeys/cli: GROUPS\n)(?:.*\n)*?(?=\.\\" end\n)')


def man_page(folder: Path) -> tuple[Path, str]:
    """Return the path of ibkeys(1) and its text with the list of the commands."""
    page = folder / "ibkeys.1"
    return page, _LIST.sub(lambda _: "".join(_groups()), page.read_text())


def _groups() -> Iterator[str]:
    for title, group in GROUPS.items():
        rows = (f"\\fB{name}\\fR\t{entry.summary}\n".replace("-", "\\-") for name, entry in group.items())
        yield f".SS {title}\n.TS\nl2 l.\n{''.join(rows)}.TE\n"


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
