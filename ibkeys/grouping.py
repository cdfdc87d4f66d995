"""Grouping things by a value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(things: Iterable[T], value_of: Callable[[T], K]) -> dict[K, list[T]]:
    """Return *things* grouped by the result of *value_of* for each. Groups and their members keep their order."""
    return gathered((value_of(thing), thing) for thing in things)


def gathered(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the second values of *pairs*, grouped by the first value of the pair. Groups and their values keep their
    order.
    """
    groups: dict[K, list[T]] = {}
    for value, thing in pairs:
        groups.setdefault(value, []).append(thing)
    return groups
