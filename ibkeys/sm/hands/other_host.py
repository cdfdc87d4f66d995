"""The hands on another host, through ssh. Nothing has to be installed there: a small shell program does it.

Reading goes over a connection of its own, to the program that changes nothing (`ibkeys.sm.elsewhere.remote`). Of what
is changed, the bytes that were seen count: the program compares the file with them right before the new one takes its
place. What somebody renames into the place between these two calls is lost: no shell can let two files change places.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from ibkeys import files
from ibkeys.errors import FileChanged, FileError, HostNotReached, HostRefused, StoreError
from ibkeys.host.host_files import HostFiles
from ibkeys.host.opensm_process import OpensmProcess
from ibkeys.host.replacing.names import new_name, unfinished
from ibkeys.host.replacing.replace import LeftOvers
from ibkeys.host.replacing.seen import FoundFile, Metadata, SeenFile
from ibkeys.sm.elsewhere.channel import Channel
from ibkeys.sm.elsewhere.remote import RemoteFiles
from ibkeys.sm.hands.ground import Ground, hindrance_of, read_ground
from ibkeys.sm.hands.other_root import refuse_other_root
from ibkeys.sm.hands.remote_guard import OtherGuard, confirm_guard
from ibkeys.sm.hands.this_host import is_unit
from ibkeys.sm.hands.writer import NOTHING, No, Writer, sum_of
from ibkeys.store.journal import FileEntry, FileImage, Operation

OWN_SESSION: Final = partial(Channel, own_session=True)
"""Whoever interrupts ibkeys wants it to go back, and for that the connection has to live on."""
_LINKS: Final = 40
_SECOND: Final = 1_000_000_000
_TIME: Final = re.compile(r"[^.]*\.(\d{9})_\+0000")
_LEFT: Final = re.compile(r"(\d{1,20}-[0-9a-f]{16}(\.part)?) ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class _Status:
    """What stands at a name itself, no link followed. ``kind``: its mode with what kind of file it is."""

    kind: int
    uid: int
    gid: int
    size: int
    device: int
    inode: int
    links: int
    modified_ns: int


class OtherHost:
    """The hands on another host: an `SmHands`."""

    def __init__(self, reader: RemoteFiles, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._guarded = False

    @property
    def name(self) -> str:
        """The host's name as the user gave it."""
        return self._reader.name

    @property
    def files(self) -> HostFiles:
        """Its files, for reading."""
        return self._reader

    # --- looking ------------------------------------------------------------------------------------------------------

    def look(self, path: Path) -> SeenFile:
        """Return what is where *path* leads. Raises FileError, FileChanged, HostNotReached."""
        if not path.is_absolute():
            raise FileError(f"{self._at(path)}: is relative to nothing on another host")
        place, status = self._real_place(path)
        refuse_other_root(self._reader, path, place)
        if status is None:
            return SeenFile(place, None)
        if not stat.S_ISREG(status.kind):
            raise FileError(f"{self._at(place)}: is no regular file")
        try:
            data = self._reader.read(place, files.LIST)
        except OSError as error:
            raise FileError(f"{self._at(place)}: cannot be read: {error.strerror or error}") from None
        if self._status(place) != status or len(data) != status.size:
            raise FileChanged(f"{self._at(place)}: somebody else writes it at this moment")
        metadata = Metadata(stat.S_IMODE(status.kind), status.uid, status.gid)
        found = FoundFile(data, metadata, status.device, status.inode, status.modified_ns, status.links)
        return SeenFile(place, found)

    def _real_place(self, path: Path) -> tuple[Path, _Status | None]:
        """Return where *path* leads, links followed, and what is there."""
        place = path
        trusted = {0, *self._users()}
        for number in range(_LINKS + 1):
            try:
                place = self._writer.name("real", place.parent) / place.name
            except No:
                raise FileError(f"{self._at(path)}: {place.parent} is not there, or cannot be read") from None
            if not place.is_absolute():
                self._writer.conversation.end("its answer makes no sense (a folder)")
            status = self._status(place)
            if status is None:
                if number:
                    raise FileError(f"{self._at(path)}: a symbolic link to {place}, which is not there")
                return place, None
            if not stat.S_ISLNK(status.kind):
                return place, status
            if status.uid not in trusted:
                raise FileError(f"{self._at(path)}: {place} is a symbolic link of another user (UID {status.uid})")
            try:
                place = place.parent / self._writer.name("target", place)
            except No:
                raise FileChanged(f"{self._at(place)}: somebody else changes it at this moment") from None
        raise FileError(f"{self._at(path)}: symbolic links in a circle, or more than {_LINKS} of them")

    def _users(self) -> list[int]:
        """Return the user who works there, and who ran sudo for that."""
        words = self._one("users").split(" ")
        return [self._writer.conversation.number(word) for word in words if word != NOTHING]

    def _status(self, place: Path) -> _Status | None:
        try:
            text = self._writer.one("seen", path=place)
        except No as no:
            raise FileError(f"{self._at(place)}: cannot be looked at: {no.reason}") from None
        if text == NOTHING:
            return None
        talk = self._writer.conversation
        match text.split(":", 8):
            case [kind, uid, gid, size, device, inode, links, seconds, when]:
                fraction = _TIME.fullmatch(when)
                if fraction is not None:
                    return _Status(
                        talk.kind_and_mode(kind),
                        talk.number(uid),
                        talk.number(gid),
                        talk.number(size),
                        talk.number(device),
                        talk.number(inode),
                        talk.number(links),
                        talk.time(seconds) * _SECOND + int(fraction[1]),
                    )
        talk.end("its answer makes no sense (status of a file)")

    def hindrance(self, seen: SeenFile) -> str | None:
        """Return why a file cannot be replaced, None when nothing is known to stand in the way.

        Raises FileError, HostNotReached.
        """
        reason = _of_name(seen.path) or hindrance_of(seen, self._ground(seen.path), self._users()[0])
        return None if reason is None else f"{self._at(seen.path)}: {reason}"

    def _ground(self, path: Path) -> Ground:
        try:
            return read_ground(self._writer, path)
        except No as no:
            raise FileError(f"{self._at(path.parent)}: cannot be looked at: {no.reason}") from None

    # --- replacing ----------------------------------------------------------------------------------------------------

    def replace(self, operation: Operation, seen: SeenFile, data: bytes | None, mode: int = 0o644) -> FileEntry:
        """Let *data* take the place of a file as it was *seen*; None removes it.

        Raises FileChanged, FileError, StoreError, EncodeError, and HostNotReached: the entry is ``pending`` then where
        the file may have been replaced, and ``failed`` where it was not.
        """
        if data is not None and len(data) > files.LIST:
            raise FileError(f"{self._at(seen.path)}: more than {files.LIST // files.MIB} MiB, which no such file has")
        if (reason := self.hindrance(seen)) is not None:
            raise FileError(reason)
        old = seen.found.metadata if seen.found is not None else Metadata(0)
        image = FileImage(str(seen.path), seen.data, data, host=self.name)
        if seen.found is not None:
            image = FileImage(str(seen.path), seen.data, data, old.mode, old.uid, old.gid, host=self.name)
        entry = operation.record_file(image)
        may_be_done = False
        try:
            if data is not None:
                self._writer.ask("begin", secrets.token_hex(8), path=seen.path)
                self._writer.send("fill", data, path=seen.path)
            may_be_done = True  # before it is so: the connection may be cut
            if data is not None:
                self._writer.ask("put", sum_of(data), _marks(seen), sum_of(seen.data), f"{mode:04o}", path=seen.path)
            elif seen.found is not None:
                self._writer.ask("remove", _marks(seen), sum_of(seen.data), path=seen.path)
        except No as no:
            raise self._not_replaced(entry, no, "removed" if data is None else "replaced") from None
        except HostNotReached:
            if not may_be_done:
                _failed(entry)
            raise
        return entry

    def _not_replaced(self, entry: FileEntry, no: No, what: str) -> FileError:
        path = self._at(Path(entry.image.path))
        if no.kind == "unsynced":
            holds = "the change is made all the same, but a crash of that host may still undo it"
            return FileError(f"{path}: cannot be {what}: {no.reason}; {holds}", True)
        _failed(entry)
        if no.kind == "changed":
            return FileChanged(f"{path}: somebody else changed it meanwhile; what they wrote is in place")
        return FileError(f"{path}: cannot be {what}: {no.reason or no.kind}; it is as it was")

    def clean_up(self, entries: Iterable[FileEntry]) -> LeftOvers:
        """Remove what runs that were cut off left beside the files of this host. Raises FileError, HostNotReached."""
        known: dict[Path, set[str]] = {}
        for entry in entries:
            if entry.image.host == self.name:
                sums = known.setdefault(Path(entry.image.path), set())
                sums |= {sum_of(data) for data in (entry.image.before, entry.image.after) if data is not None}
        removed: list[Path] = []
        foreign: list[Path] = []
        for place, sums in known.items():
            try:
                for line in self._writer.ask("left", path=place):
                    left = _LEFT.fullmatch(line)
                    if left is None:
                        self._writer.conversation.end("its answer makes no sense (left-overs)")
                    is_known = bool(left[2]) or left[3] in sums
                    if is_known:
                        self._writer.ask("drop", left[1], path=place)
                    (removed if is_known else foreign).append(place.with_name(f".{place.name}.ibkeys-{left[1]}"))
            except No as no:
                raise FileError(f"{self._at(place.parent)}: cannot be cleaned up: {no.reason}") from None
        return LeftOvers(tuple(removed), tuple(foreign))

    # --- OpenSM -------------------------------------------------------------------------------------------------------

    def may_signal(self, process: OpensmProcess) -> str | None:
        """Return why this user may not tell *process* to read its policy, None if it may. Raises HostNotReached."""
        try:
            self._writer.ask("may_hup", *self._named(process)[:2])
        except No as no:
            return str(self._refused(process, no))
        except HostRefused as error:
            return str(error)
        return None

    def signal(self, process: OpensmProcess) -> None:
        """Send SIGHUP to this very process. Raises HostRefused, HostNotReached."""
        try:
            self._writer.ask("hup", *self._named(process))
        except No as no:
            raise self._refused(process, no) from None

    def _named(self, process: OpensmProcess) -> tuple[str, str, str]:
        """Return the words that mean this process: ID, start, unit."""
        if process.ticks is None:
            raise HostRefused(
                f"{self.name}: process {process.pid}: nobody knows when it started, so it may be another one now",
                self.name,
            )
        unit = process.unit if process.unit is not None and is_unit(process.unit) else NOTHING
        return str(process.pid), str(process.ticks), unit

    def _refused(self, process: OpensmProcess, no: No) -> HostRefused:
        return HostRefused(f"{self.name}: process {process.pid}: {no.reason or 'cannot be signalled'}", self.name)

    def guard(self, seconds: float) -> OtherGuard:
        """Return one who goes back there when nobody confirms."""
        return OtherGuard(self.name, self._writer, seconds, self._named)

    def confirm_guard(self, token: str) -> bool:
        """End the guard of this token. Raises HostRefused, HostNotReached."""
        return confirm_guard(self.name, self._writer, token)

    # --- words --------------------------------------------------------------------------------------------------------

    def _at(self, path: Path) -> str:
        return f"{self.name}: {path}"

    def _one(self, question: str) -> str:
        try:
            return self._writer.one(question)
        except No:
            self._writer.conversation.end(f"its answer makes no sense ({question})")


def _marks(seen: SeenFile) -> str:
    """Return the marks of a file as the program makes them: see ``marks`` there."""
    found = seen.found
    if found is None:
        return NOTHING
    seconds, nanoseconds = divmod(found.modified_ns, _SECOND)
    when = datetime.fromtimestamp(seconds, UTC)
    kind = stat.S_IFREG | found.metadata.mode
    owner = f"{found.metadata.uid}:{found.metadata.gid}"
    number = f"{found.device}:{found.inode}:{found.links}"
    return f"{kind:x}:{owner}:{len(found.data)}:{number}:{seconds}:{when:%Y-%m-%d_%H:%M:%S}.{nanoseconds:09d}_+0000"


def _of_name(place: Path) -> str | None:
    try:
        place.as_posix().encode()
    except UnicodeEncodeError:
        return "its name is no UTF-8, and the journal cannot keep it"
    if "\n" in str(place):
        return "there is a newline in its name"
    if len(os.fsencode(unfinished(new_name(place.name)))) + len("4194304") > 255:
        return "its name is too long: the new file needs a longer one beside it until it is complete"
    return None


def _failed(entry: FileEntry) -> None:
    with suppress(StoreError):  # what went wrong first is what the user must hear
        entry.failed()
