"""What a plan, or the rollback, wants of this fabric; what is not as the plan found it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ibkeys.apply.by_sm.steps import Prediction
from ibkeys.apply.by_sm.watch import is_open
from ibkeys.apply.former import Former, keys_in, valid_or_0
from ibkeys.apply.remaining import Remaining
from ibkeys.apply.survey import Survey
from ibkeys.change.wanted import EnforcementChange, Entries, TableChange
from ibkeys.errors import Refused
from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import named
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.port_id import PortKey


def goal_of(
    plan: PartitionPlan, prediction: Prediction, remaining: Remaining, is_resumed: bool
) -> dict[PortKey, Entries]:
    """Return the table of each port as the plan wants it; note in *remaining* what is not as the plan found it."""
    targets = prediction.survey.targets
    goal = dict(prediction.now)
    for table in plan.tables:
        key = table.port.key
        if key not in targets:
            if table.differs:
                remaining.leave_out(table.port, prediction.survey.missing.get(key, "not found on the fabric"))
            continue
        now = targets[key].table
        goal[key] = table.after
        if not table.differs or now == table.before:
            continue
        known = {*table.before.values(), *table.after.values()}
        if not is_resumed or not known >= {*now.values()}:
            remaining.foreign.append((table.port, _surprise(table, now)))
    return goal


def _surprise(table: TableChange, now: Entries) -> str:
    index = next(index for index in sorted({*now, *table.before}) if now.get(index) != table.before.get(index))
    return f"index {index} is {now.get(index, 'empty')}, not {table.before.get(index, 'empty')}"


def tables_to(prediction: Prediction, goal: Mapping[PortKey, Entries]) -> list[TableChange]:
    """Return every table as it will be found, and as *goal* says."""
    return [replace(each, after=goal[each.port.key]) for each in prediction.tables]


def enforcement_of(plan: PartitionPlan, survey: Survey, remaining: Remaining) -> list[EnforcementChange]:
    """Return the enforcement bits that are not as the plan wants them; note in *remaining* ports that are not there."""
    found = []
    for change in plan.enforcement:
        target = survey.targets.get(change.port.key)
        if target is None:
            if change.before != change.after:
                remaining.leave_out(change.port, survey.missing.get(change.port.key, "not found on the fabric"))
        elif target.enforcement != change.after:
            found.append(replace(change, port=target.id, before=target.enforcement))
    return found


def foreign_ports(former: Former, survey: Survey) -> Iterator[str]:
    """Yield the ports whose tables hold what no step of an operation found or wrote: the SM would overwrite it.

    An SM may put a P_Key at another index, so the P_Keys of a block count, not where they stand.
    """
    moved_to = leaves_of_others(former, survey)
    fell_open = has_no_policy(survey)
    for key in former.ports_of_tables:
        target = survey.targets.get(key)
        if target is None or key in moved_to or (fell_open and is_open(target.table)):
            continue
        for number, sets in former.tables[key].blocks_set.items():
            first = number * P_KEYS_PER_BLOCK
            now = {valid_or_0(value) for value in target.values[first : first + P_KEYS_PER_BLOCK]} - {0}
            if all(now != keys_in(block) for each in sets for block in each):
                listed = named(sorted(map(PKey, now))) or "no P_Key"
                yield f"{target.id} (it has {listed}, which the operation neither found nor wrote)"
                break


def has_no_policy(survey: Survey) -> bool:
    """Return whether most end ports have 0xffff alone: OpenSM gives that to all when it finds no policy that it
    accepts. A rollback is the way out of that, so nobody else wrote it."""
    ends = [target for target in survey.targets.values() if not target.port.is_external]
    return 2 * sum(is_open(each.table) for each in ends) > len(ends)


def overwriting(foreign: Sequence[str], operation: int) -> Refused:
    """Return the refusal of a rollback by which the SM would overwrite the *foreign* ports. Nobody is there to be
    asked."""
    return Refused(
        f"nothing was rolled back, because OpenSM would overwrite what somebody else did: {named(foreign)}; "
        f"check them, then `ibkeys undo {operation}`, with --override stale if they may be overwritten",
        "stale",
        is_overtaken=True,
    )


def leaves_of_others(former: Former, survey: Survey) -> set[PortKey]:
    """Return the leaf ports of an operation that have the P_Keys of an end port that it was not at: the SM gave them a
    copy when that one came there. Whom it was at is judged where it is now."""
    found = set()
    for key, end in survey.targets.items():
        leaf = leaf_of(end.port)
        place = (leaf.node.guid, leaf.num) if leaf is not None else key
        if place not in former.tables or place not in survey.targets or key in former.tables:
            continue
        if {*survey.targets[place].table.values()} == {*end.table.values()}:
            found.add(place)
    return found


def former_enforcement(former: Former, survey: Survey) -> Iterator[EnforcementChange]:
    """Yield the enforcement bits that are not as they were before an operation."""
    for key, bits in former.bits.items():
        target = survey.targets.get(key)
        if target is not None and target.enforcement != bits:
            yield EnforcementChange(target.id, target.enforcement, bits)
