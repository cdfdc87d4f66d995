"""Plans made by hand, and random ones on small pure fabrics, for the tests of ordering and applying."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from hypothesis import strategies as st

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.keys.pkey import PKey
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey

Table = Mapping[int, PKey]


def entries(*keys: int, first: int = 0) -> dict[int, PKey]:
    """Return a table of the given P_Keys; 0 leaves an entry empty."""
    return {index: PKey(key) for index, key in enumerate(keys, first) if key}


def host(number: int) -> PortId:
    return PortId(number, 0x100 + number, f"host{number}", "ca", 1, number)


def leaf(number: int) -> PortId:
    """The port of the switch that `host` *number* is linked to."""
    return PortId(0xF000, 0xF000, "leaf", "switch", number, 99)


def change(port: PortId, before: Table, after: Table, capacity: int = 64, peer: PortKey | None = None) -> TableChange:
    return TableChange(port, dict(before), dict(after), capacity, peer)


def chain(
    number: int, before: Table, after: Table, capacity: int = 64, leaf_capacity: int = 64
) -> tuple[TableChange, TableChange]:
    """A host and its leaf port, whose table is that of the host without gaps."""
    return (
        change(host(number), before, after, capacity, leaf(number).key),
        change(leaf(number), packed(before), packed(after), leaf_capacity, host(number).key),
    )


def packed(table: Table) -> dict[int, PKey]:
    """What OpenSM writes into the leaf port: without gaps, a limited key left out where the full one is there."""
    full = {key.partition for key in table.values() if key.is_full}
    kept = [key for _, key in sorted(table.items()) if key.is_full or key.partition not in full]
    return dict(enumerate(kept))


def enforcing(number: int, before: str, after: str) -> EnforcementChange:
    """Enforcement of a leaf port: ``io``, ``i``, ``o``, or nothing."""
    bits = [Enforcement("i" in text, "o" in text) for text in (before, after)]
    return EnforcementChange(leaf(number), *bits, host(number).key)


@st.composite
def tables(draw: st.DrawFn, capacity: int, partitions: Sequence[int], both: bool = False) -> dict[int, PKey]:
    """A table with at most one key of a partition, or both forms where *both*."""
    bases = draw(st.lists(st.sampled_from(partitions), unique=True, max_size=capacity))
    keys = [PKey(base | draw(st.sampled_from([0, 0x8000]))) for base in bases]
    if both and keys and len(keys) < capacity and draw(st.booleans()):
        keys.append(PKey(keys[0] ^ 0x8000))
    places = draw(st.permutations(range(capacity)))
    return dict(zip(places, keys, strict=False))


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[TableChange, TableChange]]:
    """A few hosts with their leaf ports; some tables are tight, some larger than a block."""
    partitions = [*draw(st.sampled_from([(0x7FFF,), ()])), *range(1, draw(st.integers(2, 6)))]
    found = []
    for number in range(1, draw(st.integers(2, 4)) + 1):
        capacity = draw(st.sampled_from([2, 3, 4, 64, 40]))
        spread = draw(st.booleans()) and capacity > 32
        room = min(capacity, 6)
        before, after = (draw(tables(room, partitions, both=True)) for _ in range(2))
        if spread:  # the odd ones stand in the second block
            before, after = (
                {index + (32 if index % 2 else 0): key for index, key in table.items()} for table in (before, after)
            )
        if capacity == 64 and draw(st.booleans()):  # no room but at four indexes of two blocks
            before, after = (
                {index: table.get(place, PKey(0)) for place, index in enumerate((1, 2, 33, 34))}
                for table in (before, after)
            )
            filler = {index: PKey(0x9000 + index) for index in range(64)}
            before, after = (
                {index: key for index, key in {**filler, **table}.items() if key} for table in (before, after)
            )
        end, port = chain(number, before, after, capacity)
        leaf_capacity = max(1, len(port.before), len(port.after)) + draw(st.integers(0, 2))
        found.append((end, change(port.port, port.before, port.after, leaf_capacity, port.peer)))
    return found


# --- who may talk, on the physical side ----------------------------------------------------------------------------


def level(table: Table, partition: int) -> int:
    return max((2 if key.is_full else 1 for key in table.values() if key.partition == partition), default=0)


def may_talk(ends: Sequence[Table], leaves: Sequence[Table | None], partition: int) -> bool:
    """Whether two ports may talk in a partition; a leaf port that does not enforce is None."""
    one, other = (level(table, partition) for table in ends)
    passes = all(table is None or level(table, partition) for table in leaves)
    return bool(one and other) and max(one, other) == 2 and passes


def pairs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    return list(combinations(sorted(numbers), 2))
