"""Writing the file of a report: a compressed tar archive. No user or host is named in its metadata."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.errors import FileError
from ibkeys.hardware.archive.key_forms import KeyForms

_FOLDER: Final = "ibkeys-hardware"
"""The folder that all files of the archive are in."""
_LEFT_OUT: Final = b"left out: a key stood in this file\n"
_HEAD_SIZE: Final = 1024
"""The number of bytes at the start of a file that are enough to recognize an earlier report."""


def check_place(path: Path) -> None:
    """Check that the archive can be written to *path*, before anything is sent to the fabric. Raises FileError.

    An existing file is replaced only if it is empty or an earlier report: a mistyped name must not destroy a policy or
    a key store.
    """
    with _as_one_error(path):
        files.check_output(path)
        _refuse_other_file(path)
        if not path.parent.is_dir():
            raise FileError(f"{path}: there is no directory {path.parent}")
        file, name = files.create_beside(path)
        file.close()
        os.unlink(name)


def write_archive(path: Path, contents: Mapping[str, bytes], keys: KeyForms) -> None:
    """Write the archive *path*, with mode 0600, in place of an earlier report. *contents*: names and data of its files.

    A file whose data contain one of *keys* has a line in their place that says so. Raises FileError; an existing file
    is then unchanged.
    """
    checked = {name: _LEFT_OUT if keys.in_bytes(data) else data for name, data in contents.items()}
    with _as_one_error(path):
        _refuse_other_file(path)
        files.replace_file(path, _packed(checked))


def as_json(document: Any) -> bytes:
    """Return *document* as JSON, the data of a file."""
    return (json.dumps(document, indent=1) + "\n").encode()


def _refuse_other_file(path: Path) -> None:
    head = files.read_head(path, _HEAD_SIZE) if path.exists() else b""
    if head and not _is_report(head):
        raise FileError(f"{path}: exists and is not a report of ibkeys, so it is not replaced; name another file")


def _is_report(head: bytes) -> bool:
    """Return whether a file that begins with *head* is an archive of `write_archive`."""
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head).startswith(f"{_FOLDER}/".encode())
    except zlib.error:
        return False


def _packed(contents: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in contents.items():
            entry = tarfile.TarInfo(f"{_FOLDER}/{name}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _as_one_error(path: Path) -> AbstractContextManager[None]:
    return files.os_errors_as(FileError, f"{path}: the report cannot be written")
