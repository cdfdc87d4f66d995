"""Simulated hosts: the names of their adapters, and the values of adapters that the kernel shows in sysfs.

A NodeDescription consists of the host's name and the adapter's name (``node01 mlx5_0``). Nodes with the same host name
are adapters of one host. A switch, and a node with another form of description, is a host of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import AddressError
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import CapabilityMask, PortPhysicalState, PortState
from ibkeys.mad.link_rates import link_rate
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.server.umad import wire
from ibkeys.sim.subnet import Subnet
from ibkeys.similar_names import did_you_mean

MOST_ADAPTERS: Final = 32
"""libibumad's UMAD_MAX_DEVICES."""
_EXAMPLES: Final = 3
"""The number of host names in an error message, if no name is similar."""
_DESCRIPTION: Final = re.compile(rf"(\S+) ([A-Za-z][\w.-]{{0,{wire.NAME_SIZE - 2}}})", re.ASCII)
_MELLANOX: Final = 0x2C9
_SLOWEST: Final = 2
"""The rate in Gb/s of a link that is not up: libibumad reads "2.5 Gb/sec" as 2."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter of a host. ``name``: the name of its device."""

    name: str
    node: SimNode

    def ports(self) -> list[SimPort]:
        """Return the ports that a program can open: port 0 of a switch, all ports of another node."""
        return list(self.node.end_ports)


def adapters_of(subnet: Subnet, host: str, home: SimNode) -> list[Adapter]:
    """Return the adapters of *host*, sorted by name. Raises AddressError.

    *host*: the name of a host, or of one of its nodes as for `Subnet.node`; with ``:ADAPTER`` after it only that
    adapter is returned. "": the host of *home*.
    """
    if not host:
        return _beside(subnet, home)
    found = [node for node in subnet.nodes if _split(node)[0] == host]
    if found:
        return _named(found)
    try:
        return _beside(subnet, subnet.node(host))
    except AddressError:
        name, _, adapter = host.rpartition(":")
        if not name:
            raise AddressError(_no_host(subnet, host)) from None
    found_there = adapters_of(subnet, name, home)
    chosen = [each for each in found_there if each.name == adapter]
    if not chosen:
        names = ", ".join(each.name for each in found_there)
        raise AddressError(f"the simulated host {name} has no adapter {adapter}; it has {names}")
    return chosen


def _no_host(subnet: Subnet, host: str) -> str:
    hosts = list(dict.fromkeys(_split(node)[0] for node in subnet.nodes if not node.is_switch))
    near = did_you_mean(host, hosts)
    examples = f", but for example {', '.join(hosts[:_EXAMPLES])}" if hosts and not near else ""
    return f"the fabric has no host {host!r}{examples}{near or ';'} `ibkeys sim ctl show` lists the nodes"


def name_of(subnet: Subnet, adapters: Sequence[Adapter]) -> str:
    """Return the name of the host with these *adapters*: the name in its NodeDescriptions, or a node id if that name is
    empty or another host has it too."""
    first = adapters[0].node
    name = _split(first)[0]
    others = {node for node in subnet.nodes if _split(node)[0] == name} - {each.node for each in _beside(subnet, first)}
    return first.node_id if others or not name else name


def _beside(subnet: Subnet, node: SimNode) -> list[Adapter]:
    name, device = _split(node)
    return _named([each for each in subnet.nodes if _split(each)[0] == name] if device else [node])


def _split(node: SimNode) -> tuple[str, str]:
    """Return the names of host and device in the NodeDescription; "" for the device if it names none."""
    match = _DESCRIPTION.fullmatch(node.description)
    return (match[1], match[2]) if match and not node.is_switch else (node.description, "")


def _named(nodes: Sequence[SimNode]) -> list[Adapter]:
    """Return the adapters of *nodes*, at most `MOST_ADAPTERS`, sorted by name. A name is that in the NodeDescription,
    or sim0, sim1, ... if there is none or several nodes have it."""
    wanted = Counter(_split(node)[1] for node in nodes)
    found, number = [], 0
    for node in nodes[:MOST_ADAPTERS]:
        name = _split(node)[1]
        while not name or wanted[name] > 1:
            name, number = f"sim{number}", number + 1
        found.append(Adapter(name, node))
    return sorted(found, key=lambda adapter: adapter.name)


def choose_port(adapters: Sequence[Adapter], name: str, number: int) -> tuple[Adapter, SimPort] | None:
    """Return the adapter *name* and its port *number*, None if there is none; for "" or 0 the first suitable one.

    Suitable is, as in libibumad (umad.c: resolve_ca_name), an Active port, else a port with a link, else a port that is
    not Disabled. If both are given, any port is returned. On a switch, *number* is ignored: its only port is port 0.
    """
    candidates = [
        (adapter, port)
        for adapter in adapters
        if name in ("", adapter.name)
        for port in adapter.ports()
        if number in (0, port.number) or adapter.node.is_switch
    ]
    for fits in (_is_active, _has_link, _is_enabled):
        for adapter, port in candidates:
            if fits(port):
                return adapter, port
    return candidates[0] if candidates and name and number else None


def _is_active(port: SimPort) -> bool:
    return port.state == PortState.ACTIVE


def _has_link(port: SimPort) -> bool:
    return port.physical_state == PortPhysicalState.LINK_UP


def _is_enabled(port: SimPort) -> bool:
    return port.physical_state != PortPhysicalState.DISABLED


def describe_adapter(adapter: Adapter) -> bytes:
    """Return the ANSWER to the question CA about *adapter* (see `wire`)."""
    node = adapter.node
    return wire.adapter(
        adapter.name,
        f"MT{node.device_id}" if node.vendor_id == _MELLANOX else "",
        f"{node.revision:x}",
        node.node_type,
        0 if node.is_switch else node.num_ports,
        node.guid,
        node.system_image_guid,
    )


def ports_of(adapter: Adapter) -> Iterator[wire.AnsweredPort]:
    """Yield the ports of an adapter that a program can open."""
    for port in adapter.ports():
        is_sm = bool(PortInfo(bytes(port.info)).capability_mask & CapabilityMask.IS_SM)
        yield wire.AnsweredPort(adapter.name, port.number, port.guid, is_sm)


def describe_port(adapter: Adapter, port: SimPort) -> bytes:
    """Return the ANSWER to the question PORT: the values of *port* in sysfs. They contain P_Keys, but no other key."""
    info = PortInfo(bytes(port.info))
    rate = link_rate(info) if port.is_up else None
    numbers = (
        port.number,
        info.lid,
        info.lmc,
        info.master_sm_lid,
        info.master_sm_sl,
        info.port_state,
        info.port_physical_state,
        int(rate or _SLOWEST),
    )
    return wire.port(adapter.name, numbers, info.capability_mask, info.gid_prefix, port.guid, port.p_keys)
