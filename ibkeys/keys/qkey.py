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
    """The class of a Q_Key.

    ``kind``: the class; ``privileged``: only the QP's context may supply the Q_Key, no work request; ``text``: the
    permitted use in words.
    """

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
        "the receiving queue pair compares the Q_Key of a datagram with its own, and drops a datagram with another one "
        "without an error to the sender. The port may count that (Q_KeyViolations) and send trap 258; many devices "
        "never count",
    ),
    (
        "set_by",
        "the program that owns the queue pair sets its Q_Key; members of a multicast group set the Q_Key of the group, "
        "which they get from the SA. No SMP reads or writes a Q_Key, so ibkeys cannot show or set it",
    ),
    (
        "difference",
        "a P_Key belongs to a port and is set by the subnet manager; a Q_Key belongs to a queue pair, is only in "
        "datagrams (UD, RD), and is checked after the P_Key. A Q_Key separates programs, "
        "not hosts: any program may choose one without the highest bit",
    ),
)
"""Facts that are true of every Q_Key: for each its name in JSON documents, and its text (IBA 10.2.5)."""


def classify(q_key: int) -> QKeyMeaning:
    """Return the permitted use of *q_key*. Raises EncodeError when it does not fit 32 bits."""
    for first, last, kind, text in _RANGES:
        if first <= q_key <= last:
            if q_key == IPOIB_DEFAULT_Q_KEY:
                text += "; OpenSM's default for IPoIB broadcast groups"
            return QKeyMeaning(kind, bool(q_key & 0x80000000), text)
    raise EncodeError(f"Q_Key {hex(q_key)} does not fit 32 bits")
