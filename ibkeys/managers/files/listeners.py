"""The files in which users other than root can read keys that OpenSM prints, and removing the rights of these users.

OpenSM prints each changed value of its options file in plain text, to its standard output and to syslog, and with
``--daemon`` to its log. Source: opensm osm_subnet.c (opts_parse); observed with a running OpenSM.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys.errors import FileError
from ibkeys.files import or_none
from ibkeys.host.file_access import FileFact
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.site import RunningOpensm

SYSLOG: Final = Path("/dev/log")
_SYSLOG_FILES: Final = (
    *("/var/log/journal", "/run/log/journal", "/var/log/syslog", "/var/log/messages"),
    *("/var/log/daemon.log", "/var/log/user.log"),
)
"""The files that syslog writes on the distributions that have OpenSM, and the folders of systemd's journal."""


def find_readable_outputs(running: RunningOpensm) -> Iterator[str]:
    """Yield, in words, each file in which users other than its owner and root can read a changed key that this OpenSM
    prints when it reads the key. Its log is left out: their rights on it are removed before (`remove_others_rights`).
    Raises HostNotReached."""
    instance, host = running.instance, running.machine.files
    output = instance.files["output"]
    if output.fact is not None and output.fact.others_can_read:
        yield f"its standard output goes to {output.path}, which others can read"
    if or_none(host.stat, SYSLOG) is None:
        return  # without syslog its messages are in none of `_SYSLOG_FILES`
    for path in map(Path, _SYSLOG_FILES):
        fact = or_none(host.stat, path)
        if fact is not None and fact.others_can_read:
            yield f"its messages to syslog are in {path}, which others can read"


def remove_others_rights(machine: Machine, path: Path, user: int = 0) -> bool:
    """Remove the rights that users other than the owner have on a file or folder, and return whether they had any.

    *user*: the user ID of the OpenSM that uses it. If that is neither root nor the owner, nothing is changed and False
    is returned, because the OpenSM could not use the file any more. A log has keys too: the sa_key when a client asks
    with a wrong one, and the sm_key of another SM. Raises FileError, FileChanged, HostNotReached.
    """
    try:
        fact = machine.files.stat(path)
    except OSError as error:
        raise FileError(f"{path}: its mode cannot be restricted: {error.strerror or error}; it is unchanged") from None
    if fact.is_private or not is_usable_alone(fact, user):
        return False
    machine.set_mode(path, fact, fact.mode & stat.S_IRWXU)
    return True


def is_usable_alone(fact: FileFact, user: int) -> bool:
    """Return whether an OpenSM with the user ID *user* can still use a file or folder if only its owner has rights."""
    return user in (0, fact.uid)


def hindrance_to_closing(folder: Path, fact: FileFact | None, user: int) -> str:
    """Return the reason why the rights of other users on the folder of the key files cannot be removed, "" if nothing
    prevents it.

    *fact*: the folder's facts, None if it does not exist; *user*: the user ID of the OpenSM that uses it. A folder that
    has the sticky bit, or in which everybody may write, such as /tmp, is a reason: other programs use it, and any user
    can put key files there.
    """
    if fact is None or fact.is_private:
        return ""
    if fact.mode & (stat.S_ISVTX | stat.S_IWOTH):
        return (
            f"everybody may write to {folder}, the folder of its key files (mode {fact.mode:04o}): give it one of its "
            "own (OSM_CACHE_DIR in its unit) and restart it, or, where no other program uses that folder, chmod 0700"
        )
    if not is_usable_alone(fact, user):
        return (
            f"{folder}, the folder of its key files, belongs to UID {fact.uid}, but that OpenSM runs as UID {user} "
            f"and could not use the folder any more if it were closed to others: chown {user} and chmod 0700"
        )
    return ""
