"""Replacing a file with the journal, which has its former bytes on disk before the change.

The caller calls `look` when the change is planned, and `replace` when it is made. A rollback is a `replace` too
(`ibkeys.managers.files.opensm_file`). After a crash `clean_up` removes the temporary files first.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileError, StoreError
from ibkeys.host.replacing.conversions import WITHOUT_KEYS, FileConversions
from ibkeys.host.replacing.file_to_replace import Metadata, SeenFile, open_folder, read_in_folder
from ibkeys.host.replacing.hindrances import hindrance_to_replacing
from ibkeys.host.replacing.images import image_of, known_bytes
from ibkeys.host.replacing.names import is_new_name, is_unfinished
from ibkeys.host.replacing.new_file import is_in_use
from ibkeys.host.replacing.putting import put
from ibkeys.store.journal import FileEntry, FileImage, RunningOperation


@dataclass(frozen=True, slots=True)
class LeftOvers:
    """The temporary files that interrupted runs left. ``removed``: files that were removed, because they were
    incomplete or the journal has their bytes. ``foreign``: files with other bytes, which stay: another program or
    administrator may have written them at the moment of the crash, and perhaps no program has read them yet. A person
    must examine them.
    """

    removed: tuple[Path, ...] = ()
    foreign: tuple[Path, ...] = ()


RecordedImages = Mapping[Path, Callable[[], Iterable[FileImage]]]
"""Path of a file → a function that returns all its images in the journal. It is called only if a temporary file beside
the file has to be compared with them, because they may be many and large."""


def replace(
    operation: RunningOperation,
    seen: SeenFile,
    data: bytes | None,
    mode: int = 0o644,
    *,
    conversions: FileConversions = WITHOUT_KEYS,
    rights: int | None = None,
    owner: int | None = None,
) -> FileEntry:
    """Replace the contents of a file by *data* (None removes the file), and return its entry in the journal. *seen*:
    the file as it was read.

    Before anything is written, *seen* is in the journal, synced, with the host's name; *conversions* converts the bytes
    of a file with keys for the journal. The file keeps owner, mode, ACL and label. A file that did not exist gets
    *mode* and *owner* (a user ID, None for that of this process); the file of another owner gets the group of its
    folder. *rights*: the permission bits of the new file whether or not it existed, in place of *mode*. If they give
    more rights than the old file, or the file has an ACL, that is refused. Until the new file is complete its mode is
    0600. The entry stays ``pending``: the caller notes in it whether the change took effect.

    Raises FileChanged if the file is not as it was read: the version of another user or program is in place. Raises
    FileError if the file cannot be replaced: nothing was written, or ``is_replaced`` says which version is in place.
    After an error the entry is ``failed`` if the file was not replaced. Raises StoreError and EncodeError if the
    journal cannot be written.
    """
    metadata = metadata_for(seen, rights, mode, owner)
    refuse_hindered(seen, rights)
    entry = record(operation, seen, data, conversions)
    try:
        put(seen, data, metadata)
    except FileError as error:
        if not error.is_replaced:
            note_failed(entry)
        raise
    return entry


def note_failed(entry: FileEntry) -> None:
    """Note in the journal that a file was not replaced. This is for a caller that is about to raise another error, so a
    failure to write the journal is ignored."""
    with suppress(StoreError):  # the user must see the error that is being raised, not this one
        entry.failed()


def metadata_for(seen: SeenFile, rights: int | None, mode: int = 0o600, owner: int | None = None) -> Metadata:
    """Return the metadata of the new file. The arguments are those of `replace`. Raises FileError if its folder cannot
    be read."""
    metadata = _of_new(seen.path, mode, owner) if seen.found is None else seen.found.metadata
    return metadata if rights is None else dataclasses.replace(metadata, mode=rights)


def _of_new(place: Path, mode: int, owner: int | None) -> Metadata:
    """Return the metadata of a file that did not exist. Raises FileError if its folder cannot be read."""
    if owner in (None, os.geteuid()):
        return Metadata(mode)
    with open_folder(place) as folder_fd:
        return Metadata(mode, owner, os.fstat(folder_fd).st_gid)


def record(
    operation: RunningOperation, seen: SeenFile, data: bytes | None, conversions: FileConversions = WITHOUT_KEYS
) -> FileEntry:
    """Record in the journal, synced, that a file will be replaced by *data* (None: removed), and return the entry.
    *seen*: the file as it was read. Raises FileError if *conversions* could not restore the same bytes from the
    journal, StoreError and EncodeError if the journal cannot be written.
    """
    return operation.record_file(image_of(seen, data, conversions))


def clean_up(recorded: RecordedImages, conversions: FileConversions = WITHOUT_KEYS) -> LeftOvers:
    """Remove the temporary files that interrupted runs left beside the files of *recorded*, and return all of them.

    *conversions*: those of all these files. A temporary file is removed if it is incomplete, or if the journal has its
    bytes. The temporary files of a running process are not touched, and a folder that does not exist is left out.
    Raises FileError if a folder cannot be read or a file cannot be removed; and the errors of *conversions*, except
    KeyGone.
    """

    def is_known(data: bytes, place: Path) -> bool:
        return any(data in known_bytes(image, conversions) for image in recorded[place]())

    found = [_clean_up_beside(place, partial(is_known, place=place)) for place in recorded if place.parent.is_dir()]
    return LeftOvers(
        tuple(path for each in found for path in each.removed), tuple(path for each in found for path in each.foreign)
    )


def remove_unfinished(place: Path) -> None:
    """Remove the incomplete temporary files that interrupted runs left beside *place*. Raises FileError."""
    _clean_up_beside(place, lambda data: False)


def refuse_hindered(seen: SeenFile, rights: int | None) -> None:
    """Raise FileError if it is certain before any attempt that a file cannot be replaced. *rights*: as in `replace`."""
    if (reason := hindrance_to_replacing(seen, rights)) is not None:
        raise FileError(reason)


def _clean_up_beside(place: Path, is_known: Callable[[bytes], bool]) -> LeftOvers:
    removed: list[Path] = []
    foreign: list[Path] = []
    with open_folder(place) as folder_fd, files.os_errors_as(FileError, f"{place.parent}: cannot be cleaned up"):
        for name in sorted(os.listdir(folder_fd)):
            is_part = is_unfinished(name, place.name)
            if not (is_part or is_new_name(name, place.name)) or _is_in_use(folder_fd, name):
                continue
            data = None if is_part else _data_of(folder_fd, place.with_name(name))
            if is_part or (data is not None and is_known(data)):
                os.unlink(name, dir_fd=folder_fd)
                removed.append(place.with_name(name))
            else:
                foreign.append(place.with_name(name))
        if removed:
            os.fsync(folder_fd)
    return LeftOvers(tuple(removed), tuple(foreign))


def _is_in_use(folder_fd: int, name: str) -> bool:
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode):
            return False
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except FileNotFoundError:
        return True  # the process that made the file has just removed it
    with closing_descriptor(descriptor):
        return is_in_use(descriptor)


def _data_of(folder_fd: int, path: Path) -> bytes | None:
    """Return the content of a file, None if it cannot be read as one."""
    try:
        found = read_in_folder(folder_fd, path, path.name)
    except FileError:
        return None
    return None if found is None else found.data
