"""Reading a file of another host that may be replaced: its real path, its bytes, and the metadata that must be kept. It
is as `ibkeys.host.replacing.file_to_replace` for this host.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileChanged, FileError
from ibkeys.host.inside_root import MOST_LINKS
from ibkeys.host.replacing.file_to_replace import FoundFile, Metadata, SeenFile
from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.machines.other_root import refuse_other_root
from ibkeys.managers.machines.writer import NOTHING, HostWriter, WriterRefused

_SECOND: Final = 1_000_000_000
_TIME: Final = re.compile(r"[^.]*\.(\d{9})_\+0000")


@dataclass(frozen=True, slots=True)
class _Status:
    """The status of a file; a symbolic link is not followed. ``kind``: the mode, with the bits for the kind of file.
    ``links``: the number of hard links; ``modified_ns``: the time of its last change, in ns since 1970."""

    kind: int
    uid: int
    gid: int
    size: int
    device: int
    inode: int
    links: int
    modified_ns: int


class RemoteFileReader:
    """Reads a file through two programs on another host: ``files`` reads the bytes; ``writer`` reads the status, which
    it compares again before it replaces the file."""

    def __init__(self, files: RemoteFiles, writer: HostWriter) -> None:
        self.name = files.name
        self.files = files
        self.writer = writer

    def look(self, path: Path) -> SeenFile:
        """Return the file that *path* leads to, as `ibkeys.host.replacing.file_to_replace.look` does, without the
        extended attributes. Raises FileError, FileChanged, HostNotReached."""
        place, status = self._resolve(path)
        if status is None:
            return SeenFile(place, None)
        if not stat.S_ISREG(status.kind):
            raise FileError(f"{self._at(place)}: is not a regular file")
        with files.os_errors_as(FileError, f"{self._at(place)}: cannot be read"):
            data = self.files.read(place, files.LIST)
        if self._read_status(place) != status or len(data) != status.size:
            raise FileChanged(f"{self._at(place)}: another program is writing it right now")
        metadata = Metadata(stat.S_IMODE(status.kind), status.uid, status.gid)
        found = FoundFile(data, metadata, status.device, status.inode, status.modified_ns, status.links)
        return SeenFile(place, found)

    def real_path(self, path: Path) -> Path:
        """Return the path of the file that *path* leads to, with all symbolic links followed. Raises FileError,
        FileChanged, HostNotReached."""
        return self._resolve(path)[0]

    def _resolve(self, path: Path) -> tuple[Path, _Status | None]:
        """Return the path of the file that *path* leads to, with all symbolic links followed, and its status; None if
        it does not exist. Raises FileError for a file in another root directory too."""
        if not path.is_absolute():
            raise FileError(f"{self._at(path)}: is a relative path, which is not possible on another host")
        place, status = self._follow_links(path)
        refuse_other_root(self.files, path, place)
        return place, status

    def _follow_links(self, path: Path) -> tuple[Path, _Status | None]:
        place = path
        trusted = {0, *self.users()}
        for number in range(MOST_LINKS + 1):
            try:
                place = self.writer.ask_path("real", place.parent) / place.name
            except WriterRefused:
                raise FileError(f"{self._at(path)}: {place.parent} is not there, or cannot be read") from None
            if not place.is_absolute():
                self.writer.conversation.end("its answer is invalid (a folder)")
            status = self._read_status(place)
            if status is None:
                if number:
                    raise FileError(f"{self._at(path)}: a symbolic link to {place}, which does not exist")
                return place, None
            if not stat.S_ISLNK(status.kind):
                return place, status
            if status.uid not in trusted:
                raise FileError(f"{self._at(path)}: {place} is a symbolic link of another user (UID {status.uid})")
            try:
                place = place.parent / self.writer.ask_path("target", place)
            except WriterRefused:
                raise FileChanged(f"{self._at(place)}: another program is changing it right now") from None
        raise FileError(f"{self._at(path)}: a loop of symbolic links, or more than {MOST_LINKS} of them")

    def users(self) -> list[int]:
        """Return the user ID of the program on the host. If it runs through sudo, the second ID is that of the user who
        called sudo."""
        try:
            words = self.writer.ask_line("users").split(" ")
        except WriterRefused:
            self.writer.conversation.end("its answer is invalid (users)")
        return [self.writer.conversation.number(word) for word in words if word != NOTHING]

    def _read_status(self, place: Path) -> _Status | None:
        try:
            text = self.writer.ask_line("seen", path=place)
        except WriterRefused as refusal:
            raise FileError(f"{self._at(place)}: cannot be examined: {refusal.reason}") from None
        if text == NOTHING:
            return None
        conversation = self.writer.conversation
        match text.split(":", 8):
            case [kind, uid, gid, size, device, inode, links, seconds, when]:
                fraction = _TIME.fullmatch(when)
                if fraction is not None:
                    return _Status(
                        conversation.kind_and_mode(kind),
                        conversation.number(uid),
                        conversation.number(gid),
                        conversation.number(size),
                        conversation.number(device),
                        conversation.number(inode),
                        conversation.number(links),
                        conversation.time(seconds) * _SECOND + int(fraction[1]),
                    )
        conversation.end("its answer is invalid (status of a file)")

    def _at(self, path: Path) -> str:
        return f"{self.name}: {path}"


def marks(seen: SeenFile) -> str:
    """Return one word with the status of a file, as the function ``marks`` of the program on the host prints it, so
    that the program can compare both."""
    found = seen.found
    if found is None:
        return NOTHING
    seconds, nanoseconds = divmod(found.modified_ns, _SECOND)
    when = datetime.fromtimestamp(seconds, UTC)
    kind = stat.S_IFREG | found.metadata.mode
    owner = f"{found.metadata.uid}:{found.metadata.gid}"
    number = f"{found.device}:{found.inode}:{found.links}"
    return f"{kind:x}:{owner}:{len(found.data)}:{number}:{seconds}:{when:%Y-%m-%d_%H:%M:%S}.{nanoseconds:09d}_+0000"
