"""Who could read an M_Key that OpenSM gets: its files are closed before, and what cannot be closed is said.

OpenSM prints each changed value of its options file in clear, to its standard output and to syslog, and under
``--daemon`` to its log. It writes guid2mkey anew at each change with the rights that its umask leaves, so its folder is
what keeps others out. Source: opensm osm_subnet.c (opts_parse), osm_db_files.c; a running OpenSM, observed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.errors import FileError
from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostFiles
from ibkeys.mkeys.opensm.managers import KeyManager, KeyManagers
from ibkeys.printable import named
from ibkeys.sm.instance import InstanceFile

_SYSLOG: Final = Path("/dev/log")
_HEARD_BY: Final = tuple(
    Path(path)
    for path in (
        *("/var/log/journal", "/run/log/journal", "/var/log/syslog", "/var/log/messages"),
        *("/var/log/daemon.log", "/var/log/user.log"),
    )
)
"""Where syslog goes on the distributions that have OpenSM: files, and the folders of systemd's journal."""
_OWNER: Final = stat.S_IRWXU
_UNITS_UMASK: Final = "UMask=0077"


def objections_to_listeners(managers: KeyManagers) -> list[Objection]:
    """Return ``sm-prints-keys``, as a list of none or one: who reads what OpenSM prints when it reads a new key."""
    shown = [f"{manager.name}: {place}" for manager in managers.all for place in _shown_in(manager)]
    if not shown:
        return []
    return [
        Objection(
            "sm-prints-keys",
            "OpenSM prints each changed value of its options file, the M_Key too, and others than root can read that: "
            f"{named(shown)}; close these (mode, logrotate's mode), or send the unit's output elsewhere",
        )
    ]


def objections_to_sa_key(managers: KeyManagers) -> list[Objection]:
    """Return ``default-sa-key``, as a list of none or one: with the default SA_Key anybody reads the M_Key."""
    names = [each.name for each in managers.all if each.options["sa_key"].shown == "default"]
    if not names:
        return []
    return [
        Objection(
            "default-sa-key",
            f"the SA_Key of {named(names)} is the default, 1: whoever sends it to the SA is shown the M_Key, at every "
            "level; `ibkeys smkey-rotate --via opensm` gives new ones first",
        )
    ]


def notes_on_files(managers: KeyManagers) -> list[str]:
    """Return what will be closed, and what ibkeys does not close, in words."""
    notes = []
    for manager in managers.all:
        files = manager.running.instance.files
        open_files = [str(files[role].path) for role in ("cache", "log") if _is_open(files[role].fact)]
        if open_files:
            notes.append(f"{manager.name}: others lose their rights on {named(open_files)}")
        if _is_open(files["log"].fact):
            notes.append(f"{files['log'].path}: where logrotate makes it anew, its mode counts (create 0600)")
        umask = manager.running.instance.process.umask
        if umask is None or umask & 0o077 != 0o077:
            notes.append(
                f"{manager.name} makes guid2mkey anew with mode 0644 at each change: its folder, which is closed, "
                f"keeps others out; {_UNITS_UMASK} in its unit does too, from its next start on"
            )
        if manager.conf.is_open and manager.conf.rights is None:
            notes.append(f"{manager.conf.name} keeps its mode: it does not belong to the user of its OpenSM")
        elif manager.conf.is_open:
            notes.append(f"{manager.conf.name} holds keys: only its owner may read it from now on")
    return notes


def close(manager: KeyManager) -> None:
    """Take the rights of others away from the folder of the key files and from the log. Raises FileError, FileChanged,
    HostNotReached."""
    files = manager.running.instance.files
    for role in ("cache", "log"):
        path = manager.cache if role == "cache" else files["log"].place
        if path is not None and not (role == "log" and files["log"].fact is None):
            _close(manager, path)


def _close(manager: KeyManager, path: Path) -> None:
    try:
        fact = manager.hands.files.stat(path)
    except OSError as error:
        raise FileError(f"{path}: cannot be closed to others: {error.strerror or error}; nothing was changed") from None
    if _is_open(fact):
        manager.hands.set_mode(path, fact, fact.mode & _OWNER)


def _shown_in(manager: KeyManager) -> Iterator[str]:
    """Yield what others can read of what this OpenSM prints."""
    instance = manager.running.instance
    output = instance.files["output"]
    if _is_read(output):
        yield f"its standard output goes to {output.path}, which others can read"
    host = manager.hands.files
    if _fact(host, _SYSLOG) is None:
        return  # nobody hears it
    for path in _HEARD_BY:
        fact = _fact(host, path)
        if fact is not None and fact.others_can_read:
            yield f"its messages to syslog are in {path}, which others can read"


def _is_read(file: InstanceFile) -> bool:
    return file.fact is not None and file.fact.others_can_read


def _fact(host: HostFiles, path: Path) -> FileFact | None:
    try:
        return host.stat(path)
    except OSError:
        return None


def _is_open(fact: FileFact | None) -> bool:
    return fact is not None and not fact.is_private
