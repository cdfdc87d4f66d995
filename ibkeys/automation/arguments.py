"""The arguments of a script: a wrong one is an error before anything is read or sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple, get_args

from ibkeys.change.consent import Consent
from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.plan.model import Enforce
from ibkeys.similar_names import did_you_mean

LONGEST: Final = 86_400
"""The longest time in seconds that a script may wait, as for the options of the commands."""


class ArgumentRule(NamedTuple):
    """The rule for an argument: a function that returns whether a value is valid, and a description of valid values.

    ``is_secret``: no message shows the value.
    """

    is_right: Callable[[Any], bool]
    takes: str
    is_secret: bool = False


def _is_callable(value: object) -> bool:
    return callable(value) and not isinstance(value, type)  # a class makes an object of whatever it is called with


def flag() -> ArgumentRule:
    """Return the rule for True or False: ``"no"`` and 1 are neither."""
    return ArgumentRule(lambda value: isinstance(value, bool), "True or False")


def seconds() -> ArgumentRule:
    """Return the rule for a time, which may have a fraction."""
    return ArgumentRule(
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= LONGEST,
        f"seconds from 1 to {LONGEST}",
    )


def _number(least: int, most: int) -> ArgumentRule:
    return ArgumentRule(
        lambda value: value is None or (type(value) is int and least <= value <= most), f"{least} to {most}"
    )


RULES: Final[Mapping[str, ArgumentRule]] = {
    "consent": ArgumentRule(
        lambda value: value is None or isinstance(value, Consent) or _is_callable(value),
        "an ibkeys.Consent, or a function that returns one",
    ),
    "progress": ArgumentRule(lambda value: value is None or _is_callable(value), "a function"),
    "confirm_within": _number(1, LONGEST),
    "first": _number(1, 1_000_000),
    "new_key": ArgumentRule(lambda value: value is None or isinstance(value, MKey), "an ibkeys.MKey", is_secret=True),
    "enforce": ArgumentRule(lambda value: value in get_args(Enforce), f"one of {', '.join(get_args(Enforce))}"),
    "protect": _number(0, 3),
    "lease": _number(0, 0xFFFF),
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


def refuse_wrong(given: Mapping[str, object], rules: Mapping[str, ArgumentRule]) -> None:
    """Raise UsageError for a value that does not satisfy its rule."""
    for name, value in given.items():
        if name in rules and not rules[name].is_right(value):
            shown = type(value).__name__ if rules[name].is_secret else repr(value)
            raise UsageError(f"{name}= takes {rules[name].takes}, not {shown}")
