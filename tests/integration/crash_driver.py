"""Run by `crashes` with crashpoint.c preloaded: ``ibkeys`` that counts its points, or dies at one.

Arguments: ``count`` or ``kill``; at which point; a file for the points passed, a line with the kind of each; the folder
of journal and key store; and those of ibkeys. A kind is the call and the lines of ibkeys that led to it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import ibkeys.store.paths
from ibkeys.cli import main
from tests.crashpoints import shim


def run(mode: str, point: str, result: str, stores: str, *words: str) -> None:
    kinds: list[str] = []
    if mode == "count":
        shim.tell(lambda call: kinds.append(" ".join([call, *lines(inspect.currentframe())])))
    sys.argv = ["ibkeys", *words]
    ibkeys.store.paths.default_directory = lambda: Path(stores)
    shim.begin(mode, int(point))
    try:
        main()
    finally:
        shim.begin("off", 0)
        Path(result).write_text("".join(f"{kind}\n" for kind in kinds))


def lines(frame: FrameType | None) -> Iterator[str]:
    """Return the lines of ibkeys that are being executed, the innermost first."""
    while frame is not None:
        name = frame.f_code.co_filename
        if "/ibkeys/" in name:
            yield f"{name.rpartition('/ibkeys/')[2]}:{frame.f_lineno}"
        frame = frame.f_back


if __name__ == "__main__":
    run(*sys.argv[1:])
