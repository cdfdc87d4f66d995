"""The routes with which a simulated subnet starts: shortest paths over its first cabling, until an SM sets others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property

from ibkeys.sim.nodes import SimNode, SimPort


class FirstRoutes:
    """Computes the linear forwarding tables of switches. Equal net files have equal tables.

    The destinations behind a switch are spread by LID over all shortest paths to it. Many SMPs need the tables of all
    switches, so their common part is computed only once. The time for one table grows with the number of cables between
    switches, and with the number of runs of LIDs (see `_runs`), but not with the number of LIDs.

    ``lids``: (end port, base LID, number of LIDs) at the start. ``size``: the number of entries of a table.
    """

    def __init__(self, nodes: Sequence[SimNode], lids: Sequence[tuple[SimPort, int, int]]) -> None:
        self.lids = lids
        self.size = max((base + count for _, base, count in lids), default=0)
        self._nodes = nodes

    def __call__(self, switch: SimNode) -> bytearray:
        """Return the table of *switch*: LID → egress port; 0 for its own LIDs, 255 for a LID that it cannot reach."""
        first_hops = self._first_hops(switch)
        table = bytearray(b"\xff" * self.size)
        for home, first, egresses in self._runs:
            count = len(egresses)
            if home == switch.index:
                table[first : first + count] = egresses
            elif first_ports := first_hops.get(home):
                table[first : first + count] = _ports_of_lids(_ports_of(first_ports), first, count)
        return table

    @cached_property
    def _runs(self) -> list[tuple[int, int, bytearray]]:
        """Runs of consecutive LIDs behind one switch: the index of the switch, the first LID, and the egress port of
        this switch for each LID."""
        runs: list[tuple[int, int, bytearray]] = []
        for port, base, count in self.lids:
            before = port if port.node.is_switch else port.first_peer
            if before is None or not before.node.is_switch:
                continue
            home, egresses = before.node.index, bytes((before.number,)) * count
            if runs and runs[-1][0] == home and runs[-1][1] + len(runs[-1][2]) == base:
                runs[-1][2].extend(egresses)
            else:
                runs.append((home, base, bytearray(egresses)))
        return runs

    @cached_property
    def _neighbours(self) -> dict[int, dict[int, int]]:
        """Index of each switch → index of each neighbouring switch → the ports that lead to it, as bits: bit n for port
        n."""
        neighbours: dict[int, dict[int, int]] = {}
        for node in self._nodes:
            if not node.is_switch:
                continue
            ports_to = neighbours[node.index] = {}
            for port in node.ports[1:]:
                peer = port.first_peer
                if peer is not None and peer.node.is_switch and peer.node is not node:
                    ports_to[peer.node.index] = ports_to.get(peer.node.index, 0) | 1 << port.number
        return neighbours

    def _first_hops(self, switch: SimNode) -> dict[int, int]:
        """Return the index of each reachable switch → the ports of *switch* at which a shortest path to it begins, as
        bits. The value of *switch* itself is 0."""
        neighbours = self._neighbours
        first_ports = {switch.index: 0}
        level = neighbours[switch.index]
        while level:
            first_ports.update(level)
            next_level: dict[int, int] = {}
            for index, ports in level.items():
                for near in neighbours[index]:
                    if near not in first_ports:
                        next_level[near] = next_level.get(near, 0) | ports
            level = next_level
        return first_ports


@cache
def _ports_of(bits: int) -> bytes:
    """Return the port numbers in *bits*. The results are cached, because nearly all destinations have one of a few
    sets."""
    return bytes(number for number in range(bits.bit_length()) if bits >> number & 1)


def _ports_of_lids(ports: bytes, first: int, count: int) -> bytes:
    """Return the egress port for each of *count* LIDs from *first* on: for LID n the port at place n modulo
    len(*ports*) of *ports*."""
    skipped = first % len(ports)
    return (ports * ((skipped + count) // len(ports) + 1))[skipped : skipped + count]
