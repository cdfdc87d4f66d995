"""Run by test_crash.py: one replacement that dies at its n-th call of the system, for every n, each in its own folder.

``end`` says which folder is the last; in that one the replacement came to its end.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ibkeys.errors import FileError
from ibkeys.host.replacing import renames
from ibkeys.host.replacing.file_to_replace import look
from ibkeys.host.replacing.replace import replace
from ibkeys.store.journal import Journal
from tests.dying import at_each_step, crash

OLD, NEW, THEIRS = b"old\n" * 1000, b"new\n" * 1000, b"theirs\n"
CALLS = ("open", "close", "write", "fsync", "fchown", "fchmod", "setxattr", "getxattr", "listxattr", "fstat", "stat",
         "rename", "link", "unlink", "pread")  # fmt: skip
KINDS = ("replace", "create", "remove", "race", "race with removal")

calls_left = -1  # negative: not counting


def counted(call: Callable[..., Any]) -> Callable[..., Any]:
    def counting(*arguments: Any, **named: Any) -> Any:
        global calls_left
        if calls_left == 0:
            crash()
        calls_left -= 1
        return call(*arguments, **named)

    return counting


def lacking(*_: Any) -> None:
    raise OSError(errno.ENOSYS, "Function not implemented")


def racing(call: Callable[..., Any], file: Path) -> Callable[..., Any]:
    """Let somebody else put a file in place right before the first *call*."""

    def raced(*arguments: Any, **named: Any) -> Any:
        global calls_left
        other = file.with_name("editor's")
        if arguments[1] != file.name and arguments[0] != file.name:  # the new file becomes complete
            return call(*arguments, **named)
        if not file.with_name("raced").exists():
            kept, calls_left = calls_left, -1
            other.write_bytes(THEIRS)
            other.rename(file)
            file.with_name("raced").touch()
            calls_left = kept
        return call(*arguments, **named)

    return raced


def run(kind: str, way: str, folder: Path, crash_at: int) -> None:
    global calls_left
    file = folder / "policy"
    if kind != "create":
        file.write_bytes(OLD)
        file.chmod(0o640)
        os.setxattr(file, "user.note", b"kept")
    if way == "rename only":
        renames.renameat2 = lacking
    data = None if kind in ("remove", "race with removal") else NEW
    with Journal(folder / "journal.db") as journal, journal.operation("apply") as operation:
        seen = look(file)
        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        renames.renameat2 = counted(renames.renameat2)
        if kind == "race":
            real = renames.renameat2
            renames.renameat2 = lambda at, *rest: racing(lambda *names: real(at, *names), file)(*rest)
        if kind == "race with removal":
            os.rename = racing(os.rename, file)
        calls_left = crash_at
        try:
            replace(operation, seen, data)
        except FileError:
            if not kind.startswith("race"):
                raise
        calls_left = -1


def main(kind: str, way: str, directory: Path) -> None:
    at_each_step(directory, lambda folder, number: run(kind, way, folder, number))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
