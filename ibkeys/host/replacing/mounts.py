"""The mount of a file: its number, and whether it is the layer of a container, where changes do not last."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ibkeys.files import or_none
from ibkeys.host.replacing.looked_up import SeenFile, opened_folder

PROC: Final = Path("/proc/self")


def is_layer(kind: str | None) -> bool:
    """Return whether a file system of this type is the layer of a container, or of a host without disks."""
    return kind == "overlay"


def is_in_layer(seen: SeenFile) -> bool:
    """Return whether a file that was examined is in such a layer. Raises FileError when its folder cannot be read."""
    with opened_folder(seen.path) as folder:
        number = mount_number(folder)
    return number is not None and is_layer(kind_of_mount(number))


def mount_number(descriptor: int) -> str | None:
    """Return the kernel's number of the mount of an open file, None if /proc does not show it."""
    text = or_none((PROC / "fdinfo" / str(descriptor)).read_text) or ""
    return next((line.split()[1] for line in text.splitlines() if line.startswith("mnt_id:")), None)


def kind_of_mount(number: str) -> str | None:
    """Return the type of file system of a mount. Source: proc(5), /proc/pid/mountinfo."""
    text = or_none((PROC / "mountinfo").read_text, errors="surrogateescape") or ""
    for line in text.split("\n"):
        first, separator, rest = line.partition(" - ")
        if separator and first.split(" ", 1)[0] == number:
            return rest.split(" ", 1)[0]
    return None
