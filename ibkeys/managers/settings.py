"""``sm.toml``: the hosts with a subnet manager, and the paths of their files that ibkeys cannot find by itself.

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
from ibkeys.managers.elsewhere.access import access_to
from ibkeys.managers.elsewhere.ssh import SshHost
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.instance import NO_ENTRY, HostEntry
from ibkeys.simulated_host import own_simulated_host
from ibkeys.store.private_files import os_error

DEFAULT_SETTINGS: Final = Path("/etc/ibkeys/sm.toml")
_HERE_KEYS: Final[dict[str, type]] = {"unit": str, "options": str, "policy": str}
_HOST_KEYS: Final[dict[str, type]] = {"name": str, "sudo": bool, **_HERE_KEYS}
_TOP_KEYS: Final[dict[str, type]] = {"ssh_config": str, "here": dict, "host": list}


@dataclass(frozen=True, slots=True)
class SmSettings:
    """The contents of ``sm.toml``. ``here``: the entry of this host. ``hosts``: the other hosts. ``ssh_config``: the
    path of the configuration that ssh uses; None: the default of ssh."""

    here: HostEntry = NO_ENTRY
    hosts: tuple[SmHost, ...] = ()
    ssh_config: str | None = None

    def choose_hosts(self, names: Sequence[str], sudo: bool, ssh_config: str | None) -> list[SmHost]:
        """Return this host, and after it the other hosts to examine: *names*, those of the command line, or if there
        are none, the hosts of ``sm.toml``. A host's entry in ``sm.toml`` applies in both cases. *sudo* True and
        *ssh_config* come from the command line, and override the entry.

        Raises UsageError for an invalid name.
        """
        known = {host.name: host for host in self.hosts}
        config = ssh_config if ssh_config is not None else self.ssh_config
        chosen = [SmHost(None, self.here)]
        for name in dict.fromkeys(names or known):
            host = known.get(name)
            of_file = host is not None and isinstance(host.access, SshHost) and host.access.sudo
            chosen.append(SmHost(access_to(name, sudo or of_file, config), host.entry if host else NO_ENTRY))
        return chosen


def read_settings_or_default(path: str | Path | None) -> SmSettings:
    """Return the settings in the file *path*. If *path* is None, return those in /etc/ibkeys/sm.toml; empty settings if
    it does not exist or this is a simulated host. Raises as `read_settings`."""
    if path is None and (own_simulated_host() is not None or not DEFAULT_SETTINGS.exists()):
        return SmSettings()
    return read_settings(DEFAULT_SETTINGS if path is None else Path(path))


def read_settings(path: Path) -> SmSettings:
    """Return the settings in an ``sm.toml``. Raises FileFormatError for invalid contents, and for a file that others
    can write; StoreError if it cannot be read."""
    try:
        data, status = files.read_with_status(path, files.SETTINGS)
    except OSError as error:
        raise os_error(path, "list of subnet managers", error) from error
    document = parse_trusted(path, data, status)
    try:
        _check_table("the file", document, _TOP_KEYS)
        here = _parse_entry("[here]", document.get("here", {}))
        hosts = tuple(_parse_host(number, entry) for number, entry in enumerate(document.get("host", []), 1))
        return SmSettings(here, hosts, _check_ssh_config(document.get("ssh_config")))
    except UsageError as error:
        raise FileFormatError(str(error), str(path)) from None


def _check_ssh_config(name: str | None) -> str | None:
    """Return the path *name* of an ssh_config; None for None. Raises UsageError if it is not absolute, or another user
    can write the file: ssh does not check a file that its option -F names, and such a file may name commands to run."""
    if name is not None:
        if not Path(name).is_absolute():
            raise UsageError("ssh_config must be an absolute path")
        try:
            refuse_writable_by_others(Path(name))
        except UsageError as error:
            raise UsageError(f"ssh_config {name}: {error}") from None
    return name


def _parse_host(number: int, entry: Any) -> SmHost:
    where = f"[[host]] {number}"
    _check_table(where, entry, _HOST_KEYS)
    if "name" not in entry:
        raise UsageError(f"{where} has no name")
    named = _parse_entry(where, {name: value for name, value in entry.items() if name in _HERE_KEYS})
    return SmHost(access_to(entry["name"], entry.get("sudo", False)), named)


def _parse_entry(where: str, entry: Any) -> HostEntry:
    _check_table(where, entry, _HERE_KEYS)
    for name in ("options", "policy"):
        if name in entry and not Path(entry[name]).is_absolute():
            raise UsageError(f"{where}: {name} must be an absolute path")
    options, policy = (Path(entry[name]) if name in entry else None for name in ("options", "policy"))
    return HostEntry(entry.get("unit"), options, policy)


def _check_table(where: str, entry: Any, kinds: Mapping[str, type]) -> None:
    """Raise UsageError unless *entry* is a table with only names of *kinds*, each with a value of that type. *where*:
    the table's name in the message."""
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is not a table")
    for name, value in entry.items():
        if name not in kinds:
            raise UsageError(f"{where}: {name[:40]!r} is not a setting; choose from {', '.join(kinds)}")
        if type(value) is not kinds[name]:
            raise UsageError(f"{where}: {name} has to be {_KIND_WORDS[kinds[name]]}")
        if isinstance(value, str) and "\0" in value:
            raise UsageError(f"{where}: {name} must not hold a NUL")


_KIND_WORDS: Final = {str: "a text", bool: "true or false", dict: "a table", list: "a list of tables"}
