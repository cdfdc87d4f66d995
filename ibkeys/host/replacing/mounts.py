"""The mount that a file is in: its number, and whether it is the writable layer of a container, where changes do not
last."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ibkeys.files import or_none
from ibkeys.host.replacing.file_to_replace import SeenFile, open_folder

PROC: Final = Path("/proc/self")


def is_layer(kind: str | None) -> bool:
    """Return whether a file system of the type *kind* is the writable layer of a container, or of a host without
    disks."""
    return kind == "overlay"


def is_in_layer(seen: SeenFile) -> bool:
    """Return whether a file is in the writable layer of a container, or of a host without disks; False if that is not
    known. Raises FileError when its folder cannot be read."""
    with open_folder(seen.path) as folder_fd:
        number = mount_number(folder_fd)
    return number is not None and is_layer(kind_of_mount(number))


def mount_number(descriptor: int) -> str | None:
    """Return the kernel's number of the mount that an open file is in, None if /proc does not show it."""
    text = or_none((PROC / "fdinfo" / str(descriptor)).read_text) or ""
    return next((line.split()[1] for line in text.splitlines() if line.startswith("mnt_id:")), None)


def kind_of_mount(number: str) -> str | None:
    """Return the file system type of the mount with this *number*, None if it is not known. Source: proc(5),
    /proc/pid/mountinfo."""
    text = or_none((PROC / "mountinfo").read_text, errors="surrogateescape") or ""
    for line in text.split("\n"):
        first, separator, rest = line.partition(" - ")
        if separator and first.split(" ", 1)[0] == number:
            return rest.split(" ", 1)[0]
    return None
