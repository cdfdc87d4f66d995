"""From what a plan says and what is on the fabric to what there is to do: for apply, for resume, for undo.

Each time the same: the tables as they are, the tables as they shall be, and what is *foreign*: entries that are neither
what the plan found nor what it may have written. Foreign entries trigger ``stale``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from ibkeys.apply.survey import Survey
from ibkeys.change.consent import Objection
from ibkeys.change.target import Target
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.errors import UsageError
from ibkeys.keys.pkey import EMPTY, PARTITION_MASK, PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.model import PartitionPlan
from ibkeys.plan.order import grow
from ibkeys.printable import counted, named
from ibkeys.store.journal import Entry, FileImage, Image, Journal, OperationRecord
from ibkeys.topology.enforcement import Enforcement
from ibkeys.topology.port_id import PortId, PortKey

_BLOCK: Final = struct.Struct(f">{P_KEYS_PER_BLOCK}H")
_BITS: Final = ("partition_enforcement_inbound", "partition_enforcement_outbound")


@dataclass(slots=True)
class Remaining:
    """What there is to do. ``tables`` and ``enforcement``: as is, as it should be.

    ``foreign``: ports that are not as expected; ``absent``: those of them that could not be found or read, and why
    (None: only its text is known). ``empties``: index → value by port, where an entry without P_Key shall hold 0x8000
    and not 0.

    What stays is read only where it may matter who else is there: a partition is reused, and in the rollback also where
    a table is too full. ``partners``: the tables at the other end of the
    links of what changes, where the leaf port enforces; ``others``: those of all other end ports, so that nobody is cut
    from them. ``standing``: enforcement of leaf ports that stays.
    """

    tables: list[TableChange] = field(default_factory=list)
    enforcement: list[EnforcementChange] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    absent: list[tuple[PortId | None, str]] = field(default_factory=list)
    empties: dict[PortKey, dict[int, int]] = field(default_factory=dict)
    partners: list[TableChange] = field(default_factory=list)
    others: list[TableChange] = field(default_factory=list)
    standing: list[EnforcementChange] = field(default_factory=list)

    @property
    def known_tables(self) -> list[TableChange]:
        """All tables that are known, for the order: those that stay too."""
        return [*self.others, *self.partners, *self.tables]

    @property
    def known_enforcement(self) -> list[EnforcementChange]:
        """All enforcement that is known, for the order: also where it stays."""
        return [*self.standing, *self.enforcement]

    def leave_out(self, port: PortId | str, why: str) -> None:
        """Note a port that cannot be written, and why. *port* is text where only that is known of it."""
        said = f"{port} ({why})"
        self.foreign.append(said)
        self.absent.append((port, why) if isinstance(port, PortId) else (None, said))

    def stale(self, advice: str) -> list[Objection]:
        """Return the objection for what is foreign, as a list of none or one."""
        if not self.foreign:
            return []
        what = f"{counted(len(self.foreign), 'port')} changed in the meantime or cannot be read"
        return [Objection("stale", f"{what}: {named(self.foreign)}; {advice}")]


def ports_of(plan: PartitionPlan) -> list[PortKey]:
    """Return the ports that a plan touches, each once."""
    changing = [table.port.key for table in plan.tables if table.differs]
    enforcing = [change.port.key for change in plan.enforcement if change.before != change.after]
    return list(dict.fromkeys(changing + enforcing))


def remaining_of(plan: PartitionPlan, survey: Survey, former: Former | None = None) -> Remaining:
    """Return what is left to do of *plan*.

    Without *former* the fabric must be as the plan found it; with it, what an earlier run of the plan read or wrote is
    no surprise either, and a table that was written for a while, though the plan leaves it alone, is restored. An
    entry that is foreign becomes what the plan says where the plan changes it, else it stays.
    """
    remaining = Remaining()
    for table in plan.tables:
        if table.differs:
            _add_table(remaining, table, survey, former)
    if former is not None:
        for key in sorted(former.values.keys() - {table.port.key for table in plan.tables if table.differs}):
            if key in survey.targets:
                _undo_table(remaining, key, survey.targets[key], former)
            else:
                remaining.leave_out(former.names[key], survey.missing[key])
    for change in plan.enforcement:
        if change.before != change.after:
            _add_enforcement(remaining, change, survey, former is not None)
    return remaining


def _add_table(remaining: Remaining, table: TableChange, survey: Survey, former: Former | None) -> None:
    target = survey.targets.get(table.port.key)
    if target is None:
        remaining.leave_out(table.port, survey.missing[table.port.key])
        return
    now = target.table
    if max(table.after, default=0) >= (target.port.capacity or 0):
        remaining.leave_out(table.port, f"its table has only {target.port.capacity} entries")
        return
    between = grow(table).entries
    after, surprises = dict(now), []
    for index in sorted({*now, *table.before, *table.after, *between}):
        have, was, wanted = (each.get(index, EMPTY) for each in (now, table.before, table.after))
        known = {was}
        if former is not None:
            known |= {wanted, between.get(index, EMPTY), *former.written.get((table.port.key, index), ())}
        if have not in known:
            surprises.append(f"index {index} is {have or 'empty'}, not {was or 'empty'}")
        if have in known or was != wanted:
            _put(after, index, wanted)
    if surprises:
        remaining.foreign.append(f"{table.port} ({'; '.join(surprises[:2])})")
    capacity = target.port.capacity or 0
    # What the port is, and what it is linked to, is what was found: a document may be wrong about it.
    change = replace(table, port=target.id, before=now, after=after, capacity=capacity, peer=target.peer)
    remaining.tables.append(change)
    values = dict(enumerate(target.values))
    if former is not None:
        values |= former.values.get(table.port.key, {})
    remaining.empties[table.port.key] = {
        index: value for index, value in values.items() if value and not value & PARTITION_MASK
    }


def _add_enforcement(remaining: Remaining, change: EnforcementChange, survey: Survey, resuming: bool) -> None:
    target = survey.targets.get(change.port.key)
    if target is None:
        remaining.leave_out(change.port, survey.missing[change.port.key])
        return
    now = target.enforcement
    if now != change.before and not resuming:
        remaining.foreign.append(f"{change.port} (its enforcement bits changed since the plan was made)")
    remaining.enforcement.append(replace(change, port=target.id, before=now))


def _put(table: dict[int, PKey], index: int, key: PKey) -> None:
    if key & PARTITION_MASK:
        table[index] = key
    else:
        table.pop(index, None)


# --- rolling back -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Former:
    """What an operation overwrote, and what it may have left: by port and index, and the enforcement bits by port.

    ``changed``: which bits any Set of it changed, inbound and outbound; the others are not its own. ``files``: those
    that it replaced, in that order.
    """

    values: dict[PortKey, dict[int, int]] = field(default_factory=dict)
    written: dict[tuple[PortKey, int], frozenset[int]] = field(default_factory=dict)
    bits: dict[PortKey, Enforcement] = field(default_factory=dict)
    changed: dict[PortKey, frozenset[str]] = field(default_factory=dict)
    names: dict[PortKey, str] = field(default_factory=dict)
    files: list[FileImage] = field(default_factory=list)
    counters: int = 0

    @property
    def ports(self) -> list[PortKey]:
        """The ports that something can be restored to."""
        return list(dict.fromkeys([*self.values, *self.bits]))

    @property
    def brought(self) -> set[tuple[PortKey, PKey]]:
        """The P_Keys that the operation put into tables that had none of them: to take them away again removes none."""
        found = {(key, PKey(value)) for key, values in self.values.items() for value in values.values()}
        return {(key, PKey(value)) for (key, _), values in self.written.items() for value in values if value} - found


def former_in(journal: Journal, record: OperationRecord) -> Former:
    """Read from the journal what was there before the first Set of an operation, and what any Set may have left: of its
    own, and of the operations that undid it, or that it undid.

    Counters that were cleared cannot be restored, and are only counted. Raises UsageError for an operation that
    changed M_Keys: they belong to the key store and its own commands; StoreError.
    """
    former = former_of(record.command, journal.entries(record.id))
    former.files = [entry.image for entry in journal.files(record.id) if entry.status != "failed"]
    for relative in journal.relatives(record.id):
        for entry in journal.entries(relative):
            key = (entry.image.node_guid, entry.image.port)
            if entry.image.attribute == "P_KeyTable":
                _remember_written(former, key, entry.image)
            else:
                _remember_changed(former, key, entry.image)
    return former


def former_of(command: str, entries: Iterable[Entry]) -> Former:
    """As `former_in`, of the entries of one operation alone."""
    former = Former()
    for entry in entries:
        image = entry.image
        key = (image.node_guid, image.port)
        former.names[key] = f"{image.node_desc!r} 0x{image.node_guid:016x} port {image.port}"
        if image.attribute == "P_KeyTable":
            _remember_block(former, key, image)
        else:
            _remember_bits(former, key, command, image)
    return former


def _remember_block(former: Former, key: PortKey, image: Image) -> None:
    start = (image.attribute_modifier & 0xFFFF) * P_KEYS_PER_BLOCK
    values = former.values.setdefault(key, {})
    for index, before in enumerate(_BLOCK.unpack(image.before), start):
        values.setdefault(index, before)
    _remember_written(former, key, image)


def _remember_written(former: Former, key: PortKey, image: Image) -> None:
    start = (image.attribute_modifier & 0xFFFF) * P_KEYS_PER_BLOCK
    pairs = zip(_BLOCK.unpack(image.before), _BLOCK.unpack(image.after), strict=True)
    for index, (before, after) in enumerate(pairs, start):
        known = former.written.get((key, index), frozenset())
        former.written[key, index] = known | {_value(before), _value(after)}


def _value(value: int) -> int:
    return value if value & PARTITION_MASK else 0


def _remember_bits(former: Former, key: PortKey, command: str, image: Image) -> None:
    before, after = PortInfo(image.before), PortInfo(image.after)
    if _remember_changed(former, key, image) or key in former.bits:
        former.bits.setdefault(key, Enforcement(*(bool(getattr(before, name)) for name in _BITS)))
    elif image.key_ref is None and any(getattr(after, f"{letter}_key_violations") == 0 for letter in "mpq"):
        former.counters += 1
    else:
        raise UsageError(
            f"{command} changed M_Key, ProtectBits or lease of {former.names[key]}; undo is for P_Keys and enforcement "
            "only: restore them with mkey-set, the former key is in the key store"
        )


def _remember_changed(former: Former, key: PortKey, image: Image) -> bool:
    before, after = PortInfo(image.before), PortInfo(image.after)
    changed = frozenset(name for name in _BITS if getattr(before, name) != getattr(after, name))
    former.changed[key] = former.changed.get(key, frozenset()) | changed
    return bool(changed)


def remaining_of_undo(former: Former, survey: Survey) -> Remaining:
    """Return what there is to do to have what was there before, byte for byte. What is foreign stays as it is."""
    remaining = Remaining()
    for key in former.ports:
        target = survey.targets.get(key)
        if target is None:
            remaining.leave_out(former.names[key], survey.missing[key])
            continue
        if key in former.values:
            _undo_table(remaining, key, target, former)
        if key in former.bits:
            _undo_bits(remaining, key, target, former)
    return remaining


def _undo_bits(remaining: Remaining, key: PortKey, target: Target, former: Former) -> None:
    now, found = target.enforcement, former.bits[key]
    inbound, outbound = (name in former.changed[key] for name in _BITS)
    back = Enforcement(found.inbound if inbound else now.inbound, found.outbound if outbound else now.outbound)
    if back != found:
        remaining.foreign.append(f"{target.id} (an enforcement bit that the operation did not write changed)")
    if back != now:
        remaining.enforcement.append(EnforcementChange(target.id, now, back))


def _undo_table(remaining: Remaining, key: PortKey, target: Target, former: Former) -> None:
    values = target.values
    before, after, surprises = target.table, target.table, []
    gone = [index for index, value in former.values[key].items() if index >= len(values) and _value(value)]
    if gone:
        remaining.leave_out(target.id, f"index {gone[0]} is gone: the table has {len(values)} entries now")
    for index, value in former.values[key].items():
        if index >= len(values):
            continue
        have = values[index]
        if _value(have) not in former.written[key, index]:
            surprises.append(f"index {index} is {PKey(have)}")
            continue
        _put(after, index, PKey(value))
        if value and not value & PARTITION_MASK:
            remaining.empties.setdefault(key, {})[index] = value
    if surprises:
        remaining.foreign.append(f"{target.id} ({'; '.join(surprises[:2])})")
    if before != after:
        remaining.tables.append(TableChange(target.id, before, after, len(values), target.peer))
