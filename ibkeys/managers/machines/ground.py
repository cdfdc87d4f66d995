"""A check whether a file on another host can be replaced, made without writing anything.

It is as `ibkeys.host.replacing.hindrances` for this host. A condition that cannot be checked there is ignored, and the
replacement fails if it is not met.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ibkeys.host.replacing.hindrances import MOUNT_POINT, links_hindrance, owner_hindrance
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.host.replacing.mounts import is_layer
from ibkeys.managers.machines.writer import HostWriter


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """The facts of the folder of a file, and of the file, as the host answered. ``mount``, ``own_mount``: the kernel's
    numbers, "" if they cannot be determined. ``system``: its line of mountinfo after the number. ``flags``: as lsattr
    prints them. ``has_acl``: whether the file has an ACL beside its mode.
    """

    mode: int
    uid: int
    device: int
    may_write: bool
    has_acl: bool
    mount: str = ""
    own_mount: str = ""
    system: str = ""
    folder_flags: str = ""
    flags: str = ""

    @property
    def is_in_layer(self) -> bool:
        """Whether the folder is in the layer of a container, as far as the host shows its mounts."""
        return is_layer(self.system.partition(" - ")[2].split(" ")[0])


def read_folder_facts(writer: HostWriter, path: Path) -> FolderFacts:
    """Return the facts of *path* and its folder. Raises WriterRefused, FileError, HostNotReached."""
    facts: dict[str, str] = {}
    for line in writer.ask("ground", path=path):
        word, _, rest = line.partition(" ")
        facts[word] = rest
    talk = writer.conversation
    match facts.get("folder", "").split(" "):
        case [mode, uid, device]:
            return FolderFacts(
                talk.kind_and_mode(mode),
                talk.number(uid),
                talk.number(device),
                "may" in facts,
                "acl" in facts,
                *(facts.get(word, "") for word in ("mount", "own", "system", "folder-flags", "flags")),
            )
    talk.end("its answer is invalid (a folder)")


def hindrance_of(seen: SeenFile, ground: FolderFacts, user: int) -> str | None:
    """Return why *user* cannot replace the file *seen* in this folder, None if no reason is known."""
    if seen.found is not None and _is_mount_point(seen.found.device, ground):
        return MOUNT_POINT
    options, _, kind = ground.system.partition(" - ")
    folder = seen.path.parent
    if "ro" in [*_words(options, 4), *_words(kind, 2)]:
        return f"{folder} is on a read-only file system"
    if _is_fixed(ground.folder_flags):
        return f"no file can be replaced in {folder}: it is marked as immutable or append-only (chattr)"
    if not ground.may_write:
        return f"no file can be created in {folder} by this user (UID {user})"
    if seen.found is None:
        return None
    if reason := owner_hindrance(seen, user, ground.mode, ground.uid) or links_hindrance(seen.found.links):
        return reason
    return "is marked as immutable or append-only (chattr)" if _is_fixed(ground.flags) else None


def _is_mount_point(device: int, ground: FolderFacts) -> bool:
    if ground.mount and ground.own_mount:
        return ground.mount != ground.own_mount
    return device != ground.device and not ground.is_in_layer  # on overlay files and folders differ in that


def _words(fields: str, number: int) -> list[str]:
    """Return the comma-separated words of field *number* (from 0) of *fields*; none if there is no such field."""
    found = fields.split(" ")
    return found[number].split(",") if len(found) > number else []


def _is_fixed(flags: str) -> bool:
    return "i" in flags or "a" in flags
