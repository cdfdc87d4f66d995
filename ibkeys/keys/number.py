"""How numbers are read on the command line and in option files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ibkeys.errors import EncodeError, IbkeysError
from ibkeys.printable import shortened

_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|0|[1-9][0-9]*")

# Text that is taken for a key: 0x and at least 10 characters, at least 16 hex digits without 0x (as a GUID has too), or
# at least 11 decimal digits. A mistyped key matches too.
_KEY: Final = re.compile(r"0[xX]\w{10,}|[0-9a-fA-F]{16,}|[0-9]{11,}")
_GROUPING: Final = re.compile(r"[\s:_-]")
NOT_SHOWN: Final = "(not shown)"


def looks_like_a_key(text: str) -> bool:
    """Return whether *text* may be a key that was written in the wrong place. A GUID looks the same."""
    return _KEY.fullmatch(_GROUPING.sub("", text)) is not None


def quoted(text: str) -> str:
    """Return *text* in quotes for a message, cut if it is long; a text that looks like a key is not repeated."""
    return NOT_SHOWN if looks_like_a_key(text) else shortened(text)


def parse_number(text: str, what: str, bits: int = 64, error: Callable[[str], IbkeysError] = EncodeError) -> int:
    """Read ``0x...`` or a decimal number of at most *bits* bits. *what*: the name of the value, for error messages.

    A leading zero (``010``) is refused, because C tools would read it as octal. Raises *error* with a hint; the
    message repeats *text* unless it looks like a key. Callers that expect a secret use `parse_secret_number`.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        value = int(text, 0) if len(text) < 100 else 1 << bits
        if value >> bits:
            raise error(f"{what} {NOT_SHOWN if looks_like_a_key(text) else text} does not fit {bits} bits")
        return value
    if re.fullmatch(r"0[0-9]+", text):
        digits = text.lstrip("0") or "0"
        written = f"; write {digits} or 0x{digits}" if not looks_like_a_key(text) else ""
        raise error(f"{what} {quoted(text)}: a leading zero means octal to other tools{written}")
    raise error(f"{what} {quoted(text)} is not a number (0x... or decimal)")


def parse_secret_number(text: str, what: str, bits: int = 64) -> int:
    """Read a number as `parse_number` does. Raises EncodeError, whose message has no digit of *text*."""
    try:
        return parse_number(text, what, bits)
    except EncodeError:
        pass  # raised again below, out of this block, so that not even __context__ holds the text
    if _NUMBER.fullmatch(text.strip()):
        raise EncodeError(f"{what} does not fit {bits} bits (value not shown)")
    raise EncodeError(f"{what} is not a number, 0x... or decimal without a leading zero (value not shown)")
