"""Finding nodes behind closed switches whose links are not known, by probes through one port of a switch after the
other.

A closed switch forwards directed-route SMPs, but does not show its number of ports. A probe is a Get(NodeInfo) without
a key: an open node answers it, and a closed node starts its lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import Final

from ibkeys.client.address import DirectedAddress
from ibkeys.client.in_flight import MAX_WINDOW
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import NodeInfo
from ibkeys.mad.const import MAX_HOPS, Method
from ibkeys.mkeys.recovery.locked_port_gets import LockedPortGets
from ibkeys.mkeys.recovery.locked_ports import ProbedLink, SilentPort
from ibkeys.mkeys.recovery.timing import CLOCK_ROUNDING, LATE, SOON
from ibkeys.topology.nodes import LinkEnd, Node, Port

PROBED_PORTS: Final = 64
"""Number of ports of a closed switch that are probed, beginning at port 1: the switch's own number of ports cannot be
read."""
PROBED_AT_ONCE: Final = 32
"""Number of closed switches in a group that is probed at one time. The next group is chosen only when the probes of the
one before are nearly sent, because an answer may show that several routes lead to one switch."""
_NEARLY_SENT: Final = 2 * MAX_WINDOW
"""Probes of a group that are still to be sent when the next group is chosen."""
MOST_PROBE_ROUNDS: Final = 3
"""Most rounds of probes through one closed switch: one to start the leases behind it, one when these should be over,
and one before the search stops waiting for the switch."""


class SwitchProbes:
    """The probes of one search through the ports of closed switches."""

    def __init__(self, gets: LockedPortGets) -> None:
        self._gets = gets
        self._waiting = gets.waiting
        self._linked = {guid for guid, _ in self._waiting.links}
        self._by_near: dict[LinkEnd, SilentPort] = {}

    def dead_ends(self) -> int:
        """Return the number of probes through ports that turned out to have no link, or not to belong to a switch."""
        return sum(map(self._dead_ends, self._waiting.probe_rounds))

    def _dead_ends(self, guid: int) -> int:
        node = self._waiting.nodes.get(guid)
        if node is None:
            return 0
        linked = sum(0 < port.num <= PROBED_PORTS and port.is_linked for port in node.ports.values())
        return self._waiting.probe_rounds[guid] * (PROBED_PORTS - (linked if node.is_switch else 0))

    def next_time(self, silent: SilentPort) -> float | None:
        """Return the time at which `probe` probes through *silent* next; None if not known, or if no round is left."""
        if self._is_time(silent, self._waiting.now + CLOCK_ROUNDING):
            return self._waiting.now
        if not self._waiting.leases or not self._has_round_left(silent):
            return None
        return max(self._waiting.leases) + (silent.probed_at + LATE if silent.probed else silent.started + SOON)

    def probe_last_time(self, ports: Sequence[SilentPort]) -> None:
        """Probe once more through those of *ports* that may be switches, before the search stops waiting for them."""
        self._probe_all(
            silent for silent in ports if self.may_be_a_switch(silent) and silent.probed < MOST_PROBE_ROUNDS
        )

    def may_be_a_switch(self, silent: SilentPort) -> bool:
        """Return whether nodes may be behind *silent* that only probes would find."""
        if len(silent.path) >= MAX_HOPS or (not silent.path and self._waiting.start[1]):
            return False
        # Nodes that known links lead to need no probe: each is read on its own route.
        return silent.guid is None or silent.guid not in self._linked

    def _has_round_left(self, silent: SilentPort) -> bool:
        return silent.probed < MOST_PROBE_ROUNDS - 1 and self.may_be_a_switch(silent)

    def probe(self) -> None:
        """Probe through each closed switch whose round is due: the first round as soon as the switch is found silent,
        the second when the leases behind it should be over."""
        now = self._waiting.now + CLOCK_ROUNDING
        ready = [silent for silent in self._waiting.silent.values() if self._is_time(silent, now)]
        if ready:
            self._probe_all(_interleave(ready), self._waiting.next_due(now))

    def _probe_all(self, ports: Iterable[SilentPort], until: float | None = None) -> None:
        """Probe through *ports*, one group after the other, until the time *until*, at which other ports are due; None:
        through all. The first group is always probed."""
        waiting, client = self._waiting, self._gets.client
        left = (silent for silent in ports if waiting.silent.get(silent.path) is silent)
        groups: list[list[SilentPort]] = []
        self._by_near = {silent.near.link_end: silent for silent in waiting.silent.values() if silent.near is not None}

        def start_next_group() -> None:
            if client.backlog > _NEARLY_SENT or (groups and until is not None and waiting.now >= until):
                return
            for silent in groups[-2] if len(groups) > 1 else ():
                silent.probed_at = waiting.now  # the last probe through it has been sent now
            group = list(islice(left, PROBED_AT_ONCE))
            if not group:
                return
            groups.append(group)
            self._count_round(group)
            # Port 1 of every switch first, then port 2, and so on: no switch gets all its probes at once.
            for num in range(1, PROBED_PORTS + 1):
                for silent in group:
                    client.start(self._probe_one(silent, num))

        self._gets.run_probes(start_next_group)
        asked_at = waiting.now - client.timing.timeout
        for silent in chain.from_iterable(groups[-2:]):
            silent.probed_at = max(silent.probed_at, asked_at)
        if groups:
            self._stop_leases()

    def _count_round(self, ports: Sequence[SilentPort]) -> None:
        for silent in ports:
            silent.probed += 1
            silent.probe_rounds += 1
            silent.probed_at = self._waiting.now

    def _is_time(self, silent: SilentPort, now: float) -> bool:
        """Return whether to probe through *silent* at the time *now*.

        The first round is due at once; but if half of the switch's own lease is over, the switch will soon answer and
        show its links itself, so the round waits until it should have opened. The second round is due when the leases
        behind the switch should be over.
        """
        lease = max(self._waiting.leases, default=0)
        if not self._has_round_left(silent):
            return False
        if silent.probed:
            return bool(lease) and now >= silent.probed_at + lease + LATE
        return not silent.started + lease / 2 < now < silent.started + lease + SOON

    def _probe_one(self, silent: SilentPort, num: int) -> Task:
        far = yield from self._gets.read_node_info((*silent.path, num), None)
        if far is None or self._waiting.silent.get(silent.path) is not silent:
            return
        self._waiting.probed_links[far] = ProbedLink(silent.path, num)
        other = self._by_near.get(far)
        if other is not None and other is not silent and self._waiting.drop(other):
            silent.probe_rounds += other.probe_rounds  # both routes lead to the same switch

    def _stop_leases(self) -> None:
        """Stop the leases of open ports: send each port with a known key an SMP with this key, because a probe may have
        reached the port and started its lease."""
        tasks = []
        for port in self._waiting.found.end_ports():
            info = port.port_info
            if info is not None and info.m_key and info.m_key_protect_bits >= 2 and info.m_key_lease_period:
                tasks.append(self._ask_with_key(port, MKey(info.m_key)))
        self._gets.run(tasks)

    def _ask_with_key(self, port: Port, key: MKey) -> Task:
        path = port.agent_path
        try:
            yield self._gets.client.request(Method.GET, NodeInfo, 0, DirectedAddress(path), m_key=key)
        except IbkeysError:
            return


def _interleave(ports: Sequence[SilentPort]) -> Iterator[SilentPort]:
    """Yield *ports* in an order in which the first ports lead to many different switches: one closed neighbour of each
    open switch, then a second one of each, and so on.

    The first neighbour is at a different position for each open switch, because neighbours at the same position often
    are the same switch.
    """
    by_near: dict[Node | None, list[SilentPort]] = {}
    for silent in ports:
        by_near.setdefault(silent.near.node if silent.near is not None else None, []).append(silent)
    turned = []
    for number, group in enumerate(by_near.values()):
        first = number % len(group)
        turned.append(group[first:] + group[:first])
    for rank in zip_longest(*turned):
        yield from (silent for silent in rank if silent is not None)
