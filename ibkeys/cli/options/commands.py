"""The options that all commands of a kind share, as one object: commands that show ports, and that change a fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.cli.options.changes import ConsentOptions, changing
from ibkeys.cli.options.declaring import F, group
from ibkeys.cli.options.ports import AddressKinds, address, every_port
from ibkeys.cli.options.rows import Listing, format, listing
from ibkeys.cli.options.where import Where, fabric, reading


@dataclass(frozen=True, slots=True)
class ShowPortsOptions:
    """The options of a command that shows values of ports: the fabric, the ports and the form of the output.

    ``words``: ADDR and PORTNUM as they were typed.
    """

    where: Where
    kind: AddressKinds
    words: tuple[str, ...]
    every_port: bool
    listing: Listing
    format: str


def show_ports_options(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator for a command that shows values of ports.

    *others*: decorators of the command's own options, which its help lists before ``--format``.
    """
    return group("command_options", ShowPortsOptions, every_port, address(), *others, format, listing, reading)


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """The options of a changing command: the fabric, the user's consent, and the format."""

    where: Where
    consent: ConsentOptions
    format: str


change: Final = group("command_options", ChangeOptions, changing, format, fabric)
"""The decorator for commands that change a fabric."""
