"""The order of the steps of a change: data and pure functions, which read and write nothing.

The runner (`ibkeys.change.runner`) calls a course again after each step, with the results of all steps so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, TypeVar

from ibkeys.errors import IbkeysError

Planned = TypeVar("Planned")


@dataclass(frozen=True, slots=True)
class Ended(Generic[Planned]):
    """A step of a course, and its result. ``is_proven``: the ports were read and have the values of the step;
    ``found``: the result of the last look, None if nothing was read; ``error``: the error that stopped it."""

    step: Planned
    is_proven: bool
    found: object = None
    error: IbkeysError | None = None


@dataclass(frozen=True, slots=True)
class Course(Generic[Planned]):
    """The steps of a change. ``forth``: the steps of the change, of which none follows one that is not proven;
    ``back``: the steps that are made after that one instead."""

    forth: Sequence[Planned]
    back: Sequence[Planned] = ()

    def next(self, ended: Sequence[Ended[Planned]]) -> Planned | None:
        """Return the step after those that have *ended*, in that order; None if there is no further one."""
        proven = len([*takewhile(lambda each: each.is_proven, ended)])
        steps = self.forth if proven == len(ended) else [*self.forth[: proven + 1], *self.back]
        return steps[len(ended)] if len(ended) < len(steps) else None
