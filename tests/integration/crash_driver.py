"""Run by `crashes` with crashpoint.c preloaded: ``ibkeys`` that counts its points, or dies at one.

Arguments: ``count`` or ``kill``; at which point, a number or one of `MOMENTS`; a file for the points passed, a line
with the kind of each; the folder of journal and key store; and those of ibkeys. A kind is the call and the lines of
ibkeys that led to it.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import ibkeys.host.replacing.mounts
import ibkeys.store.paths
from ibkeys.cli import main
from tests.crashpoints import shim

Moment = Callable[[str, str, set[str]], bool]
"""Whether a point is the moment: by its call, its kind, and the functions of the stores that led to it."""


def _replaces(call: str, kind: str, functions: set[str]) -> bool:
    return call in ("renameat", "renameat2") and "host/replacing/" in kind


def _signals(call: str, kind: str, functions: set[str]) -> bool:
    return call == "syscall" and "local_processes" in kind


def _has_signalled(call: str, kind: str, functions: set[str]) -> bool:
    return call == "after" and "local_processes" in kind


def _closes(call: str, kind: str, functions: set[str]) -> bool:
    return "store/" in kind and not functions.isdisjoint({"set_state", "finish", "promote"})


def _second(moment: Moment) -> Moment:
    """Return the second point that is *moment*."""
    passed = 0

    def is_second(call: str, kind: str, functions: set[str]) -> bool:
        nonlocal passed
        passed += moment(call, kind, functions)
        return passed == 2

    return is_second


MOMENTS: Final[dict[str, Moment]] = {
    "before the first file": _replaces,
    "before the first signal": _signals,
    "before the second signal": _second(_signals),
    "after the first signal": _has_signalled,
    "before its record is closed": _closes,
}
"""Moments of a change through OpenSM at which it can die: the first point that is one."""


def run(mode: str, point: str, result: str, stores: str, *words: str) -> None:
    kinds: list[str] = []
    if mode == "count":
        shim.tell(lambda call: kinds.append(" ".join([call, *lines(inspect.currentframe())])))
    if point in MOMENTS:
        moment = MOMENTS[point]
        shim.tell(lambda call: die_at(moment, call))
        mode, point = "count", "0"
    sys.argv = ["ibkeys", *words]
    ibkeys.host.replacing.mounts.is_layer = lambda kind: False  # the tests may run in a container
    ibkeys.store.paths.default_directory = lambda: Path(stores)
    shim.begin(mode, int(point))
    try:
        main()
    finally:
        shim.begin("off", 0)
        Path(result).write_text("".join(f"{kind}\n" for kind in kinds))


def die_at(moment: Moment, call: str) -> None:
    """Let this process die if this point is the moment."""
    kind = " ".join([call, *lines(inspect.currentframe())])
    if moment(call, kind, set(store_functions(inspect.currentframe()))):
        os.kill(os.getpid(), signal.SIGKILL)


def store_functions(frame: FrameType | None) -> Iterator[str]:
    """Return the functions of the stores that are being executed."""
    while frame is not None:
        if "/ibkeys/store/" in frame.f_code.co_filename:
            yield frame.f_code.co_name
        frame = frame.f_back


def lines(frame: FrameType | None) -> Iterator[str]:
    """Return the lines of ibkeys that are being executed, the innermost first."""
    while frame is not None:
        name = frame.f_code.co_filename
        if "/ibkeys/" in name:
            yield f"{name.rpartition('/ibkeys/')[2]}:{frame.f_lineno}"
        frame = frame.f_back


if __name__ == "__main__":
    run(*sys.argv[1:])
