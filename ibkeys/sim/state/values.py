"""Checks of values in the document: a wrong type or range would otherwise fail later, at an unrelated place."""

from __future__ import annotations

import math
from typing import Any, Final

_MOST_SECONDS: Final = 1e12


def number_of(value: Any, most: int) -> int:
    """Return *value*, a number up to *most*. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"a number that is not in 0..{most}")
    return value


def seconds_of(value: Any) -> float:
    """Return *value* as a time. Raises TypeError or ValueError."""
    seconds = float(value)
    if not math.isfinite(seconds) or abs(seconds) > _MOST_SECONDS:
        raise ValueError("an invalid time")
    return seconds


def bytes_of(value: str, size: int) -> bytes:
    """Return *size* bytes from the hex text *value*. Raises TypeError or ValueError."""
    data = bytes.fromhex(value)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes instead of {size}")
    return data
