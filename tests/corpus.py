"""Where test data comes from: ``tests/data`` and every folder that IBKEYS_CORPUS names (separated as PATH is).

A corpus is a folder with ``vectors/`` and, if it likes, ``fabrics/`` and more, laid out as ``tests/data`` is. A folder
that is named but not there is an error: a check that did not run must not look green.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def corpora() -> list[Path]:
    """Return ``tests/data`` and the user's own corpora."""
    named = [Path(folder) for folder in os.environ.get("IBKEYS_CORPUS", "").split(os.pathsep) if folder]
    for folder in named:
        if not folder.is_dir():
            raise FileNotFoundError(f"IBKEYS_CORPUS names {folder}, which is no folder")
    return [DATA, *named]


def files(pattern: str) -> list[Path]:
    """Return the files of all corpora that match a glob *pattern*, such as ``vectors/fields_*.json``."""
    found = [file for folder in corpora() for file in sorted(folder.glob(pattern))]
    if not found:
        raise FileNotFoundError(f"no corpus has {pattern}")
    return found


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
