"""Making the P_KeyTables that OpenSM would write: the reference for `plan`, `apply --via opensm`, `harden` and
`compare`.

A table here is a mapping from index to P_Key, without empty entries. Source: opensm osm_pkey_mgr.c, osm_pkey.c, and
tables that opensm 3.3.23 wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.partitions.model import DEFAULT_PARTITION

Entries = Mapping[int, PKey]


@dataclass(frozen=True, slots=True)
class Placement:
    """A table, and ``dropped``: the P_Keys for which it has no room (OpenSM logs ERR 0512)."""

    entries: dict[int, PKey]
    dropped: tuple[PKey, ...] = ()


def place(
    before: Entries,
    keys: Sequence[PKey],
    capacity: int,
    index0: PKey | None = None,
    *,
    allow_both: bool = False,
    keep_indexes: bool = True,
    remembered: Entries | None = None,
) -> Placement:
    """Return the table of an end port after a sweep of OpenSM that reads the table *before*.

    *keys*: the P_Keys that the port should have, in the order of `Resolution.by_port`. *index0*: the P_Key that
    ``indx0`` pins, None for none. *allow_both*: OpenSM's allow_both_pkeys; without it OpenSM identifies a P_Key by its
    partition, so a changed membership stays in place; with it, by all 16 bits. *keep_indexes*: OpenSM's
    keep_pkey_indexes; without it OpenSM packs every table again. *remembered*: the P_Keys, by index, that this OpenSM
    process has placed at the port before; a newly started process remembers none.
    """
    memory = {key: index for index, key in (remembered or {}).items()} if keep_indexes else {}
    return _Sweep(capacity, index0 or PKey(0), allow_both, before if keep_indexes else {}, memory).run(keys)


@dataclass(slots=True)
class _Sweep:
    """OpenSM's state for one port during a sweep.

    ``before``: the table that it read. ``remembered``: the index of each P_Key that it has placed before. ``places``:
    the index in ``before`` of each P_Key, by `identity`. ``after``: the table that it makes.
    """

    capacity: int
    index0: PKey
    allow_both: bool
    before: Entries
    remembered: dict[PKey, int]
    places: dict[int, int] = field(default_factory=dict)
    after: dict[int, PKey] = field(default_factory=dict)

    def run(self, keys: Sequence[PKey]) -> Placement:
        """Return the new table for *keys*, in the steps in which OpenSM makes it."""
        for index, key in sorted(self.before.items()):
            # If the table has both P_Keys of a partition, OpenSM uses the place of the first one.
            self.places.setdefault(self.identity(key), index)
        updated, new = [], []
        for key in keys:
            place = self.places.get(self.identity(key))
            if place is not None and not self.has_to_move(key, place):
                updated.append((key, place))
            else:
                if place is not None:
                    self.forget(place)
                new.append(key)
        for key, index in reversed(updated):
            self.after[index] = key
            self.remembered[key] = index
        dropped = [key for key in new if not self.put(key)]
        return Placement(self.after, tuple(dropped))

    def identity(self, key: int) -> int:
        """Return the number by which OpenSM identifies a P_Key: all 16 bits with allow_both_pkeys, else 15."""
        return key if self.allow_both else key & PARTITION_MASK

    def owns_index0(self, key: PKey) -> bool:
        """Return whether *key* is the P_Key that belongs at index 0."""
        if self.index0:
            return self.identity(key) == self.identity(self.index0)
        return self.identity(key) == self.identity(PKey(DEFAULT_PARTITION | FULL_BIT))

    def has_to_move(self, key: PKey, index: int) -> bool:
        """Return whether *key*, which is at *index* of the table, gets a new index: because it belongs at index 0, or
        because it is there and another P_Key belongs there."""
        if index != 0:
            return self.owns_index0(key)
        return not (self.owns_index0(key) or (not self.index0 and key.is_default))

    def forget(self, index: int) -> None:
        """Remove one remembered P_Key with this *index*, if there is any."""
        for key, place in self.remembered.items():
            if place == index:
                del self.remembered[key]
                return

    def put(self, key: PKey) -> bool:
        """Choose an index for *key*, which the port does not have or which has to move. Return whether there was
        room."""
        index = self.remembered.get(key)
        if index is not None and (index == 0 or (self.index0 and self.owns_index0(key))):
            self.forget(index)
            index = None
        if index is None:
            index = 0 if self.owns_index0(key) else max(self.remembered.values(), default=0) + 1
            if index >= self.capacity:
                # OpenSM does not look for a free index for a default P_Key that another P_Key displaced from index 0.
                if self.identity(key) == self.identity(PKey(DEFAULT_PARTITION | FULL_BIT)):
                    return False
                free = next((index for index in range(1, self.capacity) if index not in self.after), None)
                if free is None:
                    return False
                index = free
                self.forget(index)
            self.remembered[key] = index
        self.after[index] = key
        return True


@dataclass(frozen=True, slots=True)
class LeafTable:
    """The table of a leaf port, and ``enforces``: whether OpenSM switches enforcement on there, if it is wanted at
    all."""

    entries: dict[int, PKey]
    enforces: bool


def packed(end_port: Entries) -> list[PKey]:
    """Return the P_Keys that a leaf port needs: those in the table of its end port, in order, without limited P_Keys of
    partitions of which the full P_Key is there too."""
    keys = [key for _, key in sorted(end_port.items())]
    return [key for key in keys if key.is_full or key | FULL_BIT not in keys]


def place_leaf(before: Entries, end_port: Entries, capacity: int) -> LeafTable:
    """Return the table of a leaf port after OpenSM has copied the table *end_port* to it. *before*: its present table.

    OpenSM writes whole blocks, and leaves later blocks unchanged. If the P_Keys fill the last block to its end or
    overflow, OpenSM does not switch enforcement on there (it logs ERR 0507).
    """
    room = -(-capacity // P_KEYS_PER_BLOCK) * P_KEYS_PER_BLOCK
    keys = packed(end_port)
    written = -(-min(len(keys), room) // P_KEYS_PER_BLOCK) * P_KEYS_PER_BLOCK
    entries = {index: key for index, key in before.items() if index >= written}
    entries.update(enumerate(keys[:room]))
    return LeafTable({index: key for index, key in entries.items() if index < capacity}, len(keys) < room)
