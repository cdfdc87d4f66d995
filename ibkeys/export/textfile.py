"""The text file for node_exporter's textfile collector."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from ibkeys import files
from ibkeys.errors import FileError

MODE = 0o644
"""Another user reads it."""


def check_textfile(path: Path) -> None:
    """Raise FileError if no text file can be put at *path*: something else is there, or there is no such folder."""
    with _told(path):
        files.check_output(path)
        if not path.parent.is_dir():
            raise NotADirectoryError(0, f"{path.parent} is not a directory")


def write_textfile(path: Path, page: bytes) -> None:
    """Put *page* in place of *path* atomically, mode 0644. Raises FileError; what was there is there then.

    The file beside it that it is written to has no name that the collector reads (``*.prom``).
    """
    check_textfile(path)
    with _told(path):
        files.replace_file(path, page, MODE)


def _told(path: Path) -> AbstractContextManager[None]:
    return files.told_as(FileError, f"{path}: the text file cannot be written here")
