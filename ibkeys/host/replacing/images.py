"""The image of a file in the journal: made of what was seen, and its bytes again, with the keys that belong into it."""

from __future__ import annotations

from pathlib import Path

from ibkeys.errors import FileError, KeyGone
from ibkeys.host.replacing.contents import NO_BYTES, FileContents
from ibkeys.host.replacing.looked_up import SeenFile
from ibkeys.store.journal import FileImage


def image_of(seen: SeenFile, data: bytes | None, contents: FileContents, host: str = "") -> FileImage:
    """Return what the journal keeps of a file that *data* shall replace. *host*: where it is, "" for this one.

    Raises FileError when *contents* could not make the same bytes again from what the journal would keep.
    """
    before, after = (_kept(each, seen.path, contents, host) for each in (seen.data, data))
    if seen.found is None:
        return FileImage(str(seen.path), before, after, host=host)
    metadata = seen.found.metadata
    owner = (metadata.uid, metadata.gid)
    return FileImage(str(seen.path), before, after, metadata.mode, *owner, metadata.attributes, host)


def known_bytes(image: FileImage, contents: FileContents) -> set[bytes]:
    """Return all bytes that the file had, as far as the journal keeps them, and the key store their keys."""
    # Whatever the caller says about the file: the reference is never to be written into it.
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
