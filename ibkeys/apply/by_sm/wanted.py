"""The tables that a plan or a rollback wants on this fabric, and the ports with other P_Keys than the operation
found or wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from ibkeys.apply.by_sm.ports_proof import has_only_default
from ibkeys.apply.by_sm.prediction import Prediction
from ibkeys.apply.former_values import FormerTable, FormerValues, keys_in
from ibkeys.apply.remaining import RemainingChanges
from ibkeys.apply.survey import Survey
from ibkeys.change.wanted import EnforcementChange, Entries, TableChange, differing_places
from ibkeys.errors import Refused
from ibkeys.keys.pkey import PARTITION_MASK, PKey
from ibkeys.mad.const import P_KEYS_PER_BLOCK
from ibkeys.partitions.model import Policy
from ibkeys.plan.model import PartitionPlan
from ibkeys.printable import named
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.port_id import PortKey


def goal_of(
    plan: PartitionPlan,
    prediction: Prediction,
    remaining: RemainingChanges,
    former: FormerValues | None,
    policies: Iterable[Policy | None] = (),
    *,
    by_partition: bool = False,
) -> dict[PortKey, Entries]:
    """Return the table that the plan wants for each port, and the present table of a port that it does not name. Note
    in *remaining* the ports that are absent, or have P_Keys that neither the plan, *former* nor *policies* explain.

    *former*: the tables that an earlier run of the plan found and wrote, None if there was none: then a port that
    the plan changes is noted if its table is not as the plan found it. *policies*: the policies of that run.
    *by_partition*: as in `foreign_ports`.
    """
    survey = prediction.survey
    goal = dict(prediction.present)
    touched = set[PortKey]()
    if former is not None:
        touched = set(former.ports_of_tables)
        plan_tables = {table.port.key: table.before for table in plan.tables}
        remaining.foreign += [(None, each) for each in foreign_ports(former, survey, plan_tables, by_partition)]
    earlier = list(policies)

    @cache
    def tables_by_policies() -> list[dict[PortKey, Entries]]:
        """Return the tables that the SM gives ports by each of *policies* alone."""
        return [tables for each in earlier for tables in prediction.tables_after([each])]

    for table in plan.tables:
        key = table.port.key
        if key not in survey.targets:
            if table.differs:
                remaining.leave_out(table.port, survey.missing.get(key, "not found on the fabric"))
            continue
        now = survey.targets[key].table
        goal[key] = table.after
        if not table.differs or now == table.before or key in touched:
            continue
        if former is None or not (
            _is_of_plan(table, now, former) or _is_by_policy(prediction, key, tables_by_policies)
        ):
            remaining.foreign.append((table.port, _difference_text(table, now)))
    return goal


def _is_of_plan(table: TableChange, now: Entries, former: FormerValues) -> bool:
    """Return whether a port that no step of an earlier run touched has the P_Keys that the plan found, or those that it
    wants, or those that an undo of that run found or wrote. Indexes do not count: the port may have been absent for a
    time."""
    keys = {*now.values()}
    if keys in ({*table.before.values()}, {*table.after.values()}):
        return True
    earlier = former.tables.get(table.port.key)
    return earlier is not None and _foreign_keys(earlier, now, table.before) is None


def _is_by_policy(
    prediction: Prediction, key: PortKey, tables_by_policies: Callable[[], list[dict[PortKey, Entries]]]
) -> bool:
    """Return whether a port has the P_Keys that one of the policies gives it, or those that OpenSM gives every port
    without a policy."""
    now = prediction.present[key]
    if has_only_default(now) and has_no_policy(prediction.survey):
        return True
    return any({*tables[key].values()} == {*now.values()} for tables in tables_by_policies())


def _difference_text(table: TableChange, now: Entries) -> str:
    index = differing_places(now, table.before)[0]
    return f"index {index} is {now.get(index, 'empty')}, not {table.before.get(index, 'empty')}"


def enforcement_of(plan: PartitionPlan, survey: Survey, remaining: RemainingChanges) -> list[EnforcementChange]:
    """Return the enforcement bits that are not as the plan wants them; note absent ports in *remaining*."""
    found = []
    for change in plan.enforcement:
        target = survey.targets.get(change.port.key)
        if target is None:
            if change.before != change.after:
                remaining.leave_out(change.port, survey.missing.get(change.port.key, "not found on the fabric"))
        elif target.enforcement != change.after:
            found.append(replace(change, port=target.id, before=target.enforcement))
    return found


def foreign_ports(
    former: FormerValues,
    survey: Survey,
    plan_tables: Mapping[PortKey, Entries] | None = None,
    by_partition: bool = False,
    explained: Collection[PortKey] = (),
) -> Iterator[str]:
    """Yield, in words, the ports with P_Keys that no step of an operation found or wrote: the SM would overwrite these.

    *plan_tables*: the tables as the operation's plan found them; with them, blocks that no step touched count too.
    *by_partition*: the SM gets the partitions of a step one after the other, so each partition is compared with the
    steps separately. *explained*: ports whose P_Keys are known not to be the work of others.
    """
    moved_to = leaves_of_others(former, survey)
    has_fallen_back = has_no_policy(survey)
    for key in former.ports_of_tables:
        target = survey.targets.get(key)
        if (
            target is None
            or key in moved_to
            or key in explained
            or (has_fallen_back and has_only_default(target.table))
        ):
            continue
        foreign = _foreign_keys(former.tables[key], target.table, (plan_tables or {}).get(key), by_partition)
        if foreign is not None:
            listed = named(sorted(foreign)) or "no P_Key"
            yield f"{target.id} (it has {listed}, which the operation neither found nor wrote)"


def _foreign_keys(
    earlier: FormerTable, now: Entries, plan_table: Entries | None, by_partition: bool = False
) -> set[PKey] | None:
    """Return the P_Keys of the first block that has other P_Keys than each step found and wrote there; None if there is
    no such block.

    An SM may put a P_Key at another index, so the P_Keys of a block are compared and not their indexes. *plan_table*:
    the table that the plan found, None if only the blocks of steps count; *by_partition*: as in `foreign_ports`.
    """
    blocks = {*earlier.blocks_set}
    if plan_table is not None:
        blocks |= {index // P_KEYS_PER_BLOCK for index in {*now, *plan_table}}
    for number in sorted(blocks):
        keys = _in_block(now, number)
        known = [keys_in(block) for each in earlier.blocks_set.get(number, ()) for block in each]
        known = known or [_in_block(plan_table or {}, number)]
        partitions = {key & PARTITION_MASK for each in (keys, *known) for key in each}
        # The mask and value (0, 0) select the P_Keys of all partitions.
        masks = [(PARTITION_MASK, each) for each in partitions] if by_partition else [(0, 0)]
        if any(_of(keys, *mask) not in [_of(each, *mask) for each in known] for mask in masks):
            return set(map(PKey, keys))
    return None


def _of(keys: set[int], mask: int, partition: int) -> set[int]:
    return {key for key in keys if key & mask == partition}


def _in_block(table: Entries, number: int) -> set[int]:
    return {key for index, key in table.items() if index // P_KEYS_PER_BLOCK == number}


def has_no_policy(survey: Survey) -> bool:
    """Return whether most end ports have 0xffff alone: OpenSM gives that to all ports when it finds no policy that it
    accepts. So no other administrator wrote these tables, and a rollback may overwrite them."""
    ends = [target for target in survey.targets.values() if not target.port.is_external]
    return 2 * sum(has_only_default(each.table) for each in ends) > len(ends)


def overwrite_refusal(foreign: Sequence[str], operation: int) -> Refused:
    """Return the refusal of an automatic rollback that would overwrite changes of others. *foreign*: the ports that
    others have changed, in words; *operation*: its number in the journal."""
    return Refused(
        "nothing was rolled back, because OpenSM would overwrite another user's or program's changes: "
        f"{named(foreign)}; check them, then `ibkeys undo {operation}`, or `ibkeys undo {operation} --override stale` "
        "to overwrite them",
        "stale",
        is_overtaken=True,
    )


def leaves_of_others(former: FormerValues, survey: Survey) -> set[PortKey]:
    """Return the leaf ports of an operation that now have the P_Keys of an end port that the operation did not touch.

    The SM gave them a copy when that end port was connected there. An end port that the operation touched is not
    considered: its values are compared at its present place.
    """
    found = set()
    for key, end in survey.targets.items():
        leaf = leaf_of(end.port)
        place = (leaf.node.guid, leaf.num) if leaf is not None else key
        if place not in former.tables or place not in survey.targets or key in former.tables:
            continue
        if {*survey.targets[place].table.values()} == {*end.table.values()}:
            found.add(place)
    return found


def former_enforcement(former: FormerValues, survey: Survey) -> Iterator[EnforcementChange]:
    """Yield the enforcement bits that are not as they were before an operation."""
    for key, bits in former.bits.items():
        target = survey.targets.get(key)
        if target is not None and target.enforcement != bits:
            yield EnforcementChange(target.id, target.enforcement, bits)
