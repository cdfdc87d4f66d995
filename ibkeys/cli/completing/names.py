"""The names of nodes as they were last seen, in the user's cache: a completion never asks the fabric.

Lists of one name on each line, mode 0600, in ``$XDG_CACHE_HOME/ibkeys``: `NODES` of the last sweep, `SIMULATED_NODES`
of the last one on a simulated subnet, and one for each simulator that runs (`served`).
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
"""Nodes of one sweep, by default."""
_LARGEST: Final = MOST_NAMES * (LONGEST + 1)


def served(socket: str) -> str:
    """Return the name of the list of a simulator that is being served. Raises OSError if its own is not a file's."""
    if not is_plain(socket):
        raise OSError(f"{socket!r} is not a valid file name")
    return f"served-{socket}"


def keep(which: str, names: Iterable[str]) -> None:
    """Keep *names* as the list *which*; a name that cannot be offered is left out, and all after `MOST_NAMES`.

    Raises OSError; RuntimeError where this user has no home. A folder that belongs to another user is not used: under
    sudo it may be the caller's.
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
    """Return the names of the list *which*, checked again; none where none was kept. Raises OSError."""
    path = cache_directory() / which
    if not path.exists():
        return []
    return [name for name in files.read_text(path, _LARGEST, "replace").splitlines() if is_plain(name)]


def forget(which: str) -> None:
    """Remove the list *which*. Raises OSError."""
    (cache_directory() / which).unlink(missing_ok=True)
