"""Where test data comes from: ``tests/data`` and every folder that IBKEYS_CORPUS names (separated as PATH is).

A corpus is a folder with ``vectors/`` and, if it likes, ``fabrics/`` and more, laid out as ``tests/data`` is. A folder
that is named but not there is an error: a check that did not run must not look green.
"""

from __future__ import annotations

import filecmp
import json
import os
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"
LARGE = 100_000
"""The bytes of a net file with about 100 nodes."""


def corpora() -> list[Path]:
    """Return ``tests/data`` and the user's own corpora."""
    named = [Path(folder) for folder in os.environ.get("IBKEYS_CORPUS", "").split(os.pathsep) if folder]
    for folder in named:
        if not folder.is_dir():
            raise FileNotFoundError(f"IBKEYS_CORPUS names {folder}, which is no folder")
    return [DATA, *named]


def files(pattern: str) -> list[Path]:
    """Return the files of all corpora that match a glob *pattern*, such as ``vectors/fields_*.json``.

    A file with the bytes of the one in ``tests/data`` is returned once: testing it again would prove nothing.
    """
    found = [file for folder in corpora() for file in sorted(folder.glob(pattern)) if not _is_copy(file, folder)]
    if not found:
        raise FileNotFoundError(f"no corpus has {pattern}")
    return found


def fabrics(most: int | None = None) -> list[Any]:
    """Return the fabrics of all corpora for ``parametrize``: `make test` runs those of less than `LARGE` bytes, and
    `make soak` all of less than *most*.
    """
    sizes = {file: file.stat().st_size for file in files("fabrics/*.net")}
    return [
        pytest.param(file, id=label(file), marks=() if size < LARGE else pytest.mark.soak)
        for file, size in sizes.items()
        if most is None or size < most
    ]


def _is_copy(file: Path, folder: Path) -> bool:
    own = DATA / file.relative_to(folder)
    return folder != DATA and own.exists() and filecmp.cmp(file, own, shallow=False)


def label(file: Path) -> str:
    """Return a test's id for *file*: the corpus and the file's name."""
    return f"{file.parent.parent.name}/{file.stem}"


def load(file: Path) -> dict[str, Any]:
    """Return the JSON object in *file*."""
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def number(value: Any) -> Any:
    """Return a vector's value as an int, or a tuple of ints: numbers wider than 53 bits stand there as hex strings."""
    if isinstance(value, list):
        return tuple(number(element) for element in value)
    return int(value, 0) if isinstance(value, str) else value
