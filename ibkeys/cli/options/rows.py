"""Which ports of a sweep are rows of the output, whether rows that say the same are one, and the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from ibkeys.cli.options.declaring import F, flag, group, option
from ibkeys.cli.types import Number


@dataclass(frozen=True)
class Folding:
    """Whether ports that say the same are one row of a table. Neither: on a terminal they are."""

    each: bool = False
    fold: bool = False


@dataclass(frozen=True)
class Filters:
    """Which ports of a sweep are listed."""

    node: tuple[str, ...] = ()
    hosts: bool = False
    switch: bool = False
    partition: tuple[str, ...] = ()
    p_key: tuple[str, ...] = ()
    level: tuple[int, ...] = ()
    nonzero: bool = False
    changed_since: str | None = None


@dataclass(frozen=True)
class Listing(Filters, Folding):
    """Which ports of a sweep are listed, and whether those that say the same are one row."""


def format_of(choices: Sequence[str], help: str, default: str | None = "table") -> Callable[[F], F]:
    """Return the option ``--format`` of a command that has the formats *choices*."""
    return option("-f", "--format", "format", type=click.Choice(choices), default=default, help=help)


format: Final = format_of(["table", "json", "csv"], "Format of the output.  [default: table]")

_partition: Final = option(
    "--partition",
    env=False,
    multiple=True,
    metavar="P_KEY",
    help="Only members of this partition; repeatable.",
)
_filter_options: Final[tuple[Callable[..., Any], ...]] = (
    option(
        "--node",
        env=False,
        multiple=True,
        metavar="GLOB",
        help="Only nodes with this name, such as 'gpu*'; repeatable.",
    ),
    flag("--hosts", help="Only channel adapters."),
    flag("--switch", help="Only switches."),
    _partition,
    option("--p-key", env=False, multiple=True, metavar="P_KEY", help="Only ports with this P_Key; repeatable."),
    option(
        "--level",
        env=False,
        multiple=True,
        type=Number(0, 3),
        metavar="0..3",
        help="Only ports at this protection level; repeatable.",
    ),
    flag("--nonzero", help="Only ports that have counted a violation."),
    option("--changed-since", env=False, metavar="SNAPSHOT", help="Only ports that differ from this snapshot."),
)
_folding_options: Final[tuple[Callable[..., Any], ...]] = (
    flag("--each", help="One row for each port.  [default if the output is not a terminal]"),
    flag("--fold", help="One row for all ports with the same values.  [default if it is a terminal]"),
)
folding: Final = group("folding", Folding, *_folding_options)
"""For commands with a row for each port."""
filters: Final = group("filters", Filters, *_filter_options)
"""For commands that look at a sweep, and may be asked to look at a part of it."""
filters_but_partition: Final = group("filters", Filters, *(each for each in _filter_options if each is not _partition))
"""For a command with a ``--partition`` of its own."""
listing: Final = group("listing", Listing, *_filter_options, *_folding_options)
"""For commands with a row for each port of a sweep."""
listing_as_is: Final = group("listing", Listing, *_filter_options[:-1], *_folding_options)
"""The same for commands that cannot choose by an earlier snapshot."""
