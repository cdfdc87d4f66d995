"""What the user asks of a change that goes through a subnet manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WAIT: Final = 60.0
"""Seconds without progress after which a subnet manager is signalled once more where it can be, and then given up."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asks of the carrier. ``wait``: see `WAIT`; ``gaps``: pairs may temporarily lose connectivity;
    ``rewrite``: OpenSM writes every table again first; ``at_once``: an undo rolls back in one step. ``had_gaps``: what
    is undone was made with ``gaps``."""

    wait: float = WAIT
    gaps: bool = False
    rewrite: bool = False
    at_once: bool = False
    had_gaps: bool = False
