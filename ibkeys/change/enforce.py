"""Partition enforcement of a switch's external port, or of a router port (IBA 14.2.5.6 byte 43; 18.2.4.2.1)."""

from __future__ import annotations

from ibkeys.change.edits import PortInfoEdit
from ibkeys.change.interlocks.tables import objections_to_enforcement
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.plan import Change, Plan
from ibkeys.change.target import PortTarget
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.subnet_manager import BESIDE_SM
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import NodeType
from ibkeys.topology.enforcement import ENFORCEMENT_BITS, is_enforcing


def plan_enforce(writer: ChangeWriter, port: PortHandle, inbound: bool | None, outbound: bool | None) -> Plan:
    """Plan to set the enforcement bits; None leaves a direction as it is.

    Inbound are packets that the attached node sends into the switch, outbound those that it is about to receive.
    SwitchInfo says whether a switch can enforce; no field says so for a router, so a router port is changed only if it
    enforces already. Raises UsageError for all other ports, MKeyNeeded, and the errors of the reads.
    """
    is_router = port.port.node.type == NodeType.ROUTER
    if not (port.port.is_external or is_router):
        raise UsageError(
            f"{port}: partition enforcement belongs to external ports of switches; name a switch and a port from 1"
        )
    shown = port.read_port_info()
    if is_router and not is_enforcing(shown):
        raise UsageError(
            f"{port}: enforcement is off on this router port, and no other field says whether a router can enforce: "
            "ibkeys only changes router ports that already enforce"
        )
    writer.note_master_sm_lid(port)
    switch = port.read_switch_info()
    wanted = dict(zip(ENFORCEMENT_BITS, (inbound, outbound), strict=True))
    changes = {attr: int(on) for attr, on in wanted.items() if on is not None and int(on) != getattr(shown, attr)}
    plan = Plan(writer.command, completes=[port.port])
    plan.final_values = {(attr, None): bool(changes.get(attr, getattr(shown, attr))) for attr in ENFORCEMENT_BITS}
    plan.changes = [
        Change(port.port, attr, None, bool(getattr(shown, attr)), bool(value)) for attr, value in changes.items()
    ]
    if not changes:
        return plan
    plan.notes = _missing_capabilities(switch, changes) if switch is not None else []
    if any(changes.values()):
        plan.objections = objections_to_enforcement(writer, port, shown, switch, changes)
    plan.objections += writer.objection_to_active_sm(BESIDE_SM)
    edit = PortInfoEdit(PortTarget.of(port), changes, shown, writer.consent.covers("stale"))
    plan.stages = [[PendingSet(edit)]]
    return plan


def _missing_capabilities(switch: SwitchInfo, changes: dict[str, int]) -> list[str]:
    capabilities = dict(zip(ENFORCEMENT_BITS, ("inbound_enforcement_cap", "outbound_enforcement_cap"), strict=True))
    lacking = [capabilities[bit] for bit, value in changes.items() if value and not getattr(switch, capabilities[bit])]
    return [
        f"{SwitchInfo.rows[each].name} of this switch is 0: it says that it cannot enforce in this direction"
        for each in lacking
    ]
