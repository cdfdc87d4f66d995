"""P_Keys: membership, and which ports may communicate (IBA 10.9)."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Final, Literal, Self, get_args

from ibkeys.errors import EncodeError
from ibkeys.keys.number import parse_number, quoted

FULL_BIT: Final = 0x8000
PARTITION_MASK: Final = 0x7FFF

Membership = Literal["full", "limited"]

InboundCheck = Literal["partition", "membership"]
"""The rule of inbound enforcement: which entry of a switch port's table accepts a packet that comes from its link.

``partition``: an entry of the packet's partition, whatever the memberships are. ``membership``: an entry that matches
(`may_talk`), so that a limited entry does not accept a limited P_Key.

The text of IBA was not available, so which rule a switch follows is an assumption, and a setting (``--inbound-check``).
The rules differ only for a packet with a limited P_Key at a switch port that has only the limited P_Key itself.
"""
INBOUND_CHECKS: Final[tuple[InboundCheck, ...]] = get_args(InboundCheck)
DEFAULT_INBOUND_CHECK: Final[InboundCheck] = "partition"
"""The rule that is assumed. OpenSM copies the table of an end port to its leaf port. By the other rule, every limited
member would then be cut off from the SA under part_enforce both, and sites run that setting.

With this default no open path goes unreported: every packet that passes the other rule passes this one.
"""


class PKey(int):
    """A 16-bit P_Key: bit 15 is the membership, bits 14..0 the partition (IBA 10.9.1).

    Equal to, and usable as, its number. Partition 0 (0x0000, 0x8000) is the invalid key: an empty table entry.
    """

    __slots__ = ()

    def __new__(cls, value: int) -> Self:
        """Raises EncodeError for a value outside 0..0xffff."""
        if not 0 <= value <= 0xFFFF:
            raise EncodeError(f"P_Key {hex(value)} does not fit 16 bits")
        return super().__new__(cls, operator.index(value))  # a fraction, which int() would cut, is a TypeError

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0x8001``, a decimal number, or ``0x1:full`` and ``0x1:limited``.

        In a spelling with a colon the number is the partition, 1 to 0x7fff. A leading zero (``010``) is refused. Raises
        EncodeError.
        """
        number, colon, word = text.strip().partition(":")
        value = parse_number(number, "P_Key", 16)
        if not colon:
            return cls(value)
        if word not in ("full", "limited"):
            raise EncodeError(f"membership {quoted(word)} of P_Key {number} is neither full nor limited")
        if not 0 < value <= PARTITION_MASK:
            raise EncodeError(f"partition {number} is not in 0x1..0x7fff")
        return cls(value | (FULL_BIT if word == "full" else 0))

    @property
    def partition(self) -> int:
        """The partition number: the low 15 bits."""
        return self & PARTITION_MASK

    @property
    def is_full(self) -> bool:
        """Whether bit 15 is set."""
        return bool(self & FULL_BIT)

    @property
    def is_valid(self) -> bool:
        """Whether the partition is not 0. An invalid key matches nothing."""
        return bool(self & PARTITION_MASK)

    @property
    def is_default(self) -> bool:
        """Whether this is the default partition, full (0xffff) or limited (0x7fff)."""
        return self & PARTITION_MASK == PARTITION_MASK

    @property
    def membership(self) -> Membership:
        """``full`` or ``limited``."""
        return "full" if self & FULL_BIT else "limited"

    def matches(self, other: int) -> bool:
        """Return whether a port with this key may talk to one with *other*: see `may_talk`."""
        return may_talk(self, other)

    def __str__(self) -> str:
        return f"0x{int(self):04x}"

    def __repr__(self) -> str:
        return f"PKey({self})"


DEFAULT_FULL: Final = PKey(0xFFFF)
DEFAULT_LIMITED: Final = PKey(0x7FFF)
EMPTY: Final = PKey(0)


def may_talk(a: int, b: int) -> bool:
    """Return whether two P_Keys match: same partition, not partition 0, and at least one full member (IBA 10.9.3)."""
    return (a ^ b) & PARTITION_MASK == 0 and a & PARTITION_MASK != 0 and (a | b) & FULL_BIT != 0


def explain_match(a: PKey, b: PKey) -> str:
    """Return in words why ports with these P_Keys may or may not talk (IBA 10.9.1.1, 10.9.3)."""
    for key in (a, b):
        if not key.is_valid:
            return f"no: {key} is the invalid P_Key (partition 0), an empty entry; it matches nothing"
    if a.partition != b.partition:
        return f"no: partitions differ (0x{a.partition:04x} and 0x{b.partition:04x})"
    if a.is_full or b.is_full:
        who = "both are full members" if a.is_full and b.is_full else f"{a if a.is_full else b} is a full member"
        return f"yes: same partition 0x{a.partition:04x}, and {who}"
    return f"no: same partition 0x{a.partition:04x}, but both are limited members"


def match_in_table(key: int, table: Iterable[int]) -> int | None:
    """Return the index of the first entry of *table* that *key* matches, or None (the rule for QP1, IBA 10.9.8)."""
    return next((index for index, entry in enumerate(table) if may_talk(key, entry)), None)


def match_inbound(key: int, table: Iterable[int], check: InboundCheck = DEFAULT_INBOUND_CHECK) -> int | None:
    """Return the index of the entry in *table* by which a switch port with inbound enforcement accepts *key*.

    The packet comes from the link of the port. None means that the port drops the packet. *check*: the assumed rule,
    see `InboundCheck`. By ``partition``, the default, a limited entry accepts a limited P_Key. Two limited members
    still cannot talk: the switch port that the receiver is linked to, and the receiver, drop the packet
    (`match_in_table`).
    """
    if check == "membership":
        return match_in_table(key, table)
    if not key & PARTITION_MASK:
        return None
    return next((index for index, entry in enumerate(table) if (entry ^ key) & PARTITION_MASK == 0), None)


def explain(key: PKey) -> str:
    """Return the meaning of one P_Key in words."""
    if not key.is_valid:
        extra = "" if key == 0 else "; write the empty entry as 0x0000"
        return f"invalid P_Key (partition 0): an empty table entry, matches nothing{extra}"
    if key.is_default:
        talk = (
            "every member"
            if key.is_full
            else "full members only; it reaches the SA only if the SM's port is a full member"
        )
        return f"default partition 0x7fff, {key.membership} member: may talk to {talk}"
    talk = "full and limited members" if key.is_full else "full members only, not to other limited members"
    return f"partition 0x{key.partition:04x}, {key.membership} member: may talk to {talk}"


def entry_documents(occupied: Iterable[tuple[int, PKey]] | None) -> list[dict[str, Any]] | None:
    """Return the entries of a P_Key table that are in use for a JSON document: index, P_Key, partition, membership.

    *occupied*: the index and P_Key of each of them; None, which is returned as None, for a table that was not read.
    """
    if occupied is None:
        return None
    return [
        {"index": index, "pkey": str(key), "partition": f"0x{key.partition:04x}", "membership": key.membership}
        for index, key in occupied
    ]
