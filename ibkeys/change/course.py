"""The order of the steps of a change: data and pure functions, which read and write nothing.

The runner (`ibkeys.change.runner`) calls a course again after each step, with the results of all steps so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, TypeVar

from ibkeys.errors import IbkeysError

Planned = TypeVar("Planned")


@dataclass(frozen=True, slots=True)
class EndedStep(Generic[Planned]):
    """A step of a course, and its result. ``is_proven``: the ports were read and have the values of the step, or there
    was nothing to do; ``last_look``: the result of the last look, None if nothing was read; ``error``: the error that
    stopped it."""

    step: Planned
    is_proven: bool
    last_look: object = None
    error: IbkeysError | None = None


@dataclass(frozen=True, slots=True)
class Course(Generic[Planned]):
    """The steps of a change. ``forward_steps``: the steps of the change in order; after a step that is not proven no
    further one is made. ``rollback_steps``: returns the steps that are made after such a step."""

    forward_steps: Sequence[Planned]
    rollback_steps: Callable[[EndedStep[Planned]], Sequence[Planned]] = lambda failed: ()

    def next(self, ended: Sequence[EndedStep[Planned]]) -> Planned | None:
        """Return the next step; None if there is no further one. *ended*: the steps that were made, in order, with
        their results."""
        proven = len([*takewhile(lambda each: each.is_proven, ended)])
        steps = [*self.forward_steps]
        if proven < len(ended):
            steps[proven + 1 :] = self.rollback_steps(ended[proven])
        return steps[len(ended)] if len(ended) < len(steps) else None
