"""What the user agrees to before a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.cli.options.declaring import group, option


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

allow_break: Final = option(
    "--allow-break",
    env=False,
    is_flag=True,
    help="Allow a temporary loss of connectivity for the pairs that the plan names.",
)
