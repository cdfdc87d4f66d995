"""P_Keys that a change left at other indexes than it should: a subnet manager chooses the index of a P_Key that is new
to it, and a restarted one has forgotten the former index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ibkeys.apply.former_values import FormerValues
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import Entries
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import Detail, counted, named
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(frozen=True, slots=True)
class OtherIndex:
    """A P_Key of an end port that is at ``index`` instead of ``expected``. ``is_new``: the port had no P_Key of its
    partition before, so that no program uses it yet."""

    port: PortId
    p_key: PKey
    index: int
    expected: int
    is_new: bool = False

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
    for key, expected, blocks, before in _tables_of(wanted):
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
                is_new = before is not None and p_key.partition not in before
                yield OtherIndex(target.id, p_key, places[p_key], index, is_new)


def notes_on(found: Iterable[OtherIndex], is_undo: bool) -> Iterator[str]:
    """Yield the notes on *found*: a detail on P_Keys that are new to their ports, and a note on others. *is_undo*:
    whether they were expected at their former indexes; False: at the indexes of a plan."""
    than = "before the change" if is_undo else "planned"
    for is_new in (False, True):
        listed = [each for each in found if each.is_new == is_new]
        ports = len({each.port for each in listed})
        what = f"{'has' if ports == 1 else 'have'} {'new ' if is_new else ''}P_Keys"
        text = f"{counted(ports, 'port')} {what} at other indexes than {than}: {named(listed)}"
        if listed and is_new:
            yield Detail(text)
        elif listed:
            yield f"{text}; a program that uses a P_Key by its index has to look it up again"


def _tables_of(
    wanted: PartitionPlan | FormerValues,
) -> Iterator[tuple[PortKey, Entries, frozenset[int] | None, frozenset[int] | None]]:
    """Yield each port with the entries that it should have, the blocks that these are in (None: all blocks), and the
    partitions that it had before. These are None for an undo, after which it has only P_Keys that it had before."""
    if isinstance(wanted, PartitionPlan):
        for change in wanted.tables:
            before = frozenset(each.partition for each in change.before.values())
            yield change.port.key, change.after, None, before
        return
    for key, table in wanted.tables.items():
        entries = {index: PKey(value) for index, value in table.values_before.items() if value & PARTITION_MASK}
        yield key, entries, frozenset(table.blocks_before), None
