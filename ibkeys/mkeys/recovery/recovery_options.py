"""Options of a recovery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ibkeys.arguments import ArgumentRule, flag, number, one_of, refuse_wrong
from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey

MOST_TRIES: Final = 8
"""The default of the most keys that are tried on one port."""


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """Options of a recovery.

    ``set_new``: set a new key on each port that opened: ``new_key``, or else a generated one; ``protect`` (0..3) and
    ``lease`` (in seconds): the values to set, also without a new key; None leaves a value. ``try_keys``: keys to try on
    every port that does not open; ``tries``: most of these keys, and most of the further known keys of a port, that are
    tried on it. ``wait``: seconds for which a silent port is waited for, None: as `timing.patience` returns.
    ``names``: NodeDescription by node GUID, for nodes that cannot be read.

    Raises UsageError for a value of a wrong type, and for a level, lease or new key that cannot be set.
    """

    set_new: bool = False
    new_key: MKey | None = None
    protect: int | None = None
    lease: int | None = None
    try_keys: tuple[MKey, ...] = ()
    tries: int = MOST_TRIES
    wait: float | None = None
    names: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_wrong({name: getattr(self, name) for name in _RULES}, _RULES)
        if self.new_key is not None and self.new_key.is_zero:
            raise UsageError("the new M_Key is 0, which means none; remove protection with mkey-set, port by port")

    @property
    def sets_something(self) -> bool:
        """Whether the recovery changes ports that opened."""
        return self.set_new or self.new_key is not None or self.protect is not None or self.lease is not None


_RULES: Final = {
    "set_new": flag(),
    "new_key": ArgumentRule(lambda value: value is None or isinstance(value, MKey), "an ibkeys.MKey", is_secret=True),
    "protect": number(0, 3),
    "lease": number(0, 0xFFFF),
    "try_keys": ArgumentRule(
        lambda value: isinstance(value, tuple) and all(isinstance(key, MKey) for key in value),
        "a tuple of ibkeys.MKey",
        is_secret=True,
    ),
    "tries": ArgumentRule(lambda value: type(value) is int and value >= 0, "a number"),
    "wait": ArgumentRule(lambda value: value is None or (type(value) in (int, float) and value >= 0), "seconds"),
    "names": one_of((Mapping,), "names by node GUID"),
}
"""The rules for the values of `RecoveryOptions`."""
