"""The arguments of a script: a wrong one is an error before anything is read or sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, get_args

from ibkeys.arguments import PROGRESS, ArgumentRule, flag, is_function, number
from ibkeys.change.consent import Consent
from ibkeys.keys.mkey import MKey
from ibkeys.plan.model import Enforce
from ibkeys.similar_names import did_you_mean

LONGEST: Final = 86_400
"""The longest time in seconds that a script may wait, as for the options of the commands."""


def seconds() -> ArgumentRule:
    """Return the rule for a time, which may have a fraction."""
    return ArgumentRule(
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= LONGEST,
        f"seconds from 1 to {LONGEST}",
    )


RULES: Final[Mapping[str, ArgumentRule]] = {
    "consent": ArgumentRule(
        lambda value: value is None or isinstance(value, Consent) or is_function(value),
        "an ibkeys.Consent, or a function that returns one",
    ),
    "progress": PROGRESS,
    "confirm_within": number(1, LONGEST),
    "first": number(1, 1_000_000),
    "new_key": ArgumentRule(lambda value: value is None or isinstance(value, MKey), "an ibkeys.MKey", is_secret=True),
    "enforce": ArgumentRule(lambda value: value in get_args(Enforce), f"one of {', '.join(get_args(Enforce))}"),
    "protect": number(0, 3),
    "lease": number(0, 0xFFFF),
    **dict.fromkeys(("dry_run", "same", "per_port", "allow_removals", "allow_break", "at_once", "leave_open"), flag()),
    **dict.fromkeys(("allow_both_pkeys", "disconnect_unconfigured"), flag()),
}
"""The rules for arguments of changes of the whole fabric."""


def refuse_unknown(given: Collection[str], known: Collection[str]) -> None:
    """Raise TypeError, as Python does, for a name in *given* that is not in *known*. A mistyped ``dry_run`` must not be
    ignored.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected keyword argument {name!r}{did_you_mean(name, known)}")
