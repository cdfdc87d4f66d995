"""What is closed by ``close``, or at the end of a ``with`` statement."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
