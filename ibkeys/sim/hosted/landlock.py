"""Hiding files by Landlock, for a process that gets no mount namespace: the files exist, but cannot be opened.

Landlock only has rules that allow paths. So each path is allowed that is neither hidden nor contains a hidden path.
Paths that are created later beside the hidden paths cannot be opened either. Source: landlock(7).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

from ibkeys.sim.hosted.linux import call, library

_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_ACCESSES: Final = _WRITE_FILE | _READ_FILE


def hide(paths: Iterable[str]) -> None:
    """Let neither this process nor the processes that it starts open *paths*, or files below them.

    `give_up_privileges` must have been called before. Raises OSError if the kernel has no Landlock; LibraryMissing as
    `library`.
    """
    lib = library()
    ruleset = call(lib.ibkeys_landlock_create, _ACCESSES)
    try:
        for path in allowed_paths("/", [os.path.realpath(each) for each in paths]):
            _allow(ruleset, path)
        call(lib.ibkeys_landlock_restrict, ruleset)
    finally:
        os.close(ruleset)


def allowed_paths(folder: str, hidden: list[str]) -> Iterator[str]:
    """Yield the paths below *folder* that are neither in *hidden* nor contain one of these, without symbolic links and
    without the paths inside a yielded path."""
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.path in hidden or entry.is_symlink():
            continue
        if any(each.startswith(f"{entry.path}/") for each in hidden):
            yield from allowed_paths(entry.path, hidden)
        else:
            yield entry.path


def _allow(ruleset: int, path: str) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # It was removed, or this user may not open it.
        return
    try:
        call(library().ibkeys_landlock_allow, ruleset, opened, _ACCESSES)
    finally:
        os.close(opened)
