"""A 64-bit key that is a secret: the base class of M_Key, SM_Key and the keys of other management classes."""

from __future__ import annotations

import operator
from typing import ClassVar, Self

from ibkeys.errors import EncodeError
from ibkeys.keys.number import parse_secret_number


class Secret64:
    """A 64-bit key. It masks itself in ``str``, ``repr`` and ``format``; only `reveal` and `hex` return the number.

    Comparable and hashable, so that code can find ports that share a key without showing it. Keys of different kinds
    are never equal. Pickling a key raises TypeError. ``name``: the name of the kind, such as M_Key.
    """

    __slots__ = ("__value",)
    name: ClassVar[str]

    def __init__(self, value: int) -> None:
        """Raises EncodeError for a value outside 64 bits; the message does not show it."""
        if not 0 <= value < 1 << 64:
            raise EncodeError(f"{self.name} does not fit 64 bits (value not shown)")
        self.__value = operator.index(value)  # a fraction is a TypeError

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0x...`` or decimal. Raises EncodeError; the message does not show the text."""
        return cls(parse_secret_number(text, cls.name, 64))

    @classmethod
    def generate(cls) -> Self:
        """Return a new non-zero key from the system's cryptographic random source."""
        import secrets  # takes longer to load than most commands need to read their options

        return cls(1 + secrets.randbelow((1 << 64) - 1))

    def reveal(self) -> int:
        """Return the number. A key can leak at every call of this method, so keep the calls few."""
        return self.__value

    @property
    def is_zero(self) -> bool:
        """Whether this is the key 0, which means no key."""
        return self.__value == 0

    def hex(self) -> str:
        """Return ``0x`` and 16 hex digits: only for files of mode 0600, and for output in which the user requested
        keys."""
        return f"0x{self.__value:016x}"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Secret64) and other.__value == self.__value

    def __hash__(self) -> int:
        return hash((type(self), self.__value))

    def __repr__(self) -> str:
        return f"<{self.name} not shown>"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"an {self.name} is not pickled")
