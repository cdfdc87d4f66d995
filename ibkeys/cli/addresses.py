"""Parsing the port on a command line: its address and its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ibkeys.cli import typed
from ibkeys.cli.options import AddressKinds
from ibkeys.errors import AddressError, UsageError
from ibkeys.keys.guid import is_set_of_guids, is_spelled_as_guid
from ibkeys.keys.number import parse_number, quoted

if TYPE_CHECKING:
    from ibkeys.client.address import Address


class PortArguments(NamedTuple):
    """One port named on a command line, as arguments of `LiveFabric.find_port`.

    ``address``: None means the local port. ``portnum``: None means the port that `find_port` takes by default.
    """

    address: Address | None
    portnum: int | None


_FOR_A_NAME: Final = " (for a node's name: -N)"


def port_arguments(words: Sequence[str], kind: AddressKinds, every_port: bool = False) -> PortArguments:
    """Return the port that *words*, ``[ADDR] [PORTNUM]``, name. *kind*: the options for the kind of ADDR.

    *every_port*: whether ``--all`` was given. Raises UsageError for too many words, for several kinds or a kind without
    ADDR, for an invalid PORTNUM, and for a port or kind with ``--all``; AddressError for an ADDR that cannot be parsed.
    """
    if len(words) > 2:
        # The message does not repeat the words: one of them may be a key.
        raise UsageError(f"{len(words)} words after the options, but only ADDR and PORTNUM are allowed")
    if every_port and (words or _letter_of_kind(kind)):
        raise UsageError("--all means every port: it takes no ADDR, PORTNUM or kind of address")
    return PortArguments(
        parse_address(words[0] if words else None, kind),
        parse_portnum(words[1]) if len(words) > 1 else None,
    )


class NodeSet(NamedTuple):
    """Several nodes named on a command line.

    ``word``: the nodes, as `Directory.find` takes them. ``numbers``: the numbers of their ports; None means all ports.
    """

    word: str
    numbers: frozenset[int] | None


def node_set(words: Sequence[str], kind: AddressKinds) -> NodeSet | None:
    """Return the ports of ``ADDR [PORTNUMS]`` where ADDR may stand for several nodes; None for any other words.

    After -N, ADDR is a name with wildcards or a folded set (``stage[1-48]``); after -G, a folded set of GUIDs
    (``0x0002c903000[48208,4823c]``). PORTNUMS are written as ``1-2,5``. Raises UsageError, AddressError.
    """
    from ibkeys.client.address import parse_guids
    from ibkeys.topology.names.patterns import is_pattern

    letter = _letter_of_kind(kind)
    if len(words) not in (1, 2):
        return None
    word, *numbers = words
    if letter == "G" and is_set_of_guids(word):
        for address in parse_guids(word):
            typed.exempt_guid(address.guid)
    elif letter != "N" or not is_pattern(word):
        return None
    return NodeSet(word, _parse_portnums(numbers[0]) if numbers else None)


def parse_address(text: str | None, kind: AddressKinds) -> Address | None:
    """Return *text* as an address of the kind that an option names; without such an option it is a LID.

    If *text* is None, return None, which means the local port. Raises UsageError if several kinds are given, or a kind
    without *text*; AddressError if *text* cannot be parsed.
    """
    from ibkeys.client.address import NameAddress, parse_guid, parse_lid, parse_route

    letter = _letter_of_kind(kind)
    if text is None:
        if letter:
            raise UsageError(f"-{letter} sets the kind of ADDR, but no ADDR is given")
        return None
    if letter == "D":
        return parse_route(text)
    if letter == "G":
        try:
            address = parse_guid(text)
        except AddressError as error:
            is_name = not (text[:1].isdigit() or is_spelled_as_guid(text))
            raise AddressError(f"{error}{_FOR_A_NAME if is_name else ''}") from None
        typed.exempt_guid(address.guid)
        return address
    if letter == "N":
        return NameAddress(text)
    try:
        return parse_lid(text)
    except AddressError as error:
        raise AddressError(f"{error}{_kind_hint(text) if not letter else ''}") from None


def parse_portnum(text: str) -> int:
    """Return the number, 0 to 255, that PORTNUM is. Raises UsageError."""
    return parse_number(text, "PORTNUM", 8, UsageError)


def _parse_portnums(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        part_numbers = range(parse_portnum(first), parse_portnum(last if dash else first) + 1)
        if not part_numbers:
            raise UsageError(f"PORTNUM {quoted(part)}: a range is written from the smaller number to the larger one")
        numbers.update(part_numbers)
    return frozenset(numbers)


def _letter_of_kind(kind: AddressKinds) -> str:
    flags = {"L": kind.lid, "D": kind.direct, "G": kind.guid, "N": kind.name}
    given = [letter for letter, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise UsageError(f"ADDR is of one kind: -{' and -'.join(given)} exclude each other")
    return given[0] if given else ""


def _kind_hint(text: str) -> str:
    if "," in text:
        return " (for a directed route: -D)"
    if is_spelled_as_guid(text):
        return " (for a GUID: -G)"
    if not text[:1].isdigit():
        return _FOR_A_NAME
    return ""
