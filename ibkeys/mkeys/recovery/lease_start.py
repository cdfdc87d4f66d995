"""Starting the lease of a port without changing anything on it (IBA 14.2.4.2).

A silent port (level 2 or 3) starts its lease when it refuses any SMP. A port at level 1 answers Gets, so another SMP is
needed that the port refuses: a TrapRepress, which has no response and changes nothing on a port without a key. If that
counts no violation, a Set(P_KeyTable) follows, with the block that was just read. PortInfo is never set for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ibkeys.client.address import DirectedAddress
from ibkeys.client.request import Request
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused
from ibkeys.mad.attributes import PKeyTable, PortInfo
from ibkeys.mad.const import Method
from ibkeys.mad.notice import Notice
from ibkeys.mkeys.recovery.locked_port_gets import LockedPortGets
from ibkeys.mkeys.recovery.locked_ports import HidingPort
from ibkeys.store.journal import JournalEntry
from ibkeys.topology.nodes import Port

FIRST_LOOKS: Final = 1024
"""When leases are started, the Gets to this many nodes of the known links are waited for. The answers of further nodes
are not waited for."""
_MOST_ATTEMPTS: Final = 3
_SATURATED: Final = 0xFFFF

JournalBlock = Callable[[Port, bytes], JournalEntry]
"""A function that puts a P_KeyTable block, which is about to be written back unchanged, into the journal."""


class LeaseStarter:
    """Starts the leases of the ports that one search waits for."""

    def __init__(self, gets: LockedPortGets) -> None:
        self._gets = gets
        self._waiting = gets.waiting
        self._attempts: dict[Port, int] = {}

    def _trap_repress(self, path: tuple[int, ...]) -> Request:
        return self._gets.client.request(Method.TRAP_REPRESS, Notice, 0, DirectedAddress(path))

    def start_routes(self) -> None:
        """Start, at the same time, the leases of all nodes that are known only from links.

        Each node first gets a TrapRepress, which has no response, then a Get. The Get finds the ports that are open,
        and starts the lease of a port whose agent ignored the TrapRepress.
        """
        ports = [silent for silent in self._waiting.silent.values() if not silent.asked]
        if not ports:
            return
        self._gets.send_unawaited(self._trap_repress(silent.path) for silent in ports)
        for silent in ports:
            silent.asked, silent.started = 2, self._waiting.now
            if silent.guid is not None:
                self._waiting.leases_started[silent.guid] = self._waiting.now
        self._gets.send_unawaited(self._gets.node_info_request(silent.path) for silent in ports[FIRST_LOOKS:])
        for silent in ports:
            silent.last = self._waiting.now
        self._gets.run([self._gets.read_silent_port(silent) for silent in ports[:FIRST_LOOKS]])

    def start_hiding(self, journal_block: JournalBlock) -> None:
        """Start the leases of ports at level 1, whose M_KeyViolations show whether a port refused the SMP. Stop waiting
        for ports with lease 0, and for ports whose lease did not start in several calls."""
        waiting = [hiding for hiding in self._waiting.hiding.values() if hiding.started is None]
        for hiding in [each for each in waiting if not each.lease or self._count_attempt(each.port) > _MOST_ATTEMPTS]:
            waiting.remove(hiding)
            self._waiting.abandon(hiding)
        for by_set in (False, False, True):
            if not waiting:
                return
            before = {hiding.port: PortInfo(hiding.port.info or b"").m_key_violations for hiding in waiting}
            if by_set:
                self._gets.run([self._write_back(hiding, journal_block) for hiding in waiting])
            else:
                self._gets.send_unawaited(self._trap_repress(hiding.port.agent_path) for hiding in waiting)
            now = self._waiting.now
            self._gets.run(
                [self._gets.read_port_info(hiding) for hiding in waiting if hiding.port in self._waiting.hiding]
            )
            for hiding in waiting:
                count = PortInfo(hiding.port.info or b"").m_key_violations
                if count > before[hiding.port] or count == _SATURATED:
                    hiding.started = now
            waiting = [each for each in waiting if each.port in self._waiting.hiding and each.started is None]
        for hiding in waiting:
            hiding.started = self._waiting.now  # reading the port after the lease shows whether it had started

    def _count_attempt(self, port: Port) -> int:
        count = self._attempts[port] = self._attempts.get(port, 0) + 1
        return count

    def _write_back(self, hiding: HidingPort, journal_block: JournalBlock) -> Task:
        """Task: read the first block of P_Keys and write the same bytes, without a key."""
        port = hiding.port
        path = port.agent_path
        route, modifier = DirectedAddress(path), port.p_key_modifier(0)
        try:
            block: bytes = yield self._gets.client.request(Method.GET, PKeyTable, modifier, route)
        except IbkeysError:
            return
        entry = journal_block(port, block)
        write = self._gets.client.request(Method.SET, PKeyTable, modifier, route, data=block, retries=0)
        try:
            yield write
        except MadStatusError:
            entry.failed()
        except (NoReply, SendRefused):
            entry.failed()
            hiding.started = self._waiting.now
        else:
            entry.done()
            self._waiting.without_key.append(port)
