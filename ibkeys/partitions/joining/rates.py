"""Rates in Gb/s as the rate codes of groups and paths name them (IBA 15.2.5.16)."""

from __future__ import annotations

from ibkeys.partitions.words import RATE_GBPS


def rate_of_code(code: int) -> float | None:
    """Return the rate of a code; None for an unknown code."""
    text = RATE_GBPS.get(code)
    return None if text is None else float(text)


def code_above(rate: float) -> int | None:
    """Return the lowest code of a rate above *rate*, which older subnet managers are most likely to know; None if there
    is none."""
    return min((code for code, text in RATE_GBPS.items() if float(text) > rate), default=None)
