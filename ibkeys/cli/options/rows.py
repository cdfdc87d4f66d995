"""The options for the rows of the output: the ports of a sweep to list, folding of equal rows, and the format."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import click

from ibkeys.cli.options.declaring import F, field, flag_field, group, option, repeated_field
from ibkeys.cli.types import NumberType
from ibkeys.errors import UsageError


@dataclass(frozen=True)
class Folding:
    """The options for folding: whether ports with equal values share one row of a table.

    Without an option they share a row only on a terminal.
    """

    each: bool = flag_field("--each", help="One row for each port.  [default if the output is not a terminal]")
    fold: bool = flag_field("--fold", help="One row for all ports with the same values.  [default if it is a terminal]")

    def is_folded(self, format: str) -> bool:
        """Return whether equal rows are folded into one: with --fold, or by default in a table on a terminal.

        Raises UsageError for --each with --fold, and for --fold with a *format* other than table.
        """
        if self.each and self.fold:
            raise UsageError("--each and --fold exclude each other")
        if self.fold and format != "table":
            raise UsageError(f"--fold is for tables only: -f {format} has one record for each port")
        return format == "table" and (self.fold or (sys.stdout.isatty() and not self.each))


@dataclass(frozen=True)
class Filters:
    """The filters: which ports of a sweep are listed."""

    node: tuple[str, ...] = repeated_field("--node", "GLOB", "Only nodes with this name, such as 'gpu*'; repeatable.")
    hosts: bool = flag_field("--hosts", help="Only channel adapters.")
    switch: bool = flag_field("--switch", help="Only switches.")
    partition: tuple[str, ...] = repeated_field(
        "--partition", "PARTITION", "Only its members, P_Key or name; repeatable."
    )
    p_key: tuple[str, ...] = repeated_field("--p-key", "P_KEY", "Only ports with this P_Key; repeatable.")
    level: tuple[int, ...] = repeated_field(
        "--level", "0..3", "Only ports at this protection level; repeatable.", type=NumberType(0, 3)
    )
    nonzero: bool = flag_field("--nonzero", help="Only ports that have counted a violation.")
    changed_since: str | None = field(
        "--changed-since", env=False, metavar="SNAPSHOT", help="Only ports that differ from this snapshot."
    )

    @property
    def is_given(self) -> bool:
        """Whether any filter is given."""
        return any(getattr(self, each.name) not in ((), False, None) for each in fields(Filters))


@dataclass(frozen=True)
class Listing(Folding, Filters):
    """The filters, and the options for folding."""


def format_of(choices: Sequence[str], help: str, default: str | None = "table") -> Callable[[F], F]:
    """Return the option ``--format`` with the formats *choices*. *default*: None if the command must see no default."""
    return option("-f", "--format", "format", type=click.Choice(choices), default=default, help=help)


format: Final = format_of(["table", "json", "csv"], "Format of the output.  [default: table]")

folding: Final = group("folding", Folding)
"""The decorator for commands with a row for each port."""
filters: Final = group("filters", Filters)
"""The decorator for commands that read a sweep, and can be limited to a part of it."""
filters_but_partition: Final = group("filters", Filters, without="partition")
"""The decorator for a command with a ``--partition`` of its own."""
listing: Final = group("listing", Listing)
"""The decorator for commands with a row for each port of a sweep."""
listing_as_is: Final = group("listing", Listing, without="changed_since")
"""The decorator for commands with a row for each port of a sweep that have no --changed-since."""
