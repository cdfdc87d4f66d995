"""The names that a site file may have, and the names that it must not have.

A name other than `SUBNET` and `REHEARSAL` is a long option in small letters, with ``_`` for ``-``, and has the option's
meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys.cli.types import ViaType
from ibkeys.errors import UsageError

SUBNET: Final = "subnet"
"""The list of local port GUIDs by which the subnet of the file is recognised; it is not an option."""
REHEARSAL: Final = "require_rehearsal_above"
"""How many ports a plan may change without a rehearsal. It is not an option, so that only ``--override`` passes it."""
NO_FILE: Final = "none"
"""The value of --site and --config that means no file; a file of this name is typed ``./none``."""
MOST_TEXTS: Final = 16
"""Most texts in a list. No subnet has so many hosts with an OpenSM."""


def _text(value: str) -> str | None:
    return None


def _host(value: str) -> str | None:
    from ibkeys.managers.elsewhere.ssh import SshHost

    SshHost(value)
    return None


def _path(value: str) -> str | None:
    if not Path(value).is_absolute():
        raise UsageError("must be an absolute path")
    return value


def _secret(value: str) -> str | None:
    if not value.startswith("@"):
        raise UsageError("must be @FILE: keys, tokens and passphrases themselves are never in this file")
    return _path(value[1:])


def _proxy(value: str) -> str | None:
    from ibkeys.managers.ufm.access import split_proxy

    _refuse_login(value)
    split_proxy(value)
    return None


def _policy(value: str) -> str | None:
    return _ufm(value) if value == "opensm" or value.startswith("ufm:") else _path(value)


def _ufm(value: str) -> str | None:
    ViaType().read(value)
    if value.startswith("ufm:"):
        from ibkeys.managers.ufm.access import split_url

        _refuse_login(value)
        split_url(value)
    return None


def _refuse_login(url: str) -> None:
    if "@" in url:
        raise UsageError("must not hold a user name or password")


@dataclass(frozen=True, slots=True)
class SiteSetting:
    """The rules for the value of a name. ``kind``: its type in TOML.

    ``form``: a function that checks a text; it returns the file that the text names, or None, and raises UsageError or
    EncodeError for an invalid text. ``parameters``: click's names of the option; empty: the name itself.
    ``has_variable``: whether an environment variable sets the option, too. ``is_of_subnet``: whether the value is right
    on one subnet only, so that the file must name the subnet. ``is_created``: whether ibkeys creates the file that the
    value names.
    """

    kind: type
    form: Callable[[str], str | None] = _text
    parameters: tuple[str, ...] = ()
    has_variable: bool = True
    is_of_subnet: bool = False
    is_created: bool = False


_FILE: Final = SiteSetting(str, _path)
_SECRET: Final = SiteSetting(str, _secret)
_STORE: Final = SiteSetting(str, _path, is_of_subnet=True, is_created=True)
_NUMBER: Final = SiteSetting(int)

SETTINGS: Final[Mapping[str, SiteSetting]] = {
    "ca": SiteSetting(str),
    "port": _NUMBER,
    "timeout": _NUMBER,
    "retries": _NUMBER,
    "via": SiteSetting(str, _ufm, has_variable=False),
    "sm_host": SiteSetting(list, _host),
    "sudo": SiteSetting(bool, has_variable=False),
    "ssh_config": _FILE,
    "sm_config": _FILE,
    "wait": SiteSetting(int, parameters=("sm_wait",)),  # --wait of `compare` and `mkey-recover` has another meaning
    "standby_wait": _NUMBER,
    "smkey": _SECRET,
    "node_name_map": _FILE,
    "policy": SiteSetting(str, _policy, ("policy", "policy_file"), is_of_subnet=True),
    "keystore": _STORE,
    "keystore_passphrase": _SECRET,
    "journal": _STORE,
    "ufm_token": _SECRET,
    "ufm_cert": _FILE,
    "ufm_key": _FILE,
    "ufm_ca": _FILE,
    "ufm_proxy": SiteSetting(str, _proxy, has_variable=False),
    REHEARSAL: SiteSetting(int, has_variable=False),
}
SECRETS: Final = frozenset(name for name, setting in SETTINGS.items() if setting is _SECRET)
"""The names whose value is @FILE; on the command line some of these options also take a key."""
BY_PARAMETER: Final = {
    parameter: name for name, setting in SETTINGS.items() for parameter in setting.parameters or (name,)
}
"""The names of settings, by click's names of their options."""

_DECISIONS: Final = (
    *("yes", "force", "override", "all", "leave_open", "ask_unproven", "ask_unkeyed", "trust_topology", "first"),
    *("open_while_rotating", "ufm_insecure"),
)
_ADDRESS_KINDS: Final = ("lid", "direct", "guid", "name", "l", "d", "g", "n")
_KEYS: Final = ("m_key", "sm_key", "sa_key", "new_m_key", "new_sm_key", "new_sa_key", "new_passphrase", "try_keys")
_NEVER: Final[Mapping[str, str]] = {
    **dict.fromkeys(_DECISIONS, "is a decision about one command: it has to be typed each time"),
    **dict.fromkeys(_ADDRESS_KINDS, "says what the typed ADDR is: it has to be typed with it"),
    **dict.fromkeys(_KEYS, "is a key: keys are never in this file"),
}


def why_never(name: str) -> str | None:
    """Return why a site file must not have *name*, in any spelling; None if it may, or if the name is unknown."""
    plain = name.replace("-", "_").lower()
    return _NEVER["force"] if plain.startswith("allow_") else _NEVER.get(plain)
