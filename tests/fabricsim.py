"""Short words for tests on the simulated subnet: a subnet, a tool that sits on it, and its physical side."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import ibkeys
from ibkeys.change.consent import Consent
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.virtualization import VirtualizationInfo
from ibkeys.scripting import Fabric
from ibkeys.sim.agents import virtual_ports
from ibkeys.sim.nodes import SimNode as SimNode
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import UmadPort
from tests.corpus import DATA


def subnet(name: str, seed: int = 0) -> Subnet:
    """Return the subnet of a net file in ``tests/data/fabrics``."""
    return Subnet.from_file(DATA / "fabrics" / f"{name}.net", seed=seed)


def set_p_key_capacity(node: SimNode, partition_cap: int | None = None, enforcement_cap: int | None = None) -> None:
    """Set PartitionCap (CA and router ports, switch port 0) and PartitionEnforcementCap (external switch ports)."""
    if partition_cap is not None:
        node.partition_capacity = partition_cap
    if enforcement_cap is not None:
        assert node.switch_info is not None
        node.enforcement_capacity = enforcement_cap
        SwitchInfo.partition_enforcement_cap.patch(node.switch_info, enforcement_cap)
    for port in node.all_ports:
        port.resize_p_keys()
    node.touch()


def set_enforcement_caps(node: SimNode, inbound: bool, outbound: bool) -> None:
    """Set InboundEnforcementCap and OutboundEnforcementCap of a switch."""
    assert node.switch_info is not None
    SwitchInfo.inbound_enforcement_cap.patch(node.switch_info, inbound)
    SwitchInfo.outbound_enforcement_cap.patch(node.switch_info, outbound)
    node.touch()


def change_each_subnet(monkeypatch: pytest.MonkeyPatch, change: Callable[[Subnet], object]) -> None:
    """Let *change* be done to every subnet that is made of a net file, before a command sees it.

    A state file is read after it, and wins: with the fixture `cli` of ``tests/cli`` this works for the first command
    only. What is to change later: ``between_commands`` of ``tests/cli/conftest.py``.
    """
    made = Subnet.from_file

    def changed(*args: Any, **rest: Any) -> Subnet:
        net = made(*args, **rest)
        change(net)
        return net

    monkeypatch.setattr("ibkeys.sim.subnet.Subnet.from_file", changed)


def limited_members(*helped_themselves: str) -> Subnet:
    """Return two switches as OpenSM leaves `ALL=limited, SELF=full` under part_enforce both, with one more partition of
    limited members only; then the hosts named give themselves its full P_Key."""
    net = subnet("two-switch")
    for number in range(1, 7):
        port = net.port(f"node0{number} mlx4_0", 1)
        assert port.peer is not None
        port.p_keys = port.peer.p_keys = [0xFFFF if number == 1 else 0x7FFF, 0x0001]
        port.peer.inbound_enforcement = port.peer.outbound_enforcement = 1
        if port.node.description in helped_themselves:
            port.p_keys = [0x7FFF, 0x8001]
    for node in net.nodes:
        if node.is_switch:
            node.ports[0].p_keys = [0x7FFF]
    return net


def virtualize(net: Subnet, name: str, enabled: bool | None = True) -> None:
    """Let a host's port say that it may have virtual ports, and of them that they are on or off; None: it does not know
    VirtualizationInfo."""
    port = net.port(name, 1)
    known = None
    if enabled is not None:
        known = VirtualizationInfo.new(vport_cap=127, vport_index_top=3, virtualization_enable=int(enabled))
    virtual_ports.place(port, known)


def between_switches(net: Subnet) -> SimPort:
    """Return the first port of a switch that is linked to another switch."""
    ports = (port for node in net.nodes if node.is_switch for port in node.ports[1:])
    return next(port for port in ports if port.peer and port.peer.node.is_switch)


def tool(
    net: Subnet, at: str | None = None, wrap: Callable[[UmadPort], UmadPort] | None = None, **options: Any
) -> Fabric:
    """Open *net* as a user on node *at* would. *options*: fields of `ibkeys.Keys`, `Stores` and `Timing` by name."""

    def group(kind: type[Any]) -> Any:
        names = {each.name for each in dataclasses.fields(kind)} & options.keys()
        return kind(**{name: options.pop(name) for name in names})

    keys, stores, timing = group(ibkeys.Keys), group(ibkeys.Stores), group(ibkeys.Timing)
    local = ibkeys.Local(at=at)
    if wrap is not None:
        return ibkeys.open(wrap(ibkeys.open_port(net, local)), keys=keys, stores=stores, timing=timing, **options)
    return ibkeys.open(net, local=local, keys=keys, stores=stores, timing=timing, **options)


def writer(fabric: Fabric, *overrides: str, force: bool = False, dry_run: bool = False) -> ChangeWriter:
    """Return a writer with the given interlocks overridden."""
    return ChangeWriter(fabric, "test", Consent(force, frozenset(overrides)), dry_run)


def interlocks(plan: Plan) -> set[str]:
    """Return the names of the interlocks that a plan sets off."""
    return {objection.interlock for objection in plan.objections}


def move_cable(port: SimPort, to: SimPort, net: Subnet) -> None:
    """Pull the cable of *port* out at its far end, and plug that end into the free port *to*."""
    if port.peer is not None:
        net.unplug(port.node, port.number)
    net.plug(port.node, port.number, to.node, to.number)


def swap_cables(one: SimPort, other: SimPort, net: Subnet) -> None:
    """Swap the far ends of the cables of two ports."""
    places = net.unplug(one.node, one.number), net.unplug(other.node, other.number)
    for port, place in zip((other, one), places, strict=True):
        assert place is not None
        net.plug(port.node, port.number, place.node, place.number)


def replace_hca(node: SimNode, name: str | None = None, step: int = 0x5000) -> None:
    """Put another HCA in the place of one: other GUIDs at the same cables. *name*: where it is another."""
    node.guid += step
    for port in node.end_ports:
        port.guid += step
    if name is not None:
        node.description_bytes = name.encode()
