"""The file of a report: a tar archive, compressed, that names no user and no host."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.errors import FileError
from ibkeys.hardware.archive.key_forms import KeyForms

FOLDER: Final = "ibkeys-hardware"
"""The folder that all files of the archive are in."""
_LEFT_OUT: Final = b"left out: a key stood in this file\n"


def check_place(path: Path) -> None:
    """Look whether the archive can be written to *path*, before anything is asked of the fabric. Raises FileError."""
    try:
        files.check_output(path)
        if not path.parent.is_dir():
            raise FileError(f"{path}: there is no directory {path.parent}")
        file, name = files.create_beside(path)
        file.close()
        os.unlink(name)
    except OSError as error:
        raise _error(path, error) from error


def write_archive(path: Path, contents: Mapping[str, bytes], keys: KeyForms) -> None:
    """Put the files *contents*, by name, into the archive *path*, of mode 0600, in place of what was there.

    A file in which one of *keys* stands is replaced by a line that says so. Raises FileError; what was there stays.
    """
    checked = {name: _LEFT_OUT if keys.in_bytes(data) else data for name, data in contents.items()}
    try:
        files.replace_file(path, _packed(checked))
    except OSError as error:
        raise _error(path, error) from error


def as_json(document: Any) -> bytes:
    """Return a document as the text of a file."""
    return (json.dumps(document, indent=1) + "\n").encode()


def _packed(contents: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in contents.items():
            about = tarfile.TarInfo(f"{FOLDER}/{name}")
            about.size, about.mode = len(data), 0o644
            archive.addfile(about, io.BytesIO(data))
    return packed.getvalue()


def _error(path: Path, error: OSError) -> FileError:
    return FileError(f"{path}: the report cannot be written: {error.strerror or error}")
