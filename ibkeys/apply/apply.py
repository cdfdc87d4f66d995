"""Applying a plan to a fabric, and finishing an apply that was interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ibkeys import jsonfile
from ibkeys.apply.apply_plan import NEW_PLAN, ApplyHooks, ApplyPlan, apply_plan_of, keep_first, refuse_breaks
from ibkeys.apply.carrier import Carrier
from ibkeys.apply.carriers import CarrierChoice, carrier_of
from ibkeys.apply.direct import DirectCarrier
from ibkeys.apply.former_values import former_in
from ibkeys.apply.remaining import ports_of
from ibkeys.apply.survey import Survey
from ibkeys.arguments import given
from ibkeys.change.choosing import KEPT_CHOICE, verify_choice
from ibkeys.change.consent import Objection
from ibkeys.change.next_commands import advice_to_keep, commands_of_open, next_commands_of, open_elsewhere
from ibkeys.change.open_operations import not_open
from ibkeys.change.subnets import KEPT_SUBNET, is_of_other_subnet, refuse_other_subnet, subnet_guids
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileFormatError, Refused, StoreError, UsageError
from ibkeys.keys.pkey import PKey
from ibkeys.managers.hosts import SmHost
from ibkeys.partitions.joining import refused_members
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.document import dumps
from ibkeys.plan.document_reader import loads
from ibkeys.plan.model import PartitionPlan
from ibkeys.plan.order import new_members, removals
from ibkeys.printable import Detail, counted, named
from ibkeys.store.journal import Journal, OperationRecord, PlanRecord
from ibkeys.store.journal.rehearsals import last_rehearsal
from ibkeys.topology.port_id import PortKey


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions that the user gives an apply. ``removals``: P_Keys may be removed; ``breaks``: pairs may be
    briefly disconnected; ``first``: at most so many leaf switches in this run, None for all."""

    removals: bool = False
    breaks: bool = False
    first: int | None = None


_NAMED_FIRST: Final = ("open-operation", "active-sm", "stale")
"""Interlocks that are named before a missing permission, because the permission alone would not help."""


def plan_apply(
    writer: ChangeWriter,
    plan: PartitionPlan,
    permissions: Permissions | None = None,
    hooks: ApplyHooks | None = None,
    carrier: Carrier | None = None,
    most_unrehearsed: int | None = None,
) -> ApplyPlan:
    """Plan to apply a plan document. *permissions*: by default none. *carrier*: the backend that makes the change, by
    default Sets of ibkeys. *most_unrehearsed*: the most ports that a plan may change which was not rehearsed with the
    result ``identical``; None for any number.

    SMPs: a sweep, and ``ceil(capacity / 32)`` Gets for each port that the plan touches; at the end the same again, and
    one more for PortInfo. For the SMPs of each Set see `ibkeys.change.engine`. Raises MKeyNeeded; Refused for removals
    and breaks that are not permitted (a dry run only notes these in ``refusals``); UsageError for ``first`` with a
    carrier that changes all switches at once; StoreError, and the errors of the carrier.
    """
    carrier, permissions = carrier or DirectCarrier(writer), permissions or Permissions()
    _refuse_first(carrier, permissions)
    survey = carrier.survey(ports_of(plan), by_port_guid=True)
    remaining = carrier.find_remaining(plan, survey)
    apply_plan = apply_plan_of(writer, carrier, remaining, survey, plan, NEW_PLAN, hooks)
    apply_plan.digest = plan_digest(plan)
    _look_at_open_operations(writer, survey, apply_plan)
    _look_at_rehearsal(writer, apply_plan, len(ports_of(plan)), most_unrehearsed)
    _permit(writer, apply_plan, permissions)
    problems = [each for each in plan.problems if carrier.sends_sets or each.kind != "active-sm"]
    if plan.method not in (None, carrier.name):
        apply_plan.notes.append(f"the plan was made for the method {plan.method}, and this is made by {carrier.name}")
    serious = [each for each in problems if each.kind != "guid-not-found"]  # such a port may only be off
    if problems:
        first = (serious or problems)[0].message
        text = f"the plan names {counted(len(problems), 'problem')}, the first: {first}"
        apply_plan.notes.append(text if serious else Detail(text))
    policy = plan.policy.parsed()
    if apply_plan.phases and policy is not None and policy.accepted:
        joining = {**new_members(remaining.tables), **dict.fromkeys(plan.living_groups.partitions)}
        apply_plan.notes += refused_members(policy, joining, survey.topology)
    if apply_plan.phases:
        found = {table.port.key: table for table in remaining.tables}
        kept = replace(plan, tables=tuple(found.get(table.port.key, table) for table in plan.tables))
        permitted = {**asdict(permissions), "overrides": sorted(writer.consent.overrides), "digest": apply_plan.digest}
        permitted |= {
            "carrier": carrier.name,
            KEPT_CHOICE: carrier.choice is not None,
            KEPT_SUBNET: subnet_guids(writer, survey.topology),
            **carrier.journal_options(),
        }
        apply_plan.document, apply_plan.options = dumps(kept), json.dumps(permitted)
        apply_plan.can_be_closed = True
    return apply_plan


