"""Partition enforcement of a switch's external port (IBA 14.2.5.6 byte 43; 18.2.4.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.change.edits import PortInfoEdit
from ibkeys.change.engine import Engine, PendingSet
from ibkeys.change.passing import INTERLOCK_OF, MEANING, Passing, cuts, far_end_by_sweep, port_in_sweep
from ibkeys.change.plan import Change, Plan
from ibkeys.change.target import Target
from ibkeys.change.writer import Writer
from ibkeys.client.address import DirectedAddress
from ibkeys.errors import IbkeysError, UsageError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.subnet_manager import BESIDE_SM
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import NodeType, PortPhysicalState

_BITS: Final = ("partition_enforcement_inbound", "partition_enforcement_outbound")


def plan_enforce(writer: Writer, port: PortHandle, inbound: bool | None, outbound: bool | None) -> Plan:
    """Plan to set the enforcement bits; None leaves a direction as it is.

    Inbound is what the attached node sends into the switch, outbound what it is about to receive. Raises UsageError for
    a port that is no external port of a switch.
    """
    if not port.port.is_external:
        raise UsageError(
            f"{port}: partition enforcement belongs to external ports of switches; name a switch and a port from 1"
        )
    shown = port.read_port_info()
    writer.note_master_sm_lid(port)
    switch = port.read_switch_info()
    assert switch is not None
    wanted = dict(zip(_BITS, (inbound, outbound), strict=True))
    changes = {attr: int(on) for attr, on in wanted.items() if on is not None and int(on) != getattr(shown, attr)}
    plan = Plan(writer.command)
    plan.changes = [
        Change(port.port, attr, None, str(getattr(shown, attr)), str(value)) for attr, value in changes.items()
    ]
    if not changes:
        return plan
    plan.notes = _missing_capabilities(switch, changes)
    if any(changes.values()):
        plan.objections = _objections(writer, port, shown, switch, changes)
    plan.objections += writer.objection_to_active_sm(BESIDE_SM)
    target = Target.of(port)
    edit = PortInfoEdit(target, changes, shown, writer.consent.covers("stale"))
    plan.perform = partial(_perform, writer, target, edit)
    return plan


def _perform(writer: Writer, target: Target, edit: PortInfoEdit) -> None:
    Engine(writer).make_one(PendingSet(target, edit))


def _missing_capabilities(switch: SwitchInfo, changes: dict[str, int]) -> list[str]:
    able = {
        "partition_enforcement_inbound": ("InboundEnforcementCap", switch.inbound_enforcement_cap),
        "partition_enforcement_outbound": ("OutboundEnforcementCap", switch.outbound_enforcement_cap),
    }
    return [
        f"{able[attr][0]} of this switch is 0: it says that it cannot enforce in this direction"
        for attr, value in changes.items()
        if value and not able[attr][1]
    ]


def _objections(
    writer: Writer, port: PortHandle, shown: PortInfo, switch: SwitchInfo, changes: dict[str, int]
) -> list[Objection]:
    found = []
    table = port.read_p_keys() if switch.partition_enforcement_cap else ()
    if not any(key.is_valid for key in table):
        found.append(
            Objection(
                "enforce-blind",
                f"the P_Key table of {port} is empty: enforcement cuts the attached node off from everything but SMPs",
            )
        )
    elif not any(key.is_default for key in table):
        found.append(
            Objection(
                "enforce-blind",
                f"the P_Key table of {port} lacks the default partition: enforcement cuts the attached node off "
                "from the SA",
            )
        )
    if shown.port_physical_state == PortPhysicalState.LINK_UP:
        peer = _peer_objection(writer, port)
        found += peer or _limited_before_the_sm(writer, port, shown, changes, table)
    return found


def _limited_before_the_sm(
    writer: Writer, port: PortHandle, shown: PortInfo, changes: dict[str, int], table: Sequence[PKey]
) -> list[Objection]:
    (was_in, now_in), (was_out, now_out) = (
        (bool(getattr(shown, name)), bool(changes.get(name, getattr(shown, name)))) for name in _BITS
    )
    before, after = Passing.of(was_in, was_out, table), Passing.of(now_in, now_out, table)
    found = cuts(before, after, lambda: far_end_by_sweep(writer, port.port))
    return [Objection(INTERLOCK_OF[cut], f"{port}: {MEANING[cut]}") for cut in found if cut != "SA"]


def _peer_objection(writer: Writer, port: PortHandle) -> list[Objection]:
    """Enforcement belongs between a switch and an end port; a peer that cannot be asked may be a switch."""
    ring = port.fabric.ring
    if not isinstance(port.route, DirectedAddress) or ring.by_guid:
        # A sweep proves the link, so that the far end is asked with its own key.
        peer = _peer_by_discovery(writer, port)
    else:
        try:
            far_end = DirectedAddress((*port.route.path, port.port.num))
            peer = NodeInfo(port.fabric.get(NodeInfo, 0, far_end, ring.for_unknown_port, 0)).node_type
        except IbkeysError:
            peer = None
    if peer is None:
        return [
            Objection(
                "enforce-blind",
                f"what {port} is linked to does not answer; if it is a switch, enforcement cuts off what lies "
                "behind it",
            )
        ]
    if peer == NodeType.SWITCH:
        return [
            Objection(
                "enforce-blind",
                f"{port} is a link between switches: enforcement there drops packets of every partition that "
                "its table lacks",
            )
        ]
    return []


def _peer_by_discovery(writer: Writer, port: PortHandle) -> int | None:
    """Return the node type at the far end; None when it does not answer, or the switch's GUID is not its own."""
    found = port_in_sweep(writer, port.port)
    return found.peer.node.type if found is not None and found.peer is not None else None
