"""The mark of a process on a simulated host. /proc shows the mark for the process and for all processes that it starts.

`ibkeys sim run` gives a program a /dev of its own: a tmpfs whose source names the fabric, the host and the folder of
the host's files. The program cannot take that file system away again, and any user sees it in /proc/PID/mountinfo. A
program that could not get a /dev of its own has variables with the same values in its environment instead. They count
only in a process with NoNewPrivs, which a process cannot take back, so that copied variables do not mark others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from ibkeys.errors import UsageError

SOCKET: Final = "IBKEYS_SIM_SOCKET"
HOST: Final = "IBKEYS_SIM_HOST"
FOLDER: Final = "IBKEYS_SIM_FOLDER"
"""The environment variables. With the first two alone a program finds its fabric, but uses the files of this host."""
LIBRARY: Final = Path(__file__).resolve().parent / "sim" / "lib" / "libibumad.so.3"
"""The libibumad of simulated fabrics."""
OF_THE_HOST: Final = (SOCKET, HOST, FOLDER)
_PREFIX: Final = "ibkeys-sim:"
_NO_NEW_PRIVILEGES: Final = re.compile(r"^NoNewPrivs:\t1$", re.MULTILINE)
PROC_SELF: Final = Path("/proc/self")


class SimulatedHost(NamedTuple):
    """A host of a simulated fabric. ``socket``: the name of its server; ``folder``: the files of the host."""

    socket: str
    host: str
    folder: str

    @property
    def source(self) -> str:
        """The source of the tmpfs that marks the processes of this host."""
        return _PREFIX + ":".join(quote(part, safe="/") for part in self)

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of the processes of this host."""
        return {SOCKET: self.socket, HOST: self.host, FOLDER: self.folder}

    @property
    def stores(self) -> Path:
        """The folder of journal and key store on this host."""
        return Path(self.folder) / "stores"

    @property
    def cache(self) -> Path:
        """The folder of node names for completion on this host."""
        return Path(self.folder) / "cache"


def folder_name(host: str) -> str:
    """Return the name of the folder for the files of *host*, below that of its server. A NodeDescription may be any
    text, also ``..``."""
    name = quote(host, safe=" ")
    return name if name.strip(".") else name.replace(".", "%2E") or "%"


def host_of_mounts(mountinfo: str) -> SimulatedHost | None:
    """Return the simulated host of a process, by the text of its /proc/PID/mountinfo; None on a real host.

    The source of a file system is the second field after the separator (proc(5)).
    """
    innermost = None
    for line in mountinfo.splitlines():
        system, _, rest = line.rpartition(" - ")[2].partition(" ")
        source = rest.partition(" ")[0]
        if system == "tmpfs" and source.startswith(_PREFIX):
            innermost = _parsed(source.removeprefix(_PREFIX)) or innermost  # the last mark is of the innermost host
    return innermost


def host_of_environment(variables: Mapping[str, str], status: str) -> SimulatedHost | None:
    """Return the simulated host of a process that has no /dev of its own; None if there is no such host.

    *variables*: the environment of the process. *status*: the text of its /proc/PID/status.
    """
    if not variables.get(FOLDER) or not _NO_NEW_PRIVILEGES.search(status):
        return None
    return SimulatedHost(variables.get(SOCKET, ""), variables.get(HOST, ""), variables[FOLDER])


def own_simulated_host() -> SimulatedHost | None:
    """Return the simulated host that this process runs on; None on a real host."""
    return host_of_mounts(_text(PROC_SELF / "mountinfo")) or host_of_environment(
        os.environ, _text(PROC_SELF / "status")
    )


def only_attaches() -> bool:
    """Return whether this process finds a simulated fabric by its environment, but uses the files of the real host.

    Both the socket and the host have a default in `LIBRARY`, so that each variable alone is a sign.
    """
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    is_attached = bool(os.environ.get(SOCKET) or os.environ.get(HOST) or str(LIBRARY.parent) in folders)
    return is_attached and own_simulated_host() is None


def refuse_ssh() -> None:
    """Raise UsageError on a simulated host: ssh would reach a real host from there."""
    here = own_simulated_host()
    if here is not None:
        raise UsageError(
            f"on the simulated host {here.host} no other host is reached through ssh; to look at another host of the "
            "simulated fabric: `ibkeys sim run --host NODE -- ibkeys ...`"
        )


def _parsed(text: str) -> SimulatedHost | None:
    parts = text.split(":")
    return SimulatedHost(*map(unquote, parts)) if len(parts) == len(SimulatedHost._fields) else None


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