def _refuse_first(carrier: Carrier, permissions: Permissions) -> None:
    if permissions.first is not None and not carrier.sends_sets:
        first = given("--first")
        raise UsageError(f"{first} counts leaf switches, but {carrier.name} changes all of them at once: omit it")


def _permit(
    writer: ChangeWriter,
    apply_plan: ApplyPlan,
    permissions: Permissions,
    own: Collection[tuple[PortKey, PKey]] = (),
) -> None:
    """Refuse removals and breaks that the user has not permitted, and limit the plan to the permitted number of leaf
    switches. *own*: P_Keys that the operation itself added: to remove these needs no permission."""
    lost = [(port, key) for port, key in removals(apply_plan.remaining.tables) if (port.key, key) not in own]
    apply_plan.removed = len(lost)
    if lost and not permissions.removals:
        ports = list(dict.fromkeys(port for port, _ in lost))
        apply_plan.refusals.append(
            Refused(
                f"the plan removes {counted(len(lost), 'P_Key')} (full to limited counts as one) from "
                f"{counted(len(ports), 'port')}: {named([f'{port} loses {key}' for port, key in lost])}; "
                f"{given('--allow-removals')} permits it",
                "removals",
            )
        )
    if not permissions.breaks:
        refuse_breaks(apply_plan)
    if apply_plan.refusals and not writer.dry_run:
        for objection in writer.not_overridden(apply_plan):
            if objection.interlock in _NAMED_FIRST:
                raise objection.refusal()
        raise apply_plan.refusals[0]
    if permissions.first is not None:
        keep_first(writer, apply_plan, permissions.first)


def _look_at_open_operations(writer: ChangeWriter, survey: Survey, apply_plan: ApplyPlan) -> None:
    """Add an objection for each apply, or undo of one, that is or may be open on this subnet, also for one that may
    still be rolled back because no user confirms it, and a note for each that is open on another subnet. Raises
    StoreError."""
    here = {port.guid for port in survey.end_ports}
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = [(record, is_of_other_subnet(journal, record.id, here)) for record in list_not_ended(journal)]
        awaiting = [
            record
            for record in journal.list_operations()
            if record.is_of_plan and not record.is_unfinished and (record.awaits_confirmation or record.is_going_back)
            if not is_of_other_subnet(journal, record.id, here)
        ]
    apply_plan.notes += open_elsewhere(record for record, elsewhere in reversed(found) if elsewhere)
    for record in awaiting if apply_plan.phases else ():
        state = "waits to be confirmed" if record.awaits_confirmation else "is being rolled back"
        text = f"operation {record.id} ({record.command}) {state}: {next_commands_of(record)}"
        apply_plan.objections.insert(0, Objection("open-operation", text))
    for record in [record for record, elsewhere in found if apply_plan.phases and not elsewhere]:
        text = f"operation {record.id} ({record.command}) is open: {commands_of_open(record)}"
        apply_plan.objections.insert(0, Objection("open-operation", text))


def _look_at_rehearsal(writer: ChangeWriter, apply_plan: ApplyPlan, ports: int, most_unrehearsed: int | None) -> None:
    """Note the last rehearsal of the plan, and add an objection if the plan changes more *ports* than it may without a
    rehearsal that went as planned. Raises StoreError."""
    assert apply_plan.digest is not None
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = apply_plan.rehearsal = last_rehearsal(journal, apply_plan.digest)
    if most_unrehearsed is None or ports <= most_unrehearsed or not apply_plan.phases:
        return
    if found is None or found.verdict != "identical":
        how = "this plan was not rehearsed" if found is None else f"its last rehearsal ended as {found.verdict!r}"
        demand = f"the site file demands a rehearsal above {most_unrehearsed}"
        text = f"it changes {counted(ports, 'port')}, and {demand}: {how}"
        why = (
            "write the plan to a file (`ibkeys plan --out FILE`) and rehearse it on this host (`ibkeys rehearse FILE`)"
        )
        apply_plan.objections.append(Objection("not-rehearsed", text, why))


def list_unfinished(journal: Journal) -> list[OperationRecord]:
    """Return the operations of a plan that are unfinished: they were cut off, or their undo was."""
    return [each for each in journal.list_operations() if each.is_unfinished and journal.plan_of(each.id) is not None]


