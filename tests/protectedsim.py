"""A simulated subnet whose every port is protected, and an ear at every port: who was sent which key.

What is judged is what really arrives: the M_Key in the header of each SMP, and the M_Key in the payload of each
Set(PortInfo), at the physical port that an SMP came to, whatever GUID that port claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import SwitchInfo
from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.physical.first_routes import FirstRoutes
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.nodes import LinkEnd

FIRST_KEY = 0xA0B1C2D300000000
_NO_KEY = bytes(8)


def end_port(node: SimNode, number: int) -> SimPort:
    """The port that guards *number* of *node*."""
    return node.ports[0] if node.is_switch else node.ports[number]


def end_ports(net: Subnet) -> list[SimPort]:
    return [port for node in net.nodes for port in node.end_ports]


def link_end(port: SimPort) -> LinkEnd:
    """A port as a link's end is written in the ``neighbors`` file."""
    return (port.node.guid if port.node.is_switch else port.guid, port.number)


def violations(net: Subnet) -> int:
    return sum(port.m_key_violations for port in end_ports(net))


def ring_of(net: Subnet) -> KeyRing:
    """A ring as OpenSM's files give it, without keys: every link from both ends, LIDs."""
    ring = KeyRing()
    for node in net.nodes:
        for port in node.all_ports:
            if port.peer is not None:
                ring.neighbors[link_end(port)] = link_end(port.peer)
        for port in node.end_ports:
            if port.lid:
                ring.lids[port.guid] = port.lid
    return ring


def protect_all(net: Subnet, level: int = 2) -> KeyRing:
    """Give every end port a key of its own with a lease; return a ring that knows keys, links and LIDs."""
    ring = ring_of(net)
    for number, port in enumerate(end_ports(net)):
        port.m_key, port.protect_bits, port.lease_period = FIRST_KEY + number, level, 60
        ring.by_guid[port.guid] = MKey(port.m_key)
    return ring


def keep_counters(net: Subnet, ring: KeyRing) -> None:
    """Keep LinkDownedCounter of every link with it in *ring*, as the key store does."""
    ring.link_downed = {
        link_end(port): port.counter("link_downed_counter")
        for node in net.nodes
        for port in node.all_ports
        if port.peer is not None
    }


def store_of(net: Subnet, ring: KeyRing, path: Path, level: int = 2) -> None:
    """Write a key store with what *ring* knows: keys, levels, links with their counters, LIDs."""
    with KeyStore(path) as store:
        for port in end_ports(net):
            if port.guid in ring.by_guid:
                key = ring.by_guid[port.guid]
                store.promote(
                    store.put_pending(port.node.guid, port.guid, port.number, KeySetting(key, level, 60), None)
                )
        store.put_links(
            [(*near, *far) for near, far in ring.neighbors.items() if near <= far], link_downed=ring.link_downed
        )
        store.put_lids({guid: (lid, lid) for guid, lid in ring.lids.items()})


# --- listening --------------------------------------------------------------------------------------------------------


@dataclass
class Wire:
    """What arrived where. ``owners``: key → the physical port that it belongs to, as of the start."""

    net: Subnet
    owners: dict[bytes, SimPort] = field(default_factory=dict)
    heard: dict[tuple[SimPort, bytes], int] = field(default_factory=dict)
    keyless: dict[SimPort, int] = field(default_factory=dict)
    home: dict[int, SimPort] = field(default_factory=dict)

    def take(self, mad: bytes, node: SimNode, ingress: int) -> None:
        port = end_port(node, ingress)
        key = mad[24:32]
        if key == _NO_KEY:
            self.keyless[port] = self.keyless.get(port, 0) + 1
        else:
            self.heard[port, key] = self.heard.get((port, key), 0) + 1
        if mad[3] == Method.SET and mad[16:18] == AttributeID.PORT_INFO.to_bytes(2) and mad[64:72] != _NO_KEY:
            self.heard[port, mad[64:72]] = self.heard.get((port, mad[64:72]), 0) + 1

    def know(self, keys: dict[int, Iterable[MKey]]) -> None:
        """Take keys by port GUID, as a key store has them after a run: they belong to who had the GUID at first."""
        for guid, each in keys.items():
            for key in each:
                if not key.is_zero:
                    self.owners.setdefault(key.reveal().to_bytes(8), self.home[guid])

    def strays(self) -> list[str]:
        """Each key that a port was sent which is not its owner, in words; unknown keys have no owner."""
        return [
            f"{port} was sent the key of {self.owners[key]}"
            for port, key in self.heard
            if key in self.owners and self.owners[key] is not port
        ]


def listen(net: Subnet) -> Wire:
    """Listen at every port from now on. The keys that ports have now belong to them."""
    wire = Wire(net)
    for port in end_ports(net):
        wire.home[port.guid] = port
        if port.m_key:
            wire.owners[port.m_key.to_bytes(8)] = port
    ask = net.carrier.ask

    def heard(mad: bytes, node: SimNode, ingress: int, slid: int) -> Any:
        wire.take(mad, node, ingress)
        return ask(mad, node, ingress, slid)

    net.carrier.ask = heard  # type: ignore[method-assign]
    return wire


