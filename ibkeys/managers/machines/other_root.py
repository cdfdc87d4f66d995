"""Files of a process with its own root directory or mounts, which other processes reach through the link
/proc/PID/root.

If the parts of such a path are looked up one by one, the path may lead to another file, one of the host itself: for a
process with its own mounts, /proc/PID/root reads like a link to /. So ibkeys replaces a file by such a path only if the
path opened directly and the path looked up lead to the same file in the same folder.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from ibkeys.errors import FileError
from ibkeys.files import os_errors_as
from ibkeys.host.host_files import HostFiles

_INSIDE: Final = re.compile(r"/+proc/.*", re.DOTALL)


def refuse_other_root(files: HostFiles, path: Path, place: Path) -> None:
    """Raise FileError if *path* is below /proc and opens another file than *place*, the result of looking *path* up
    part by part. Raises HostNotReached too."""
    if not _INSIDE.match(str(path)):
        return
    for intended, actual in ((path.parent, place.parent), (path, place)):
        if _identity(files, intended) != _identity(files, actual):
            at = f"{files.name}: {path}" if files.name else f"{path}"
            raise FileError(
                f"{at}: is in another root directory or mount namespace, for example in a container; change it at "
                "its source"
            )


def _identity(files: HostFiles, path: Path) -> tuple[int, int] | None:
    with os_errors_as(FileError, f"{path}: cannot be examined"), suppress(FileNotFoundError):
        return files.stat(path).identity
    return None
