"""Collecting the tables, the enforcement and the problems of a plan while the plan is made."""

from __future__ import annotations

from dataclasses import dataclass, field

from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.keys.pkey import PKey
from ibkeys.plan.model import PlanProblem
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.topology.port_id import PortKey

Table = dict[int, PKey]
"""The entries of a P_Key table by index."""


@dataclass(slots=True)
class PlanBuilder:
    """The parts of a plan for *fabric* that are made so far. ``twins``: the keys of ports whose NodeGUID several nodes
    have; the plan does not change them.
    """

    fabric: Topology
    twins: frozenset[PortKey] = frozenset()
    problems: list[PlanProblem] = field(default_factory=list)
    tables: list[TableChange] = field(default_factory=list)
    enforcement: list[EnforcementChange] = field(default_factory=list)

    def report(self, port: Port | None, kind: str, message: str) -> None:
        """Add a problem. *port*: the port that it concerns, None for the plan as a whole. *kind*: a fixed word for
        programs."""
        self.problems.append(PlanProblem(port.id if port is not None else None, kind, message))

    def read(self, port: Port) -> tuple[Table | None, int | None]:
        """Return the entries of the table of *port* as they were read, and its capacity. If the table was not read,
        report a problem and return None for the entries; the capacity is None if it is not known."""
        occupied, capacity = port.occupied, port.capacity
        if occupied is None or capacity is None:
            why = next((f" ({trouble.error})" for trouble in self.fabric.troubles if trouble.port is port), "")
            self.report(port, "unreadable", f"its P_Key table could not be read, so it is left as it is{why}")
            return None, capacity
        return {index: key for index, key in occupied if index < capacity}, capacity


def key_of(port: Port) -> PortKey:
    """Return the key of a port in a plan: (node GUID, port number)."""
    return port.node.guid, port.num
