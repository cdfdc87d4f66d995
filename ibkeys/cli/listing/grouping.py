"""Grouping things of which the same is said, and lists of which only the first lines are shown."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(things: Iterable[T], said: Callable[[T], K]) -> dict[K, list[T]]:
    """Return *things* by what is *said* of each, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for thing in things:
        groups.setdefault(said(thing), []).append(thing)
    return groups


def shortened(lines: Sequence[str], most: int, rest: Callable[[int], str]) -> list[str]:
    """Return *lines*; of more than *most* the first ones, and what *rest* says about the number of the others."""
    left = len(lines) - most
    return [*lines[:most], rest(left)] if left > 0 else [*lines]
