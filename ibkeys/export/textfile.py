"""The text file for node_exporter's textfile collector."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from ibkeys import files
from ibkeys.errors import FileError

MODE = 0o644
"""Readable by another user: node_exporter's."""


def check_textfile(path: Path) -> None:
    """Raise FileError if no text file can be written at *path*: the path has another kind of file, or its folder does
    not exist.
    """
    with _as_one_error(path):
        files.check_output(path)
        if not path.parent.is_dir():
            raise NotADirectoryError(0, f"{path.parent} is not a directory")


def write_textfile(path: Path, page: bytes) -> None:
    """Replace *path* by *page* atomically, with mode 0644. Raises FileError; the former file then stays.

    The name of the temporary file beside it is not one that the collector reads (``*.prom``).
    """
    check_textfile(path)
    with _as_one_error(path):
        files.replace_file(path, page, MODE)


def _as_one_error(path: Path) -> AbstractContextManager[None]:
    return files.os_errors_as(FileError, f"{path}: the text file cannot be written here")
