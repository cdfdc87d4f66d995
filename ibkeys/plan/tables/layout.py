"""Choosing the index of each P_Key in a table: as OpenSM does, but present P_Keys keep their indexes.

Running QPs use an index. So a P_Key that stays in a table keeps its index, unless the user names its partition as one
that may move. For that reason there are differences from OpenSM (`ibkeys.partitions.opensm_tables`):

- A P_Key that belongs to index 0, but stands elsewhere, stays there if it or the P_Key at index 0 would have to move.
  This is reported.
- A membership changes in place, also with allow_both_pkeys, where OpenSM takes a new index. So index 0 is not left
  empty when the default P_Key becomes limited.
- If a table has both P_Keys of a partition and should have one, the wanted one stays at its index. OpenSM takes the
  index of the first of the two.
- If a table has the same P_Key twice, both stay while there is room.
- An index that becomes free is not used again while there is room behind the highest index in use. An OpenSM that
  remembers its placements does the same, but one that was just started uses the index at once.
- If there is no room for all new P_Keys, the default P_Key comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ibkeys.keys.pkey import DEFAULT_FULL, DEFAULT_LIMITED, FULL_BIT, PKey

Entries = Mapping[int, PKey]


@dataclass(frozen=True, slots=True)
class PlacedTable:
    """A planned table. ``dropped``: the P_Keys for which it has no room. ``moves``: (P_Key, index before, index after)
    of each P_Key that moves. ``misplaced``: the P_Key that belongs to index 0 but stays elsewhere, None if there is
    none.
    """

    entries: dict[int, PKey]
    dropped: tuple[PKey, ...] = ()
    moves: tuple[tuple[PKey, int, int], ...] = ()
    misplaced: PKey | None = None


def place(
    before: Entries,
    keys: Sequence[PKey],
    capacity: int,
    index0: PKey | None = None,
    may_move: Collection[int] = (),
) -> PlacedTable:
    """Return the planned table of an end port that has the entries *before* and should have exactly *keys*.

    *keys*: in the order of `Resolution.by_port`. *index0*: the P_Key that ``indx0`` pins at index 0. *may_move*: the
    partitions whose P_Keys may change their index if the rule for index 0 requires it.
    """
    if not capacity:
        return PlacedTable({}, tuple(keys))
    kept = _lasting_entries(before, keys)
    owner, misplaced = _key_of_index0(keys, index0), None
    moved: dict[PKey, int] = {}
    if owner is not None and kept.get(0) != owner:
        affected = sorted(index for index, key in kept.items() if index == 0 or key == owner)
        if all(kept[index].partition in may_move for index in affected):
            for index in reversed(affected):
                moved[kept[index]] = index
            kept = {index: key for index, key in kept.items() if key not in moved}
            kept[0] = owner
        else:
            misplaced = owner
    after, dropped = _fill(before, kept, keys, capacity, set(moved.values()))
    if dropped and len(set(kept.values())) < len(kept):
        once = {key: index for index, key in sorted(kept.items(), reverse=True)}
        kept = {index: key for key, index in once.items()}
        after, dropped = _fill(before, kept, keys, capacity, set(moved.values()))
    where = {key: index for index, key in after.items()}
    moves = tuple((key, source, where[key]) for key, source in moved.items() if key in where)
    return PlacedTable(after, tuple(dropped), moves, misplaced)


def _lasting_entries(before: Entries, keys: Sequence[PKey]) -> dict[int, PKey]:
    """Return the entries of *before* that stay in the table, with the new membership if that changes."""
    wanted = set(keys)
    kept = {index: key for index, key in sorted(before.items()) if key in wanted}
    kept_keys = set(kept.values())
    for index, key in sorted(before.items()):
        other = PKey(key ^ FULL_BIT)
        if index not in kept and other in wanted and other not in kept_keys:
            kept[index] = other
            kept_keys.add(other)
    return kept


def _key_of_index0(keys: Sequence[PKey], index0: PKey | None) -> PKey | None:
    """Return the P_Key that belongs to index 0: the pinned one, else that of the default partition, full before
    limited. None if *keys* has neither.
    """
    if index0 is not None and index0 in keys:
        return index0
    return next((key for key in (DEFAULT_FULL, DEFAULT_LIMITED) if key in keys), None)


def _fill(
    before: Entries, kept: Entries, keys: Sequence[PKey], capacity: int, vacated: Collection[int]
) -> tuple[dict[int, PKey], list[PKey]]:
    """Return *kept* with the other *keys* added, and the keys without room.

    New keys get the indexes behind the highest one in use, then free ones before it, but never index 0. *vacated*: the
    indexes that moved P_Keys leave, which do not count as in use.
    """
    after = dict(kept)
    kept_keys = set(kept.values())
    new = [key for key in keys if key not in kept_keys]
    if len(new) > capacity - len(after) - (0 not in after):
        new.sort(key=lambda key: not key.is_default)
    highest = max((index for index in (*before, *after) if index in after or index not in vacated), default=0)
    gaps = (index for index in range(1, capacity) if index not in after)
    dropped = []
    for key in new:
        if highest + 1 < capacity:
            highest += 1
            after[highest] = key
            continue
        gap = next((index for index in gaps if index not in after), None)
        if gap is None:
            dropped.append(key)
        else:
            after[gap] = key
    return after, dropped
