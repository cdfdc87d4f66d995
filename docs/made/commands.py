"""The list of commands in ibkeys(1)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys.cli import GROUPS

_LIST: Final = re.compile(r'(?<=\.\\" made from ibkeys/cli: GROUPS\n)(?:.*\n)*?(?=\.\\" end\n)')


def man_page(folder: Path) -> tuple[Path, str]:
    """Return the path of ibkeys(1) and its text with the list of the commands."""
    page = folder / "ibkeys.1"
    return page, _LIST.sub(lambda _: "".join(_groups()), page.read_text())


def _groups() -> Iterator[str]:
    for title, group in GROUPS.items():
        rows = (f"\\fB{name}\\fR\t{entry.summary}\n".replace("-", "\\-") for name, entry in group.items())
        yield f".SS {title}\n.TS\nl2 l.\n{''.join(rows)}.TE\n"
