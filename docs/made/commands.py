"""What the man pages have of the commands: their list in ibkeys(1), and an example at the head of EXAMPLES."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ibkeys.cli import GROUPS
from ibkeys.cli.help.examples import EXAMPLES

_LIST: Final = re.compile(r'(?<=\.\\" made from ibkeys/cli: GROUPS\n)(?:.*\n)*?(?=\.\\" end\n)')
_EXAMPLE: Final = re.compile(
    r'(?P<head>\.\\" made from ibkeys/cli/help/examples.py: (?P<words>.+)\n)(?:.*\n)*?(?P<end>\.\\" end\n)'
)


def with_commands(page: str) -> str:
    """Return the text of a man page with the list of the commands, where it has one, and with its examples.

    Raises KeyError for a page that names a command without an example.
    """
    return _EXAMPLE.sub(_example, _LIST.sub(lambda _: "".join(_groups()), page))


def _groups() -> Iterator[str]:
    for title, group in GROUPS.items():
        rows = (f"\\fB{name}\\fR\t{entry.summary}\n".replace("-", "\\-") for name, entry in group.items())
        yield f".SS {title}\n.TS\nl2 l.\n{''.join(rows)}.TE\n"


def _example(found: re.Match[str]) -> str:
    """Return the tag of an entry; what the example does follows in the page."""
    line = EXAMPLES[found["words"]].replace("-", "\\-").replace("'", "\\(aq")
    return f"{found['head']}.TP\n\\fB{line}\\fR\n{found['end']}"
