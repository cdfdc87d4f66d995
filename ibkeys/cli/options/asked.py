"""What commands of one kind all take, as one object: that show values of ports, and that change a fabric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ibkeys.cli.options.changes import Changing, changing
from ibkeys.cli.options.declaring import F, group
from ibkeys.cli.options.ports import AddressKinds, address, every_port
from ibkeys.cli.options.rows import Listing, format, listing
from ibkeys.cli.options.where import Where, fabric, reading


@dataclass(frozen=True, slots=True)
class ShownPorts:
    """Which ports of which fabric are shown, and in which form. ``words``: ADDR and PORTNUM, as they were typed."""

    where: Where
    kind: AddressKinds
    words: tuple[str, ...]
    every_port: bool
    listing: Listing
    format: str


def shown_ports(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator for a command that shows values of ports. *others*: options of its own, which its help lists
    before the format."""
    return group("asked", ShownPorts, every_port, address(), *others, format, listing, reading)


@dataclass(frozen=True, slots=True)
class AskedChange:
    """Which fabric is changed, what the user agrees to beforehand, and how the change is shown."""

    where: Where
    consent: Changing
    format: str


change: Final = group("asked", AskedChange, changing, format, fabric)
"""For commands that change a fabric."""
