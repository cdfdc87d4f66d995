"""The image of a file in the journal: making it from the file that was read, and getting its bytes with their keys
back."""

from __future__ import annotations

from pathlib import Path

from ibkeys.errors import FileError, KeyGone
from ibkeys.host.replacing.contents import NO_BYTES, FileContents
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.store.journal import FileImage


def image_of(seen: SeenFile, data: bytes | None, contents: FileContents, host: str = "") -> FileImage:
    """Return the journal's image of a file that is to be replaced by *data*. *host*: its host, "" for this one. Raises
    FileError if *contents* could not restore the same bytes from the image.
    """
    before, after = (_kept(each, seen.path, contents, host) for each in (seen.data, data))
    if seen.found is None:
        return FileImage(str(seen.path), before, after, host=host)
    metadata = seen.found.metadata
    owner = (metadata.uid, metadata.gid)
    return FileImage(str(seen.path), before, after, metadata.mode, *owner, metadata.attributes, host)


def known_bytes(image: FileImage, contents: FileContents) -> set[bytes]:
    """Return the contents that the file had before and after, if the journal has the bytes and the key store their
    keys."""
    # This text in place of the bytes must never be written into the file, whatever *contents* the caller passes.
    if not contents.keeps_bytes or NO_BYTES in (image.before, image.after):
        return set()
    known = set()
    for data in (image.before, image.after):
        try:
            known |= {contents.restore(data)} if data is not None else set()
        except KeyGone:
            continue
    return known


def _kept(data: bytes | None, path: Path, contents: FileContents, host: str) -> bytes | None:
    if data is None:
        return None
    kept = contents.record(data)
    if contents.keeps_bytes and contents.restore(kept) != data:
        at = f"{host}: {path}" if host else path
        raise FileError(f"{at}: its keys cannot all be kept, so the journal could not restore it")
    return kept
