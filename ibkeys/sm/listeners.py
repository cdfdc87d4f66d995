"""Who can read the keys that an OpenSM prints when it gets new ones.

OpenSM prints each changed value of its options file in clear, to its standard output and to syslog, and under
``--daemon`` to its log. Source: opensm osm_subnet.c (opts_parse); a running OpenSM, observed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ibkeys.host.file_access import FileFact
from ibkeys.host.host_files import HostFiles
from ibkeys.sm.instance import InstanceFile
from ibkeys.sm.site import Running

_SYSLOG: Final = Path("/dev/log")
_HEARD_BY: Final = tuple(
    Path(path)
    for path in (
        *("/var/log/journal", "/run/log/journal", "/var/log/syslog", "/var/log/messages"),
        *("/var/log/daemon.log", "/var/log/user.log"),
    )
)
"""Where syslog goes on the distributions that have OpenSM: files, and the folders of systemd's journal."""


def shown_in(running: Running) -> Iterator[str]:
    """Yield, in words, where others than root can read what this OpenSM prints when it reads a changed key; not its
    log, which `close_log` closes. Raises HostNotReached."""
    instance, host = running.instance, running.hands.files
    output = instance.files["output"]
    if _is_read(output):
        yield f"its standard output goes to {output.path}, which others can read"
    if _fact(host, _SYSLOG) is None:
        return  # nobody hears it
    for path in _HEARD_BY:
        fact = _fact(host, path)
        if fact is not None and fact.others_can_read:
            yield f"its messages to syslog are in {path}, which others can read"


def close_log(running: Running) -> str:
    """Take the rights of others away from the log of an OpenSM, and return what was done, in words; "" for nothing.

    Some of its messages show keys: the sa_key when somebody asks with a wrong one, the sm_key of another SM. Raises
    FileError, FileChanged, HostNotReached.
    """
    log = running.instance.files["log"]
    if log.path is None or log.place is None or log.fact is None:
        return ""
    fact = _fact(running.hands.files, log.place)
    if fact is None or fact.is_private:
        return ""
    running.hands.set_mode(log.place, fact, fact.mode & stat.S_IRWXU)
    return f"{log.path}: only its owner may read it from now on; where logrotate makes it anew, its mode counts"


def _is_read(file: InstanceFile) -> bool:
    return file.fact is not None and file.fact.others_can_read


def _fact(host: HostFiles, path: Path) -> FileFact | None:
    try:
        return host.stat(path)
    except OSError:
        return None
