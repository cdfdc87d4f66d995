"""Plans of changes to one P_Key table, by index or by value, with their interlocks (IBA 10.9, 14.2.5.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ibkeys.change.edits import PKeyBlockEdit
from ibkeys.change.interlocks.tables import objections_to_table
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.plan import Change, Plan
from ibkeys.change.target import PortTarget
from ibkeys.change.wanted import moves
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import NoRoom, NotStored, UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.subnet_manager import BESIDE_SM
from ibkeys.keys.pkey import EMPTY, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.printable import counted

Table = tuple[PKey, ...]


def plan_set(writer: ChangeWriter, port: PortHandle, entries: dict[int, PKey]) -> Plan:
    """Plan to write the *entries* (index → P_Key); `EMPTY` clears an entry.

    Raises UsageError for an index past the capacity, an invalid key other than 0, or a port without a table; and, as
    all plans of this module, MKeyNeeded and the errors of reading the port.
    """
    before = _read(writer, port)
    after = list(before)
    for index, key in entries.items():
        if not 0 <= index < len(before):
            raise UsageError(
                f"{port}: index {index} is past the end of the table, which has {len(before)} entries (0 to "
                f"{len(before) - 1})"
            )
        if key and not key.is_valid:
            raise UsageError(f"{key} is the invalid P_Key (partition 0); to clear entry {index} write '{index}='")
        after[index] = key
    return _plan(writer, port, before, tuple(after), [])


def plan_add(writer: ChangeWriter, port: PortHandle, keys: Sequence[PKey]) -> Plan:
    """Plan to put each key into the first free entry. Index 0 is kept for the default P_Key while another is free.

    A key that the table already has stays where it is. Raises NoRoom, UsageError.
    """
    before = _read(writer, port)
    for key in keys:
        if not key.is_valid:
            raise UsageError(f"{key} is the invalid P_Key (partition 0); it cannot be added")
    _refuse_without_room(port, before, keys)
    after, notes = list(before), []
    for key in keys:
        if key in after:
            notes.append(f"{key} is already at index {after.index(key)}")
            continue
        other = next((index for index, entry in enumerate(after) if entry.partition == key.partition), None)
        if other is not None:
            notes.append(
                f"{after[other]} of the same partition stays at index {other}; to change it in place: pkey-set "
                f"{other}={key}"
            )
        after[_free_index(after, key)] = key
    return _plan(writer, port, before, tuple(after), notes)


def plan_remove(writer: ChangeWriter, port: PortHandle, keys: Sequence[PKey]) -> Plan:
    """Plan to clear each key wherever it stands; the others keep their indexes. A key that the table lacks is noted.
    Raises UsageError for an invalid key."""
    before = _read(writer, port)
    after, notes = list(before), []
    for key in keys:
        if not key.is_valid:
            raise UsageError(f"{key} is the invalid P_Key (partition 0); it cannot be removed")
        if key not in after:
            twin = next((entry for entry in after if entry.partition == key.partition), None)
            notes.append(f"{key} is not in the table" + (f" ({twin} of the same partition is)" if twin else ""))
        after = [EMPTY if entry == key else entry for entry in after]
    return _plan(writer, port, before, tuple(after), notes)


def _read(writer: ChangeWriter, port: PortHandle) -> Table:
    """Return the P_Key table; read also the end port's PortInfo (LID, M_Key) and the enforcement bits. Raises
    UsageError if the port has no table."""
    port.read_port_info()
    writer.note_master_sm_lid(port)
    table = port.read_p_keys()
    if not table:
        raise UsageError(f"{port}: this port has no P_Key table (capacity 0)")
    return table


def _refuse_without_room(port: PortHandle, table: Table, keys: Sequence[PKey]) -> None:
    """Raise NoRoom if *table* has fewer free entries than there are keys that it does not hold yet."""
    new = list(dict.fromkeys(key for key in keys if key not in table))
    free = sum(not entry.is_valid for entry in table)
    if len(new) <= free:
        return
    what = str(new[0]) if len(new) == 1 else counted(len(new), "P_Key")
    needed = "1 entry is" if len(new) == 1 else f"{len(new)} entries are"
    have = f"{free} of {len(table)} {'is' if free == 1 else 'are'} free"
    advice = f"remove {counted(len(new) - free, 'P_Key')} first (pkey-remove)"
    if len(new) > len(table):
        advice = "so many never fit into this table"
    raise NoRoom(f"{port}: no room for {what}: {needed} needed, and {have}; {advice}")


def _free_index(table: Sequence[PKey], key: PKey) -> int:
    """Return the index of the entry that *key* gets; `_refuse_without_room` has checked that an entry is free."""
    free = [index for index, entry in enumerate(table) if not entry.is_valid]
    if free[0] == 0 and not key.is_default and len(free) > 1:
        return free[1]
    return free[0]


def _plan(writer: ChangeWriter, port: PortHandle, before: Table, after: Table, notes: list[str]) -> Plan:
    model = port.port
    plan = TablePlan(writer.command, notes=notes, completes=[model], before=before, after=after)
    plan.final_values = {("pkey", index): str(key) if key else None for index, key in enumerate(after)}
    plan.changes = [
        Change(model, "pkey", index, str(old) if old else None, str(new) if new else None)
        for index, (old, new) in enumerate(zip(before, after, strict=True))
        if old != new
    ]
    if not plan.pending:
        return plan
    target = PortTarget.of(port)
    plan.objections = [
        *objections_to_table(writer, model, _entries(before), _entries(after)),
        *writer.objection_to_active_sm(BESIDE_SM),
    ]
    plan.stages = _stages(target, before, after, writer.consent.covers("stale"))
    return plan


# --- making the change -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TablePlan(Plan):
    """A change of the P_Key table of one port, from ``before`` to ``after``; the whole table is read at the end."""

    before: Table = ()
    after: Table = ()

    def prove(self) -> None:
        """Prove by a fresh read of the whole table that every changed entry is as planned. Raises NotStored, and the
        errors of the read."""
        handle = self.stages[0][0].target.handle
        wrong = [
            f"index {index} is {have} instead of {want}"
            for index, (old, want, have) in enumerate(zip(self.before, self.after, handle.read_p_keys(), strict=True))
            if old != want and have != want
        ]
        if wrong:
            raise NotStored(f"{handle}: the table read back differs: {'; '.join(wrong[:4])}")


def _stages(target: PortTarget, before: Table, after: Table, takes_over: bool) -> list[list[PendingSet]]:
    """Return one stage for each block that is written; each expects the table that the stages before it have left."""
    known, stages = _entries(before), []
    for start, wanted in steps_between(before, after):
        writes = {start + offset: key for offset, key in enumerate(wanted) if key != before[start + offset]}
        edit = PKeyBlockEdit(target, start // P_KEYS_PER_BLOCK, known, writes, takes_over=takes_over)
        stages.append([PendingSet(edit)])
        known = known | {index: key for index, key in writes.items() if key}
    return stages


def _entries(table: Table) -> dict[int, PKey]:
    return {index: key for index, key in enumerate(table) if key.is_valid}


def steps_between(before: Table, after: Table) -> list[tuple[int, Table]]:
    """Return the blocks to write, as (index of the first entry, wanted entries), additions before removals.

    One block is one Set, and so atomic. If a P_Key moves from one block to another, the block that gains it is written
    first; a block that both gains and loses such keys is written twice.
    """
    blocks = [
        start for start in range(0, len(before), P_KEYS_PER_BLOCK) if _block(before, start) != _block(after, start)
    ]
    moved = {
        source // P_KEYS_PER_BLOCK
        for source, target, _ in moves(_entries(before), _entries(after))
        if source // P_KEYS_PER_BLOCK != target // P_KEYS_PER_BLOCK
    }
    steps: list[tuple[int, Table]] = []
    late: list[tuple[int, Table]] = []
    for start in blocks:
        was, wanted = _block(before, start), _block(after, start)
        if start // P_KEYS_PER_BLOCK not in moved:
            gains = any(new and not old for old, new in zip(was, wanted, strict=True))
            (steps if gains else late).append((start, wanted))
            continue
        grown = tuple(old if old.is_valid else new for old, new in zip(was, wanted, strict=True))
        if grown != was:
            steps.append((start, grown))
        late.append((start, wanted))
    return steps + late


def _block(table: Sequence[PKey], start: int) -> Table:
    return tuple(table[start : start + P_KEYS_PER_BLOCK])
