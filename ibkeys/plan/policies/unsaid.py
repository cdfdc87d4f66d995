"""The properties of a fabric that no partitions.conf can express, found by planning the policy that describes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ibkeys.keys.pkey import FULL_BIT, PKey
from ibkeys.partitions.model import table_order
from ibkeys.partitions.opensm_tables import place
from ibkeys.plan.model import PartitionPlan
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_MESSAGES: Final = {
    "no-default": "no P_Key of the default partition: OpenSM makes every port at least a limited member",
    "table": "P_Keys that OpenSM would place at other indexes",
    "leaf-table": "tables that are not a copy of the end port's: OpenSM makes them a copy",
    "enforcement": "enforcement that no single part_enforce value of OpenSM produces",
    "both-forms": "the full and the limited P_Key of one partition: written as both, which OpenSM reads as both only "
    "with allow_both_pkeys",
    "index-0": "a P_Key at index 0, or none, that OpenSM would move",
    "index-order": "P_Keys at other indexes than OpenSM gives them in an empty table; it keeps those that it finds",
    "not-read": "what could not be read, or is not certain, is not in the policy",
}
_LEFT_OUT: Final = ("unreadable", "duplicate-guid", "unknown-node-type")


@dataclass(frozen=True, slots=True)
class Unsaid:
    """A kind of property that the policy does not express, and the ports that have it."""

    kind: str
    ports: tuple[Port, ...]

    @property
    def message(self) -> str:
        """The kind in words."""
        return _MESSAGES[self.kind]


def unsaid_in(
    fabric: Topology, plan: PartitionPlan, keys: Mapping[int, Collection[PKey]], pinned: Mapping[int, PKey]
) -> Iterator[Unsaid]:
    """Yield the changes that *plan*, made from the policy that describes *fabric*, would still make, and the values
    that only its options or the present indexes keep. *keys*: the P_Keys of each port, by GUID; *pinned*: the P_Key at
    its index 0 by the policy."""
    found: dict[str, dict[Port, None]] = {kind: {} for kind in _MESSAGES}
    ports = {(port.node.guid, port.num): port for port in fabric.ports()}
    for table in plan.tables:
        port = ports[table.port.key]
        if table.differs:
            found[_kind_of(port)][port] = None
    for change in plan.enforcement:
        found["enforcement"][ports[change.port.key]] = None
    for problem in plan.problems:
        kind = "not-read" if problem.kind in _LEFT_OUT else problem.kind
        if problem.port is not None and kind in found:
            found[kind][ports[problem.port.key]] = None
    for port in fabric.end_ports():
        own = keys.get(port.guid)
        if own is None or port.capacity is None:
            continue
        both = any(PKey(key ^ FULL_BIT) in own for key in own)
        if both:
            found["both-forms"][port] = None
        if not any(port in found[kind] for kind in ("no-default", "table", "index-0")) and _is_odd(
            port, own, pinned, plan
        ):
            found["index-order"][port] = None
    for kind, listed in found.items():
        if listed:
            yield Unsaid(kind, tuple(listed))


def _kind_of(port: Port) -> str:
    if port.is_external:
        return "leaf-table"
    return "table" if any(key.is_default for _, key in port.occupied or ()) else "no-default"


def _is_odd(port: Port, keys: Collection[PKey], pinned: Mapping[int, PKey], plan: PartitionPlan) -> bool:
    """Return whether OpenSM would give the P_Keys of a port other indexes in an empty table."""
    order = sorted(keys, key=lambda key: (table_order(key.partition), key.is_full))
    both = plan.options.allow_both_pkeys
    made = place({}, order, port.capacity or 0, pinned.get(port.guid), allow_both=both).entries
    return made != dict(port.occupied or ())
