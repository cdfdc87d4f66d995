"""Reading the linear forwarding tables of switches: the blocks that some routes need, or whole tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.tables import AT_ONCE, gets_to
from ibkeys.errors import IbkeysError
from ibkeys.mad.attributes import LinearForwardingTable, SwitchInfo
from ibkeys.topology.forwarding import LIDS_PER_BLOCK, follow, lids_of
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Node, Port
from ibkeys.topology.troubles import Trouble

PortPair = tuple[Port, Port]


def read_routes(client: SmpClient, topology: Topology, pairs: Iterable[PortPair]) -> None:
    """Read the blocks of forwarding tables that the routes between pairs of end ports need, in both directions and to
    all LIDs of the ports.

    Each block is queried once: at most one for each LID block of the two ports at each switch on a route. A block
    that could not be read is a trouble in *topology*.
    """
    reading = _Reading(client, topology)
    client.run([reading.follow_each((way for one, other in pairs for way in ((one, other), (other, one))))])


def read_forwarding_tables(client: SmpClient, topology: Topology, switches: Iterable[Node]) -> None:
    """Read the forwarding tables of *switches* as far as LinearFDBTop: ceil((LinearFDBTop + 1) / 64) Gets for each.

    A table that could not be read is a trouble in *topology*.
    """
    reading = _Reading(client, topology)
    client.run(reading.whole_table(switch) for switch in switches if switch.is_switch)


class _Reading:
    """Blocks that were queried in one run. Two routes may need the same block."""

    def __init__(self, client: SmpClient, topology: Topology) -> None:
        self._client = client
        self._topology = topology
        self._failed: set[Node] = set()

    def follow_each(self, ways: Iterable[PortPair]) -> Task:
        """Task: read the blocks on the routes from the first end port of each pair to all LIDs of the second.

        One route after another, because routes share blocks.
        """
        for source, destination in ways:
            for lid in lids_of(destination):
                while (missing := follow(source, lid).missing_block) is not None:
                    switch, block = missing
                    if not (yield from self._read(switch, [block])):
                        break

    def whole_table(self, switch: Node) -> Task:
        """Task: read the table of a switch up to LinearFDBTop."""
        info = switch.switch_info_raw
        if info is None or not SwitchInfo.linear_fdb_cap.decode(info):
            return
        blocks = range(SwitchInfo.linear_fdb_top.decode(info) // LIDS_PER_BLOCK + 1)
        for start in range(0, len(blocks), AT_ONCE):
            if not (yield from self._read(switch, blocks[start : start + AT_ONCE])):
                return

    def _read(self, switch: Node, blocks: Sequence[int]) -> Task:
        """Task: read blocks of a switch that are not known yet; return whether all of them are known now."""
        if switch in self._failed or switch.switch_info_raw is None:
            return False
        known = switch.forwarding = {} if switch.forwarding is None else switch.forwarding
        wanted = [block for block in blocks if block not in known]
        if not wanted:
            return True
        port = switch.port(0)
        outcomes = yield gets_to(self._client, port).ask_each(LinearForwardingTable, wanted)
        for block, outcome in zip(wanted, outcomes, strict=True):
            if not isinstance(outcome, IbkeysError):
                known[block] = outcome
            elif switch not in self._failed:
                self._failed.add(switch)
                self._topology.troubles.append(Trouble.of(port, LinearForwardingTable.name, outcome))
        return switch not in self._failed
