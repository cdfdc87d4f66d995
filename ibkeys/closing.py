"""Objects and file descriptors that are closed at the end of a ``with`` statement, and a time limit for a block."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self


class Closing(ABC):
    """Something that must be closed. In a ``with`` statement it is closed at the end of the block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close the object. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[int]:
    """Yield an open descriptor, and close it at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def calling_after(seconds: float, function: Callable[[], object]) -> Iterator[None]:
    """Call *function* in another thread if this block takes longer than *seconds*."""
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
