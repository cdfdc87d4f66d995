"""The wanted change: P_Key tables and enforcement before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ibkeys.keys.pkey import PKey
from ibkeys.topology.enforcement import ENFORCEMENT_BITS, Enforcement
from ibkeys.topology.port_id import PortId, PortKey

FieldValue = str | int | bool | None
"""A P_Key or an M_Key's state as text, a bit as true or false, a number; None is an empty entry or an unknown value."""
Entries = Mapping[int, PKey]
"""Index → P_Key of a table; an index that is missing is empty."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """One P_Key table as read and as planned: index → P_Key, without empty entries (partition 0).

    ``capacity``: entries of the table. ``peer``: the port at the other end of the link: the leaf port of an end port,
    the end port of a leaf port; None if there is none or it does not matter.
    """

    port: PortId
    before: Mapping[int, PKey]
    after: Mapping[int, PKey]
    capacity: int
    peer: PortKey | None = None

    @property
    def differs(self) -> bool:
        """Whether an entry changes; a plan made with ``--full`` also lists tables that stay."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class EnforcementChange:
    """Enforcement of one leaf port, as read and as planned."""

    port: PortId
    before: Enforcement
    after: Enforcement
    peer: PortKey | None = None


def value_in_words(value: FieldValue) -> str:
    """Return a value as text for people: a bit as 0 or 1, as the standard writes it; None as ``-``."""
    if value is None:
        return "-"
    return str(int(value)) if isinstance(value, bool) else str(value)


def change_in_words(kind: str, index: int | None, before: FieldValue, after: FieldValue) -> str:
    """Return a change of one value for people, without its port."""
    what = f"{kind}[{index}]" if index is not None else kind
    return f"{what}: {value_in_words(before)} -> {value_in_words(after)}"


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """One value of one port, before and after. ``kind``: ``pkey``, with its index, or a field's JSON name; the values
    are as in `ibkeys.change.plan.Change`."""

    port: PortId
    kind: str
    index: int | None
    before: FieldValue
    after: FieldValue

    def __str__(self) -> str:
        return f"{self.port}: {change_in_words(self.kind, self.index, self.before, self.after)}"


def planned_changes(
    tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]
) -> tuple[PlannedChange, ...]:
    """Return every entry of *tables* and every bit of *enforcement* that changes."""
    found = [
        PlannedChange(table.port, "pkey", index, *(str(key) if key is not None else None for key in keys))
        for table in tables
        for index in differing_places(table.before, table.after)
        for keys in [(table.before.get(index), table.after.get(index))]
    ]
    found += [
        PlannedChange(change.port, name, None, was, now)
        for change in enforcement
        for name, was, now in zip(ENFORCEMENT_BITS, change.before.bits, change.after.bits, strict=True)
        if was != now
    ]
    return tuple(found)


def differing_places(one: Mapping[int, object], other: Mapping[int, object]) -> list[int]:
    """Return the indexes of two tables, or the GUIDs of two lists of members, at which they differ."""
    return [each for each in sorted({*one, *other}) if one.get(each) != other.get(each)]


def differences(now: Entries, wanted: Entries) -> list[str]:
    """Return the entries of a table that are not as wanted, in words."""
    return [
        f"index {index} is {now.get(index, 'empty')} instead of {wanted.get(index, 'empty')}"
        for index in differing_places(now, wanted)
    ]


def moves(before: Entries, after: Entries) -> list[tuple[int, int, PKey]]:
    """Return (old index, new index, P_Key) for each partition that leaves an index and appears at another."""
    gone = [index for index, key in before.items() if not same_partition(after.get(index), key)]
    come = [index for index, key in after.items() if not same_partition(before.get(index), key)]
    return [
        (source, target, before[source])
        for source in gone
        for target in come
        if after[target].partition == before[source].partition
    ]


def same_partition(one: PKey | None, other: PKey) -> bool:
    """Return whether *one* is a P_Key of the same partition as *other*."""
    return one is not None and one.partition == other.partition
