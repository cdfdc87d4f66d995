"""crashpoint.c: how a test preloads it, and how the driver that has it says what is to happen at its points."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("crashpoint.c")
ROOT: Final = SOURCE.parents[2]
MODES: Final = {"off": 0, "count": 1, "kill": 2, "full": 3, "sync": 4}
"""``full``: the disk is full from that point on; ``sync``: fsync fails."""


def compiled(folder: Path) -> Path:
    """Return crashpoint.c as a library in *folder*."""
    compiler = shutil.which("cc")
    assert compiler is not None, "no C compiler: apt-get install gcc libc6-dev"
    library = folder / "crashpoint.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def drive(library: Path, driver: Path, *words: object) -> str:
    """Run a driver with the library preloaded; an AssertionError with its last line when a point went wrong."""
    done = subprocess.run(
        [sys.executable, str(driver), *map(str, words)],
        env={"PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    return done.stdout


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A temporary folder in memory where there is such a place: a killed process needs no disk to lose nothing, and the
    tests are short."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


# --- in the driver ----------------------------------------------------------------------------------------------------

_shim: Final = ctypes.CDLL(None)
_TOLD: Final = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
_listeners: Final[list[object]] = []
"""Kept, because C has only their addresses."""


def begin(mode: str, point: int) -> None:
    """From now on count points, and do what *mode* says when *point* of them have passed."""
    _shim.crash_mode(MODES[mode], ctypes.c_long(point))


def pass_point() -> None:
    """Pass a point that is no system call."""
    _shim.crash_point()


def passed() -> int:
    """Return how many points were passed since `begin`."""
    return int(_shim.crash_points())


def tell(listener: Callable[[str], None]) -> None:
    """Let *listener* be called at each point that is counted, with the name of its system call."""
    told = _TOLD(lambda call: listener(call.decode()))
    _listeners.append(told)
    _shim.crash_tell(told)
