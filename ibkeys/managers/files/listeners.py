"""The places where users other than root can read keys that OpenSM prints, and closing those places.

OpenSM prints each changed value of its options file in plain text, to its standard output and to syslog, and under
``--daemon`` to its log. Source: opensm osm_subnet.c (opts_parse); observed of a running OpenSM.
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
from ibkeys.managers.site import Running

SYSLOG: Final = Path("/dev/log")
_HEARD_BY: Final = (
    *("/var/log/journal", "/run/log/journal", "/var/log/syslog", "/var/log/messages"),
    *("/var/log/daemon.log", "/var/log/user.log"),
)
"""The files that syslog writes on the distributions that have OpenSM, and the folders of systemd's journal."""


def shown_in(running: Running) -> Iterator[str]:
    """Yield, in words, each place where others than root can read the text that this OpenSM prints when it reads a
    changed key. Its log is left out: it is closed before (`close`). Raises HostNotReached."""
    instance, host = running.instance, running.machine.files
    output = instance.files["output"]
    if output.fact is not None and output.fact.others_can_read:
        yield f"its standard output goes to {output.path}, which others can read"
    if or_none(host.stat, SYSLOG) is None:
        return  # without syslog its messages are in none of these files
    for path in map(Path, _HEARD_BY):
        fact = or_none(host.stat, path)
        if fact is not None and fact.others_can_read:
            yield f"its messages to syslog are in {path}, which others can read"


def close(machine: Machine, path: Path, user: int = 0) -> bool:
    """Remove the rights of others on a file or folder, and return whether they had any that are removed now.

    *user*: the user ID of its OpenSM. A file of another owner stays as it is, because that OpenSM could not use it any
    more. A log contains keys too: the sa_key when a client asks with a wrong one, the sm_key of another SM. Raises
    FileError, FileChanged, HostNotReached.
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
    """Return whether an OpenSM of this user ID can still use a file or folder on which only its owner has rights."""
    return user in (0, fact.uid)


def hindrance_to_closing(folder: Path, fact: FileFact | None, user: int) -> str:
    """Return why the folder of the key files cannot be closed to others, "" if nothing prevents it.

    *user*: the user ID of its OpenSM. A folder like /tmp is used by other programs, and any user who can write to it
    can put key files of their own there.
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
            f"{folder}, the folder of its key files, belongs to UID {fact.uid}, and it runs as UID {user}: closed to "
            f"others it would be closed to that OpenSM too: chown {user} and chmod 0700"
        )
    return ""
