"""What the simulator makes of a packet, by all that it leaves: outcome, events, and counters of the ports."""

from __future__ import annotations

from typing import Final

from ibkeys.sim import notices, packets
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.reach.routed import lids_of
from tests.routes.answers import Answer
from tests.routes.physical import place_of
from tests.routes.plain import Packet, Reading
from tests.routes.walker import Direction

_COUNTERS: Final[dict[str, Direction]] = {"port_rcv_constraint_errors": "in", "port_xmit_constraint_errors": "out"}


class Simulator:
    """Sends packets in one subnet, as `Subnet.packet` does. It sets all counters to 0 before each."""

    def __init__(self, net: Subnet) -> None:
        self.net = net
        self._ports = [port for node in net.nodes for port in node.all_ports]
        self._by_lid = {lid: port for port in self._ports if port.is_end_port and port.lid for lid in lids_of(port)}

    def __call__(self, packet: Packet, reading: Reading) -> Answer:
        """Return what becomes of a packet. One to a LID that nobody has is addressed to any port."""
        net, lid = self.net, packet.destination_lid
        for port in self._ports:
            port.counters = None
            if port.p_key_violations:
                port.p_key_violations = 0
        net.history.events.clear()
        source, to = net.port(*packet.source), self._by_lid.get(lid, self._ports[0])
        sent = notices.Packet(source, to, packet.p_key, destination_lid=lid)
        text, entry = packets.carry(sent, reading, net.traps)
        senders = frozenset(place_of(port) for port in self._ports if port.counter("port_xmit_pkts"))
        receivers = {place_of(port) for port in self._ports if port.counter("port_rcv_pkts")}
        assert receivers == {place_of(port.peer) for port in map(self._at, senders) if port.peer is not None}
        drops = [(port, direction) for port in self._ports for direction in _drops(port)]
        assert len(drops) <= 1, text
        if drops:
            [(port, direction)] = drops
            assert entry is None
            assert ": dropped " in text
            kind = "p-key-violation" if direction == "end" else "constraint-error"
            assert [each[1:4] for each in net.events[:1]] == [(kind, port.node.description, port.number)]
            return Answer("stopped", place_of(port), direction, None, senders)
        if entry is None:
            assert ": lost after " in text
            assert [event.kind for event in net.events] == ["packet-lost"]
            return Answer("lost", None, None, None, senders)
        assert text.endswith(": received")
        return Answer("delivered", place_of(to), "end", entry, senders)

    def _at(self, place: tuple[str, int]) -> SimPort:
        return self.net.port(*place)


def _drops(port: SimPort) -> list[Direction]:
    found = [direction for name, direction in _COUNTERS.items() if port.counter(name)]
    return [*found, "end"] if port.is_end_port and port.p_key_violations else found
