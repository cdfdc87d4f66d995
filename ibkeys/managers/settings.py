"""``sm.toml``: the hosts with a subnet manager, and files that cannot be found automatically.

    ssh_config = "/etc/ibkeys/ssh_config"        # all of it is optional

    [here]                                       # this host
    unit = "opensm@0x0002c903000a1011"           # only this unit's OpenSM
    options = "/srv/osm/opensm.conf"             # where it cannot be found, such as in a container
    policy = "/srv/osm/partitions.conf"

    [[host]]                                     # another host, reached by ssh
    name = "root@sm2"
    sudo = true
    unit = "opensm"

The file decides to which hosts ibkeys connects, so it has to belong to the user or root, and no other user may be able
to write it. The same goes for the ssh_config that it names, which may run commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.errors import FileFormatError, UsageError
from ibkeys.host.trusted_toml import parse_trusted, refuse_writable_by_others
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import NO_ENTRY, HostEntry
from ibkeys.simulated_host import own
from ibkeys.store.private_files import os_error

DEFAULT_SETTINGS: Final = Path("/etc/ibkeys/sm.toml")
_NAMED: Final[dict[str, type]] = {"unit": str, "options": str, "policy": str}
_HOST: Final[dict[str, type]] = {"name": str, "sudo": bool, **_NAMED}
_TOP: Final[dict[str, type]] = {"ssh_config": str, "here": dict, "host": list}


@dataclass(frozen=True, slots=True)
class SmSettings:
    """The contents of ``sm.toml``. ``here``: the settings of this host. ``hosts``: the other hosts."""

    here: HostEntry = NO_ENTRY
    hosts: tuple[SmHost, ...] = ()
    ssh_config: str | None = None

    def chosen(self, names: Sequence[str], sudo: bool, ssh_config: str | None) -> list[SmHost]:
        """Return this host, and the others: those of the command line (*names*) if it names any, else those of the
        file. The file's settings of a host apply in both cases; *sudo* and *ssh_config* of the command line override
        them.

        Raises UsageError for an invalid name.
        """
        known = {host.name: host for host in self.hosts}
        config = ssh_config if ssh_config is not None else self.ssh_config
        chosen = [SmHost(None, self.here)]
        for name in dict.fromkeys(names or known):
            host = known.get(name)
            of_file = host is not None and host.ssh is not None and host.ssh.sudo
            chosen.append(SmHost(SshHost(name, sudo or of_file, config), host.entry if host else NO_ENTRY))
        return chosen


def settings_or_default(path: str | Path | None) -> SmSettings:
    """Return the settings in the ``sm.toml`` at *path*; None: those of the system's file, none if that does not exist
    or this is a simulated host. Raises FileFormatError, StoreError."""
    if path is None and (own() is not None or not DEFAULT_SETTINGS.exists()):
        return SmSettings()
    return read_settings(DEFAULT_SETTINGS if path is None else Path(path))


def read_settings(path: Path) -> SmSettings:
    """Read an ``sm.toml``. Raises FileFormatError, also if others can write it; StoreError if it cannot be read."""
    try:
        data, status = files.read_with_status(path, files.SETTINGS)
    except OSError as error:
        raise os_error(path, "list of subnet managers", error) from error
    document = parse_trusted(path, data, status)
    try:
        _check("the file", document, _TOP)
        here = _named("[here]", document.get("here", {}))
        hosts = tuple(_host(number, entry) for number, entry in enumerate(document.get("host", []), 1))
        return SmSettings(here, hosts, _ssh_config(document.get("ssh_config")))
    except UsageError as error:
        raise FileFormatError(str(error), str(path)) from None


def _ssh_config(name: str | None) -> str | None:
    """Return the path of an ssh_config after checking that no other user can write it: ssh does not check a file that
    -F names, and such a file may name commands to run."""
    if name is not None:
        if not Path(name).is_absolute():
            raise UsageError("ssh_config must be an absolute path")
        try:
            refuse_writable_by_others(Path(name))
        except UsageError as error:
            raise UsageError(f"ssh_config {name}: {error}") from None
    return name


def _host(number: int, entry: Any) -> SmHost:
    where = f"[[host]] {number}"
    _check(where, entry, _HOST)
    if "name" not in entry:
        raise UsageError(f"{where} has no name")
    named = _named(where, {name: value for name, value in entry.items() if name in _NAMED})
    return SmHost(SshHost(entry["name"], entry.get("sudo", False)), named)


def _named(where: str, entry: Any) -> HostEntry:
    _check(where, entry, _NAMED)
    for name in ("options", "policy"):
        if name in entry and not Path(entry[name]).is_absolute():
            raise UsageError(f"{where}: {name} must be an absolute path")
    options, policy = (Path(entry[name]) if name in entry else None for name in ("options", "policy"))
    return HostEntry(entry.get("unit"), options, policy)


def _check(where: str, entry: Any, kinds: Mapping[str, type]) -> None:
    """Raise UsageError unless *entry* has only names of *kinds*, each with a value of its kind."""
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is not a table")
    for name, value in entry.items():
        if name not in kinds:
            raise UsageError(f"{where}: {name[:40]!r} is not known; known are {', '.join(kinds)}")
        if type(value) is not kinds[name]:
            raise UsageError(f"{where}: {name} has to be {_KIND_WORDS[kinds[name]]}")
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{where}: {name} must not hold a NUL")


_KIND_WORDS: Final = {str: "a text", bool: "true or false", dict: "a table", list: "a list of tables"}
