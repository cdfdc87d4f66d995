"""The links between the switches of a fabric, and which of their ports check packets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from ibkeys.keys.pkey import InboundCheck
from ibkeys.reach.forms import forms_in, passing
from ibkeys.reach.routes import Edge, SwitchGraph
from ibkeys.topology.enforcement import INBOUND, OUTBOUND, Direction, enforced, is_unread
from ibkeys.topology.forwarding import ForwardingRoute, follow
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port

_BITS: Final[dict[Direction, int]] = {"inbound": INBOUND, "outbound": OUTBOUND}


@dataclass(frozen=True, slots=True)
class CheckingPort:
    """A switch port that checks packets in one direction. ``forms``: the contents of its table by partition; None: not
    read."""

    port: Port
    direction: Direction
    forms: dict[int, int] | None


LinkChecks = tuple[CheckingPort, ...]
"""The ports that check packets in one direction of one cable; empty where neither end checks them."""


class SwitchLinks:
    """The links between the switches of a fabric, and which of their ports check packets.

    *checks_of*: returns the checks of a port in a direction. By default a port checks P_Keys. *end_ports*: the end
    ports in the order of their numbers; by default that of the fabric.
    """

    def __init__(
        self,
        fabric: Topology,
        checks_of: Callable[[Port, Direction], LinkChecks] | None = None,
        end_ports: Sequence[Port] | None = None,
    ) -> None:
        self._checks_of = checks_of if checks_of is not None else _checks_of
        self._switches = [node for node in fabric.nodes if node.is_switch]
        self.end_ports = list(fabric.end_ports()) if end_ports is None else list(end_ports)
        self.checks: list[CheckingPort] = []
        """Every check on a link; its number is its index here."""
        self.numbered: dict[Edge, list[range]] = {}
        """By pair of switches, if any link between them checks: the numbers of the checks of each of its links."""
        self._holding: dict[int, list[tuple[int, int]]] = {}
        """Partition → the numbers of the checks whose tables have its P_Keys, each with the forms in that table."""
        self._read_checks = b""
        """For each check 1 if its table was read, else 0."""
        self.numbered_at: dict[Port, range] = {}
        """The numbers of the checks on a link by the port that sends to it, if any port on the link checks."""
        self.route: Callable[[Port, Port], ForwardingRoute | None] = cache(self._find_route)
        """Returns the route from an end port to the base LID of another; None where it is not known, or is lost."""
        ports = [port for node in self._switches for port in node.ports.values()]
        between = [port for port in ports if port.is_between_switches]
        if any(self._checks_of(port, direction) for port in between for direction in _BITS):
            self._read(between)  # without a check no port between switches stops a packet

    def _read(self, between: Sequence[Port]) -> None:
        links: dict[Edge, list[tuple[Port, LinkChecks]]] = {}
        checks_of = self._checks_of
        for port in between:
            peer = port.peer
            assert peer is not None
            edge = self.number[port.node], self.number[peer.node]
            if edge[0] != edge[1]:
                checks = *checks_of(port, "outbound"), *checks_of(peer, "inbound")
                links.setdefault(edge, []).append((port, checks))
        for node in self._switches:
            for port in _leading_beyond(node):
                here, there = self.number[node], len(self._switches)
                links.setdefault((here, there), []).append((port, checks_of(port, "outbound")))
                links.setdefault((there, here), []).append((port, checks_of(port, "inbound")))
        self._edges = links.keys()
        for edge, parallel in links.items():
            if any(checks for _, checks in parallel):
                self.numbered[edge] = [self._number(checks) for _, checks in parallel]
                if self.is_known(edge):
                    ports = (port for port, _ in parallel)
                    self.numbered_at.update(zip(ports, self.numbered[edge], strict=True))
        for number, each in enumerate(self.checks):
            for partition, forms in (each.forms or {}).items():
                self._holding.setdefault(partition, []).append((number, forms))
        self._read_checks = bytes(each.forms is not None for each in self.checks)

    def _number(self, link: LinkChecks) -> range:
        """Add the checks of a link to ``checks``, and return their numbers."""
        first = len(self.checks)
        self.checks += link
        return range(first, len(self.checks))

    def _find_route(self, source: Port, destination: Port) -> ForwardingRoute | None:
        lid = destination.lid
        route = follow(source, lid, destination) if lid and self.has_tables else None
        return route if route is not None and route.end == "arrives" else None

    @cached_property
    def has_tables(self) -> bool:
        """Whether a forwarding table was read."""
        return any(switch.forwarding is not None for switch in self._switches)

    @property
    def switches(self) -> Sequence[Node]:
        """The switches by their numbers."""
        return self._switches

    def stopped(self, partition: int, key_form: int, check: InboundCheck) -> bytes:
        """Return which of ``checks`` stop packets with a form of a partition's P_Key: 1 for each that does, 0 for each
        that does not or was not read."""
        found = bytearray(self._read_checks)
        for number, forms in self._holding.get(partition, ()):
            reading = check if self.checks[number].direction == "inbound" else "membership"
            if passing(forms, reading) & key_form:
                found[number] = 0
        return bytes(found)

    @cached_property
    def number(self) -> dict[Node, int]:
        """The number of each switch."""
        return {node: at for at, node in enumerate(self._switches)}

    @cached_property
    def graph(self) -> SwitchGraph:
        """The switches as a graph."""
        neighbours: list[list[int]] = [[] for _ in self._switches]
        for tail, head in self._edges:
            if self.is_known((tail, head)):
                neighbours[tail].append(head)
        return SwitchGraph(neighbours)

    @cached_property
    def beyond(self) -> list[Edge]:
        """The links with one end that was not read: from the known switches to the unknown part, and back."""
        return [edge for edge in self._edges if not self.is_known(edge)]

    @cached_property
    def unread_edges(self) -> frozenset[Edge]:
        """The links with a port whose check was not read."""
        every, read = self.numbered.items(), self._read_checks
        return frozenset(edge for edge, links in every if not all(read[each] for link in links for each in link))

    @cached_property
    def unread(self) -> list[Port]:
        """The ports between switches whose check was not read."""
        found = (each.port for number, each in enumerate(self.checks) if each.forms is None and self.is_between(number))
        return list(dict.fromkeys(found))

    def is_between(self, check: int) -> bool:
        """Return whether both ends of the link of a check are known. *check*: its index in ``checks``."""
        return self.checks[check].port.peer is not None

    def is_known(self, edge: Edge) -> bool:
        """Return whether both ends of a link are known."""
        return max(edge) < len(self._switches)

    def number_of(self, port: Port) -> int | None:
        """Return the number of the switch that an end port is linked to, or that it is port 0 of; None if there is no
        such switch."""
        node = port.node if port.node.is_switch else port.peer.node if port.peer is not None else None
        return None if node is None else self.number.get(node)


def _checks_of(port: Port, direction: Direction) -> LinkChecks:
    bit = _BITS[direction]
    if is_unread(port, bit):
        return (CheckingPort(port, direction, None),)
    return (CheckingPort(port, direction, forms_in(port)),) if enforced(port) & bit else ()


def _leading_beyond(node: Node) -> Iterator[Port]:
    """Yield the ports of a switch behind which there is, or may be, a node that was not read."""
    for port in node.ports.values():
        if port.is_external and port.peer is None and (port.info is None or port.is_linked or not port.says_peer):
            yield port
