"""Rules about hygiene: devices of this host, GUIDs, and the audit itself."""

from __future__ import annotations

from ibkeys.arguments import given
from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import RuleVerdict, rule
from ibkeys.grouping import gathered
from ibkeys.port_text import PortText


@rule(
    id="HY001",
    title="umad or issm device open",
    severity="high",
    evidence="mode of /dev/infiniband/umad* and issm* on this host",
    why="Anyone who can open umad can send to QP0 and QP1 of every node; issm sets the IsSM bit.",
    sources=("SANS",),
    remedy="Mode 0660 and a group of permitted users, by udev rules.",
    false_positives="A machine with one user.",
    needs="host",
    over_fabric=False,
)
def devices(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail umad and issm devices of this host that other users may open (HY001)."""
    assert data.host is not None
    for device in data.host.facts.devices:
        evidence = {"device": {"path": str(device.path), "mode": f"{device.mode:04o}", "gid": device.gid}}
        if device.others_can_open:
            message = f"{device.path}: mode {device.mode:04o} lets any user send SMPs"
            verdict.fail(None, message, evidence, labels=(str(device.path),))
        else:
            verdict.passed += 1
    if not data.host.facts.devices:
        verdict.unknown(None, "no umad device was found on this host, so its mode is not known")


@rule(
    id="HY002",
    title="duplicate or unknown GUID",
    severity="high",
    evidence="one port or node GUID at two places; GUIDs that are not in the inventory",
    why="A policy identifies a port by its GUID alone: anyone who takes the GUID of another port gets its partitions.",
    sources=("SANS", "NICO"),
    remedy="Find the cable: the finding shows the routes of both.",
    false_positives="An HCA that was swapped. Planes of one XDR port share one GUID and are left out.",
)
def guids(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail GUIDs at two places, and GUIDs that are not in the inventory (HY002)."""
    places = gathered((port.guid, port) for port in data.end_ports if port.guid)
    doubled = {node.guid for node in data.fabric.nodes if node.twin}
    known = data.inventory
    for port in data.end_ports:
        evidence = {"NodeInfo": {"node_guid": f"0x{port.node.guid:016x}", "port_guid": f"0x{port.guid:016x}"}}
        # the planes of one XDR port carry one GUID, and are ports of one CA
        others = [each for each in places.get(port.guid, ()) if each.node is not port.node]
        if others:
            route = ",".join(map(str, (0, *others[0].agent_path)))
            message = PortText.of(f"port GUID 0x{port.guid:016x} is used by {{}} (route {{}}) too", others[0], route)
            verdict.fail(port, message, evidence)
        elif port.node.guid in doubled:
            verdict.fail(port, f"node GUID 0x{port.node.guid:016x} is used by several nodes", evidence)
        elif known is not None and not {port.guid, port.node.guid} & known:
            verdict.fail(port, "neither its port GUID nor its node GUID is in the inventory", evidence)
        else:
            verdict.passed += 1
    if known is None and not verdict.findings:
        note = f"no GUID is used twice; an inventory ({given('--inventory')}) would show whether all belong here"
        return RuleVerdict.without(data, note, "--inventory")
    return verdict


@rule(
    id="HY003",
    title="audit incomplete",
    severity="info",
    evidence="what should have been read but was not",
    why="A pass over a partly read fabric is misleading.",
    sources=("KB",),
    remedy="Give the keys (key store, OpenSM's key files), allow more retries, and run the audit again.",
    false_positives="None.",
    over_fabric=False,
)
def incomplete(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail attributes and nodes that should have been read and were not (HY003)."""
    for trouble in data.fabric.troubles:
        if trouble.reading in ("not-asked", "not-in-file"):
            verdict.unknown_of(trouble)
        else:
            verdict.fail_of(trouble, trouble.error)
    incomplete_ports = {trouble.port for trouble in data.fabric.troubles}
    verdict.passed = sum(port not in incomplete_ports for port in data.fabric.ports())


@rule(
    id="HY005",
    title="virtual ports not read",
    severity="info",
    evidence="PortInfo.CapabilityMask2 IsVirtualizationSupported, VirtualizationInfo",
    why=(
        "Virtual ports have their own P_Key tables, and no public way to read them from outside is "
        "known. They may contain partitions that the table of the physical port lacks."
    ),
    sources=("NVVIRT",),
    remedy="Look at the P_Keys of the virtual functions on their hosts (sysfs), or in ibdiagnet2.vports_pkey.",
    false_positives="None: such a port is only partly known.",
)
def virtual_ports(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail ports with virtual ports, whose P_Keys cannot be read (HY005)."""
    for port in verdict.with_port_info(data.end_ports):
        state, info = port.virtual_ports, port.virtualization_info
        if state == "on":
            evidence = {info.name: {"vport_cap": info.vport_cap, "vport_index_top": info.vport_index_top}}
            message = (
                f"it has virtual ports (up to {info.vport_cap}, highest index {info.vport_index_top}), whose P_Key "
                "tables cannot be read"
            )
            verdict.fail(port, message, evidence)
        elif state == "unknown":
            verdict.unread(port, info.name)
        else:
            verdict.passed += 1
