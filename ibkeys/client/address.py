"""The addresses by which a user or script names a port: a LID, a directed route, a GUID or a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.errors import AddressError, EncodeError
from ibkeys.keys import guid as guids
from ibkeys.keys.number import NOT_SHOWN, parse_number, quoted
from ibkeys.mad.const import MAX_HOPS, MAX_UNICAST_LID

_NO_LIDS: Final = {0: "0 means that no LID was assigned", 0xFFFF: "0xffff is the permissive LID"}


@dataclass(frozen=True, slots=True)
class LidAddress:
    """A unicast LID, 1..0xbfff. Raises AddressError for another number."""

    lid: int

    def __post_init__(self) -> None:
        if not 0 <= self.lid <= 0xFFFF:
            # Not repeated: a number of this length may be a key that landed in the wrong place.
            raise AddressError(
                f"LID: a number of more than 16 bits is not a LID; unicast LIDs are 1 to {MAX_UNICAST_LID}"
            )
        if not 1 <= self.lid <= MAX_UNICAST_LID:
            why = _NO_LIDS.get(self.lid, "it is a multicast LID")
            raise AddressError(
                f"LID {self.lid} is not the address of a port: {why}; unicast LIDs are 1 to {MAX_UNICAST_LID}"
            )

    def __str__(self) -> str:
        return f"LID {self.lid}"


@dataclass(frozen=True, slots=True)
class DirectedAddress:
    """A directed route from the local port: the ports to leave by. ``()`` is the local port itself. Raises AddressError
    for more than 63 ports, and for a port that is not in 1..254."""

    path: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.path) > MAX_HOPS:
            raise AddressError(f"a directed route of {len(self.path)} hops; {MAX_HOPS} is the maximum")
        for port in self.path:
            if not 1 <= port <= 254:
                shown = NOT_SHOWN if port >> 32 else str(port)
                raise AddressError(f"directed route: hop {shown} is not a port number; ports are 1 to 254")

    def __str__(self) -> str:
        return "route " + ",".join(map(str, (0, *self.path)))


@dataclass(frozen=True, slots=True)
class GuidAddress:
    """The GUID of a port or a node. Raises AddressError for 0, and for a number of more than 64 bits."""

    guid: int

    def __post_init__(self) -> None:
        if not 0 < self.guid < 1 << 64:
            raise AddressError(
                f"GUID {'0' if not self.guid else NOT_SHOWN} is not a GUID: it must be 64 bits and not 0"
            )

    def __str__(self) -> str:
        return f"GUID 0x{self.guid:016x}"


@dataclass(frozen=True, slots=True)
class NameAddress:
    """The name of a node: its NodeDescription, or its name in the node name map."""

    name: str

    def __str__(self) -> str:
        return f"node {self.name!r}"


Address = LidAddress | DirectedAddress | GuidAddress | NameAddress
LOCAL: Final = DirectedAddress(())


def parse_lid(text: str) -> LidAddress:
    """Parse a LID, decimal or ``0x...``. Raises AddressError."""
    return LidAddress(parse_number(text, "LID", error=AddressError))


def parse_route(text: str) -> DirectedAddress:
    """Parse a directed route like ``0,1,4``: the leading 0 is the local port, then the ports to leave by.

    Raises AddressError.
    """
    first, *rest = text.split(",")
    if first.strip() != "0":
        raise AddressError(f"directed route {quoted(text)} must begin with 0, the local port (as in 0,1,4)")
    return DirectedAddress(tuple(parse_number(part, "directed route: port", error=AddressError) for part in rest))


def parse_guid(text: str) -> GuidAddress:
    """Parse a GUID in any form of `ibkeys.keys.guid.parse_guid`. Raises AddressError, also for a set of GUIDs."""
    if guids.is_set_of_guids(text):
        raise AddressError(f"{quoted(text)} stands for several GUIDs; name the one port that is meant")
    try:
        return GuidAddress(guids.parse_guid(text))
    except EncodeError as error:
        raise AddressError(str(error)) from error


def parse_guids(text: str) -> list[GuidAddress]:
    """Parse a set of GUIDs as `ibkeys.keys.guid.parse_guids` does. Raises AddressError."""
    try:
        return list(map(GuidAddress, guids.parse_guids(text)))
    except EncodeError as error:
        raise AddressError(str(error)) from error


AddressLike = Address | str | int | None
"""The values that a script may give as an address: see `as_address`."""


def as_address(address: AddressLike) -> Address:
    """Return the address that *address* stands for.

    None is the local port. An int is a LID, and so is a decimal text, or ``0x`` and up to 4 digits. ``0``, or a text
    with a comma and no bracket, is a directed route. ``0x`` and more than 4 digits, or ``0002:c903:004e:22a1``, is a
    GUID. Any other text is a node name. Raises AddressError.
    """
    if address is None:
        return LOCAL
    if isinstance(address, Address):
        return address
    if isinstance(address, int) and not isinstance(address, bool):
        return LidAddress(address)
    if not isinstance(address, str):
        raise AddressError(f"an address is a text, or a LID as a number, not {address!r}")
    if address == "0" or ("," in address and "[" not in address):
        return parse_route(address)
    if guids.is_spelled_as_guid(address):
        return parse_guid(address)
    return parse_lid(address) if address.isdigit() or address.lower().startswith("0x") else NameAddress(address)
