"""Options that many commands share: `--help` names them in one paragraph, `--help-all` lists them by section.

ibkeys-options(7) describes them for all commands; the man page of a command names them (see tests/cli/test_help.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click

FABRIC: Final = "Fabric"
TIMING: Final = "Timing and limits"
KEYS: Final = "Keys and stores"
UFM: Final = "UFM"
DEFAULTS: Final = "Names and defaults"
MESSAGES: Final = "Messages"
GENERAL: Final = "General"
"""``-V``, ``-h`` and ``--help-all``: listed by every help, because they are few."""
SECTIONS: Final = (FABRIC, TIMING, KEYS, UFM, DEFAULTS, MESSAGES)
"""The sections of ``--help-all`` below a command's own options, in their order."""


class CommonOption(click.Option):
    """An option that many commands share. *section*: its heading in ``--help-all``."""

    def __init__(self, *args: Any, section: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.section = section


def section_of(param: click.Parameter) -> str | None:
    """Return the section of a common option; None for a command's own option."""
    return param.section if isinstance(param, CommonOption) else None


def by_section(params: Iterable[click.Parameter]) -> dict[str, list[CommonOption]]:
    """Return the common options among *params* by section, in the order of `SECTIONS`; empty sections are left out."""
    options = [param for param in params if isinstance(param, CommonOption)]
    sections = {section: [option for option in options if option.section == section] for section in SECTIONS}
    return {section: found for section, found in sections.items() if found}


def short_name(option: click.Parameter) -> str:
    """Return the shortest name of an option, as ``-C`` of ``-C, --Ca``."""
    return min(option.opts, key=len)


def named(sections: Mapping[str, Sequence[CommonOption]]) -> str:
    """Return the sentence that names the common options of a command: ``fabric (-C, -P), keys and stores (-y)``."""
    return ", ".join(
        f"{section if section.isupper() else section.lower()} ({', '.join(map(short_name, options))})"
        for section, options in sections.items()
    )
