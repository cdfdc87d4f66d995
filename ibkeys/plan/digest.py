"""The digests of a plan: of the state of the fabric that it was made from, and of the plan as a whole.

The first shows whether two plans were made from the same state of the ports that they change. The second is in the plan
and is checked when it is read, so that only the reviewed plan is applied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.plan.model import PartitionPlan


def state_digest(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]) -> str:
    """Return the SHA-256 of the state that the plan found at the ports that it changes: tables with capacity,
    enforcement bits, and the peer port of the link. Tables that stay do not count, nor does the order."""
    parts: list[list[object]] = [
        ["table", *table.port.key, table.capacity, table.peer, sorted(table.before.items())]
        for table in tables
        if table.differs
    ]
    parts += [
        ["enforcement", *change.port.key, *change.before.bits, change.peer]
        for change in enforcement
        if change.before != change.after
    ]
    return _digest(parts)


def plan_digest(plan: PartitionPlan) -> str:
    """Return the SHA-256 of all parts of a plan that decide the changes of an apply: of each table that changes and
    each enforcement that changes, the port and its kind, the state that was found and the state that it leads to;
    capacity and peer; the options; the breaks; the method, and the policy that is replaced, if they are known. Tables
    that stay and notes for people do not count, nor does the order.
    """
    options = plan.options
    flags = (options.allow_both_pkeys, options.disconnect_unconfigured)
    parts: list[list[object]] = [["options", options.enforce, *flags, sorted(options.allow_index_moves)]]
    parts += [
        [
            "table",
            *table.port.key,
            table.port.node_type,
            table.capacity,
            table.peer,
            sorted(table.before.items()),
            sorted(table.after.items()),
        ]
        for table in plan.tables
        if table.differs
    ]
    parts += [
        ["enforcement", *change.port.key, change.peer, change.before.bits, change.after.bits]
        for change in plan.enforcement
        if change.before != change.after
    ]
    if plan.method is not None:
        parts.append(["method", plan.method])
    if plan.live_policy is not None:
        parts.append(["live policy", plan.live_policy.digest])
    parts += [["break", each.partition, [port.key for port in each.ports], each.pairs] for each in plan.breaks]
    return _digest(parts)


def _digest(parts: Iterable[list[object]]) -> str:
    lines = sorted(json.dumps(part, separators=(",", ":")) for part in parts)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
