"""The options for the flags of a partition: ipoib, the values of its multicast group, index 0, default membership."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from ibkeys.cli import options
from ibkeys.errors import EncodeError, UsageError
from ibkeys.keys.number import parse_number, quoted
from ibkeys.partitions.words import MTU_BYTES, RATE_GBPS

if TYPE_CHECKING:
    from ibkeys.partitions.editing.heads import FlagValue

_DEFAULT: Final = "default"
"""The value that removes a flag, so that OpenSM's default holds."""
_MTUS: Final = {str(size): code for code, size in MTU_BYTES.items()}
_RATES: Final = {rate: code for code, rate in RATE_GBPS.items()}


@dataclass(frozen=True, slots=True)
class FlagOptions:
    """The flags as they were typed; None for one that was not. ``default`` removes a flag."""

    ipoib: bool | None = options.field("--ipoib/--no-ipoib", env=False, default=None, help="Make the group for IPoIB.")
    mtu: str | None = options.field("--mtu", env=False, metavar="BYTES", help="MTU of the group: 256 to 4096.")
    rate: str | None = options.field("--rate", env=False, metavar="GBPS", help="Rate of the group in Gb/s, as 100.")
    sl: str | None = options.field("--sl", env=False, metavar="SL", help="Service level of the group, 0 to 15.")
    scope: tuple[str, ...] = options.repeated_field("--scope", "N", "Scope of the MGID, 1 to 15.")
    q_key: str | None = options.field("--q-key", env=False, metavar="QKEY", help="Q_Key of the group.")
    defmember: str | None = options.field(
        "--defmember",
        env=False,
        type=click.Choice(["full", "limited", "both", _DEFAULT]),
        help="Membership of ports that the policy names without one.",
    )
    indx0: bool | None = options.field(
        "--indx0/--no-indx0", env=False, default=None, help="Put the P_Key at index 0 of the members."
    )

    mgid: tuple[str, ...] = options.repeated_field("--mgid", "GID", "Add this multicast group to the partition.")
    without_mgid: tuple[str, ...] = options.repeated_field("--without-mgid", "GID", "Remove this multicast group.")

    def groups(self) -> dict[int, bool]:
        """Return the MGIDs (128 bits) that were typed, and whether each is to be added. Raises UsageError for a text
        that is no GID, and for one with both options."""
        groups = {_gid("--mgid", each): True for each in self.mgid}
        for each in self.without_mgid:
            if groups.setdefault(_gid("--without-mgid", each), False):
                raise UsageError(f"{quoted(each)}: given with --mgid and with --without-mgid")
        return groups

    def flags(self) -> dict[str, FlagValue | None]:
        """Return the flags that were typed, by their names in partitions.conf. Raises UsageError for a value that the
        flag cannot have."""
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
            is_default = _DEFAULT in self.scope
            flags["scope"] = None if is_default else frozenset(_number("--scope", each, 1, 15) for each in self.scope)
        if self.defmember is not None:
            flags["defmember"] = None if self.defmember == _DEFAULT else self.defmember
        if self.indx0 is not None:
            flags["indx0"] = self.indx0
        return flags


def _take(flags: dict[str, FlagValue | None], name: str, text: str | None, parse: Callable[[str], int]) -> None:
    if text is not None:
        flags[name] = None if text == _DEFAULT else parse(text)


def _gid(option: str, text: str) -> int:
    try:
        return int(ipaddress.IPv6Address(text.replace("%", " ")))  # Python accepts a zone after "%", OpenSM does not
    except ValueError:
        raise UsageError(f"{option}: {quoted(text)} is not a GID, such as ff12::77") from None


def _code(option: str, text: str, codes: dict[str, int]) -> int:
    if text not in codes:
        raise UsageError(f"{option}: {quoted(text)} is none of {', '.join(codes)}, or {_DEFAULT}")
    return codes[text]


def _number(option: str, text: str, least: int, most: int) -> int:
    try:
        value = parse_number(text, option, 32)
    except EncodeError as error:
        raise UsageError(str(error)) from None
    if not least <= value <= most:
        raise UsageError(f"{option}: {quoted(text)} is not a number from {least} to {most}, or {_DEFAULT}")
    return value
