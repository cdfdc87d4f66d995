"""The reasons why a file on another host cannot be replaced, found without writing anything: as
`ibkeys.host.replacing.hindrances` for this host.

A condition that the host cannot check is taken as met. If it is not, the replacement itself fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.host.replacing.hindrances import MOUNT_POINT, links_hindrance, owner_hindrance
from ibkeys.host.replacing.mounts import is_layer
from ibkeys.managers.machines.writer import HostWriter


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """The facts of a file's folder, and some of the file, as the host answered. ``mode``, ``uid``, ``device``: those of
    the folder. ``may_write``: whether the program on the host may create files in it. ``has_acl``: whether the file has
    an ACL. ``mount``, ``own_mount``: the kernel's numbers of the mounts of folder and file, "" if not known.
    ``system``: the folder's line in mountinfo, after the number. ``folder_flags``, ``flags``: the flags of folder and
    file, as lsattr prints them.
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
        """Whether the folder is in the writable layer of a container; False if the host does not show its mounts."""
        return is_layer(self.system.partition(" - ")[2].split(" ")[0])


def read_folder_facts(writer: HostWriter, path: Path) -> FolderFacts:
    """Return the facts of the folder of *path*, and of the file. Raises WriterRefused, FileError, HostNotReached."""
    facts: dict[str, str] = {}
    for line in writer.ask("ground", path=path):
        word, _, rest = line.partition(" ")
        facts[word] = rest
    conversation = writer.conversation
    match facts.get("folder", "").split(" "):
        case [mode, uid, device]:
            return FolderFacts(
                conversation.kind_and_mode(mode),
                conversation.number(uid),
                conversation.number(device),
                "may" in facts,
                "acl" in facts,
                *(facts.get(word, "") for word in ("mount", "own", "system", "folder-flags", "flags")),
            )
    conversation.end("its answer is invalid (a folder)")


def folder_hindrance(seen: SeenFile, facts: FolderFacts, user: int) -> str | None:
    """Return the reason why *user* (an ID) cannot replace the file *seen*, None if no reason is known. *facts*: those
    of its folder."""
    if seen.found is not None and _is_mount_point(seen.found.device, facts):
        return MOUNT_POINT
    options, _, kind = facts.system.partition(" - ")
    folder = seen.path.parent
    if "ro" in [*_words(options, 4), *_words(kind, 2)]:
        return f"{folder} is on a read-only file system"
    if _is_fixed(facts.folder_flags):
        return f"no file can be replaced in {folder}: it is marked as immutable or append-only (chattr)"
    if not facts.may_write:
        return f"no file can be created in {folder} by this user (UID {user})"
    if seen.found is None:
        return None
    if reason := owner_hindrance(seen, user, facts.mode, facts.uid) or links_hindrance(seen.found.links):
        return reason
    return "is marked as immutable or append-only (chattr)" if _is_fixed(facts.flags) else None


def _is_mount_point(device: int, facts: FolderFacts) -> bool:
    if facts.mount and facts.own_mount:
        return facts.mount != facts.own_mount
    return device != facts.device and not facts.is_in_layer  # on an overlay the device of a file may differ


def _words(fields: str, number: int) -> list[str]:
    """Return the comma-separated words of field *number* (from 0) of *fields*; none if there is no such field."""
    found = fields.split(" ")
    return found[number].split(",") if len(found) > number else []


def _is_fixed(flags: str) -> bool:
    return "i" in flags or "a" in flags
