"""The P_KeyTables that OpenSM would program: the reference for `plan`, `apply --via opensm`, `harden` and `compare`.

Tables here are mappings index → P_Key without their empty entries. Source: opensm osm_pkey_mgr.c, osm_pkey.c, and the
tables that opensm 3.3.23 programmed.
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
    """A table, and the P_Keys for which it has no room (OpenSM's log: ERR 0512)."""

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
    """Return the table of an end port after a sweep of OpenSM that finds *before*.

    *keys* in the order of `Resolution.by_port`. *index0*: the P_Key that ``indx0`` pins, None for none. Without
    *allow_both* a P_Key is identified by its partition, so a changed membership stays in place; with it by all 16 bits.
    *keep_indexes* is OpenSM's keep_pkey_indexes: off, every table is packed again. *remembered*: the P_Keys that this
    OpenSM process has placed at the port before; a freshly started process remembers nothing.
    """
    memory = {key: index for index, key in (remembered or {}).items()} if keep_indexes else {}
    return _Sweep(capacity, index0 or PKey(0), allow_both, before if keep_indexes else {}, memory).run(keys)


@dataclass(slots=True)
class _Sweep:
    """OpenSM's bookkeeping for one port: the table it read, the indexes it remembers, the table it makes."""

    capacity: int
    index0: PKey
    allow_both: bool
    before: Entries
    remembered: dict[PKey, int]
    places: dict[int, int] = field(default_factory=dict)
    after: dict[int, PKey] = field(default_factory=dict)

    def run(self, keys: Sequence[PKey]) -> Placement:
        for index, key in sorted(self.before.items()):
            known = self.places.get(self.identity(key))
            # Of two forms of one partition the full one counts.
            if known is None or (not self.allow_both and self.before[known] < key):
                self.places[self.identity(key)] = index
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
        return key if self.allow_both else key & PARTITION_MASK

    def owns_index0(self, key: PKey) -> bool:
        """Return whether *key* is the one that belongs at index 0."""
        if self.index0:
            return self.identity(key) == self.identity(self.index0)
        return self.identity(key) == self.identity(PKey(DEFAULT_PARTITION | FULL_BIT))

    def has_to_move(self, key: PKey, index: int) -> bool:
        """Return whether a key of the table is placed again: it belongs at index 0, or another key that does displaces
        it."""
        if index != 0:
            return self.owns_index0(key)
        return not (self.owns_index0(key) or (not self.index0 and key.is_default))

    def forget(self, index: int) -> None:
        """Forget the P_Key at *index*: one of those remembered there."""
        for key, known in self.remembered.items():
            if known == index:
                del self.remembered[key]
                return

    def put(self, key: PKey) -> bool:
        """Place a key that is new to the port. Return whether there was room."""
        index = self.remembered.get(key)
        if index is not None and (index == 0 or (self.index0 and self.owns_index0(key))):
            self.forget(index)
            index = None
        if index is None:
            index = 0 if self.owns_index0(key) else max(self.remembered.values(), default=0) + 1
            if index >= self.capacity:
                # The default P_Key that was displaced from index 0 gets no second chance.
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
    """The table of the switch port that an end port is linked to, and whether OpenSM lets it enforce."""

    entries: dict[int, PKey]
    enforces: bool


def packed(end_port: Entries) -> list[PKey]:
    """Return the P_Keys that a leaf port has to let pass: those of the end port in order, without limited ones whose
    full form is there."""
    keys = [key for _, key in sorted(end_port.items())]
    return [key for key in keys if key.is_full or key | FULL_BIT not in keys]


def place_leaf(before: Entries, end_port: Entries, capacity: int) -> LeafTable:
    """Return a leaf port's table after OpenSM copied that of its end port: whole blocks; further blocks are unchanged.

    A table that is filled to the end of its last block, or overflows, does not enforce (log: ERR 0507).
    """
    room = -(-capacity // P_KEYS_PER_BLOCK) * P_KEYS_PER_BLOCK
    keys = packed(end_port)
    written = -(-min(len(keys), room) // P_KEYS_PER_BLOCK) * P_KEYS_PER_BLOCK
    entries = {index: key for index, key in before.items() if index >= written}
    entries.update(enumerate(keys[:room]))
    return LeafTable({index: key for index, key in entries.items() if index < capacity}, len(keys) < room)
