"""The flags of a partition as a user writes them: bytes and Gb/s in place of the codes of partitions.conf."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from ibkeys.arguments import given
from ibkeys.errors import UsageError
from ibkeys.keys.number import parse_number, quoted
from ibkeys.partitions.words import MTU_BYTES, RATE_GBPS

if TYPE_CHECKING:
    from ibkeys.partitions.editing.heads import FlagValue

DEFAULT: Final = "default"
"""The value that removes a flag, so that OpenSM's default holds."""
DEFMEMBERS: Final = ("full", "limited", "both", DEFAULT)
_MTUS: Final = {str(size): code for code, size in MTU_BYTES.items()}
_RATES: Final = {rate: code for code, rate in RATE_GBPS.items()}


@dataclass(frozen=True, slots=True)
class FlagTexts:
    """The flags and multicast groups that a user gave; None and () for those that he did not. ``default`` removes a
    flag.

    ``mtu``: bytes; ``rate``: Gb/s; ``sl``: 0 to 15; ``scope``: each 1 to 15; ``defmember``: one of `DEFMEMBERS`;
    ``mgid``, ``without_mgid``: the groups to add and to remove, as GIDs.
    """

    ipoib: bool | None = None
    mtu: str | None = None
    rate: str | None = None
    sl: str | None = None
    scope: tuple[str, ...] = ()
    q_key: str | None = None
    defmember: str | None = None
    indx0: bool | None = None
    mgid: tuple[str, ...] = ()
    without_mgid: tuple[str, ...] = ()

    def options(self) -> list[str]:
        """Return the names of the options that were given, without their values."""
        given_values = {each.name: getattr(self, each.name) for each in fields(self)}
        return [
            f"--{'no-' if value is False else ''}{name.replace('_', '-')}"
            for name, value in given_values.items()
            if value is not None and value != ()
        ]

    def groups(self) -> dict[int, bool]:
        """Return the MGIDs (128 bits), and whether each is to be added. Raises UsageError for a text that is no GID,
        and for one that is to be both added and removed."""
        added, removed = given("--mgid"), given("--without-mgid")
        groups = {_gid(added, each): True for each in self.mgid}
        for each in self.without_mgid:
            if groups.setdefault(_gid(removed, each), False):
                raise UsageError(f"{quoted(each)}: given with {added} and with {removed}")
        return groups

    def flags(self) -> dict[str, FlagValue | None]:
        """Return the flags by their names in partitions.conf; None for one that is removed. Raises UsageError for a
        value that the flag cannot have."""
        flags: dict[str, FlagValue | None] = {}
        if self.ipoib is not None:
            flags["ipoib"] = self.ipoib
        for name, text, parse in (
            ("mtu", self.mtu, lambda text: _code("--mtu", text, _MTUS)),
            ("rate", self.rate, lambda text: _code("--rate", text, _RATES)),
            ("sl", self.sl, lambda text: _number("--sl", text, 0, 15)),
            ("Q_Key", self.q_key, lambda text: _number("--q-key", text, 1, 0xFFFFFFFF)),
        ):
            _take(flags, name, text, parse)
        if self.scope:
            is_default = DEFAULT in self.scope
            flags["scope"] = None if is_default else frozenset(_number("--scope", each, 1, 15) for each in self.scope)
        if self.defmember is not None:
            if self.defmember not in DEFMEMBERS:
                raise _not_among("--defmember", self.defmember, ", ".join(DEFMEMBERS))
            flags["defmember"] = None if self.defmember == DEFAULT else self.defmember
        if self.indx0 is not None:
            flags["indx0"] = self.indx0
        return flags


def _take(flags: dict[str, FlagValue | None], name: str, text: str | None, parse: Callable[[str], int]) -> None:
    if text is not None:
        flags[name] = None if text == DEFAULT else parse(text)


def _gid(option: str, text: str) -> int:
    try:
        return int(ipaddress.IPv6Address(text.replace("%", " ")))  # Python accepts a zone after "%", OpenSM does not
    except ValueError:
        raise UsageError(f"{option}: {quoted(text)} is not a GID, such as ff12::77") from None


def _code(option: str, text: str, codes: dict[str, int]) -> int:
    if text not in codes:
        raise _not_among(option, text, f"{', '.join(codes)}, or {DEFAULT}")
    return codes[text]


def _not_among(option: str, text: str, known: str) -> UsageError:
    return UsageError(f"{given(option)}: {quoted(text)} is none of {known}")


def _number(option: str, text: str, least: int, most: int) -> int:
    value = parse_number(text, given(option), 32, UsageError)
    if not least <= value <= most:
        raise UsageError(f"{given(option)}: {quoted(text)} is not a number from {least} to {most}, or {DEFAULT}")
    return value
