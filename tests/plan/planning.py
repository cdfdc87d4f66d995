"""What tests of plans look at: the fabric two-switch.net, the tables that a plan leads to, and its problems."""

from __future__ import annotations

from collections.abc import Mapping

from ibkeys.keys.pkey import PKey
from ibkeys.plan.model import PartitionPlan
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.subnet_manager import Presence, SubnetManager
from tests.corpus import DATA
from tests.fabricsim import tool

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
SM = 0x2C903000A1011
NODE02, NODE03, NODE04 = 0x2C903000A1021, 0x2C903000A1031, 0x2C903000A1041


def sweep(net: Subnet) -> Topology:
    with tool(net) as fabric:
        return fabric.sweep(p_keys=True)


def end_tables(plan: PartitionPlan) -> dict[int, Mapping[int, PKey]]:
    return {table.port.port_guid or 0: table.after for table in plan.tables if not table.port.is_external}


def problems(plan: PartitionPlan) -> list[tuple[str, int | None]]:
    return [(problem.kind, problem.port.port_guid if problem.port else None) for problem in plan.problems]


def sm_at(port_guid: int | None, presence: Presence = "none", evidence: str = "") -> SubnetManager:
    """What is known of a subnet manager at a port, for the planner."""
    return SubnetManager(0, presence, evidence, port_guid)
