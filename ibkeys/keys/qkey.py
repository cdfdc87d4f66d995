"""Q_Keys: the permitted uses of a value (IBA 10.2.5, 3.5.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.errors import EncodeError
from ibkeys.mad.const import QP1_Q_KEY

IPOIB_DEFAULT_Q_KEY: Final = 0x00000B1B
"""The Q_Key that OpenSM gives an IPoIB broadcast group unless its configuration has another."""

QKeyClass = Literal["unprivileged", "general use", "management", "reserved", "privileged"]


@dataclass(frozen=True, slots=True)
class QKeyMeaning:
    """The class of a Q_Key: ``kind``, whether only a QP's own context may supply it, and ``text`` in words."""

    kind: QKeyClass
    privileged: bool
    text: str


#                 first       last        class           meaning
_RANGES: Final[tuple[tuple[int, int, QKeyClass, str], ...]] = (
    (0x00000000, 0x7FFFFFFF, "unprivileged", "any application may put it in a work request"),
    (0x80000000, 0x8000FFFF, "general use", "privileged (taken from the QP's context only), free for applications"),
    (
        QP1_Q_KEY,
        QP1_Q_KEY,
        "management",
        "the well-known Q_Key of QP1: all general management packets, SA queries included",
    ),
    (0x80010001, 0x8FFFFFFF, "reserved", "privileged and reserved: it has or may get a special meaning"),
    (
        0x90000000,
        0xFFFFFFFF,
        "privileged",
        "privileged (taken from the QP's context only); no further assignment is known",
    ),
)


RULES: Final = (
    (
        "receiver",
        "the receiving queue pair compares it with its own; a datagram with another one is dropped without an error to "
        "the sender. The port may count it (Q_KeyViolations) and send trap 258; many devices never count",
    ),
    (
        "set_by",
        "the program that owns the queue pair sets it there, the members of a multicast group to that of the group, "
        "which the SA tells; no SMP reads or writes it, so ibkeys cannot show or set it",
    ),
    (
        "difference",
        "a P_Key belongs to a port and is set by the subnet manager; a Q_Key belongs to a queue pair, is only in "
        "datagrams (UD, RD), and is checked after the P_Key. It keeps programs apart, "
        "not hosts: any program may choose one without the highest bit",
    ),
)
"""The fact that is true of every Q_Key: its name in documents, and in words (IBA 10.2.5)."""


def classify(q_key: int) -> QKeyMeaning:
    """Return the permitted use of *q_key*. Raises EncodeError when it does not fit 32 bits."""
    for first, last, kind, text in _RANGES:
        if first <= q_key <= last:
            if q_key == IPOIB_DEFAULT_Q_KEY:
                text += "; OpenSM's default for IPoIB broadcast groups"
            return QKeyMeaning(kind, bool(q_key & 0x80000000), text)
    raise EncodeError(f"Q_Key {hex(q_key)} does not fit 32 bits")
