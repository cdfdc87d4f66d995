"""What happens to one packet, hop by hop: the ground that `ibkeys why` and the simulator's `packet` are held against.

Nothing of ibkeys is imported here. The rules are those of the project's fact sheets on routes and on P_Keys, written
down from them alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from tests.routes.plain import ACTIVE, ARMED, INITIALIZE, QP1, Fabric, Node, Packet, Place, Port, Reading

NO_PORT: Final = 255
"""The entry of a linear forwarding table that means none."""
HIGHEST_UNICAST_LID: Final = 0xBFFF

Outcome = Literal["delivered", "stopped", "lost", "unknown"]
Direction = Literal["in", "out", "end"]
Counter = Literal["PortRcvConstraintErrors", "PortXmitConstraintErrors", "P_KeyViolations"]


@dataclass(frozen=True)
class Check:
    """One check of the P_Key. ``direction``: on receipt from the link, before sending to it, or at the end port.
    ``index``: the entry of the port's table that lets the packet pass; None: no entry does. ``entry``: its P_Key."""

    place: Place
    direction: Direction
    index: int | None
    entry: int | None


class Hop(NamedTuple):
    """A node on the way. ``in_port``: None at the sender. ``out_port``: None at a CA or router that receives the
    packet, and where it is not known or reached; 0: the packet goes to the switch itself. ``checks``: those of ports
    that enforce, and of the end port, in their order."""

    node: str
    in_port: int | None
    out_port: int | None
    checks: tuple[Check, ...]


class Verdict(NamedTuple):
    """What became of the packet, and at which hop. ``reason``: of `stopped` where: in, out, port 0 or end port; of the
    others why."""

    outcome: Outcome
    hop: int
    reason: str = ""


class Walk(NamedTuple):
    """The hops of a packet and its end. ``counted``: the port and its counter that counts the violation."""

    hops: tuple[Hop, ...]
    verdict: Verdict
    counted: tuple[Place, Counter] | None = None


def matches(p_key: int, entry: int) -> bool:
    """Return whether two P_Keys match: both of one partition, which is not 0, and at least one is full."""
    if p_key & 0x7FFF != entry & 0x7FFF:
        return False
    if entry & 0x7FFF == 0:
        return False
    return bool((p_key | entry) & 0x8000)


def lets_in(p_key: int, entry: int, reading: Reading) -> bool:
    """Return whether *entry* lets a packet in that comes from the link, by one of the readings."""
    if reading == "membership":
        return matches(p_key, entry)
    return p_key & 0x7FFF == entry & 0x7FFF and entry & 0x7FFF != 0


def has_lid(port: Port, lid: int) -> bool:
    """Return whether an end port answers to *lid*: one of 2^LMC LIDs from its base LID."""
    return port.lid != 0 and port.lid <= lid < port.lid + 2**port.lmc


def walk(fabric: Fabric, packet: Packet, reading: Reading) -> Walk:
    """Follow *packet* to its end. *reading*: of the inbound check. Raises ValueError for a source LID that is not the
    sender's."""
    return _Walker(fabric, packet, reading).walk()


class _End(Exception):
    """The packet goes no further."""

    def __init__(self, outcome: Outcome, reason: str, counted: tuple[Place, Counter] | None = None) -> None:
        self.outcome: Outcome = outcome
        self.reason = reason
        self.counted = counted


