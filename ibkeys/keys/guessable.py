"""The traits that make an M_Key guessable: its shape, or being equal to a value that others can know."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final, Literal

from ibkeys.keys.mkey import MKey

Trait = Literal["small", "repeated", "counting", "sample", "all-f", "guid", "sm-key", "shell-random"]
TRAIT_TEXT: Final[Mapping[str, str]] = {
    "small": "fits 32 bits",
    "repeated": "repeats one pattern of at most 16 bits",
    "counting": "its digits count up or down",
    "sample": "appears in public documentation",
    "all-f": "is all ones: NVIDIA's SM takes that as 'choose a random key', another SM uses the value itself",
    "guid": "is a GUID of this fabric",
    "sm-key": "is also the SM_Key",
    "shell-random": "bits 15, 31, 47 and 63 are clear, as in four numbers of a shell's $RANDOM",
}

SAMPLES: Final = frozenset(
    {
        0x1122334455667788,
        0x0011223344556677,
        0x0123456789ABCDEF,
        0xFEDCBA9876543210,
        0xDEADBEEFDEADBEEF,
        0xDEADBEEFCAFEBABE,
        0xCAFEBABEDEADBEEF,
        0xBADC0FFEE0DDF00D,
        0x00C0FFEE00C0FFEE,
        0x1A2B3C4D5E6F7081,
    }
)
"""Keys that examples use, this project's own among them."""
_ALL_F: Final = (1 << 64) - 1
_BITS_CLEAR_IN_SHELL_RANDOM: Final = 1 << 15 | 1 << 31 | 1 << 47 | 1 << 63
SHELL_RANDOM: Final[Trait] = "shell-random"
"""The only trait that a good key often has by chance: one key in 16. So a finding needs several keys with it."""


def guessable_traits(key: MKey, guids: frozenset[int] | set[int] = frozenset(), sm_key: int = 0) -> tuple[Trait, ...]:
    """Return the traits that make *key* guessable; an empty tuple for a key with none of them, and for the key 0.

    *guids*: the GUIDs of the fabric's nodes and ports. *sm_key*: the SM_Key; 0 if it is not known.
    """
    value = key.reveal()
    if not value:
        return ()
    digits = f"{value:016x}"
    checks: dict[Trait, bool] = {
        "all-f": value == _ALL_F,
        "small": value < 1 << 32,
        "repeated": value != _ALL_F and any(digits == digits[:size] * (16 // size) for size in (1, 2, 4)),
        "counting": _has_counting_digits(digits) or _has_counting_bytes(value),
        "sample": value in SAMPLES,
        "guid": value in guids,
        "sm-key": value == sm_key,
        "shell-random": not value & _BITS_CLEAR_IN_SHELL_RANDOM,
    }
    return tuple(trait for trait, holds in checks.items() if holds)


def _has_counting_digits(digits: str) -> bool:
    numbers = [int(digit, 16) for digit in digits]
    steps = {(later - earlier) % 16 for earlier, later in itertools.pairwise(numbers)}
    return steps in ({1}, {15}) or digits in ("1234567890123456", "0123456789012345", "9876543210987654")


def _has_counting_bytes(value: int) -> bool:
    numbers = value.to_bytes(8)
    steps = {(later - earlier) % 256 for earlier, later in itertools.pairwise(numbers)}
    return len(steps) == 1 and steps != {0} and steps <= {1, 0x11, 0xFF, 0xEF}
