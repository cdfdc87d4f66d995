"""The changes that are left to make in an apply, resume or undo: the present tables, the wanted tables, and the
*foreign* entries. These are entries that the operation neither found nor may have written; they trigger
``stale``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ibkeys.apply.former_values import FormerTable, FormerValues, valid_or_0
from ibkeys.apply.survey import Survey
from ibkeys.change.consent import Objection
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.keys.pkey import EMPTY, PARTITION_MASK, PKey
from ibkeys.plan.model import PartitionPlan
from ibkeys.plan.order import grow
from ibkeys.printable import counted, named
from ibkeys.topology.enforcement import ENFORCEMENT_BITS, Enforcement
from ibkeys.topology.port_id import PortId, PortKey


@dataclass(slots=True)
class RemainingChanges:
    """The changes that remain. ``tables`` and ``enforcement``: present and wanted values.

    ``foreign``: ports that are not as expected, with the reason (None: the text names the port); ``absent``: those of
    them that could not be found or read. ``empties``: by port, index → value for entries without a P_Key that get
    0x8000 and not 0.

    Tables that stay are read only if they may matter: if a partition is reused, or, in a rollback, if a table is too
    full. ``partner_tables``: tables that stay, at the far ends of the links of changing ports, if the leaf port
    enforces; ``other_tables``: the tables of all other end ports, so that no pair with them is cut.
    ``unchanged_enforcement``: enforcement of leaf ports that stays.
    """

    tables: list[TableChange] = field(default_factory=list)
    enforcement: list[EnforcementChange] = field(default_factory=list)
    foreign: list[tuple[PortId | None, str]] = field(default_factory=list)
    absent: list[tuple[PortId | None, str]] = field(default_factory=list)
    empties: dict[PortKey, dict[int, int]] = field(default_factory=dict)
    partner_tables: list[TableChange] = field(default_factory=list)
    other_tables: list[TableChange] = field(default_factory=list)
    unchanged_enforcement: list[EnforcementChange] = field(default_factory=list)

    @property
    def known_tables(self) -> list[TableChange]:
        """All known tables, for the order of writing: also those that stay."""
        return [*self.other_tables, *self.partner_tables, *self.tables]

    @property
    def known_enforcement(self) -> list[EnforcementChange]:
        """All known enforcement bits, for the order of writing: also those that stay."""
        return [*self.unchanged_enforcement, *self.enforcement]

    def leave_out(self, port: PortId | str, why: str) -> None:
        """Note a port that cannot be written, and the reason. *port* is text if its identity is not known otherwise."""
        each = (port, why) if isinstance(port, PortId) else (None, f"{port} ({why})")
        self.foreign.append(each)
        self.absent.append(each)

    @property
    def foreign_on_fabric(self) -> list[tuple[PortId | None, str]]:
        """The foreign ports that were found and read on the fabric, each with the reason."""
        return [each for each in self.foreign if each not in self.absent]

    def stale_objections(self, advice: str) -> list[Objection]:
        """Return the objection ``stale`` for the foreign ports, as a list of none or one."""
        if not self.foreign:
            return []
        what = f"{counted(len(self.foreign), 'port')} changed in the meantime or cannot be read"
        return [Objection("stale", f"{what}: {named(in_words(self.foreign))}; {advice}")]


def in_words(ports: Iterable[tuple[PortId | None, str]]) -> list[str]:
    """Return ports, each with the reason why it is named, as texts."""
    return [why if port is None else f"{port} ({why})" for port, why in ports]


def ports_of(plan: PartitionPlan) -> list[PortKey]:
    """Return the ports that a plan touches, each once."""
    changing = [table.port.key for table in plan.tables if table.differs]
    enforcing = [change.port.key for change in plan.enforcement if change.before != change.after]
    return list(dict.fromkeys(changing + enforcing))


def remaining_of(plan: PartitionPlan, survey: Survey, former: FormerValues | None = None) -> RemainingChanges:
    """Return the changes of *plan* that remain.

    Without *former* the fabric must be as the plan found it. With it, values that an earlier run of the plan wrote are
    expected too, and a table that the run wrote although the plan does not change it is restored. A foreign entry is
    overwritten if the plan changes it, else it stays.
    """
    remaining = RemainingChanges()
    for table in plan.tables:
        if table.differs:
            _add_table(remaining, table, survey, former)
    if former is not None:
        for key in sorted(set(former.ports_of_tables) - {table.port.key for table in plan.tables if table.differs}):
            if key in survey.targets:
                _undo_table(remaining, survey.targets[key], former.tables[key])
            else:
                remaining.leave_out(former.names[key], survey.missing[key])
    for change in plan.enforcement:
        if change.before != change.after:
            _add_enforcement(remaining, change, survey, former)
    peers = plan.peers
    for key in ports_of(plan):
        if key in survey.targets and _is_elsewhere(survey.targets[key], peers[key]):
            _note_other_link(remaining, survey.targets[key])
    return remaining


def _is_elsewhere(target: PortTarget, peer: PortKey | None) -> bool:
    """Return whether a port is linked to another port than *peer*; False for a port without a link."""
    return None not in (peer, target.peer) and target.peer != peer


def _note_other_link(remaining: RemainingChanges, target: PortTarget) -> None:
    """Note as foreign a port that is linked to another port than when the plan was made: a leaf port would get the
    P_Keys of a host that is elsewhere now."""
    remaining.foreign.append((target.id, f"it is linked to {target.port.peer} now"))


def _add_table(remaining: RemainingChanges, table: TableChange, survey: Survey, former: FormerValues | None) -> None:
    target = survey.targets.get(table.port.key)
    if target is None:
        remaining.leave_out(table.port, survey.missing[table.port.key])
        return
    now = target.table
    if max(table.after, default=0) >= (target.port.capacity or 0):
        remaining.leave_out(table.port, f"its table has only {target.port.capacity} entries")
        return
    between = grow(table).entries
    earlier = former.tables.get(table.port.key, FormerTable()) if former is not None else None
    written_values = earlier.written_values if earlier is not None else {}
    after, surprises = dict(now), []
    for index in sorted({*now, *table.before, *table.after, *between}):
        have, was, wanted = (each.get(index, EMPTY) for each in (now, table.before, table.after))
        known = {was}
        if earlier is not None:
            known |= {wanted, between.get(index, EMPTY), *written_values.get(index, ())}
        if have not in known:
            surprises.append(f"index {index} is {have or 'empty'}, not {was or 'empty'}")
        if have in known or was != wanted:
            _put(after, index, wanted)
    if surprises:
        remaining.foreign.append((table.port, "; ".join(surprises[:2])))
    capacity = target.port.capacity or 0
    # Identity, capacity and link of the port are taken from the fabric: the plan document may be wrong about them.
    change = replace(table, port=target.id, before=now, after=after, capacity=capacity, peer=target.peer)
    remaining.tables.append(change)
    values = dict(enumerate(target.values))
    if earlier is not None:
        values |= earlier.values_before
    remaining.empties[table.port.key] = _empties_in(values)


def _empties_in(values: Mapping[int, int]) -> dict[int, int]:
    """Return those of *values* that are 0x8000: entries without a P_Key that are not 0."""
    return {index: value for index, value in values.items() if value and not value & PARTITION_MASK}


def _add_enforcement(
    remaining: RemainingChanges, change: EnforcementChange, survey: Survey, former: FormerValues | None
) -> None:
    target = survey.targets.get(change.port.key)
    if target is None:
        remaining.leave_out(change.port, survey.missing[change.port.key])
        return
    now = target.enforcement
    known = [change.before]
    if former is not None:
        known += [change.after, former.bits.get(change.port.key, change.before)]
    if any(bit not in seen for bit, *seen in zip(now.bits, *(each.bits for each in known), strict=True)):
        remaining.foreign.append((change.port, "its enforcement bits changed since the plan was made"))
    remaining.enforcement.append(replace(change, port=target.id, before=now))


def _put(table: dict[int, PKey], index: int, key: PKey) -> None:
    if key & PARTITION_MASK:
        table[index] = key
    else:
        table.pop(index, None)


# --- rolling back -----------------------------------------------------------------------------------------------------


def remaining_of_undo(former: FormerValues, survey: Survey) -> RemainingChanges:
    """Return the changes that restore the former tables, byte for byte, and the former enforcement. Entries that
    another program or administrator has written stay.

    If a leaf port is linked to another host now, no P_Key is removed from it and no enforcement is switched on, so that
    this host is not disconnected.
    """
    remaining, peers = RemainingChanges(), former.peers()
    for key in former.ports:
        target = survey.targets.get(key)
        if target is None:
            remaining.leave_out(former.names[key], survey.missing[key])
            continue
        is_of_another = target.port.is_external and _is_elsewhere(target, peers.get(key))
        if is_of_another:
            _note_other_link(remaining, target)
        if key in former.tables:
            _undo_table(remaining, target, former.tables[key], only_adds=is_of_another)
        if key in former.bits:
            _undo_bits(remaining, key, target, former, only_off=is_of_another)
    return remaining


def _undo_bits(
    remaining: RemainingChanges, key: PortKey, target: PortTarget, former: FormerValues, only_off: bool
) -> None:
    now, found = target.enforcement, former.bits[key]
    own, written = former.changed_bits[key], former.written_bits[key]
    bits = list(zip(ENFORCEMENT_BITS, now.bits, found.bits, strict=True))
    back = Enforcement(*(had if name in own else have for name, have, had in bits))
    if any(have != had and name not in written for name, have, had in bits):
        remaining.foreign.append((target.id, "an enforcement bit has changed since, which the operation did not write"))
    if only_off:
        back = Enforcement(now.inbound and back.inbound, now.outbound and back.outbound)
    if back != now:
        remaining.enforcement.append(EnforcementChange(target.id, now, back))


def _undo_table(remaining: RemainingChanges, target: PortTarget, table: FormerTable, only_adds: bool = False) -> None:
    values, overwritten, written_values = target.values, table.overwritten_values, table.written_values
    before, after, surprises = target.table, target.table, []
    former = table.values_before | overwritten
    gone = [index for index, value in former.items() if index >= len(values) and valid_or_0(value)]
    if gone:
        remaining.leave_out(target.id, f"index {gone[0]} is gone: the table has {len(values)} entries now")
    for index, value in former.items():
        if index >= len(values):
            continue
        have = values[index]
        if valid_or_0(have) not in {valid_or_0(value), *written_values.get(index, ())}:
            surprises.append(f"index {index} is {PKey(have)}")
            continue
        if index not in overwritten or (only_adds and valid_or_0(have)):
            continue
        _put(after, index, PKey(value))
    if surprises:
        remaining.foreign.append((target.id, "; ".join(surprises[:2])))
    if before != after:
        # The present values too: a P_Key may be put at a free index for a while.
        remaining.empties[target.id.key] = _empties_in(dict(enumerate(values)) | overwritten)
        remaining.tables.append(TableChange(target.id, before, after, len(values), target.peer))
