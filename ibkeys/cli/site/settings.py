"""The names that a site file may have, and those that it never has.

A name is a long option in small letters, with ``_`` for ``-``, and means what that option means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ibkeys.cli.types import ViaType
from ibkeys.errors import UsageError

SUBNET: Final = "subnet"
"""The name of the list of port GUIDs that say of which subnet the file is; the only name that is no option."""
NO_FILE: Final = "none"
"""The value of --site and --config that means no file; a file of that name is ``./none``."""
MOST_TEXTS: Final = 16
"""A list may have so many texts: as many hosts with an OpenSM no subnet has."""


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
    """What a name may have as its value. ``kind``: its type in TOML; ``form``: returns the file that a text names, None
    for none, and raises UsageError or EncodeError for a text that is none of its kind; ``parameters``: what click calls
    the option; ``has_variable``: whether a variable of the environment sets it; ``is_of_subnet``: it is right on one
    subnet only, so that the file must say on which; ``is_created``: the first change creates the file."""

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
    "wait": SiteSetting(
        int, parameters=("sm_wait",)
    ),  # --wait of `compare` and `mkey-recover` waits for something else
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
}
SECRETS: Final = frozenset(name for name, setting in SETTINGS.items() if setting is _SECRET)
"""The names whose value is @FILE; on the command line some may be a key."""
BY_PARAMETER: Final = {
    parameter: name for name, setting in SETTINGS.items() for parameter in setting.parameters or (name,)
}
"""The name of a setting, by what click calls its option."""

_CONSENT: Final = (
    *("yes", "force", "override", "all", "leave_open", "ask_unproven", "ask_unkeyed", "trust_topology", "first"),
    *("open_while_rotating", "ufm_insecure"),
)
_ADDRESS: Final = ("lid", "direct", "guid", "name", "l", "d", "g", "n")
_KEYS: Final = ("m_key", "sm_key", "sa_key", "new_m_key", "new_sm_key", "new_sa_key", "new_passphrase", "try_keys")
_NEVER: Final[Mapping[str, str]] = {
    **dict.fromkeys(_CONSENT, "is a decision about one command: it has to be typed each time"),
    **dict.fromkeys(_ADDRESS, "says what the typed ADDR is: it has to be typed with it"),
    **dict.fromkeys(_KEYS, "is a key: keys are never in this file"),
}


def why_never(name: str) -> str | None:
    """Return why *name*, as somebody wrote it, is never in a site file; None if it may be, or is not known."""
    plain = name.replace("-", "_").lower()
    return _NEVER["force"] if plain.startswith("allow_") else _NEVER.get(plain)
