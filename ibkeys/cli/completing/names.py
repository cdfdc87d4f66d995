"""The lists of node names in the user's cache, from which completion takes them: it never asks the fabric.

Each list is a file in ``$XDG_CACHE_HOME/ibkeys``, of mode 0600, with one name on each line. `NODES` is from the last
sweep, `SIMULATED_NODES` from the last sweep of a simulated subnet. Each running simulator has one (`list_of_server`).
On a simulated host the files are in a folder of that host, so that a sweep there leaves the names of the real nodes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.cli.completing.offers import LONGEST, is_plain
from ibkeys.simulated_host import only_attaches
from ibkeys.store.paths import cache_directory

NODES: Final = "nodes"
SIMULATED_NODES: Final = "simulated-nodes"
MOST_NAMES: Final = 50_000
"""Most names of one list. A sweep reads as many nodes by default."""
_LARGEST: Final = MOST_NAMES * (LONGEST + 1)


def list_of_server(socket: str) -> str:
    """Return the name of the list for the simulator whose socket name is *socket*.

    Raises OSError if *socket* cannot be part of the name of a file.
    """
    if not is_plain(socket):
        raise OSError(f"{socket!r} is not a valid file name")
    return f"served-{socket}"


def list_of_last_sweep(backend: str) -> str:
    """Return the name of the list that a sweep with --backend *backend* writes, and from which completion reads.

    A program that attaches to a simulated fabric by its environment alone has the files of the real host, and must not
    replace the names of its nodes.
    """
    return SIMULATED_NODES if backend.startswith("sim:") or only_attaches() else NODES


def save_names(list_name: str, names: Iterable[str]) -> None:
    """Write *names* into the list *list_name*: at most `MOST_NAMES`, and only names that a shell can be offered.

    Raises OSError if the list cannot be written, or if its folder belongs to another user, as it may under sudo.
    Raises RuntimeError if this user has no home.
    """
    path = cache_directory() / list_name
    offered = sorted(islice({name for name in names if is_plain(name)}, MOST_NAMES))
    text = "".join(f"{name}\n" for name in offered)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise OSError(f"{path.parent} is not a directory of this user")
    if not path.exists() or files.read_bytes(path, _LARGEST) != text.encode():
        files.replace_file(path, text.encode())


def load_names(list_name: str) -> list[str]:
    """Return the names in the list *list_name* that a shell can be offered; an empty list if there is no such file.

    Raises OSError if the file cannot be read, and RuntimeError if this user has no home.
    """
    return _names_in(cache_directory() / list_name)


def load_names_of_server(socket: str) -> list[str]:
    """Return the names of the nodes that the simulator *socket* serves; an empty list if there are none.

    On a simulated host these are also looked for in the cache of the real host, where the simulator runs. Raises
    OSError and RuntimeError, as `load_names` does.
    """
    list_name = list_of_server(socket)
    return load_names(list_name) or _names_in(cache_directory(os.environ) / list_name)


def _names_in(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [name for name in files.read_text(path, _LARGEST, "replace").splitlines() if is_plain(name)]


def remove_list(list_name: str) -> None:
    """Remove the list *list_name*. Raises OSError."""
    (cache_directory() / list_name).unlink(missing_ok=True)
