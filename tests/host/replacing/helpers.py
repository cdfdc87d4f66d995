"""What the tests of replacing share: policies, processes and file systems of their own, what a folder holds, and a file
with keys."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ibkeys import files
from ibkeys.errors import FileError
from ibkeys.host.replacing import hindrances
from ibkeys.host.replacing.conversions import FileConversions
from ibkeys.host.replacing.file_to_replace import look

KEY, REFERENCE = b"0xfeed", b"key:7"
WITH_KEYS = FileConversions(
    record=lambda data: data.replace(KEY, REFERENCE),
    restore=lambda data: data.replace(REFERENCE, KEY),
    mask=lambda data: re.sub(rb"0x[0-9a-f]+", b"***", data),
)
ROOT = Path(__file__).parents[3]
OLD, NEW, THEIRS = b"Default=0x7fff : ALL ;\n", b"Default=0x7fff : ALL=full ;\n", b"# theirs\n"


def run_python(code: str, *arguments: object, unshare: bool = False) -> str:
    """Run *code* in a process of its own and return what it prints; with *unshare* in its own mount namespace."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    if unshare:
        command = ["unshare", "-m" if os.geteuid() == 0 else "-Urm", *command]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def what_hinders(path: Path, limit: int = files.LIST) -> str | None:
    """Return why the file that *path* leads to cannot be replaced, None when nothing stands in the way."""
    try:
        return hindrances.hindrance_to_replacing(look(path, limit))
    except FileError as error:
        return str(error)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
