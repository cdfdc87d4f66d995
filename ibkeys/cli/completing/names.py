"""The node names of the last sweep, in the user's cache: completion never asks the fabric.

Files with one name on each line, mode 0600, in ``$XDG_CACHE_HOME/ibkeys``: `NODES` of the last sweep, `SIMULATED_NODES`
of the last sweep of a simulated subnet, and one for each running simulator (`served`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from itertools import islice
from typing import Final

from ibkeys import files
from ibkeys.cli.completing.offers import LONGEST, is_plain
from ibkeys.store.paths import cache_directory

NODES: Final = "nodes"
SIMULATED_NODES: Final = "simulated-nodes"
MOST_NAMES: Final = 50_000
"""Most names of one list: as many as a sweep reads nodes by default."""
_LARGEST: Final = MOST_NAMES * (LONGEST + 1)


def served(socket: str) -> str:
    """Return the name of the list of the simulator that serves *socket*.

    Raises OSError if that is no valid file name.
    """
    if not is_plain(socket):
        raise OSError(f"{socket!r} is not a valid file name")
    return f"served-{socket}"


def keep(which: str, names: Iterable[str]) -> None:
    """Write *names* as the list *which*, without names that cannot be offered, and at most `MOST_NAMES` of them.

    Raises OSError, also if the folder belongs to another user (under sudo it may be the caller's), and RuntimeError if
    this user has no home.
    """
    path = cache_directory() / which
    kept = sorted(islice({name for name in names if is_plain(name)}, MOST_NAMES))
    text = "".join(f"{name}\n" for name in kept)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.parent.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise OSError(f"{path.parent} is not a directory of this user")
    if not path.exists() or files.read_bytes(path, _LARGEST) != text.encode():
        files.replace_file(path, text.encode())


def kept(which: str) -> list[str]:
    """Return the names of the list *which* that can be offered; none if there is no such list. Raises OSError."""
    path = cache_directory() / which
    if not path.exists():
        return []
    return [name for name in files.read_text(path, _LARGEST, "replace").splitlines() if is_plain(name)]


def forget(which: str) -> None:
    """Remove the list *which*. Raises OSError."""
    (cache_directory() / which).unlink(missing_ok=True)
