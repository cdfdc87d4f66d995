"""The forms of a P_Key, limited and full: which leave a port in one partition, and which arrive there and are taken.

A partition has two forms of P_Key, the limited and the full one, so what a table holds of it is a set of two bits. By
IBA 10.9.3 a limited entry takes packets with the full form only, a full entry takes both. Whoever lets the limited form
pass therefore lets the full one pass too. So when packets get both ways between two ports in one partition, the P_Keys
of some pair that matches do: to talk in a partition is to send and to be sent to in it.
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
    # what the table holds of the partition: nothing, the limited form, the full one, both
    "membership": (0, FULL, _BOTH, _BOTH),
    "partition": (0, _BOTH, _BOTH, _BOTH),
}
"""The forms that pass a check."""


class Standing(NamedTuple):
    """What the tables hold of a partition: that of the end port, and that of the switch port that faces it where it
    checks what comes in from the end port and what goes out to it; None where it does not check. ``place``: where its
    switch is among the ports between switches that check (`ibkeys.reach.between.SwitchGroups`)."""

    holds: int
    inbound: int | None
    outbound: int | None
    place: int = 0


class PortForms(NamedTuple):
    """The forms of the P_Key whose packets get out of the port and past its switch port (``leaves``), and those that
    reach it and are taken (``arrives``)."""

    leaves: int
    arrives: int

    def sends_to(self, other: PortForms) -> bool:
        """Return whether some packet of the one with this traffic is taken by the *other*, in the partition of both."""
        return self.leaves & other.arrives != 0


@cache
def traffic(standing: Standing, check: InboundCheck) -> PortForms:
    """Return what a standing comes to, by one reading of the inbound check."""
    holds, inbound, outbound, _ = standing
    leaves = holds if inbound is None else holds & passing(inbound, check)
    arrives = passing(holds, "membership")
    return PortForms(leaves, arrives if outbound is None else arrives & passing(outbound, "membership"))


def passing(holds: int, check: InboundCheck) -> int:
    """Return the forms that pass a check by a table which *holds* those of the partition."""
    return _PASSING[check][holds]


def forms_in(port: Port) -> dict[int, int]:
    """Return the partitions that a table holds P_Keys of, with the forms of these."""
    forms: dict[int, int] = {}
    for _, key in port.occupied or ():
        partition = key & PARTITION_MASK
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
    """Return the P_Keys that *forms* of a partition are, the limited one first."""
    return [key for key in (partition, partition | FULL_BIT) if form(key) & forms]
