"""The digests of a plan: one of the state of the fabric for which the plan was made, and one of the plan as a whole.

The first shows whether two plans were made for the same state of the ports that they change. The second is stored in
the plan document and is checked when that is read, so that only the reviewed plan is applied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.plan.model import PartitionPlan


def state_digest(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]) -> str:
    """Return the SHA-256, in hexadecimal, of the present state of the ports that a plan changes.

    The state of a port is its P_Key table with the capacity, or its enforcement bits, and the peer port of its link.
    Tables and enforcement that stay do not count. The order of the arguments does not matter.
    """
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
    """Return the SHA-256, in hexadecimal, of all parts of a plan that decide the changes of an apply.

    These are: of each table that changes, the port, its node type, peer and capacity, and the entries before and after;
    of each enforcement that changes, the port, its peer, and the bits before and after; the options; the breaks; the
    method, and the policy that is replaced, if these two are known. Tables that stay and messages do not count. The
    order of the parts does not matter.
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
