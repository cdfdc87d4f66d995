"""The options for the port that a command is about: ADDR, and its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import click

from ibkeys.cli.options.declaring import F, flag, flag_field, group


@dataclass(frozen=True, slots=True)
class AddressKinds:
    """The options -L, -D, -G and -N, which set the kind of ADDR."""

    lid: bool = flag_field("-L", "--Lid", "lid", help="ADDR is a LID (the default).")
    direct: bool = flag_field("-D", "--Direct", "direct", help="ADDR is a directed route, such as 0,1,4.")
    guid: bool = flag_field("-G", "--Guid", "guid", help="ADDR is a port or node GUID.")
    name: bool = flag_field("-N", "--Name", "name", help="ADDR is a node's name.")


@dataclass(frozen=True, slots=True)
class EndKinds(AddressKinds):
    """The options -L, -D, -G and -N of a command about two ports, A and B. Without them each is recognised by its
    form."""

    lid: bool = flag_field("-L", "--Lid", "lid", help="A and B are LIDs.")
    direct: bool = flag_field("-D", "--Direct", "direct", help="A and B are directed routes, such as 0,1,4.")
    guid: bool = flag_field("-G", "--Guid", "guid", help="A and B are port or node GUIDs.")
    name: bool = flag_field("-N", "--Name", "name", help="A and B are nodes' names.")


kind: Final = group("kind", AddressKinds)
end_kind: Final = group("kind", EndKinds)


def address(words: str = "[ADDR] [PORTNUM]", required: bool = False) -> Callable[[F], F]:
    """Return the decorator for a command whose arguments name ports.

    The command gets ``kind``, an `AddressKinds`, and ``words``, the typed words. *words*: the text for them in the
    usage. *required*: whether there must be at least one.
    """

    def decorate(command: F) -> F:
        return click.argument("words", nargs=-1, required=required, metavar=words)(kind(command))

    return decorate


every_port: Final = flag("--all", "every_port", help="Every port of the fabric.")
