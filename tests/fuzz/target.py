"""What a target of the fuzzing is: a function of bytes, which may succeed or raise an `IbkeysError`, nothing else.

A target knows nothing of the driver that makes its inputs, and asserts what else has to hold.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """``run`` takes one input. ``seeds``: inputs to begin with; ``words``: what its grammar is made of.

    ``largest``: bytes of the longest input. ``share``: of the time, as against 1 of most others. ``sample``: inputs of
    `make test`. ``operations``: lines of Python that one input may take, ``memory``: bytes.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()
    largest: int = 4096
    share: int = 1
    sample: int = 100
    operations: int = 2_000_000
    memory: int = 64 << 20


@cache
def folder() -> Path:
    """Return the folder of this process for files that are read: in memory where there is such a place."""
    made = place_of(os.getpid())
    made.mkdir(mode=0o700)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def place_of(process: int) -> Path:
    """Return which `folder` a process has; one that libFuzzer ends leaves it behind."""
    memory = Path("/dev/shm")
    return (memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())) / f"ibkeys-fuzz-{process}"


def written(data: bytes, name: str = "input") -> Path:
    """Write a file into `folder` and return its path. Its mode is 0600: it may be one that holds keys."""
    path = folder() / name
    path.write_bytes(data)
    path.chmod(0o600)
    return path


class Choices:
    """Reads an input from its beginning as choices: numbers, bytes. At its end everything is 0."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        """Whether something is left."""
        return self._at < len(self._data)

    def number(self, size: int = 1) -> int:
        """Return the number of the next *size* bytes."""
        return int.from_bytes(self.take(size))

    def take(self, size: int) -> bytes:
        """Return the next *size* bytes; fewer at the end."""
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken
