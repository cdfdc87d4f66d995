"""Rules about partition enforcement by switches (IBA 14.2.5.4, 14.2.5.6; OpenSM's osm_pkey_mgr.c)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibkeys.audit.inputs import AuditInput, number
from ibkeys.audit.rule import RuleVerdict, port_info, rule
from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.port_text import PortText
from ibkeys.printable import counted
from ibkeys.topology.enforcement import as_shown
from ibkeys.topology.nodes import Port

BITS: Final = (PortInfo.partition_enforcement_inbound, PortInfo.partition_enforcement_outbound)
_CAPS: Final = (SwitchInfo.inbound_enforcement_cap, SwitchInfo.outbound_enforcement_cap)


def enforces(port: Port) -> bool:
    """Return whether a switch port enforces in any direction. Its PortInfo was read."""
    return any(number(port, row) for row in BITS)


@rule(
    id="SE001",
    title="leaf enforcement off or one-way",
    severity="high",
    evidence=(
        "PortInfo.PartitionEnforcementInbound and -Outbound of switch ports to end ports, where SwitchInfo says that "
        "the switch can enforce; medium if one of the two is set"
    ),
    why="Without it only the receiving port checks P_Keys, so a host that gives itself more P_Keys is not stopped.",
    sources=("SEED1",),
    remedy="`ibkeys harden` sets part_enforce both in OpenSM; `ibkeys enforce-set` where no SM runs.",
    false_positives="Gateways; sites that chose part_enforce in or out.",
    if_empty="no leaf port of a switch that can enforce",
)
def off(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail leaf ports that do not enforce in each direction in which their switch can (SE001)."""
    for leaf, port in data.leaf_links:
        info = leaf.node.switch_info
        if info is None:
            verdict.unread(leaf, SwitchInfo.name)
            continue
        able = [row for row, cap in zip(BITS, _CAPS, strict=True) if cap.decode(info.raw)]
        if not able or not info.partition_enforcement_cap:
            continue
        if leaf.info is None:
            verdict.unread(leaf, PortInfo.name)
            continue
        missing = [row for row in able if not number(leaf, row)]
        if not missing:
            verdict.passed += 1
            continue
        evidence = port_info(data, leaf, *BITS)
        evidence[SwitchInfo.name] = {cap.attr: as_shown(cap.attr, cap.decode(info.raw)) for cap in _CAPS}
        words = " and ".join(row.name.removeprefix("PartitionEnforcement").lower() for row in missing)
        verdict.fail(
            leaf,
            PortText.of(f"{words} enforcement is off towards {{}}", port),
            evidence,
            severity="medium" if len(missing) < len(BITS) and enforces(leaf) else None,
        )


def enforcing_leaves(verdict: RuleVerdict) -> Iterator[tuple[Port, Port]]:
    """Yield the leaf ports that enforce, each with its end port. Leaf ports that were not read become unknown."""
    for leaf, port in verdict.data.leaf_links:
        if leaf.info is None:
            verdict.unread(leaf, PortInfo.name)
        elif enforces(leaf):
            yield leaf, port


@rule(
    id="SE002",
    title="leaf table differs from node table",
    severity="high",
    evidence=(
        "P_KeyTable of an enforcing switch port and of the port behind it, compared as sets; a limited P_Key does not "
        "count where the full one is present"
    ),
    why="The switch drops packets that the node may send, or passes packets that it may not send.",
    sources=("OSM",),
    remedy="Let the SM sweep (ibkeys policy-check, then SIGHUP to OpenSM); ibkeys plan and apply where no SM runs.",
    false_positives="None known: order and gaps are ignored.",
    if_empty="no leaf port enforces, so no leaf table has an effect",
)
def tables_differ(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail enforcing leaf ports whose P_Keys differ from those of the end port (SE002)."""
    for leaf, port in list(enforcing_leaves(verdict)):  # unread ports are reported first
        mine, theirs = data.table(leaf), data.table(port)
        if mine is None or theirs is None:
            verdict.unread(leaf if mine is None else port, "P_KeyTable")
            continue
        extra, missing = mine.packed - theirs.packed, theirs.packed - mine.packed
        if not extra and not missing:
            verdict.passed += 1
            continue
        parts = [f"{_listed(missing)} missing"] if missing else []
        parts += [f"{_listed(extra)} extra"] if extra else []
        evidence = {"P_KeyTable": {"leaf": _p_keys(mine.packed), "node": _p_keys(theirs.packed)}}
        message = PortText.of(f"its table differs from that of {{}}: {', '.join(parts)}", port)
        verdict.fail(leaf, message, evidence)


def _listed(keys: frozenset[int]) -> str:
    return " ".join(_p_keys(keys)) or "nothing"


def _p_keys(keys: frozenset[int]) -> list[str]:
    return [f"0x{key:04x}" for key in sorted(keys)]


@rule(
    id="SE003",
    title="enforcement on a link between switches",
    severity="high",
    evidence="enforcement bits of a switch port whose peer is a switch",
    why="No subnet manager maintains the table of such a port: all but the default partition is dropped there.",
    sources=("OSM",),
    remedy="Clear the bits: an SM sweep, or `ibkeys enforce-set --inbound off --outbound off`.",
    false_positives="Sites that fill these tables on purpose.",
    if_empty="no link between switches",
)
def between_switches(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail switch ports that enforce on a link between switches (SE003)."""
    between = (port for port in data.external_ports if port.peer is not None and port.peer.node.is_switch)
    for port in verdict.with_port_info(between):
        if enforces(port):
            what = "it enforces towards the switch port {}: packets of partitions that are not in its table are dropped"
            message = PortText.of(what, port.peer)
            verdict.fail(port, message, port_info(data, port, *BITS))
        else:
            verdict.passed += 1


@rule(
    id="SE004",
    title="leaf table too small",
    severity="high",
    evidence="SwitchInfo.PartitionEnforcementCap against the P_Keys of the port behind the link",
    why="OpenSM logs ERR 0507 and switches enforcement off on that port.",
    sources=("OSM",),
    remedy="Fewer P_Keys on that port, or another switch.",
    false_positives="None known.",
    if_empty="no leaf port with a P_Key table",
)
def too_small(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail leaf ports whose table has no room for the P_Keys of the end port (SE004)."""
    for leaf, port in data.leaf_links:
        capacity = leaf.capacity
        if capacity is None:
            verdict.unread(leaf, SwitchInfo.name)
            continue
        if capacity == 0:
            continue
        table = data.table(port)
        if table is None:
            verdict.unread(port, "P_KeyTable")
        elif len(table.packed) > capacity:
            evidence = {
                SwitchInfo.name: {"partition_enforcement_cap": capacity},
                "P_KeyTable": {"packed": len(table.packed)},
            }
            room, has = counted(capacity, "P_Key"), len(table.packed)
            message = PortText.of(f"room for {room}, {{}} has {has}: OpenSM switches enforcement off here", port)
            verdict.fail(leaf, message, evidence)
        else:
            verdict.passed += 1