class _Walker:
    """The state of one walk: the hops that are complete, and the one at which the packet is."""

    def __init__(self, fabric: Fabric, packet: Packet, reading: Reading) -> None:
        self.fabric = fabric
        self.packet = packet
        self.reading = reading
        self.done: list[Hop] = []
        self.node = packet.source[0]
        self.in_port: int | None = None
        self.out_port: int | None = None
        self.checks: list[Check] = []

    def walk(self) -> Walk:
        sender = self.fabric.port(self.packet.source)
        if self.packet.source_lid is not None and not has_lid(sender, self.packet.source_lid):
            raise ValueError(f"LID {self.packet.source_lid} is not one of {self.packet.source}")
        try:
            if not 0 < self.packet.destination_lid <= HIGHEST_UNICAST_LID:
                raise _End("unknown", "no unicast LID")
            if has_lid(sender, self.packet.destination_lid):
                self._receive(self.packet.source)
            if self.fabric.nodes[self.node].kind == "switch":
                self.out_port = self._look_up(self.fabric.nodes[self.node])
            else:
                self.out_port = self.packet.source[1]
            passed = {self.node}
            while True:
                if self.fabric.nodes[self.node].kind == "switch":
                    self._check_outbound()
                self._cross()
                self._arrive()
                if self.node in passed:
                    raise _End("lost", "loop")
                passed.add(self.node)
                self.out_port = self._look_up(self.fabric.nodes[self.node])
        except _End as end:
            hops = (*self.done, Hop(self.node, self.in_port, self.out_port, tuple(self.checks)))
            return Walk(hops, Verdict(end.outcome, len(self.done), end.reason), end.counted)

    def _look_up(self, switch: Node) -> int:
        """Return the port by which *switch* forwards the packet, which ends here if it is for the switch itself."""
        lid = self.packet.destination_lid
        if not switch.is_linear:
            raise _End("unknown", "RandomForwardingTable")
        if switch.is_adaptive is not False:
            raise _End("unknown", "adaptive routing")
        if switch.routes is None:
            raise _End("unknown", "forwarding table not read")
        entry = NO_PORT if lid > switch.top else switch.routes.get(lid, NO_PORT)
        if has_lid(switch.ports[0], lid) and entry != 0:
            raise _End("unknown", "own LID not at port 0")
        if lid > switch.top:
            raise _End("lost", "above LinearFDBTop")
        if entry == NO_PORT:
            raise _End("lost", "no entry")
        if entry == 0:
            self.out_port = 0
            self._receive((self.node, 0))
        if entry not in switch.ports:
            raise _End("lost", "no such port")
        return entry

    def _cross(self) -> None:
        """Send the packet over the cable at its port. The sending end must be Active, the other Armed or Active; for an
        SMP both at least Initialize."""
        assert self.out_port is not None
        here = self.node, self.out_port
        there = self.fabric.cables.get(here)
        if there is None:
            raise _End("lost", "link down")
        if self.fabric.port(here).state < (ACTIVE if self.packet.qp != 0 else INITIALIZE):
            raise _End("lost", "link down")
        if self.fabric.port(there).state < (ARMED if self.packet.qp != 0 else INITIALIZE):
            raise _End("lost", "link down")
        self.done.append(Hop(self.node, self.in_port, self.out_port, tuple(self.checks)))
        self.node, self.in_port = there
        self.out_port, self.checks = None, []

    def _arrive(self) -> None:
        """Take the packet from the link: a switch port checks it, a CA or router port is the end of its way."""
        assert self.in_port is not None
        node, here = self.fabric.nodes[self.node], (self.node, self.in_port)
        if node.kind == "switch":
            self._check_inbound()
            return
        if node.kind == "router" and self.packet.leaves_subnet:
            raise _End("unknown", "router")
        self._receive(here)

    def _check_inbound(self) -> None:
        assert self.in_port is not None
        node, place = self.fabric.nodes[self.node], (self.node, self.in_port)
        port = self.fabric.port(place)
        if node.inbound_cap and node.enforcement_cap > 0 and self.packet.qp != 0:
            table = self._enforced(port.inbound, port.table, node)
            if table is None:
                return
            index = next((at for at, each in enumerate(table) if lets_in(self.packet.p_key, each, self.reading)), None)
            self._note(place, "in", table, index)
            if index is None:
                self._violation(node, place, "in", "PortRcvConstraintErrors")

    def _check_outbound(self) -> None:
        assert self.out_port is not None
        node, place = self.fabric.nodes[self.node], (self.node, self.out_port)
        port = self.fabric.port(place)
        if node.outbound_cap and node.enforcement_cap > 0 and self.packet.qp != 0:
            table = self._enforced(port.outbound, port.table, node)
            if table is None:
                return
            index = next((at for at, each in enumerate(table) if matches(self.packet.p_key, each)), None)
            self._note(place, "out", table, index)
            if index is None:
                self._violation(node, place, "out", "PortXmitConstraintErrors")

    @staticmethod
    def _enforced(is_on: bool | None, table: tuple[int, ...] | None, node: Node) -> tuple[int, ...] | None:
        """Return the table of a switch port that the packet is checked against; None if the port does not check."""
        if is_on is False:
            return None
        if is_on is None:
            raise _End("unknown", "enforcement not read")
        if table is None:
            raise _End("unknown", "P_Key table not read")
        return table[: node.enforcement_cap]

    def _violation(self, node: Node, place: Place, where: str, counter: Counter) -> None:
        if node.corrupts:
            raise _End("unknown", f"corrupted {where} and passed on", (place, counter))
        raise _End("stopped", where, (place, counter))

    def _receive(self, place: Place) -> None:
        """Let the end port at *place* take the packet or not, and end the walk."""
        node, port = self.fabric.nodes[place[0]], self.fabric.port(place)
        if not has_lid(port, self.packet.destination_lid):
            raise _End("lost", "LID of another port")
        if self.packet.qp == 0:
            raise _End("delivered", "QP0")
        if port.table is None:
            raise _End("unknown", "P_Key table not read")
        table = port.table[: node.partition_cap]
        if self.packet.qp == QP1:
            places = range(len(table))
        elif self.packet.index is None:
            raise _End("unknown", "P_Key index of the QP not known")
        else:
            places = range(self.packet.index, self.packet.index + 1)
        index = next((at for at in places if at < len(table) and matches(self.packet.p_key, table[at])), None)
        self._note(place, "end", table, index)
        if index is None:
            where = "port 0" if node.kind == "switch" else "end port"
            raise _End("stopped", where, (place, "P_KeyViolations"))
        raise _End("delivered", "")

    def _note(self, place: Place, direction: Direction, table: tuple[int, ...], index: int | None) -> None:
        self.checks.append(Check(place, direction, index, None if index is None else table[index]))
