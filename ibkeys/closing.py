"""What is closed by ``close``, or at the end of a ``with`` statement; descriptors of files too."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Closing(ABC):
    """Something that must be closed. In a ``with`` statement it is closed at the end of the block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Close it. Safe to call twice."""

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
