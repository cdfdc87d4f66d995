"""Files of other users: only root gives a file away, so other users leave them as they are."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")
OWNER, GROUP = (12, 34) if IS_ROOT else (os.geteuid(), os.getegid())
"""Whose a file is that was given away: nobody's in particular."""


def give_away(path: Path) -> None:
    """Give a file to `OWNER` and `GROUP`."""
    os.chown(path, OWNER, GROUP)


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Let this user not search *folder*; root, who may search any, has lost that privilege meanwhile."""
    folder.chmod(0)
    give_back = without(_DAC_OVERRIDE | _DAC_READ_SEARCH) if IS_ROOT else None
    try:
        yield
    finally:
        if give_back is not None:
            give_back()
        folder.chmod(0o700)


_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2
_VERSION_3 = 0x20080522


def without(capabilities: int) -> Callable[[], None]:
    """Take *capabilities* (bits below 32) from this thread's effective ones; return what gives them back.

    Source: capget(2), linux/capability.h: a header of version and thread; effective, permitted and inheritable bits,
    low words first.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, words = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, words) == 0
    before = words[0]

    def become(effective: int) -> None:
        words[0] = effective
        assert libc.capset(header, words) == 0, os.strerror(ctypes.get_errno())

    become(before & ~capabilities)
    return partial(become, before)
