"""P_Keys that a change left at other indexes than it should: a subnet manager chooses the index of a P_Key that is new
to it, and a restarted one has forgotten the former index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ibkeys.apply.former_values import FormerValues
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import Entries
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import counted, named
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(frozen=True, slots=True)
class OtherIndex:
    """A P_Key of an end port that is at ``index`` instead of ``expected``."""

    port: PortId
    p_key: PKey
    index: int
    expected: int

    def __str__(self) -> str:
        return f"{self.port} ({self.p_key} at index {self.index}, not {self.expected})"

    def to_json(self) -> dict[str, Any]:
        """Return the port and the three values."""
        return {
            **self.port.to_json(),
            "pkey": str(self.p_key),
            "index": self.index,
            "expected": self.expected,
        }


def other_indexes(wanted: PartitionPlan | FormerValues, targets: Mapping[PortKey, PortTarget]) -> Iterator[OtherIndex]:
    """Yield the P_Keys of end ports that are at other indexes than *wanted* has them. A port that lacks a wanted P_Key,
    or has a further one in these blocks, is left out, because more than its indexes differ. *targets*: the ports as
    they were read after the change."""
    for key, expected, blocks in _tables_of(wanted):
        target = targets.get(key)
        if target is None or target.port.is_external:
            continue
        now = {
            index: each for index, each in target.table.items() if blocks is None or index // P_KEYS_PER_BLOCK in blocks
        }
        if now == expected or sorted(now.values()) != sorted(expected.values()):
            continue
        places = {each: index for index, each in now.items()}
        for index, p_key in expected.items():
            if now.get(index) != p_key:
                yield OtherIndex(target.id, p_key, places[p_key], index)


def in_words(found: list[OtherIndex], is_undo: bool) -> str:
    """Return the note on *found*. *is_undo*: whether they were expected at their former indexes; False: at the indexes
    of a plan."""
    ports = len({each.port for each in found})
    than = "before the change" if is_undo else "planned"
    has = "has P_Keys" if ports == 1 else "have P_Keys"
    return (
        f"{counted(ports, 'port')} {has} at other indexes than {than}: {named(found)}; a program that uses a P_Key by "
        "its index has to look it up again"
    )


def _tables_of(wanted: PartitionPlan | FormerValues) -> Iterator[tuple[PortKey, Entries, frozenset[int] | None]]:
    """Yield each port with the entries that it should have, and the blocks that these are in; None: all blocks."""
    if isinstance(wanted, PartitionPlan):
        for change in wanted.tables:
            yield change.port.key, change.after, None
        return
    for key, table in wanted.tables.items():
        entries = {index: PKey(value) for index, value in table.values_before.items() if value & PARTITION_MASK}
        yield key, entries, frozenset(table.blocks_before)
