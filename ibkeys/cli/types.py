"""The types of values on the command line: numbers, GUIDs, P_Keys, choices, lengths of time."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from ibkeys.cli import typed
from ibkeys.errors import EncodeError
from ibkeys.keys.guid import parse_guid
from ibkeys.keys.number import NOT_SHOWN, looks_like_a_key, parse_number, quoted
from ibkeys.keys.pkey import PKey

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
    _Choice = click.Choice[str]
else:  # no generic classes before click 8.4 and 8.2
    _ParamType, _Choice = click.ParamType, click.Choice


class _Word(_ParamType, ABC):
    """A type whose value is one word on the command line. A subclass turns the word into the value."""

    @abstractmethod
    def read(self, text: str) -> Any:
        """Return the value of *text*. Raises EncodeError for a word that has no value of this type."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return *value* as `read` does if it is a text; a default has its type already. Raises click.BadParameter."""
        try:
            return self.read(value) if isinstance(value, str) else value
        except EncodeError as error:
            self.fail(str(error), param, ctx)


_NEGATIVE: Final = re.compile(r"-[0-9]+")


class NumberType(_Word):
    """A number, ``0x...`` or decimal without a leading zero, in *least*..*most*."""

    name = "number"

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most

    def read(self, text: str) -> int:
        """Return the number. Raises EncodeError."""
        is_negative = _NEGATIVE.fullmatch(text.strip()) is not None
        number = -1 if is_negative else parse_number(text, "number", max(self.most.bit_length(), 64))
        if not self.least <= number <= self.most:
            shown = NOT_SHOWN if looks_like_a_key(text) else text
            raise EncodeError(f"{shown} is not in {self.least}..{self.most}")
        return number


class Guid(_Word):
    """A GUID, in any form of `ibkeys.keys.guid.parse_guid`.

    Messages may show it, because the user has called it a GUID.
    """

    name = "guid"

    def read(self, text: str) -> int:
        """Return the GUID. Raises EncodeError."""
        guid = parse_guid(text)
        typed.exempt_guid(guid)
        return guid


GUID: Final = Guid()


class PKeyType(_ParamType):
    """A P_Key; on a command line it begins with ``0x``, so that it is never taken for a port number."""

    name = "pkey"

    def convert(self, value: str | PKey, param: click.Parameter | None, ctx: click.Context | None) -> PKey:
        """Return the P_Key. Raises EncodeError."""
        return value if isinstance(value, PKey) else parse_p_key(value)


def parse_p_key(text: str) -> PKey:
    """Return the P_Key of a word of the command line: ``0x8001``, ``0x1:full``, ``0x1:limited``. Raises EncodeError."""
    if not text.strip().lower().startswith("0x"):
        number, colon, membership = text.strip().partition(":")
        hint = f"write {' or '.join(f'{each}{colon}{membership}' for each in _possible_p_keys(number))}"
        raise EncodeError(f"P_Key {quoted(text)}: on the command line a P_Key begins with 0x; {hint}")
    return PKey.parse(text)


def _possible_p_keys(number: str) -> list[str]:
    """Return the P_Keys that the user may have meant by *number*, a word without ``0x``.

    It may be decimal; four digits may also be hex, and this comes first. Any other word returns an example.
    """
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        return ["0x8001"]
    decimal = f"{int(number):#x}"
    return [f"0x{number}", decimal] if len(number) == len("8001") else [decimal]


PKEY: Final = PKeyType()


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"([0-9]{1,6})([smhdw])", re.ASCII)


class NearChoice(_Choice):
    """One of a few words. The error for another word names similar ones. The word is never a key."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word. Raises click.BadParameter."""
        from ibkeys.similar_names import did_you_mean

        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            hint = did_you_mean(str(value), map(str, self.choices))
            raise click.BadParameter(
                f"{error.message.rstrip('.')}{hint}" if hint else error.message, ctx, param
            ) from None


class Duration(_Word):
    """A length of time above 0 with its unit: ``90s``, ``15m``, ``12h``, ``30d``, ``8w``."""

    name = "duration"

    def read(self, text: str) -> timedelta:
        """Return the length of time. Raises EncodeError."""
        match = _DURATION.fullmatch(text)
        if match is None or not int(match[1]):
            raise EncodeError(f"{quoted(text)} is not a length of time: write 90s, 15m, 12h, 30d or 8w")
        return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


DURATION: Final = Duration()


class ViaType(_Word):
    """The method of a change: ``auto``, ``direct``, ``opensm``, or ``ufm:URL``."""

    name = "method"

    def read(self, text: str) -> str:
        """Return *text*, the method, unchanged. Raises EncodeError for any other word."""
        if text not in ("auto", "direct", "opensm") and not text.startswith("ufm:"):
            shown = "a URL without ufm: before it" if "://" in text else quoted(text)  # the URL may hold a password
            raise EncodeError(f"{shown} is not one of auto, direct, opensm, ufm:URL")
        return text
