"""Replacing a file with the journal: its former bytes are on disk before the change; temporary files that a crash left
are removed.

The steps for one file: `look` when the change is planned, `replace` when it is made. What goes through several contents
one after the other, as a policy does, goes back by `replace` too (`ibkeys.managers.files.opensm_file`). After a crash
`clean_up` comes first.
"""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import FileError, StoreError
from ibkeys.host.replacing.contents import WITHOUT_KEYS, FileContents
from ibkeys.host.replacing.hindrances import hindrance
from ibkeys.host.replacing.images import image_of, known_bytes
from ibkeys.host.replacing.looked_up import Metadata, SeenFile, found_in, opened_folder
from ibkeys.host.replacing.names import is_beside, is_unfinished
from ibkeys.host.replacing.new_file import is_in_use
from ibkeys.host.replacing.putting import put
from ibkeys.store.journal import FileEntry, FileImage, RunningOperation


@dataclass(frozen=True, slots=True)
class LeftOvers:
    """The left-overs of interrupted runs beside their files. ``removed``: copies whose bytes the journal has.
    ``foreign``: files with other bytes, which stay: another program or administrator may have written them at the
    moment of the crash, and perhaps no program has read them yet. A person must examine them.
    """

    removed: tuple[Path, ...] = ()
    foreign: tuple[Path, ...] = ()


def replace(
    operation: RunningOperation,
    seen: SeenFile,
    data: bytes | None,
    *,
    mode: int = 0o600,
    contents: FileContents = WITHOUT_KEYS,
    rights: int | None = None,
    owner: int | None = None,
) -> FileEntry:
    """Replace the contents of a file by *data*, and return its entry in the journal. *seen*: the file as it was read;
    *data* None removes it.

    The former bytes are in the journal, synced, before anything is written. The file keeps owner, mode, ACL and label.
    A file that did not exist gets *mode* and *owner* (a user ID); if the owner is not the user of this process, it gets
    the group of its folder. *rights*: the permission bits of the new file, existing or not, which give no more rights
    than the old ones. Until the new file is complete it has mode 0600. The entry stays ``pending``: the caller notes
    whether the effect was proven.

    Raises FileChanged if the file is not as it was seen: the version of another user or program is in place. Raises
    FileError if the file cannot be replaced: nothing was written, or ``is_replaced`` says which version is in place.
    After an error the entry is ``failed`` if the file was not replaced. Raises StoreError.
    """
    metadata = metadata_for(seen, rights, mode, owner)
    refuse_hindered(seen, rights)
    entry = record(operation, seen, data, contents)
    try:
        put(seen, data, metadata)
    except FileError as error:
        if not error.is_replaced:
            note_failed(entry)
        raise
    return entry


def note_failed(entry: FileEntry) -> None:
    """Note in the journal that a file was not replaced, while another error is being raised."""
    with suppress(StoreError):  # the user must see the first error
        entry.failed()


def metadata_for(seen: SeenFile, rights: int | None, mode: int = 0o600, owner: int | None = None) -> Metadata:
    """Return the metadata of the new file, arguments as in `replace`. Raises FileError if its folder cannot be
    examined."""
    metadata = _of_new(seen.path, mode, owner) if seen.found is None else seen.found.metadata
    return metadata if rights is None else dataclasses.replace(metadata, mode=rights)


def _of_new(place: Path, mode: int, owner: int | None) -> Metadata:
    """Return the metadata of a file that did not exist. Raises FileError if its folder cannot be examined."""
    if owner in (None, os.geteuid()):
        return Metadata(mode)
    with opened_folder(place) as folder:
        return Metadata(mode, owner, os.fstat(folder).st_gid)


def record(
    operation: RunningOperation, seen: SeenFile, data: bytes | None, contents: FileContents = WITHOUT_KEYS
) -> FileEntry:
    """Record in the journal, synced, that a file will be replaced by *data*, and return the entry. *seen*: the file as
    it was read. Raises FileError if *contents* could not restore the same bytes from the journal. Raises StoreError,
    EncodeError.
    """
    return operation.record_file(image_of(seen, data, contents))


def clean_up(entries: Iterable[FileEntry], contents: FileContents = WITHOUT_KEYS) -> LeftOvers:
    """Remove the left-overs of interrupted runs beside the files of *entries*, and return them. Pass all entries of the
    journal for a file, so that each former content of it is known. A left-over is removed if it is not complete, or if
    the journal has its bytes. Files of a run that is still going on stay. Raises FileError if a folder cannot be read
    or a left-over cannot be removed.
    """
    known: dict[Path, set[bytes]] = {}
    for entry in entries:
        texts = known.setdefault(Path(entry.image.path), set())
        texts |= known_bytes(_of_this_host(entry), contents)
    found = [_clean_up_beside(place, texts) for place, texts in known.items() if place.parent.is_dir()]
    return LeftOvers(
        tuple(path for each in found for path in each.removed), tuple(path for each in found for path in each.foreign)
    )


def remove_unfinished(place: Path) -> None:
    """Remove the incomplete files that interrupted runs left beside *place*. Raises FileError."""
    _clean_up_beside(place, ())


def refuse_hindered(seen: SeenFile, rights: int | None) -> None:
    """Raise FileError if a file cannot be replaced, for reasons that can be found beforehand."""
    if (reason := hindrance(seen, rights)) is not None:
        raise FileError(reason)


def _of_this_host(entry: FileEntry) -> FileImage:
    if entry.image.host:
        raise FileError(f"{entry.image.path}: is on host {entry.image.host}, not here")
    return entry.image


def _clean_up_beside(place: Path, known: Collection[bytes]) -> LeftOvers:
    removed: list[Path] = []
    foreign: list[Path] = []
    with opened_folder(place) as folder, files.told_as(FileError, f"{place.parent}: cannot be cleaned up"):
        for name in sorted(os.listdir(folder)):
            is_part = is_unfinished(name, place.name)
            if not (is_part or is_beside(name, place.name)) or _is_in_use(folder, name):
                continue
            if is_part or _is_known(folder, place.with_name(name), known):
                os.unlink(name, dir_fd=folder)
                removed.append(place.with_name(name))
            else:
                foreign.append(place.with_name(name))
        if removed:
            os.fsync(folder)
    return LeftOvers(tuple(removed), tuple(foreign))


def _is_in_use(folder: int, name: str) -> bool:
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return True  # its run has just removed it
    with closing_descriptor(descriptor):
        return is_in_use(descriptor)


def _is_known(folder: int, path: Path, known: Collection[bytes]) -> bool:
    try:
        found = found_in(folder, path, path.name)
    except FileError:
        return False
    return found is not None and found.data in known
