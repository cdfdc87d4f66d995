"""How often Python's garbage collector runs while much is made that stays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = 100_000
"""New objects before Python looks at the new ones (its own threshold: 700)."""
_OLDER: Final = 5
"""Such looks before it looks at the older ones too."""
_ALL: Final = 1
"""Those before it may look at all. A command that never ends leaves a whole fabric behind with each sweep, and nodes
and ports refer to each other, so only this frees them: it may not be seldom."""

_OF_PYTHON: Final = 1000
"""Fewer frozen objects than these are Python's own: 3.12 begins with some hundred. A program that freezes its own has
more, and they stay frozen."""


@contextmanager
def few_collections() -> Iterator[None]:
    """Let the garbage collector run seldom: nearly all that a sweep or a plan makes stays, and each look at it takes
    longer than the last.

    At Python's own thresholds that is a sixth of a sweep's time, a third of the time of a plan for 40,000 hosts, and
    one look at the end of a sweep a twelfth of its time. A program that has switched the collector off keeps it off.
    """
    thresholds = gc.get_threshold()
    if gc.isenabled() and 0 < thresholds[0] < _YOUNG:
        gc.set_threshold(_YOUNG, _OLDER, _ALL)
    try:
        yield
    finally:
        if gc.isenabled() and gc.get_freeze_count() < _OF_PYTHON:
            # What was made becomes old without being examined: freezing takes all objects and gives them back as old.
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*thresholds)
