"""The index of each P_Key in a table: as OpenSM places it, but present P_Keys keep their indexes. Running QPs use an
index, so a P_Key that stays in a table keeps its index, unless its partition is named as one that may move. Differences
from OpenSM (`ibkeys.partitions.opensm_tables`), each for that reason:

- a P_Key that belongs to index 0 stays elsewhere if it, or the P_Key at index 0, would have to move: it is reported;
- a membership that changes does so in place, also with allow_both_pkeys, where OpenSM takes a new index; so index 0 is
  not left empty when the default P_Key becomes limited;
- of two forms of one partition the one that stays is the one that is wanted, not the full one with its bit cleared;
- the same P_Key twice stays twice while there is room;
- an index that becomes free is not taken again while there is room behind the highest one in use, as by an OpenSM that
  remembers what it placed; one that was just started takes it at once;
- where there is no room for all, the default P_Key comes before every other new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ibkeys.keys.pkey import DEFAULT_FULL, DEFAULT_LIMITED, FULL_BIT, PKey

Entries = Mapping[int, PKey]


@dataclass(frozen=True, slots=True)
class Placed:
    """A planned table. ``dropped``: P_Keys without room. ``misplaced``: the P_Key that belongs to index 0 and is not
    there. ``moves``: (P_Key, index before, index after) of P_Keys that were allowed to move.
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
) -> Placed:
    """Return the table of an end port that has *before* and should have *keys*, and no others.

    *keys* in the order of `Resolution.by_port`. *index0*: the P_Key that ``indx0`` pins. *may_move*: partitions whose
    P_Keys may change their index if the rule for index 0 requires it.
    """
    if not capacity:
        return Placed({}, tuple(keys))
    kept = _kept(before, keys)
    owner, misplaced = _owner(keys, index0), None
    moved: dict[PKey, int] = {}
    if owner is not None and kept.get(0) != owner:
        there = sorted(index for index, key in kept.items() if index == 0 or key == owner)
        if all(kept[index].partition in may_move for index in there):
            for index in reversed(there):
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
    return Placed(after, tuple(dropped), moves, misplaced)


def _kept(before: Entries, keys: Sequence[PKey]) -> dict[int, PKey]:
    """Return the entries that stay, and those whose membership changes in place."""
    wanted = set(keys)
    kept = {index: key for index, key in sorted(before.items()) if key in wanted}
    there = set(kept.values())
    for index, key in sorted(before.items()):
        other = PKey(key ^ FULL_BIT)
        if index not in kept and other in wanted and other not in there:
            kept[index] = other
            there.add(other)
    return kept


def _owner(keys: Sequence[PKey], index0: PKey | None) -> PKey | None:
    """Return the P_Key that belongs to index 0: the pinned one, else the default one, full before limited."""
    if index0 is not None and index0 in keys:
        return index0
    return next((key for key in (DEFAULT_FULL, DEFAULT_LIMITED) if key in keys), None)


def _fill(
    before: Entries, kept: Entries, keys: Sequence[PKey], capacity: int, left: Collection[int]
) -> tuple[dict[int, PKey], list[PKey]]:
    """Return *kept* with the other *keys* added, and the keys without room. Each is added behind the highest index in
    use, then in the gaps, but not at index 0. *left*: the indexes that moved P_Keys leave.
    """
    after = dict(kept)
    there = set(kept.values())
    new = [key for key in keys if key not in there]
    if len(new) > capacity - len(after) - (0 not in after):
        new.sort(key=lambda key: not key.is_default)
    highest = max((index for index in (*before, *after) if index in after or index not in left), default=0)
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
