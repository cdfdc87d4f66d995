"""Assumptions that no query can check: each is named in the report, with the reason."""

from __future__ import annotations

from typing import Final

from ibkeys.hardware.check import Basis, DeviceCheck, not_checked

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
        _VIOLATES + "; `ibkeys classkey-show --ask-unkeyed` asks",
    ),
    (
        "class-keys.hidden",
        "unknown",
        "a CC_Key or VS_Key with its protect bit is answered as 0, or its Get is dropped",
        _VIOLATES + ", unless the key is known, and then it is shown",
    ),
    (
        "class-keys.capabilities",
        "guess",
        "Get(ClassPortInfo) of classes 0x0A, 0x0C and 0x21 needs no key; its bit 0x0100: keys are supported",
        _VIOLATES + ", if it does need one",
    ),
    (
        "class-keys.counters",
        "unknown",
        "whether a Set of 0 clears the violation counters of classes 0x0A and 0x0C",
        "it would change a counter",
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
        "virtual-ports.others",
        "guess",
        "AttributeModifier of VPortInfo, VNodeInfo and VNodeDescription is the index of the virtual port",
        "which GUIDs the virtual ports should have is not known here; only index 0 is compared",
    ),
    (
        "traps.vendor",
        "guess",
        "notices of classes 0x0A and 0x0C have the number of the trap in bytes 62 and 63",
        _VIOLATES,
    ),
    (
        "traps.reports",
        "standard",
        "the SA sends Reports of traps 256 to 259 to whoever subscribed with its SM_Key",
        "a subscription changes the SA, and a trap needs a violation; ibkeys watch shows both",
    ),
)


def _check(id: str, basis: Basis, assumed: str, why: str) -> DeviceCheck:
    return DeviceCheck(id, basis, assumed, lambda _reading: not_checked(why))


CHECKS: Final = tuple(_check(*row) for row in _LEFT_OUT)
