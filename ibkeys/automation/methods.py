"""The methods of a change: Sets of ibkeys, through OpenSM, or through UFM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys.apply import carriers
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.arguments import ArgumentRule, flag, refuse_wrong
from ibkeys.automation.arguments import seconds
from ibkeys.change.runner import WAIT
from ibkeys.errors import UsageError
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.settings import read_settings_or_default
from ibkeys.managers.ufm.login import UfmLogin, open_ufm
from ibkeys.managers.ufm.rest import Ufm
from ibkeys.mkeys.methods import KEY_METHODS, KeyMethod
from ibkeys.mkeys.planning_options import STANDBY_WAIT, RunListener, ViaOpensm

_COMMAND: Final = "ibkeys apply PLAN"
"""The command that messages name with another ``--via``."""
_RULES: Final[Mapping[str, ArgumentRule]] = {
    **dict.fromkeys(("wait", "standby_wait"), seconds()),
    **dict.fromkeys(("sudo", "rewrite", "open_while_rotating", "verifies"), flag()),
    **dict.fromkeys(
        ("ssh_config", "sm_config", "token_file", "certificate", "private_key", "trusted", "proxy"),
        ArgumentRule(lambda value: value is None or isinstance(value, str | Path), "a text", is_secret=True),
    ),
    "url": ArgumentRule(lambda value: isinstance(value, str), "a text", is_secret=True),
}
"""The rules for the values of a method."""
_NAMES: Final = {
    **{name: f"{name}=" for name in ("token_file", "certificate", "private_key")},
    "verifies": "verifies=False",
}


@dataclass(frozen=True, slots=True)
class Direct:
    """The method by which ibkeys sends the Sets.

    While a subnet manager is or may be master, ``active-sm`` or ``mkey-under-sm`` refuses it, because the SM would
    overwrite the ports.
    """

    name = "direct"


@dataclass(frozen=True, slots=True)
class ThroughOpenSM:
    """The method by which OpenSMs write the ports, from their policy or options files.

    ``hosts``: the other hosts that run OpenSMs, by names that ssh takes. By default they are read from the file
    ``sm_config`` (by default ``/etc/ibkeys/sm.toml``). An operation that is resumed or undone has its hosts in the
    journal. ``sudo``: become root on these hosts. ``wait``: seconds without progress after which OpenSM is signalled
    once more, and then given up. ``rewrite``, for partitions: OpenSM writes every table first. ``open_while_rotating``,
    for M_Keys: the level is 0 while the key changes. ``standby_wait``: seconds within which the user has to start a
    standby that systemd does not start.
    """

    hosts: Sequence[str] = ()
    sudo: bool = False
    ssh_config: str | None = None
    sm_config: str | None = None
    wait: float = WAIT
    rewrite: bool = False
    open_while_rotating: bool = False
    standby_wait: float = STANDBY_WAIT
    name = "opensm"

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError for a text in place of a list, which would be one host for each letter,
        and for a value that is out of bounds."""
        if isinstance(self.hosts, str):
            raise UsageError(f"hosts is a list of texts: write [{self.hosts!r}]")
        _check(self)

    def sm_hosts(self) -> list[SmHost]:
        """Return this host and the others. Raises UsageError, FileFormatError, StoreError."""
        return read_settings_or_default(self.sm_config).choose_hosts(self.hosts, self.sudo, self.ssh_config)


