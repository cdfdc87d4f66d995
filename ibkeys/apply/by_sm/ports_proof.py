"""Waiting for OpenSM: the ports are read until they are as predicted. Nothing else proves that a policy is in force.
OpenSM's log is written late, its list of links only after a sweep without errors, and its SA answers from memory. So
every table that is to change is read again and again, and once all of them are right, every other table too. A port
that does not answer is named, not waited for. Source: opensm osm_state_mgr.c, osm_pkey_mgr.c.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ibkeys.apply.survey import read_again
from ibkeys.change.runner import ObservedPorts
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import Entries, differences, same_partition
from ibkeys.change.writer import ChangeWriter
from ibkeys.keys.pkey import DEFAULT_FULL, PKey
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortKey

KnownIndexes = Literal["exact", "kept", "any"]
"""The indexes that are known: all; those of P_Keys that the port had before; none."""


@dataclass(frozen=True, slots=True)
class ExpectedPort:
    """The P_Keys that are expected of a port after a step, at the indexes that ``indexes`` says are known. ``before``:
    its table before the step; ``enforcement``: None if it is not compared; ``allow_both_pkeys``: OpenSM's option,
    with which a membership that changes takes a new index."""

    entries: Entries
    before: Entries
    enforcement: Enforcement | None = None
    indexes: KnownIndexes = "kept"
    allow_both_pkeys: bool = False

    def difference(self, target: PortTarget) -> str:
        """Return, in words, how a port that was read differs; "" if it does not."""
        wrong = self._of_table(target.table)
        if not wrong and self.enforcement not in (None, target.enforcement):
            return f"enforcement is {target.enforcement} instead of {self.enforcement}"
        return wrong

    def _of_table(self, now: Entries) -> str:
        if now == self.entries:
            return ""
        if self.indexes != "exact" and self._differs_in_indexes_only(now):
            return ""
        texts = differences(now, self.entries)
        more = f" and {len(texts) - 3} more (the whole table: pkey-show)" if len(texts) > 3 else ""
        return "; ".join(texts[:3]) + more

    def _differs_in_indexes_only(self, now: Entries) -> bool:
        if sorted(now.values()) != sorted(self.entries.values()):
            return False
        if self.indexes == "any":
            return True
        return all(now.get(index) == key for index, key in self.entries.items() if self._stays(index, key))

    def _stays(self, index: int, key: PKey) -> bool:
        """Return whether *key*, or without ``allow_both_pkeys`` its partition, had this *index* before the step."""
        before = self.before.get(index)
        return before == key if self.allow_both_pkeys else same_partition(before, key)


def has_only_default(table: Entries) -> bool:
    """Return whether a port has 0xffff alone, as OpenSM gives every port without a policy."""
    return {*table.values()} == {DEFAULT_FULL}


@dataclass(slots=True)
class ObservedTables(ObservedPorts[PortKey]):
    """The result of one look at ports. ``fell_back``: most end ports have become full members of the default partition
    and of no other, against the policy: OpenSM found no policy that it accepts. Most and not all, because some ports
    may refuse Sets, or OpenSM may not have reached them yet."""

    fell_back: bool = False

    @property
    def remaining_count(self) -> int:
        """The number of ports that are waited for; 0 if OpenSM fell back."""
        return 0 if self.fell_back else len(self.wrong)


@dataclass(slots=True)
class PortsProof:
    """Reads the ports *changing* until they are as *expected*, and then all ports, until all are. ``report``: called
    with the number of changing ports that are right, and the number of all changing ports."""

    writer: ChangeWriter
    targets: Mapping[PortKey, PortTarget]
    expected: Mapping[PortKey, ExpectedPort]
    changing: Sequence[PortKey]
    report: Callable[[int, int], None] = lambda done, whole: None

    def __post_init__(self) -> None:
        self.changing = [key for key in self.changing if key in self.targets]

    def begin_again(self, found: ObservedTables) -> None:
        """Begin again with the ports that are wrong or silent as the changing ports."""
        self.changing = [*found.wrong, *found.silent]

    def look(self) -> ObservedTables:
        """Read the changing ports once and compare them. If none is wrong, or a wrong one now has 0xffff alone, read
        and compare all ports."""
        first_look = self._look_at(self.changing)
        self.report(len(self.changing) - len(first_look.wrong) - len(first_look.silent), len(self.changing))
        if first_look.wrong and not any(self._became_full(key) for key in first_look.wrong):
            return first_look
        full_look = self._look_at(list(self.targets))
        if first_look.wrong:
            return full_look if full_look.fell_back else first_look
        self.changing = list(self.targets)
        return full_look

    def _look_at(self, keys: Sequence[PortKey]) -> ObservedTables:
        silent = read_again(self.writer, [self.targets[key] for key in keys])
        wrong = {
            key: text
            for key in keys
            if key not in silent and key in self.expected and (text := self.expected[key].difference(self.targets[key]))
        }
        return ObservedTables(wrong, silent, len(keys) == len(self.targets) and self._fell_back(silent))

    def _fell_back(self, silent: Collection[PortKey]) -> bool:
        could = [
            key
            for key, each in self.expected.items()
            if key not in silent
            and not self.targets[key].port.is_external
            and not has_only_default(each.before)
            and not has_only_default(each.entries)
        ]
        return 2 * sum(has_only_default(self.targets[key].table) for key in could) > len(could)

    def _became_full(self, key: PortKey) -> bool:
        return has_only_default(self.targets[key].table) and not has_only_default(self.expected[key].before)
