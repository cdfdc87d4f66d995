"""The forms of a P_Key, limited and full: which of them leave a port in one partition, and which arrive and are
accepted.

A partition has two forms of P_Key, limited and full, so a table's entries for it are a set of two bits. By IBA 10.9.3 a
limited entry accepts packets with the full form only, a full entry accepts both. A check that lets the limited form
pass therefore lets the full one pass too. So when packets get through in both directions between two ports in one
partition, some pair of matching P_Keys gets through: two ports can talk in a partition when each can send to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, InboundCheck
from ibkeys.topology.nodes import Port

LIMITED: Final = 1
FULL: Final = 2
_BOTH: Final = LIMITED | FULL

_PASSING: Final[Mapping[InboundCheck, tuple[int, int, int, int]]] = {
    # a table's entries for the partition: none, the limited form, the full one, both
    "membership": (0, FULL, _BOTH, _BOTH),
    "partition": (0, _BOTH, _BOTH, _BOTH),
}
"""The forms that pass a check."""


class Standing(NamedTuple):
    """The entries for one partition in the table of an end port, and in that of the switch port that faces it.

    ``inbound`` is for packets from the end port, ``outbound`` for packets to it. Each is None if the switch port does
    not check in that direction. ``place``: the place of the end port's switch, as `ibkeys.reach.places`
    numbers it.
    """

    holds: int
    inbound: int | None
    outbound: int | None
    place: int = 0


class PortForms(NamedTuple):
    """The forms of the P_Key whose packets leave the port and pass its switch port (``leaves``), and the forms that
    reach it and are accepted (``arrives``)."""

    leaves: int
    arrives: int

    def sends_to(self, other: PortForms) -> bool:
        """Return whether a port with the traffic *other* accepts a packet of a port with this traffic. Both are of one
        partition.
        """
        return self.leaves & other.arrives != 0


@cache
def forms_passing_port(standing: Standing, check: InboundCheck) -> PortForms:
    """Return the forms of packets that get out of and into an end port. *standing*: the entries of the port and of its
    switch port; *check*: how the switch port compares memberships inbound."""
    holds, inbound, outbound, _ = standing
    leaves = holds if inbound is None else holds & passing(inbound, check)
    arrives = passing(holds, "membership")
    return PortForms(leaves, arrives if outbound is None else arrives & passing(outbound, "membership"))


def passing(holds: int, check: InboundCheck) -> int:
    """Return the forms that pass a check by a table with the forms *holds* of the partition."""
    return _PASSING[check][holds]


def forms_in(port: Port) -> dict[int, int]:
    """Return the partitions of a port's P_Key table, each with the forms in it."""
    return forms_of(key for _, key in port.occupied or ())


def forms_of(keys: Iterable[int]) -> dict[int, int]:
    """Return the partitions of P_Keys, each with the forms in it; empty entries are left out."""
    forms: dict[int, int] = {}
    for key in keys:
        if partition := key & PARTITION_MASK:
            forms[partition] = forms.get(partition, 0) | form(key)
    return forms


def by_partition(keys: Iterable[int]) -> dict[int, frozenset[int]]:
    """Return P_Keys by their partition; empty entries are left out."""
    found: dict[int, set[int]] = {}
    for key in keys:
        if key & PARTITION_MASK:
            found.setdefault(key & PARTITION_MASK, set()).add(int(key))
    return {partition: frozenset(members) for partition, members in found.items()}


def form(key: int) -> int:
    """Return the form of a P_Key: `FULL` or `LIMITED`."""
    return FULL if key & FULL_BIT else LIMITED


def keys_of(partition: int, forms: int) -> list[int]:
    """Return the P_Keys of a partition for a set of *forms*, the limited one first."""
    return [key for key in (partition, partition | FULL_BIT) if form(key) & forms]
