"""Run by `crashes` with crashpoint.c preloaded: ``ibkeys`` that counts its points, or dies at one.

Arguments: ``count`` or ``kill``; at which point; a file for the number of points passed; the folder of journal and key
store; and those of ibkeys.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import ibkeys.store.paths
from ibkeys.cli import main

MODES = {"off": 0, "count": 1, "kill": 2}


def run(mode: str, point: str, result: str, stores: str, *words: str) -> None:
    shim = ctypes.CDLL(None)
    sys.argv = ["ibkeys", *words]
    ibkeys.store.paths.default_directory = lambda: Path(stores)
    shim.crash_mode(MODES[mode], int(point))
    try:
        main()
    finally:
        passed = shim.crash_points()
        shim.crash_mode(MODES["off"], 0)
        Path(result).write_text(str(passed))


if __name__ == "__main__":
    run(*sys.argv[1:])
