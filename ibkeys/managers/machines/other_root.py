"""Files of a process with a root directory or mounts of its own, which other processes name through its link
/proc/PID/root.

Looked up part by part such a name may lead to a file of the host itself: with other mounts, /proc/PID/root still reads
like a link to /. So a file is replaced by that name only where both are the same: the file, and the folder in which the
new one takes its place.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from ibkeys.errors import FileError
from ibkeys.files import told_as
from ibkeys.host.host_files import HostFiles

_INSIDE: Final = re.compile(r"/+proc/.*", re.DOTALL)


def refuse_other_root(files: HostFiles, path: Path, place: Path) -> None:
    """Raise FileError if *place*, which *path* leads to, is not the file that *path* names. Raises HostNotReached
    too."""
    if not _INSIDE.match(str(path)):
        return
    for meant, found in ((path.parent, place.parent), (path, place)):
        if _identity(files, meant) != _identity(files, found):
            at = f"{files.name}: {path}" if files.name else f"{path}"
            raise FileError(
                f"{at}: is in another root directory or mount namespace, for example in a container; change it at "
                "its source"
            )


def _identity(files: HostFiles, path: Path) -> tuple[int, int] | None:
    with told_as(FileError, f"{path}: cannot be examined"), suppress(FileNotFoundError):
        return files.stat(path).identity
    return None
