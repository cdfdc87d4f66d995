"""What all commands take that show values of one port or of every port."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ibkeys.cli.options.declaring import F, group
from ibkeys.cli.options.ports import Kind, address, every_port
from ibkeys.cli.options.rows import Listing, format, listing
from ibkeys.cli.options.where import Where, reading


@dataclass(frozen=True, slots=True)
class ShownPorts:
    """Which ports of which fabric are shown, and in which form. ``words``: ADDR and PORTNUM, as they were typed."""

    where: Where
    kind: Kind
    words: tuple[str, ...]
    every_port: bool
    listing: Listing
    format: str


def shown_ports(*others: Callable[..., Any]) -> Callable[[F], F]:
    """Return the decorator for such a command. *others*: options of its own, which its help lists before the format."""
    return group("asked", ShownPorts, every_port, address(), *others, format, listing, reading)
