"""What tests of plans look at: the fabric two-switch.net, the tables that a plan leads to, and its problems."""

from __future__ import annotations

from collections.abc import Mapping

from ibkeys.fabric.model import Fabric
from ibkeys.keys.pkey import PKey
from ibkeys.policy.planfile import PlanFile
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.fabricsim import tool

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
SM = 0x2C903000A1011
NODE02, NODE03, NODE04 = 0x2C903000A1021, 0x2C903000A1031, 0x2C903000A1041


def sweep(net: Subnet) -> Fabric:
    with tool(net) as fabric:
        return fabric.discover(p_keys=True)


def end_tables(plan: PlanFile) -> dict[int, Mapping[int, PKey]]:
    return {table.port.port_guid or 0: table.after for table in plan.tables if not table.port.is_external}


def problems(plan: PlanFile) -> list[tuple[str, int | None]]:
    return [(problem.kind, problem.port.port_guid if problem.port else None) for problem in plan.problems]
