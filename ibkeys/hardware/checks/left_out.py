"""Assumptions that no reading can check: each is named in the report, with the reason."""

from __future__ import annotations

from typing import Final

from ibkeys.hardware.check import Answer, Basis, Check, not_checked
from ibkeys.hardware.look import Look

_VIOLATES: Final = "it would count a violation and tell the subnet manager"
_SETS: Final = "it would change a key"
_LEFT_OUT: Final[tuple[tuple[str, Basis, str, str], ...]] = (
    ("m-key.wrong-key", "simulator", "an SMP with a wrong M_Key is dropped, counted, and trap 256 is sent", _VIOLATES),
    ("m-key.lease", "simulator", "the lease starts with a wrong M_Key and opens the port at its end", _VIOLATES),
    (
        "p-key.inbound-check",
        "guess",
        "an inbound check of a switch port compares the partition, and the memberships too",
        "it would take traffic between two hosts of different partitions",
    ),
    ("class-keys.two-keys", "guess", "with 'dual key' the old and the new key count while a key changes", _SETS),
    ("class-keys.lease", "guess", "leases of class keys start, stop and end as those of M_Keys", _VIOLATES),
    (
        "class-keys.without-key",
        "guess",
        "Get(KeyInfo) without the key costs a violation in classes 0x0A, 0x0C and 0x21",
        _VIOLATES + "; ibkeys classkey-show --ask-unkeyed asks",
    ),
    (
        "class-keys.neighbours",
        "unknown",
        "whether block 0 of the N2N neighbour table begins with port 0 or port 1",
        "the table holds keys of other nodes in clear",
    ),
    (
        "virtual-ports.p-keys",
        "guess",
        "AttributeModifier of VPortPKeyTable: index in bits 31..16, block in bits 15..0",
        "with the halves swapped the answer would look right and be another port's",
    ),
    (
        "traps.reports",
        "standard",
        "the SA sends Reports of traps 256 to 259 to whoever subscribed with its SM_Key",
        "a subscription changes the SA, and a trap needs a violation; ibkeys watch shows both",
    ),
)


def _check(id: str, basis: Basis, assumed: str, why: str) -> Check:
    def look(_look: Look) -> Answer:
        return not_checked(why)

    return Check(id, basis, assumed, look)


CHECKS: Final = tuple(_check(*row) for row in _LEFT_OUT)