def list_not_ended(journal: Journal) -> list[OperationRecord]:
    """Return the operations whose record `ibkeys resume --overtaken` ends: unfinished operations of a plan, and an undo
    of such an operation whose own undo was cut off. An undo of one of these is left out, because its record is ended
    together with that of the operation that it undoes."""
    found = [record for record in journal.list_operations() if record.is_unfinished and record.is_of_plan]
    numbers = {record.id for record in found}
    return [record for record in found if record.undoes not in numbers]


def find_last_unfinished(
    writer: ChangeWriter,
    list_operations: Callable[[Journal], list[OperationRecord]] = list_unfinished,
    operation: int | None = None,
) -> OperationRecord:
    """Return the last of the operations that *list_operations* returns, by default the unfinished ones of a plan; or
    *operation*, if it is one of them. Raises StoreError if there is none."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        found = [record for record in list_operations(journal) if operation in (None, record.id)]
        if operation is not None and not found:
            raise not_open(journal.find(operation))
    if not found:
        place = writer.fabric.stores.journal or "the journal"
        raise StoreError(f"{place} has no unfinished apply; see `ibkeys journal`, or make a new plan (`ibkeys plan`)")
    return found[-1]


def plan_resume(
    writer: ChangeWriter,
    permissions: Permissions | None = None,
    hooks: ApplyHooks | None = None,
    carrier: Carrier | None = None,
    via: CarrierChoice | None = None,
    operation: int | None = None,
    as_chosen: bool = True,
) -> ApplyPlan:
    """Plan to finish an apply that was interrupted or stopped on purpose: *operation*, by default the last one.

    The permissions and overrides of the operation still hold, except for ``stale`` and ``active-sm``. *carrier*: by
    default the one with which it began, with the settings of *via*. *as_chosen* False: do not check whether its method
    would be chosen again.

    Raises StoreError if there is nothing to resume; FileFormatError if the plan in the journal is damaged; Refused
    (``stale``) if ibkeys chose its method and would choose another one now, (``overtaken``) if it belongs to another
    subnet; and the errors of `carrier_of` and `plan_apply`.
    """
    record = find_last_unfinished(writer, operation=operation)
    operation = record.id
    with Journal.read(writer.fabric.stores.journal) as journal:
        plan_record = journal.plan_of(operation)
        assert plan_record is not None
        former = former_in(journal, record)
    kept = loads(plan_record.document, f"operation {operation} of the journal", bound=False)
    # The plan in the journal may differ from the plan's file: it also has the foreign values that the apply left in
    # place.
    options = _options_of(plan_record)
    digest = str(options.get("digest", plan_digest(kept)))
    writer.consent = replace(writer.consent, overrides=writer.consent.overrides | options["overrides"])
    granted = permissions or Permissions()
    permissions = replace(
        granted, removals=granted.removals or options["removals"], breaks=granted.breaks or options["breaks"]
    )
    via = via or CarrierChoice()
    carrier = carrier or carrier_of(writer, via, plan_record)
    _refuse_first(carrier, permissions)
    survey = carrier.survey(list(dict.fromkeys([*ports_of(kept), *former.ports_of_tables])), by_port_guid=True)
    refuse_other_subnet(writer, operation, survey.topology, lambda: kept.peers)
    if carrier.sends_sets and as_chosen:
        verify_choice(writer, operation, carrier.name, survey.topology, via.hosts or [SmHost()])
    remaining = carrier.find_remaining(kept, survey, former)
    advice = f"see what happened, roll back (`ibkeys undo {operation}`), or {NEW_PLAN}"
    advice += f"; {advice_to_keep(operation)}" if remaining.foreign_on_fabric else ""
    apply_plan = apply_plan_of(writer, carrier, remaining, survey, kept, advice, hooks, operation)
    apply_plan.digest = digest
    apply_plan.operation_id, apply_plan.can_be_closed = operation, True
    had = {(table.port.key, key) for table in kept.tables for key in table.before.values()}
    _permit(writer, apply_plan, permissions, former.added_p_keys - had)
    return apply_plan


def _options_of(plan_record: PlanRecord) -> dict[str, Any]:
    """Return the options with which the operation was begun. Raises StoreError."""
    try:
        options = jsonfile.loads(plan_record.options.encode("utf-8", "surrogatepass"))
        overrides = frozenset(map(str, options["overrides"])) - {"stale", "active-sm"}
        return {**options, "overrides": overrides, **{name: bool(options[name]) for name in ("removals", "breaks")}}
    except (FileFormatError, LookupError, TypeError):
        raise StoreError(
            "the journal is damaged: the permissions of the operation cannot be read; `ibkeys undo` rolls it back"
        ) from None
