"""The options for the user's consent to a change, and for its confirmation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from ibkeys.cli.options.declaring import F, field_of, flag, flag_field, group, option
from ibkeys.cli.types import NumberType

override: Final = option(
    "--override", env=False, multiple=True, metavar="NAME", help="Override an interlock; repeatable."
)
"""One of the options of `changing`. Commands that only change files have it without the others."""


@dataclass(frozen=True, slots=True)
class ConsentOptions:
    """The options of a change: to show it only, to make it without a question, and to override interlocks."""

    dry_run: bool = flag_field("--dry-run", help="Show what would change, but change nothing.")
    yes: bool = flag_field("--yes", help="Do not ask.")
    force: bool = flag_field("--force", help="Override only the interlock active-sm.")
    override: tuple[str, ...] = field_of(override, ())


changing: Final = group("consent", ConsentOptions)

operation: Final = click.argument("operation", required=False, type=NumberType(1, 2**31), metavar="[ID]")
"""The number of an operation of the journal; None if none was typed."""

allow_removals: Final = flag("--allow-removals", help="Allow the removals of the plan; full to limited counts as one.")
allow_break: Final = flag(
    "--allow-break", help="Allow a temporary loss of connectivity for the pairs that the plan names."
)

MOST_SECONDS: Final = 86_400
"""The longest time that a change waits for its confirmation, in seconds."""


def confirm_within(what: str) -> Callable[[F], F]:
    """Return the option ``--confirm-within``; *what*: its help text."""
    return option("--confirm-within", env=False, type=NumberType(1, MOST_SECONDS), metavar="S", help=what)