@contextmanager
def listening(net: Subnet) -> Iterator[Wire]:
    """Listen inside, and assert at the end that no port was sent the key of another."""
    wire = listen(net)
    yield wire
    assert wire.strays() == []


def provoked(net: Subnet, besides: SimNode | None = None) -> list[str]:
    """What questions without their keys did to ports, but for those of *besides*: violations, leases, traps."""
    found = []
    for port in end_ports(net):
        if port.node is besides:
            continue
        if port.m_key_violations:
            found.append(f"{port}: {port.m_key_violations} violations")
        if port.lease_deadline is not None:
            found.append(f"{port}: its lease runs")
    bad = ("trap", "lease", "m-key")
    return found + [
        f"{event.node} port {event.port}: {event.kind} {event.detail.get('number', '')}"
        for event in net.events
        if event.kind.startswith(bad)
        and event.detail.get("number") not in (128, 144)
        and not (besides is not None and event.node == besides.description)
    ]


# --- cables -----------------------------------------------------------------------------------------------------------


def replug(net: Subnet, one: SimPort, other: SimPort) -> None:
    """Put a cable between two free ports."""
    net.plug(one.node, one.number, other.node, other.number)


def reached(start: SimPort, passes: Callable[[SimPort], bool] = lambda port: True) -> set[SimPort]:
    """Return the ports that a sweep from *start* can read: of a switch all, of others those that a link reaches.

    *passes* says of the port that a link leaves by whether it counts.
    """
    ports: set[SimPort] = set()
    waiting = [start]
    while waiting:
        port = waiting.pop()
        if port in ports:
            continue
        mine = set(port.node.all_ports) if port.node.is_switch else {port}
        ports |= mine
        outward = mine if port.node.is_switch else ({port} if port is start else set())
        waiting += [each.peer for each in outward if each.peer is not None and each.is_up and passes(each)]
    return ports


def sm_sweeps(net: Subnet, home: SimPort | None = None) -> None:
    """What an SM does that can reach every node, or those that *home* can: links become Active, LIDs that were lost are
    given back, forwarding tables follow the cables."""
    seen = {port for node in net.nodes for port in node.all_ports} if home is None else reached(home)
    lids = {port: lid for port, lid, _ in net.first_routes.lids}
    manager = next((node.sm.port for node in net.nodes if node.sm is not None), None)
    for node in net.nodes:
        for port in node.all_ports:
            port.first_peer = port.peer
    net.first_routes = FirstRoutes(net.nodes, net.first_routes.lids)
    for node in net.nodes:
        node.first_routes = net.first_routes
    for port in seen:
        if port.is_end_port:
            port.node.routes = None
            if not port.lid and port in lids:
                port.lid = lids[port]
            if manager is not None:
                port.sm_lid = manager.lid
        if port.is_up:
            port.set_states(4, 5)
    for port in seen:
        if port.number == 0 and port.node.switch_info is not None:
            SwitchInfo.linear_fdb_top.patch(port.node.switch_info, net.first_routes.size - 1)


class Rewind:
    """The state of a subnet, to go back to after each of very many cases: cables, ports, tables, time."""

    def __init__(self, net: Subnet) -> None:
        self.net = net
        self._ports = [
            (port, bytes(port.info), port.guid, port.peer, port.first_peer, port.counters, port.lease_deadline)
            for node in net.nodes
            for port in node.all_ports
        ]
        self._nodes = [
            (node, bytes(node.switch_info) if node.switch_info is not None else None, node.guid, node.system_image_guid)
            for node in net.nodes
        ]
        self._counts = {port: bytes(c.basic) for port, *_, c, _ in self._ports if c is not None}
        self._first_routes = net.first_routes
        self._routes = [(node, bytearray(node.routes) if node.routes is not None else None) for node in net.nodes]

    def __call__(self) -> None:
        net = self.net
        for port, info, guid, peer, first_peer, counters, deadline in self._ports:
            port.info[:] = info
            port.guid, port.peer, port.first_peer, port.lease_deadline = guid, peer, first_peer, deadline
            port.last_trap = None
            port.counters = counters
            if counters is not None:
                counters.basic[:] = self._counts[port]
        for node, switch_info, guid, image in self._nodes:
            node.guid, node.system_image_guid, node.silent = guid, image, 0
            if switch_info is not None:
                node.switch_info = bytearray(switch_info)
        net.first_routes = self._first_routes
        net.history.reroutes += 1
        for node, routes in self._routes:
            node.first_routes = net.first_routes
            node.routes = bytearray(routes) if routes is not None else None
        net.cables.unplugged.clear()
        net.events.clear()
        net.history.touched_ports.clear()
        net.history.touched_nodes.clear()
        net.faults.clear()
        net.traps.repeats = type(net.traps.repeats)()
        net.__dict__.pop("_ask", None)
