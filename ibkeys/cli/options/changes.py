"""What the user agrees to before a change, and within which time somebody has to confirm it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ibkeys.cli.options.declaring import F, group, option
from ibkeys.cli.types import Number


@dataclass(frozen=True, slots=True)
class Changing:
    """What the user agrees to beforehand."""

    dry_run: bool
    yes: bool
    force: bool
    override: tuple[str, ...]


changing: Final = group(
    "consent",
    Changing,
    option("--dry-run", env=False, is_flag=True, help="Show what would change, but change nothing."),
    option("--yes", env=False, is_flag=True, help="Do not ask."),
    option("--force", env=False, is_flag=True, help="Override only the interlock active-sm."),
    option("--override", env=False, multiple=True, metavar="NAME", help="Override an interlock; repeatable."),
)

allow_removals: Final = option(
    "--allow-removals",
    env=False,
    is_flag=True,
    help="Allow the removals of the plan; full to limited counts as one.",
)
allow_break: Final = option(
    "--allow-break",
    env=False,
    is_flag=True,
    help="Allow a temporary loss of connectivity for the pairs that the plan names.",
)

MOST_SECONDS: Final = 86_400
"""The longest time that a change waits for its confirmation."""


def confirm_within(what: str) -> Callable[[F], F]:
    """Return the option ``--confirm-within``; *what* it does, for the help."""
    return option("--confirm-within", env=False, type=Number(1, MOST_SECONDS), metavar="S", help=what)
