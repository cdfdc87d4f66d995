"""What tests of plans look at: the fabric two-switch.net, the tables that a plan leads to, and its problems."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from ibkeys.keys.pkey import PKey
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.model import PartitionPlan, PlanOptions
from ibkeys.plan.planner import make_plan
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.port_id import PortKey
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


@functools.cache
def swept(fabric: Path) -> Topology:
    """Return a fabric at power-on, read once. It is shared: look, do not change."""
    return sweep(Subnet.from_file(fabric, "ibsim"))


def leaf_tables(plan: PartitionPlan) -> dict[PortKey, Mapping[int, PKey]]:
    return {table.port.key: table.after for table in plan.tables if table.port.is_external}


def perform(net: Subnet, plan: PartitionPlan) -> None:
    """Put the planned tables and bits into the simulated ports."""
    nodes = {node.guid: node for node in net.nodes}
    for table in plan.tables:
        port = nodes[table.port.node_guid].ports[table.port.port]
        port.p_keys = [table.after.get(index, PKey(0)) for index in range(table.capacity)]
    for change in plan.enforcement:
        info = nodes[change.port.node_guid].ports[change.port.port].info
        info[43] = info[43] & ~0x0C | change.after.inbound << 3 | change.after.outbound << 2


def plan_of(text: str, *, net: Subnet | None = None, sm: int = SM, **chosen: object) -> PartitionPlan:
    found = sweep(net) if net is not None else swept(TWO_SWITCH)
    return make_plan(parse_policy(text, "p.conf"), found, PlanOptions(**chosen), sm_at(sm))  # type: ignore[arg-type]


OPEN = "Default : ALL=full ;"
