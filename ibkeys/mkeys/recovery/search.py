"""The search for ports whose M_Key is lost: find silent ports and ports that hide their key, start their leases, and
read them again.

Every SMP is sent without a key, or with a key that is tried; none changes a port. A closed switch still forwards
directed-route SMPs, so the nodes behind it can be reached: each along known links on its own route, or by probes
through the first ports of the switch. So the leases of nodes behind each other run at the same time. When the lease of
a port was started, the port gets no SMP with its right key until it has opened, because such an SMP would stop the
timer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.sweep import Sweep
from ibkeys.discovery.wanted import Wanted
from ibkeys.errors import NoReply, SendRefused
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.recovery.lease_start import JournalBlock, LeaseStarter
from ibkeys.mkeys.recovery.locked_port_gets import LockedPortGets
from ibkeys.mkeys.recovery.locked_ports import HidingPort, SilentPort
from ibkeys.mkeys.recovery.routes import LinkMap
from ibkeys.mkeys.recovery.switch_probes import SwitchProbes
from ibkeys.mkeys.recovery.timing import (
    ASKED_EARLY,
    CLOCK_ROUNDING,
    LATE,
    LEAST_EARLY_PAUSE,
    MOST_GETS,
    SOON,
    next_early_round,
    next_get_time,
    seconds_to_wait,
)
from ibkeys.mkeys.recovery.waiting import WaitingPorts
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_MOST_READS: Final = 5


class Search:
    """One search from one local port. ``waiting``: the ports that are waited for, and the results. ``user_keys``: keys
    to try on every port. ``wait``: seconds after which a silent port is given up. ``own_is_silent``: the local port did
    not answer at first.
    """

    def __init__(
        self, client: SmpClient, ring: KeyRing, links: LinkMap, node_names: dict[int, str], wait: float | None = None
    ) -> None:
        self.client = client
        self.ring = ring
        self.wait = wait
        self.user_keys: Sequence[MKey] = ()
        self.sweep = Sweep(client, ring, Wanted(), None, node_names, probe_retries=0, provokes=True)
        self.waiting = WaitingPorts(self.sweep, links)
        self.own_is_silent = False
        self._gets = LockedPortGets(self.waiting)
        self._lease_starter = LeaseStarter(self._gets)
        self._switch_probes = SwitchProbes(self._gets)
        self._reads: dict[Port, int] = {}
        self._next_early = 0.0
        self._begun = 0.0
        self._turn = 0

    # --- results and cost ------------------------------------------------------------------------------------------

    @property
    def found(self) -> Topology:
        """The part of the fabric that has been read so far."""
        return self.sweep.topology

    @property
    def now(self) -> float:
        """The local port's clock, in seconds."""
        return self.client.port.now()

    @property
    def is_over(self) -> bool:
        """Whether no port is waited for any more."""
        return not (self.waiting.silent or self.waiting.hiding or self._unread())

    @property
    def smps(self) -> int:
        """SMPs sent by this search."""
        return self._gets.smps

    @property
    def violations(self) -> int:
        """M_Key violations that this search can have counted: SMPs without the right key that were not answered, except
        for probes through ports of closed switches that turned out to have no link.
        """
        return self._gets.unanswered - self._switch_probes.dead_ends()

    @property
    def possible_switches(self) -> int:
        """The number of silent ports that may be closed switches, through which probes are sent."""
        return sum(map(self._switch_probes.may_be_a_switch, self.waiting.silent.values()))

    # --- asking ----------------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Read the ports that answer to their first known key. Each silent port gets one SMP."""
        self.waiting.since = self.now
        self._gets.run([self._sweep_from_local_port()])
        local = self.client.port.attributes()
        if self.own_is_silent and local.port and not self.waiting.links:
            # The local port's agent is silent, but SMPs to other nodes do not pass it, so these may answer.
            self._gets.run([self._ask_first((local.port,))])

    def try_keys(self) -> None:
        """Try the further keys of the key ring on the ports that they belong to, and then the user's keys on each port
        that is silent or hides its key. Each wrong key counts a violation at a silent port, and starts its lease.
        """
        ring, tasks = self.ring, []
        own = self.waiting.start[0]
        if () in self.waiting.silent and ring.others_for(own, ring.key_of(own)):
            tasks.append(self._sweep_from_local_port())
        for silent in self.waiting.silent.values():
            expected = ring.expected_behind(silent.near.link_end) if silent.near is not None else None
            others = ring.others_for(expected[0], ring.key_of(expected[0])) if expected is not None else ()
            if silent.near is not None and others:
                silent.asked += 1 + len(others)
                tasks.append(self.sweep.ask_again(silent.near))
        tasks += [self.sweep.read_port(port) for port in self.waiting.hiding if ring.others_for(port.guid, port.m_key)]
        self._gets.run(tasks)
        self._try_user_keys()

    def _try_user_keys(self) -> None:
        """Try the user's keys, one after the other, on every port on which they were not tried yet. A silent port is
        not sent a key again that it did not answer to."""
        while True:
            waiting: list[SilentPort | HidingPort] = [*self.waiting.silent.values(), *self.waiting.hiding.values()]
            untried = [port for port in waiting if port.tried < len(self.user_keys)]
            if not untried:
                return
            tasks: list[Task] = []
            for port in untried:
                key = self.user_keys[port.tried]
                port.tried += 1
                if isinstance(port, HidingPort):
                    tasks.append(self._gets.read_port_info(port, key))
                elif port.near is None or key not in self.sweep.refused_keys.get(port.near, ()):
                    tasks.append(self._gets.read_silent_port(port, key))
            self._gets.run(tasks)

    def start_leases(self, journal_block: JournalBlock) -> None:
        """Start the leases of all ports that are waited for, unless they run already."""
        self._begun = self.waiting.since = self.now  # the user was asked since the survey, which took time
        self._lease_starter.start_routes()
        self._try_user_keys()
        self._lease_starter.start_hiding(journal_block)
        self._switch_probes.probe()
        self._next_early = next_early_round(self.waiting.since, self.now, self.waiting.leases)

    def next_time(self) -> float:
        """Return the time at which `ask_due` has to be called next. Only while a port is waited for."""
        times = [self._next_early] if self.waiting.silent else []
        if self._unread():
            times.append(self.now)
        for silent in self.waiting.silent.values():
            probing = self._switch_probes.next_time(silent)
            times += [self._limit_of_silent(silent), self._next_read(silent), inf if probing is None else probing]
        for hiding in self.waiting.hiding.values():
            times += [self._limit_of_hiding(hiding), self._next_read(hiding)]
        return min(times)

    def next_opening(self) -> float | None:
        """Return the time at which the next lease should be over, None if not known."""
        times = [hiding.started + hiding.lease for hiding in self.waiting.hiding.values() if hiding.started is not None]
        times += [silent.started + lease for silent in self.waiting.silent.values() for lease in self.waiting.leases]
        return min((time for time in times if time > self.now), default=None)

    def ask_due(self, journal_block: JournalBlock) -> None:
        """Read the ports that are due now, and the nodes behind ports that opened; start leases that are not running;
        and stop waiting for ports whose time is over. *journal_block*: as in `LeaseStarter.start_hiding`."""
        now = self.now + CLOCK_ROUNDING
        asked = [silent for silent in self.waiting.silent.values() if self._next_read(silent) <= now]
        if now >= self._next_early:
            soon = self.waiting.next_due(now)
            if soon is not None and soon - now < self.client.timing.timeout + LATE:
                # Waiting for the answers to early reads now would delay the next read that is due.
                self._next_early = soon + LEAST_EARLY_PAUSE
            else:
                asked += self._choose_early_reads(asked)
                self._next_early = 0.0
        tasks = [self._gets.read_silent_port(silent) for silent in asked]
        hiding_ports = self.waiting.hiding.values()
        tasks += [self._gets.read_port_info(hiding) for hiding in hiding_ports if self._next_read(hiding) <= now]
        for port in self._unread():
            self._reads[port] = self._reads.get(port, 0) + 1
            tasks.append(self.sweep.read_port(port))
        self._gets.run(tasks)
        if not self._next_early:
            self._next_early = next_early_round(self.waiting.since, now, self.waiting.leases)
        self._try_user_keys()
        self._switch_probes.probe()
        for hiding in list(self.waiting.hiding.values()):
            if hiding.started is not None and now > hiding.started + hiding.lease + SOON:
                # The SMP that should have started the lease was lost, or an SMP with the right key stopped its timer.
                hiding.started = None
        self._lease_starter.start_hiding(journal_block)
        self._give_up(now)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _sweep_from_local_port(self) -> Task:
        try:
            yield from self.sweep.root()
        except (NoReply, SendRefused):
            self.own_is_silent = True
            self.waiting.add((), None)

    def _ask_first(self, path: tuple[int, ...]) -> Task:
        if (yield from self._gets.read_node_info(path, None, self.ring.for_unknown_port)) is None:
            self.waiting.add(path, None)

    def _unread(self) -> list[Port]:
        """Return the ports of nodes that answer whose own PortInfo was not received, and was not yet asked for the most
        times."""
        return [
            port
            for node in self.found.nodes
            for port in node.ports.values()
            if port.info is None
            and (port.path is not None or (node.is_switch and port.num <= node.num_ports))
            and self._reads.get(port, 0) < _MOST_READS
        ]

    # --- asking again and giving up ----------------------------------------------------------------------------------

    def _next_read(self, port: SilentPort | HidingPort) -> float:
        """Return the time at which a port is to be read next; infinity if that is not known, or if the port got the
        most SMPs that it may get."""
        if isinstance(port, HidingPort):
            due = next_get_time(port.started or 0.0, port.last, (port.lease,))
        elif port.asked < MOST_GETS:
            due = next_get_time(port.started, port.last, self.waiting.leases)
        else:
            due = None
        return inf if due is None else due

    def _choose_early_reads(self, asked: Sequence[SilentPort]) -> list[SilentPort]:
        """Return the silent ports that are read early: the ports whose leases began first, and some of the other ports
        in turn. *asked*: the ports that are read now anyway."""
        chosen = set(asked)
        candidates = [
            silent for silent in self.waiting.silent.values() if silent not in chosen and silent.asked < MOST_GETS
        ]
        candidates.sort(key=lambda silent: silent.started)
        first, rest = candidates[: ASKED_EARLY // 2], candidates[ASKED_EARLY // 2 :]
        self._turn += ASKED_EARLY // 2
        return first + [rest[(self._turn + step) % len(rest)] for step in range(min(ASKED_EARLY // 2, len(rest)))]

    def _limit_of_silent(self, silent: SilentPort) -> float:
        return max(silent.started, self._begun) + seconds_to_wait(self.waiting.leases, self.wait)

    def _limit_of_hiding(self, hiding: HidingPort) -> float:
        return (hiding.started or 0.0) + seconds_to_wait((hiding.lease,), self.wait)

    def _give_up(self, now: float) -> None:
        over = [silent for silent in self.waiting.silent.values() if now >= self._limit_of_silent(silent)]
        self._switch_probes.probe_last_time(over)
        self._gets.run([self._gets.read_silent_port(silent) for silent in over if silent.path in self.waiting.silent])
        for silent in over:
            if self.waiting.drop(silent):
                self.waiting.given_up.append(silent)
        for hiding in [each for each in self.waiting.hiding.values() if now >= self._limit_of_hiding(each)]:
            self.waiting.abandon(hiding)
