"""A process that dies at its n-th step, for every n, each time in a folder of its own."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NoReturn

CRASHED = 77


def crash() -> NoReturn:
    """End this process as a crash does: nothing is tidied up."""
    os._exit(CRASHED)


def at_each_step(directory: Path, work: Callable[[Path, int], None], stride: int = 1) -> None:
    """Do *work* in children of this process until one of them comes to its end: each gets a folder, which is called as
    its number, and the number of steps after which it is to `crash`. ``end`` in *directory* has the last number.
    """
    for number in count(0, stride):
        place = directory / str(number)
        place.mkdir()
        child = os.fork()
        if child == 0:
            _do(work, place, number)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            (directory / "end").write_text(str(number))
            return
        if code != CRASHED:
            raise SystemExit(f"step {number} in {place} ended with {code}")


def _do(work: Callable[[Path, int], None], place: Path, number: int) -> NoReturn:
    try:
        work(place, number)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
