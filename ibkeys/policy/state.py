"""The digest that binds a plan to the state of the fabric that it was made from, in the parts that it touches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from ibkeys.policy.planfile import EnforcementChange, TableChange


def state_digest(tables: Iterable[TableChange], enforcement: Iterable[EnforcementChange]) -> str:
    """Return the SHA-256 of what the plan found at the ports that it changes: tables with capacity, enforcement bits,
    and which port is at the other end of the link. Tables that stay do not count, and the order does not."""
    parts: list[list[object]] = [
        ["table", *table.port.key, table.capacity, table.peer, sorted(table.before.items())]
        for table in tables
        if table.differs
    ]
    parts += [
        ["enforcement", *change.port.key, change.before.inbound, change.before.outbound, change.peer]
        for change in enforcement
        if change.before != change.after
    ]
    lines = sorted(json.dumps(part, separators=(",", ":")) for part in parts)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
