"""The arguments of scripts: the names that messages use for them, and the check of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from ibkeys.errors import UsageError
from ibkeys.printable import calls_from_script

ARGUMENTS: Final[Mapping[str, str]] = {
    "-y 0": "m_key=0",
    "-y, --keystore or --security-keys": "Keys(m_key= or security_keys=) or Stores(keystore=)",
    "--allow-break": "allow_break=True",
    "--allow-index-moves": "allow_index_moves=",
    "--allow-removals": "allow_removals=True",
    "--ask-unproven": "ask_unproven=True",
    "--at": "at=",
    "--baseline": "baseline=",
    "--confirm-within": "confirm_within=",
    "--defmember": "defmember=",
    "--disconnect-unconfigured": "disconnect_unconfigured=True",
    "--enforce": "enforce=",
    "--first": "first=",
    "--force": "consent=Consent(force=True)",
    "--inventory": "inventory=",
    "--keystore": "keystore=",
    "--lease 0": "lease=0",
    "--leave-open": "leave_open=True",
    "--mgid": "mgid=",
    "--mtu": "mtu=",
    "--new-m-key": "new_key=",
    "--no-ipoib": "ipoib=False",
    "--out-of": "out_of=",
    "--pkey-idx": "pkey_index=",
    "--policy": "policy=",
    "--policy or --registry": "policy= or registry=",
    "--protect 0": "protect=0",
    "--protect 1": "protect=1",
    "--protect 2 --lease 60": "protect=2, lease=60",
    "--q-key": "q_key=",
    "--rate": "rate=",
    "--rewrite": "rewrite=True",
    "--same": "same=True",
    "--scope": "scope=",
    "--security-keys": "security_keys=",
    "--security-keys DIR": "security_keys=DIR",
    "--sl": "sl=",
    "--sm-guids": "sm_guids=",
    "--sm-host": "hosts=",
    "--sm_port": "sm_lid=",
    "--smkey": "sm_key=",
    "--trust-topology": "trust_topology=True",
    "--ufm-cert": "certificate=",
    "--ufm-insecure": "verifies=False",
    "--ufm-key": "private_key=",
    "--ufm-proxy": "proxy=",
    "--via": "via=",
    "--via opensm": "via=ThroughOpenSM()",
    "--wait": "wait=",
    "--without-mgid": "without_mgid=",
}
"""The arguments of scripts, by the options of the command line. They are arguments of a function, or of a value such as
``Keys``.
"""


def given(option: str, argument: str = "") -> str:
    """Return the name that a message uses for a value: *option*, or *argument* if the reader is a script.

    *argument*: by default the entry of `ARGUMENTS` for *option*.
    """
    return (argument or ARGUMENTS[option]) if calls_from_script() else option


class ArgumentRule(NamedTuple):
    """The rule for an argument: a function that returns whether a value is valid, and a description of valid values.

    ``is_secret``: no message shows the value.
    """

    is_right: Callable[[Any], bool]
    takes: str
    is_secret: bool = False


def flag() -> ArgumentRule:
    """Return the rule for True or False: ``"no"`` and 1 are neither."""
    return ArgumentRule(lambda value: isinstance(value, bool), "True or False")


def number(least: int, most: int) -> ArgumentRule:
    """Return the rule for a whole number from *least* to *most*, or None."""
    return ArgumentRule(
        lambda value: value is None or (type(value) is int and least <= value <= most), f"{least} to {most}"
    )


def key(kind: type, name: str) -> ArgumentRule:
    """Return the rule for a key of *kind*, or its number, or None. A key of another kind would be sent to a wrong
    receiver. *name*: the public name of *kind*."""
    return ArgumentRule(
        lambda value: value is None or isinstance(value, kind) or type(value) is int,
        f"an {name} or a number",
        is_secret=True,
    )


def one_of(types: tuple[type, ...], takes: str) -> ArgumentRule:
    """Return the rule for a value of one of *types*, or None."""
    return ArgumentRule(lambda value: value is None or isinstance(value, types), takes)


def is_function(value: object) -> bool:
    """Return whether *value* can be called and is no class: a class makes an object of whatever it is called with."""
    return callable(value) and not isinstance(value, type)


PROGRESS: Final = ArgumentRule(lambda value: value is None or is_function(value), "a function")
"""The rule for a function that is called with the progress, or None."""


def require(name: str, value: object, types: type | tuple[type, ...], takes: str) -> None:
    """Raise UsageError unless *value*, the argument *name*, is of one of *types*. *takes*: a description of these."""
    if not isinstance(value, types):
        raise UsageError(f"{name}= takes {takes}, not {type(value).__name__}")


def file_path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return the path that *value*, the argument *name*, gives. Raises UsageError for any other value."""
    require(name, value, (str, os.PathLike), "the path of a file")
    return Path(value)


def refuse_wrong(given: Mapping[str, object], rules: Mapping[str, ArgumentRule]) -> None:
    """Raise UsageError for a value that does not satisfy its rule."""
    for name, value in given.items():
        if name in rules and not rules[name].is_right(value):
            shown = type(value).__name__ if rules[name].is_secret else repr(value)
            raise UsageError(f"{name}= takes {rules[name].takes}, not {shown}")


class Checked:
    """The base of a dataclass whose values a script gives. Its ``_rules`` are the rules for these values."""

    __slots__ = ()
    _rules: ClassVar[Mapping[str, ArgumentRule]]

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError if one has a wrong type or is out of bounds."""
        refuse_wrong({name: getattr(self, name) for name in self._rules}, self._rules)
