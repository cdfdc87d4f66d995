"""Grouping things of which the same is said, and lists of which only the first lines are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ibkeys.grouping import grouped as grouped


def shortened(lines: Sequence[str], most: int, rest: Callable[[int], str]) -> list[str]:
    """Return *lines*; of more than *most* the first ones, and what *rest* says about the number of the others."""
    left = len(lines) - most
    return [*lines[:most], rest(left)] if left > 0 else [*lines]
