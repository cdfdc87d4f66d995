"""How numbers are read on the command line and in option files."""

from __future__ import annotations

import re
from typing import Final

from ibkeys.errors import EncodeError

_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|0|[1-9][0-9]*")


def parse_number(text: str, what: str, bits: int = 64) -> int:
    """Read ``0x...`` or a decimal number of at most *bits* bits.

    A leading zero (``010``) is refused, because C tools would read it as octal. Raises EncodeError with a hint; the
    message does not repeat *text* when *what* is a secret, so callers of secrets use `parse_secret_number`.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):
        value = int(text, 0) if len(text) < 100 else 1 << bits
        if value >> bits:
            raise EncodeError(f"{what} {text[:40]} does not fit {bits} bits")
        return value
    if re.fullmatch(r"0[0-9]+", text):
        digits = text.lstrip("0") or "0"
        raise EncodeError(f"{what} {text!r}: a leading zero means octal to other tools; write {digits} or 0x{digits}")
    raise EncodeError(f"{what} {text!r} is not a number (0x... or decimal)")


def parse_secret_number(text: str, what: str, bits: int = 64) -> int:
    """As `parse_number`, but no error message repeats any digit of *text*."""
    try:
        return parse_number(text, what, bits)
    except EncodeError:
        pass  # raised anew below, out of this block, so that not even __context__ holds the text
    if _NUMBER.fullmatch(text.strip()):
        raise EncodeError(f"{what} does not fit {bits} bits (value not shown)")
    raise EncodeError(f"{what} is not a number, 0x... or decimal without a leading zero (value not shown)")
