"""The prediction of the tables after each policy of a change: an apply, a rewriting of all tables, an undo. The tables
that OpenSM makes from a policy are predicted for end ports (`ibkeys.partitions.sweeps`) and their leaf ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ibkeys.apply.by_sm.course import TablesCourse
from ibkeys.apply.by_sm.ports_proof import ExpectedPort, KnownIndexes
from ibkeys.apply.survey import Survey
from ibkeys.arguments import given
from ibkeys.change.wanted import EnforcementChange, Entries, TableChange, differing_places
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import EMPTY, FULL_BIT, PARTITION_MASK, PKey
from ibkeys.partitions.membership import EndPort, end_ports_of, resolve
from ibkeys.partitions.model import Policy
from ibkeys.partitions.opensm_tables import LeafTable, Placement, packed, place_leaf
from ibkeys.partitions.sweeps import Sweeps
from ibkeys.plan.courses import WaitCycle
from ibkeys.plan.model import Break, BreakKind, SmOptions
from ibkeys.plan.order import EnforcementStep, Phase, PlanStep, TableStep
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey

_UNUSED_PARTITIONS: Final = range(0x7001, 0x7FFF)
"""Partition numbers, of which the first free one makes OpenSM write every table again."""


@dataclass(slots=True)
class Prediction:
    """The tables of all ports as they are, and the prediction of the tables after each of several policies.

    *options*: the options of the running OpenSM; *sm_port_guid*: the master's port. ``guids_set_aside``: the GUIDs of
    end ports that drifted and that the change does not name: OpenSM may leave them and their leaf ports as they are, so
    nothing is expected of them. ``drifted``: the GUIDs of all end ports that drifted: it is not known at which indexes
    OpenSM puts their P_Keys. ``remembered``: by the GUID of an end port, P_Keys by the index at which OpenSM has placed
    them before; it gives these indexes back if they are free.
    """

    survey: Survey
    options: SmOptions
    sm_port_guid: int
    present: dict[PortKey, Entries] = field(default_factory=dict)
    guids_set_aside: set[int] = field(default_factory=set)
    drifted: set[int] = field(default_factory=set)
    remembered: dict[int, Entries] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.present = {key: target.table for key, target in self.survey.targets.items()}

    @property
    def tables(self) -> list[TableChange]:
        """The present tables of all end ports and leaf ports, without the ports that are set aside."""
        return [each for each in self.changed_to(self.present) if not self.is_set_aside(each.port.key)]

    def is_set_aside(self, key: PortKey) -> bool:
        """Return whether a port that was read is set aside, so that nothing is expected of it."""
        return bool(self.guids_set_aside) and self._end_guid(key) in self.guids_set_aside

    def known_indexes(self, key: PortKey) -> KnownIndexes:
        """Return which indexes of a port can be predicted for the time after OpenSM has written its table."""
        if not self.options.keep_pkey_indexes:
            return "exact"
        is_unsure = self.survey.targets[key].port.is_external or self._end_guid(key) in self.drifted
        return "any" if is_unsure else "kept"

    def _end_guid(self, key: PortKey) -> int | None:
        port = self.survey.targets[key].port
        end = port.peer if port.is_external else port
        return None if end is None else end.guid

    def changed_to(self, after: Mapping[PortKey, Entries]) -> list[TableChange]:
        """Return each table as a change from its present entries to those in *after*; a table that is not in *after*
        stays."""
        return [
            TableChange(target.id, target.table, after.get(key, target.table), target.port.capacity or 0, target.peer)
            for key, target in self.survey.targets.items()
        ]

    @property
    def end_ports(self) -> list[EndPort]:
        """All end ports whose port GUID is known, read or not."""
        return end_ports_of(self.survey.end_ports)

    @property
    def unread(self) -> list[EndPort]:
        """The end ports whose tables were not read, or are set aside."""
        read = {target.port.guid for target in self.survey.targets.values() if not target.port.is_external}
        return [port for port in self.end_ports if port.guid not in read - self.guids_set_aside]

    def memberships(self, policy: Policy | None) -> dict[int, frozenset[PKey]]:
        """Return, by port GUID, the P_Keys that OpenSM gives each end port if its table has room."""
        found = resolve(
            policy, self.end_ports, self.sm_port_guid, self.options.allow_both_pkeys, emulate_fallback=True
        ).by_port
        return {port.guid: frozenset(found.get(port.guid, ())) for port in self.end_ports}

    def tables_after(self, policies: Iterable[Policy | None]) -> list[dict[PortKey, Entries]]:
        """Return the tables after each of *policies*, if OpenSM reads them one after the other."""
        by_guid = {
            target.port.guid: key
            for key, target in self.survey.targets.items()
            if not target.port.is_external and target.port.guid not in self.guids_set_aside
        }
        now: dict[int, Entries] = {guid: self.present[key] for guid, key in by_guid.items()}
        sweeps = Sweeps(
            self.end_ports,
            self.sm_port_guid,
            dict(now),
            {guid: self.survey.targets[key].port.capacity or 0 for guid, key in by_guid.items()},
            self.options.allow_both_pkeys,
            self.options.keep_pkey_indexes,
            {guid: {**self.remembered.get(guid, {}), **table} for guid, table in now.items()},
        )
        found, last = [], dict(self.present)
        for policy in policies:
            placed = sweeps.sweep(policy)
            last = self.with_leaves(last, {by_guid[guid]: each.entries for guid, each in placed.items()})
            found.append(last)
        return found

    def with_leaves(self, before: Mapping[PortKey, Entries], ends: Mapping[PortKey, Entries]) -> dict[PortKey, Entries]:
        """Return all tables after end ports got the tables *ends*, and OpenSM has copied these to their leaf ports."""
        after = {**before, **ends}
        if self.options.enforce == "off":
            return after
        for key, target in self.survey.targets.items():
            peer = target.peer
            if target.port.is_external and peer is not None and peer in ends:
                after[key] = place_leaf(before[key], ends[peer], target.port.capacity or 0).entries
        return after

    def enforcement_by_sm(self, key: PortKey, ends: Mapping[PortKey, Entries]) -> Enforcement | None:
        """Return the enforcement that OpenSM sets on a leaf port whose end port has its table in *ends*; None if OpenSM
        leaves the port as it is. OpenSM does not keep the present bits. Source: opensm osm_pkey_mgr.c."""
        target = self.survey.targets[key]
        entries = ends.get(target.peer or key)
        if not target.port.is_external or target.peer is None or entries is None or not target.port.capacity:
            return None
        copy = place_leaf(target.table, entries, target.port.capacity)
        words = self.options.enforce if copy.enforces else "off"
        return Enforcement(words in ("both", "in"), words in ("both", "out"))

    def not_enforcing(self, ends: Mapping[int, Placement]) -> Iterator[PortKey]:
        """Yield the leaf ports on which OpenSM switches enforcement off, because the copy fills their table to the end.

        *ends*: the tables of end ports by port GUID.
        """
        return (key for key, _, copy in self._leaf_copies(ends) if not copy.enforces)

    def cut_short(self, ends: Mapping[int, Placement]) -> Iterator[tuple[PortKey, bool]]:
        """Yield the leaf ports that OpenSM lets enforce although their table has no room for all P_Keys of the end
        port: OpenSM counts whole blocks of 32 entries. With each, whether its table changes, or lacks a P_Key of the
        end port that it does not lack now. *ends*: as for `not_enforcing`."""
        for key, entries, copy in self._leaf_copies(ends):
            target = self.survey.targets[key]
            room = target.port.capacity
            if copy.enforces and room and len(packed(entries)) > room:
                there, copied = {*target.table.values()}, {*copy.entries.values()}
                lacks_now = {*packed(self.present[target.peer or key])} - there
                yield key, there != copied or not {*packed(entries)} - copied <= lacks_now

    def left_over(self, ends: Mapping[int, Placement]) -> Iterator[tuple[PortKey, set[PKey]]]:
        """Yield the enforcing leaf ports in whose table OpenSM leaves P_Keys that the end port no longer has: it clears
        no block of 32 entries that it does not need. With each, these P_Keys. *ends*: as for `not_enforcing`."""
        for key, entries, copy in self._leaf_copies(ends):
            needed = packed(entries)
            stay = {each for each in copy.entries.values() if each not in needed and each | FULL_BIT not in needed}
            if copy.enforces and stay and len(needed) <= (self.survey.targets[key].port.capacity or 0):
                yield key, stay

    def _leaf_copies(self, ends: Mapping[int, Placement]) -> Iterator[tuple[PortKey, Entries, LeafTable]]:
        """Yield each leaf port that OpenSM writes, with the table of its end port in *ends*, and the copy."""
        if self.options.enforce == "off":
            return
        for key, target in self.survey.targets.items():
            peer = self.survey.targets.get(target.peer or key)
            if target.port.is_external and peer is not None and peer.port.guid in ends:
                entries = ends[peer.port.guid].entries
                yield key, entries, place_leaf(target.table, entries, target.port.capacity or 0)


def breaks_of(cycles: Iterable[WaitCycle[int]], prediction: Prediction) -> tuple[Break, ...]:
    """Return the wait cycles as breaks, with the names of their ports: a cycle of policies has port GUIDs only."""
    ports = {port.guid: port.id for port in prediction.survey.end_ports}

    def ids(guids: Iterable[int]) -> tuple[PortId, ...]:
        return tuple(ports[guid] for guid in guids)

    breaks = []
    for circle in cycles:
        shown = WaitCycle(
            circle.partition,
            ids(circle.leaving),
            ids(circle.entering),
            tuple((ports[one], ports[other]) for one, other in circle.pairs),
            tuple((ids(leaving), base, ids(entering)) for leaving, base, entering in circle.waits),
        )
        kind: BreakKind = "circle" if circle.entering else "no-room"
        breaks.append(Break(circle.partition, (*shown.leaving, *shown.entering), circle.pairs, shown.message, kind))
    return tuple(breaks)


def unused_partition(taken: Collection[int]) -> int:
    """Return the number of a partition without members, for a policy that makes OpenSM write every table again.

    *taken*: partition numbers in use. Raises UsageError. Source: opensm osm_pkey_mgr.c, which writes a block if it
    differs from the block in its memory.
    """
    free = next((number for number in _UNUSED_PARTITIONS if number not in taken), None)
    if free is None:
        raise UsageError(f"{given('--rewrite')} needs a free partition number at or above 0x7001, and none is free")
    return free


def phases_of(course: TablesCourse[Any], survey: Survey) -> list[Phase]:
    """Return the changes of each step of a course, port by port."""
    phases = []
    for number, step in enumerate(course.steps):
        before = course.tables_before(number)
        steps: list[PlanStep] = [
            TableStep(survey.targets[key].id, {index: after.get(index, EMPTY) for index in indexes})
            for key, after in step.tables.items()
            if (indexes := differing_places(before[key], after))
        ]
        changes = [each for each in course.enforcement_of_step(number) if each.before != each.after]
        steps += [EnforcementStep(each.port, *each.after.bits) for each in changes]
        phases.append(Phase(step.name, tuple(steps)))
    return phases


def expectations(
    tables: Mapping[PortKey, Entries],
    before: Mapping[PortKey, Entries],
    enforcement: Iterable[EnforcementChange],
    prediction: Prediction,
) -> dict[PortKey, ExpectedPort]:
    """Return the values that are expected of each port after a step that leads to *tables*, except for ports that are
    set aside.

    If OpenSM keeps indexes, the index of a new P_Key depends on its memory of the port, which cannot be read. A leaf
    port's table has the order of its end port's table.
    """
    bits = {each.port.key: each.after for each in enforcement}
    return {
        key: ExpectedPort(
            entries,
            before[key],
            bits.get(key),
            prediction.known_indexes(key),
            prediction.options.allow_both_pkeys,
        )
        for key, entries in tables.items()
        if not prediction.is_set_aside(key)
    }


def partitions_in(tables: Iterable[Entries]) -> set[int]:
    """Return the partition numbers of all P_Keys in *tables*."""
    return {key & PARTITION_MASK for table in tables for key in table.values()}
