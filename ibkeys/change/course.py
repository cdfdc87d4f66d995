"""Which step of a change comes next: data and pure functions, which read and write nothing.

The runner (`ibkeys.change.runner`) asks a course again after each step, with how all steps so far have ended.
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
    """A step of a course, and how it ended. ``is_proven``: what it should change was seen to be changed; ``found``:
    what was seen last, None where nothing was looked at; ``error``: what stopped it."""

    step: Planned
    is_proven: bool
    found: object = None
    error: IbkeysError | None = None


@dataclass(frozen=True, slots=True)
class Course(Generic[Planned]):
    """The steps of a change. ``forth``: one after the other, none after one that is not proven; ``back``: what is done
    then."""

    forth: Sequence[Planned]
    back: Sequence[Planned] = ()

    def next(self, ended: Sequence[Ended[Planned]]) -> Planned | None:
        """Return the step after those that have *ended*, in that order; None: there is no further one."""
        proven = len([*takewhile(lambda each: each.is_proven, ended)])
        steps = self.forth if proven == len(ended) else [*self.forth[: proven + 1], *self.back]
        return steps[len(ended)] if len(ended) < len(steps) else None