@dataclass(frozen=True, slots=True)
class ThroughUFM(UfmLogin):
    """The method through UFM's REST interface, for partitions only.

    ``url``: the base URL of UFM; "" for the URL that the operation began with. ``token_file``: the file with the access
    token. ``certificate``, ``private_key``, ``trusted``: PEM files. ``verifies``: whether UFM's certificate is checked.
    ``proxy``: a URL. ``wait``: as in `ThroughOpenSM`.
    """

    wait: float = WAIT
    name = "ufm"

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError if one is out of bounds."""
        _check(self)

    def open(self, url: str, warn: Callable[[str], None]) -> Ufm:
        """Return the UFM at *url*; see `open_ufm`."""
        return open_ufm(url, self, _NAMES, warn)


ChangeMethod = Direct | ThroughOpenSM | ThroughUFM
METHODS: Final[Mapping[str, Callable[[], ChangeMethod]]] = {
    each.name: each for each in (Direct, ThroughOpenSM, ThroughUFM)
}
"""Name → method with its default options."""


def _check(method: ChangeMethod) -> None:
    """Raise UsageError for a value of *method* that does not satisfy its rule."""
    refuse_wrong({name: getattr(method, name) for name in _RULES if hasattr(method, name)}, _RULES)


def wait_of(method: ChangeMethod | None) -> float:
    """Return the seconds without progress after which a subnet manager is given up."""
    return method.wait if isinstance(method, ThroughOpenSM | ThroughUFM) else WAIT


def carrier_via(
    method: ChangeMethod | None,
    warn: Callable[[str], None],
    *,
    is_real_subnet: bool,
    breaks: bool = False,
    at_once: bool = False,
) -> carriers.CarrierChoice:
    """Return the method of a change of partitions for the planning functions.

    *method* None: that of the operation that is resumed or undone; a new operation gets a method by
    `ibkeys.change.method`. *warn*: see `open_ufm`; *is_real_subnet*: the subnet is not simulated; *breaks*: pairs may
    temporarily lose connectivity; *at_once*: an undo is done in one step. Raises the errors of
    `ThroughOpenSM.sm_hosts`.
    """
    opensm = method if isinstance(method, ThroughOpenSM) else ThroughOpenSM()
    settings = CarrierSettings(wait_of(method), breaks, opensm.rewrite, at_once)
    name = method.name if method is not None else None
    if isinstance(method, ThroughUFM):
        return carriers.CarrierChoice(
            name, settings, command=_COMMAND, url=method.url, open_ufm=partial(method.open, warn=warn)
        )
    hosts = opensm.sm_hosts() if is_real_subnet and not isinstance(method, Direct) else []
    return carriers.CarrierChoice(name, settings, hosts, _COMMAND)


def key_method(method: ChangeMethod | None) -> KeyMethod:
    """Return the method of a run of M_Keys; None: ibkeys sends the Sets. Raises UsageError for UFM."""
    found = KEY_METHODS.get((method or Direct()).name)
    if found is None:
        raise UsageError("UFM gives no M_Keys: use ThroughOpenSM() or Direct()")
    return found


def via_opensm(method: ChangeMethod | None, listener: RunListener, is_awaited: bool = False) -> ViaOpensm:
    """Return the options for a run of M_Keys through OpenSM. Raises the errors of `ThroughOpenSM.sm_hosts`."""
    opensm = method if isinstance(method, ThroughOpenSM) else ThroughOpenSM()
    hosts, is_open = opensm.sm_hosts(), opensm.open_while_rotating
    return ViaOpensm(hosts, opensm.wait, is_open, listener, is_awaited, opensm.standby_wait)


def as_options(method: ChangeMethod | None) -> list[str]:
    """Return the options of a command that reaches the same hosts or UFM, with names of files and no secret; none for
    `Direct` and None."""
    if isinstance(method, ThroughOpenSM):
        given = {"ssh-config": method.ssh_config, "sm-config": method.sm_config}
        words = [f"--sm-host={name}" for name in method.hosts] + (["--sudo"] if method.sudo else [])
    elif isinstance(method, ThroughUFM):
        token = f"@{method.token_file}" if method.token_file is not None else None
        given = {"ufm-token": token, "ufm-cert": method.certificate, "ufm-key": method.private_key}
        given |= {"ufm-ca": method.trusted, "ufm-proxy": method.proxy}
        words = [] if method.verifies else ["--ufm-insecure"]
    else:
        return []
    return words + [f"--{name}={value}" for name, value in given.items() if value is not None]
