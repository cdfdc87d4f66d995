"""The image of a file in the journal: making it from a file, and getting the file's bytes with their keys back."""

from __future__ import annotations

from pathlib import Path

from ibkeys.errors import FileError, KeyGone
from ibkeys.host.replacing.conversions import NO_BYTES, FileConversions
from ibkeys.host.replacing.file_to_replace import SeenFile
from ibkeys.store.journal import FileImage


def image_of(seen: SeenFile, data: bytes | None, conversions: FileConversions, host: str = "") -> FileImage:
    """Return the journal's image of a file that will be replaced by *data* (None: removed). *seen*: the file as it was
    read. *host*: the name of the file's host, "" for this one. Raises FileError if *conversions* could not restore the
    same bytes from the image, and the errors of *conversions*.
    """
    before, after = (_recorded(each, seen.path, conversions, host) for each in (seen.data, data))
    if seen.found is None:
        return FileImage(str(seen.path), before, after, host=host)
    metadata = seen.found.metadata
    owner = (metadata.uid, metadata.gid)
    return FileImage(str(seen.path), before, after, metadata.mode, *owner, metadata.attributes, host)


def known_bytes(image: FileImage, conversions: FileConversions) -> set[bytes]:
    """Return the contents of the file before and after the change. A content is left out if the journal does not have
    its bytes, or the key store no longer has a key of it. Raises the other errors of *conversions*."""
    # The text `NO_BYTES` must never be written into the file, whatever *conversions* the caller passes.
    if not conversions.keeps_bytes or NO_BYTES in (image.before, image.after):
        return set()
    known = set()
    for data in (image.before, image.after):
        try:
            known |= {conversions.restore(data)} if data is not None else set()
        except KeyGone:
            continue
    return known


def _recorded(data: bytes | None, path: Path, conversions: FileConversions, host: str) -> bytes | None:
    if data is None:
        return None
    kept = conversions.record(data)
    if conversions.keeps_bytes and conversions.restore(kept) != data:
        at = f"{host}: {path}" if host else path
        raise FileError(f"{at}: its keys cannot all be kept, so the journal could not restore it")
    return kept
