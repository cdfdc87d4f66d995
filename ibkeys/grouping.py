"""Grouping things of which the same is said."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(things: Iterable[T], said: Callable[[T], K]) -> dict[K, list[T]]:
    """Return *things* grouped by what *said* returns for each. Groups and their members keep their order."""
    return gathered((said(thing), thing) for thing in things)


def gathered(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the second of each of *pairs* by the first, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for what, thing in pairs:
        groups.setdefault(what, []).append(thing)
    return groups
