"""System calls that hide files from this process and drop its privileges. Their errors are raised as OSError."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from ibkeys.errors import LibraryMissing


def library() -> Any:
    """Return the functions of the extension. Raises LibraryMissing if ibkeys was built without it."""
    try:
        from ibkeys.sim.hosted import kernel
    except ImportError as error:
        raise LibraryMissing(
            f"programs on simulated hosts need the extension of ibkeys, which was not built ({error})", 0
        ) from None
    return kernel.lib


def call(function: Callable[..., int], *arguments: object) -> int:
    """Call a function of `library` and return its result. Raises OSError if it is negative. Text arguments are encoded,
    None becomes NULL."""
    from ibkeys.sim.hosted.kernel import ffi

    result = function(*(_as_c(each) for each in arguments))
    if result < 0:
        raise OSError(ffi.errno, os.strerror(ffi.errno))
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system of type *kind* at *target*, or with a flag bind or move one. Raises OSError, which names
    *target*, and LibraryMissing."""
    try:
        call(library().mount, source, target, kind or None, flags, options or None)
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from None


def give_up_privileges() -> None:
    """Drop all capabilities, and let no program that this process executes get any, by setuid, file capabilities or as
    root.

    Raises OSError, LibraryMissing.
    """
    call(library().ibkeys_drop_capabilities)
    call(library().ibkeys_no_new_privileges)


def die_with_parent() -> None:
    """Let the kernel kill this process when the thread that created it ends. Raises OSError, LibraryMissing.

    The parent may have ended before this call, which the caller has to check.
    """
    call(library().ibkeys_die_with_parent)


_NULL: Final = None


def _as_c(value: object) -> object:
    from ibkeys.sim.hosted.kernel import ffi

    if value is _NULL:
        return ffi.NULL
    return os.fsencode(value) if isinstance(value, str) else value
