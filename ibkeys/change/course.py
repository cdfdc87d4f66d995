"""Which step of a change comes next: data and pure functions, which read and write nothing.

The runner (`ibkeys.change.runner`) asks a course again after each step, with how all steps so far have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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


class Course(Protocol[Planned]):
    """The steps of a change, forth or back."""

    def next(self, ended: Sequence[Ended[Planned]]) -> Planned | None:
        """Return the step after those that have *ended*, in that order; None: there is no further one."""


@dataclass(frozen=True, slots=True)
class InOrder(Generic[Planned]):
    """One step after the other, none after one that is not proven."""

    steps: Sequence[Planned]

    def next(self, ended: Sequence[Ended[Planned]]) -> Planned | None:
        """See `Course`."""
        if len(ended) == len(self.steps) or not all(each.is_proven for each in ended):
            return None
        return self.steps[len(ended)]
