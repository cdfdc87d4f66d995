"""Hiding files by Landlock, for a process that gets no mount namespace: they are there, but cannot be opened.

Landlock allows what is below certain folders. So everything beside the hidden paths is allowed, from the root folder
down to them; what appears later beside them is hidden too. Source: landlock(7).
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
    """Let neither this process nor those that it starts open *paths*, or what is below them.

    The process must not be able to get a privilege. Raises OSError if the kernel has no Landlock.
    """
    lib = library()
    ruleset = call(lib.ibkeys_landlock_create, _ACCESSES)
    try:
        for path in allowed("/", [os.path.realpath(each) for each in paths]):
            _allow(ruleset, path)
        call(lib.ibkeys_landlock_restrict, ruleset)
    finally:
        os.close(ruleset)


def allowed(folder: str, hidden: list[str]) -> Iterator[str]:
    """Yield what is below *folder* and neither hidden nor above something hidden."""
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if entry.path in hidden or entry.is_symlink():
            continue
        if any(each.startswith(f"{entry.path}/") for each in hidden):
            yield from allowed(entry.path, hidden)
        else:
            yield entry.path


def _allow(ruleset: int, path: str) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # it is gone, or closed to this user
        return
    try:
        call(library().ibkeys_landlock_allow, ruleset, opened, _ACCESSES)
    finally:
        os.close(opened)
