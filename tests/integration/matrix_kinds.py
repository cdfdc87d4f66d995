"""The kinds of operations through OpenSM that the matrix has: how each begins, goes on and goes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.integration.hosted import BLUNT
from tests.integration.keyed_opensm import CLOSED, CONF

THROUGH: Final = ("--via", "opensm")
MOMENTS: Final = ("before the first file", "before the first signal", "before its record is closed")
BETWEEN: Final = "before the second signal"
"""Where an operation dies: crash_driver.py has them."""
THEIRS: Final = 0x5D1C93B7A2E4F608
"""An M_Key, sm_key and sa_key that somebody writes by hand."""


@dataclass(frozen=True)
class Kind:
    """A kind of operation. ``before``: what is made first; ``words``: how it begins; ``on`` and ``back``: how it goes
    on and back, None where there is no such way; ``another``: what an administrator with another store does;
    ``by_hand``: the options that somebody edits, with their value; ``conf``: the options file at first;
    ``has_steps``: OpenSM is told more than once."""

    before: tuple[str, ...]
    words: tuple[str, ...]
    on: tuple[str, ...] | None
    back: tuple[str, ...] | None
    another: tuple[str, ...]
    is_of_policy: bool = False
    by_hand: tuple[str, ...] = (f"m_key {THEIRS:#x}",)
    conf: str = CONF
    has_steps: bool = True


DEPLOY: Final = ("mkey-deploy", *CLOSED, *THROUGH)
ROTATE: Final = ("mkey-rotate", *THROUGH)
REMOVE: Final = ("mkey-remove", "--leave-open", *THROUGH)
APPLY: Final = ("apply", "plan.json", *THROUGH, "--allow-removals", *BLUNT)
_UNDO: Final = ("undo", *BLUNT)
_UNDO_APPLY: Final = ("undo", "1", *BLUNT)
_HARDEN: Final = ("harden", *THROUGH)
_UNDO_HARDENING: Final = ("undo", "2")
"""The change of part_enforce is the second operation, after the keys of the subnet manager."""
_SECRETS: Final = (f"sm_key {THEIRS:#x}", f"sa_key {THEIRS:#x}")
_OPEN: Final = f"{CONF}part_enforce off\n"
KINDS: Final = {
    "deploy": Kind((), DEPLOY, ("resume",), ("undo",), DEPLOY),
    "rotate": Kind(DEPLOY, ROTATE, ("resume",), ("undo",), ROTATE),
    "remove": Kind(DEPLOY, REMOVE, ("resume",), ("undo",), ROTATE),
    "smkey-rotate": Kind(
        (), ("smkey-rotate",), ("resume",), ("undo",), ("smkey-rotate",), by_hand=_SECRETS, has_steps=False
    ),
    "harden": Kind((), _HARDEN, _HARDEN, None, DEPLOY, by_hand=_SECRETS),
    "undo of harden": Kind(
        _HARDEN,
        _UNDO_HARDENING,
        ("resume",),
        _HARDEN,
        ROTATE,
        by_hand=("part_enforce out",),
        conf=_OPEN,
        has_steps=False,
    ),
    "apply": Kind((), APPLY, ("resume", *BLUNT), _UNDO, APPLY, True),
    "undo": Kind(APPLY, _UNDO_APPLY, _UNDO_APPLY, None, APPLY, True),
}
OF_MANAGERS: Final = ("manager replaced", "manager returned")
"""What happens since where an OpenSM of another port is master."""
