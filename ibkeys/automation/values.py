"""Finishing an operation that sets values of single ports: entries of a P_Key table, enforcement, violation counters,
or an M_Key with its level and lease.

The journal has the values that such an operation was to set, and those that it found. Each value is finished by the
plan of its kind, so that all checks and interlocks of a new change hold. A value that is neither of the two was set by
another administrator or program, and is not overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from ibkeys.automation.making import ChangeArguments, PreparedChange, make_change
from ibkeys.automation.result import ChangeResult, PortOutcome, outcomes
from ibkeys.change.counters import plan_clear
from ibkeys.change.enforce import plan_enforce
from ibkeys.change.images import changes_of
from ibkeys.change.interlocks.overtaken import overtaken, why_overtaken
from ibkeys.change.next_commands import close_command
from ibkeys.change.open_operations import not_open
from ibkeys.change.pkeys import plan_set
from ibkeys.change.plan import Plan, ResumedOperation
from ibkeys.change.target import key_for_set
from ibkeys.change.wanted import value_in_words
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.address import GuidAddress
from ibkeys.errors import AddressError, KeyGone, Refused, StoreError, Unreachable
from ibkeys.fabric.handle import PortHandle
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import EMPTY, PKey
from ibkeys.mad.attributes import VIOLATION_COUNTERS
from ibkeys.mkeys.set import plan_mkey_set
from ibkeys.store.journal import Image, Journal, JournalEntry, OperationRecord, WantedValue
from ibkeys.topology.enforcement import ENFORCEMENT_BITS

Values = Sequence[WantedValue]
_COUNTERS: Final = frozenset(row.attr for row in VIOLATION_COUNTERS)
_LEVEL_AND_LEASE: Final = ("m_key_protect_bits", "m_key_lease_period")
_NOT_KEPT: Final = frozenset({"stale", "active-sm"})
"""Interlocks whose override holds for one command only, and not when its operation is resumed."""
_IF_OTHER_SUBNET: Final = "if the operation belongs to another subnet: name the local port that leads there (-C, -P)"
_NO_KEY: Final = "zero"


def plan_values(writer: ChangeWriter, record: OperationRecord) -> Plan:
    """Plan to finish an operation that sets values of single ports, with the overrides with which it began.

    Raises Refused (``overtaken``) if a port has a value that is neither the former nor the wanted one, (``stale``) if a
    port is not on the fabric; StoreError for an operation that is not open, or of which the journal or the key store
    has lost a part; and the errors of the plan of its kind.
    """
    if record.state in ("done", "undone"):
        raise not_open(record)
    if record.starts:
        kept = frozenset(record.starts[0].origin.overrides) - _NOT_KEPT
        writer.consent = replace(writer.consent, overrides=writer.consent.overrides | kept)
    with Journal.read(writer.fabric.stores.journal) as journal:
        values, entries = journal.wanted_values(record.id), journal.entries(record.id)
    ports = [(_find(writer, record, place), list(each)) for place, each in groupby(values, _place)]
    plan = _planner_of(values)(writer, record, ports, entries)
    plan.resumed = ResumedOperation(record.id, lambda image: _is_in_force(image, plan))
    return plan


def why_it_may_end(writer: ChangeWriter, record: OperationRecord) -> str | None:
    """Return the reason for which the record of such an operation may be ended without writing; None if there is none.
    Raises the errors of `plan_values` that are no such reason."""
    try:
        return why_overtaken(lambda: plan_values(writer, record))
    except KeyGone as error:
        return str(error)
    except Refused as error:
        if not error.can_be_closed:
            raise
        return str(error)


def finish_values(asked: ChangeArguments, record: OperationRecord) -> ChangeResult:
    """Finish the operation for a script. Raises the errors of `plan_values`."""

    def prepare(writer: ChangeWriter) -> _Values:
        plan = plan_values(writer, record)
        plan.close_if_complete(writer)
        return _Values(plan, record.id)

    return make_change(record.command, asked, prepare)


@dataclass
class _Values(PreparedChange):
    """A prepared change of values of single ports. ``operation``: the operation that it finishes."""

    plan: Plan
    operation: int

    def make(self, writer: ChangeWriter) -> None:
        """Make the change."""
        writer.apply(self.plan)

    def result(self, is_made: bool) -> ChangeResult:
        """Return which ports are proven, and which failed."""
        failed = tuple(PortOutcome(each.port.id, each.error) for each in self.plan.troubles)
        names = {each.port.id for each in self.plan.troubles}
        wanted = [port.id for port in self.plan.ports() if port.id not in names]
        is_done = is_made or not self.plan.pending
        return ChangeResult(
            self.plan.command,
            self.operation,
            changed=is_made and self.plan.pending,
            proven=is_done and not failed,
            done=outcomes(wanted) if is_made else (),
            failed=failed,
            left=() if is_done else outcomes(wanted, "not changed"),
        )


# --- ports ------------------------------------------------------------------------------------------------------------


def _place(value: WantedValue) -> tuple[int, int]:
    return value.node_guid, value.port


def _find(writer: ChangeWriter, record: OperationRecord, place: tuple[int, int]) -> PortHandle:
    """Return the port with a node GUID and a port number. Raises Refused (``stale``) if it is not on the fabric."""
    node_guid, num = place
    try:
        return writer.fabric.find_port(GuidAddress(node_guid), num)
    except (AddressError, Unreachable) as error:
        refusal = Refused(f"operation {record.id} ({record.command}) changes port {num} of a node: {error}", "stale")
        refusal.can_be_closed = True
        raise refusal.unchanged().going_on(_IF_OTHER_SUBNET, f"if it does not come back: {_end_of(record)}") from None


def _end_of(record: OperationRecord) -> str:
    """Return, in words, the command that only ends the record of the operation."""
    return f"`{close_command(record.id)}` only ends its record"


# --- the kinds of values ----------------------------------------------------------------------------------------------

_Ports = Sequence[tuple[PortHandle, Values]]
_Planner = Callable[[ChangeWriter, OperationRecord, _Ports, Sequence[JournalEntry]], Plan]


def _planner_of(values: Values) -> _Planner:
    """Return the function that plans these values, which are of one kind. Raises StoreError if they are not."""
    kinds = frozenset(each.kind for each in values)
    for known, planner in _PLANNERS.items():
        if kinds and kinds <= known:
            return planner
    raise StoreError(f"the journal is damaged: {', '.join(sorted(kinds)) or 'no value'} cannot be set by one operation")


def _plan_p_keys(writer: ChangeWriter, record: OperationRecord, ports: _Ports, entries: Sequence[JournalEntry]) -> Plan:
    [(port, values)] = ports
    table = port.read_p_keys()
    wanted: dict[int, PKey] = {}
    for each in values:
        index, has = each.index or 0, table[each.index or 0] if (each.index or 0) < len(table) else EMPTY
        _refuse_other(record, port, each, str(has) if has else None)
        wanted[index] = PKey.parse(str(each.after)) if each.after is not None else EMPTY
    return plan_set(writer, port, wanted)


def _plan_enforcement(
    writer: ChangeWriter, record: OperationRecord, ports: _Ports, entries: Sequence[JournalEntry]
) -> Plan:
    [(port, values)] = ports
    info = port.read_port_info()
    for each in values:
        _refuse_other(record, port, each, bool(getattr(info, each.kind)))
    wanted = {each.kind: bool(each.after) for each in values}
    return plan_enforce(writer, port, *(wanted.get(bit) for bit in ENFORCEMENT_BITS))


def _plan_counters(
    writer: ChangeWriter, record: OperationRecord, ports: _Ports, entries: Sequence[JournalEntry]
) -> Plan:
    """Plan to clear the counters. Any value is right: a counter may have counted since."""
    return plan_clear(writer, [port for port, _ in ports])


def _plan_m_key(writer: ChangeWriter, record: OperationRecord, ports: _Ports, entries: Sequence[JournalEntry]) -> Plan:
    [(port, values)] = ports
    info = port.read_port_info()
    wanted = {each.kind: each for each in values}
    row, key = None, None
    if "m_key" in wanted:
        row, key = _stored_key(writer, record, entries)
        has = key_for_set(port)
        if has != key:
            _refuse_other(record, port, wanted["m_key"], _NO_KEY if has.is_zero else wanted["m_key"].before)
            known = writer.keystore.all_keys().get(port.port.port_guid, [])
            if not has.is_zero and has not in known:
                raise _overtaken(record, port, "an M_Key that the key store does not have")
    for name in _LEVEL_AND_LEASE:
        if name in wanted:
            _refuse_other(record, port, wanted[name], getattr(info, name))
    level, lease = (int(wanted[name].after or 0) if name in wanted else None for name in _LEVEL_AND_LEASE)
    return plan_mkey_set(writer, port, key, level, lease, row=row)


def _stored_key(writer: ChangeWriter, record: OperationRecord, entries: Sequence[JournalEntry]) -> tuple[int, MKey]:
    """Return the number and the key of the key store's row that the operation was to set. Raises StoreError, KeyGone
    if the key store does not have it."""
    names = [each.image.key_name for each in entries if each.image.key_name is not None]
    if not names:
        raise StoreError(f"the journal is damaged: operation {record.id} ({record.command}) has no name of its M_Key")
    try:
        stored = writer.keystore.named(names[-1])
    except KeyGone as error:
        raise error.going_on(_end_of(record)) from None
    return stored.ref, stored.m_key


_PLANNERS: Final[Mapping[frozenset[str], _Planner]] = {
    frozenset({"pkey"}): _plan_p_keys,
    frozenset(ENFORCEMENT_BITS): _plan_enforcement,
    _COUNTERS: _plan_counters,
    frozenset({"m_key", *_LEVEL_AND_LEASE}): _plan_m_key,
}


# --- values that another administrator or program has set -------------------------------------------------------------


def _refuse_other(record: OperationRecord, port: PortHandle, value: WantedValue, has: str | int | bool | None) -> None:
    """Raise Refused (``overtaken``) if a port has a value that is neither the former nor the wanted one."""
    if has not in (value.before, value.after):
        name = f"{value.kind}[{value.index}]" if value.index is not None else value.kind
        raise _overtaken(record, port, f"{name} {value_in_words(has)}")


def _overtaken(record: OperationRecord, port: PortHandle, what: str) -> Refused:
    name = f"operation {record.id} ({record.command})"
    return overtaken(name, [f"{port} has {what}"], close_command(record.id))


def _is_in_force(image: Image, plan: Plan) -> bool:
    """Return whether the port of an image had all its values when *plan* was made."""
    return not any(
        (each.port.node.guid, each.port.num, each.kind, each.index) in _places(image) for each in plan.changes
    )


def _places(image: Image) -> Iterator[tuple[int, int, str, int | None]]:
    return ((image.node_guid, image.port, kind, index) for kind, index, _, _ in changes_of(image))
