"""The search for ports whose M_Key is lost: find silent and hiding ports, start their leases, read them again. Every
SMP here is sent without a key, or with keys that the user offers; no SMP changes a port. A closed switch still forwards
directed-route SMPs, so nodes behind it can be reached: along known links each on its own route, else by probes through
the first ports of the switch. So the leases of nodes behind each other run at the same time. After its lease was
started no port gets an SMP with its right key until it has opened: that would stop the timer.
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
from ibkeys.mkeys.recovery.locked_ports import HidingPort, SilentPort
from ibkeys.mkeys.recovery.questions import Questions
from ibkeys.mkeys.recovery.routes import LinkMap
from ibkeys.mkeys.recovery.switch_probes import SwitchProbes
from ibkeys.mkeys.recovery.timing import (
    ASKED_EARLY,
    CLOCK_ROUNDING,
    LATE,
    LEAST_EARLY_PAUSE,
    MOST_QUESTIONS,
    SOON,
    next_early_round,
    next_question,
    patience,
)
from ibkeys.mkeys.recovery.waiting import WaitingPorts
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port

_MOST_READS: Final = 5


class Search:
    """One search from one local port. ``waiting``: the ports that are waited for, and the results. ``given``: keys to
    try on every port. ``wait``: seconds after which a silent port is given up. ``own_is_silent``: the local port did
    not answer at first.
    """

    def __init__(
        self, client: SmpClient, ring: KeyRing, links: LinkMap, node_names: dict[int, str], wait: float | None = None
    ) -> None:
        self.client = client
        self.ring = ring
        self.wait = wait
        self.given: Sequence[MKey] = ()
        self.sweep = Sweep(client, ring, Wanted(), None, node_names, probe_retries=0, provokes=True)
        self.waiting = WaitingPorts(self.sweep, links)
        self.own_is_silent = False
        self._questions = Questions(self.waiting)
        self._lease_starter = LeaseStarter(self._questions)
        self._switch_probes = SwitchProbes(self._questions)
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
        return self._questions.smps

    @property
    def violations(self) -> int:
        """M_Key violations that this search can have counted: SMPs without the right key that were not answered, except
        for probes through ports of closed switches that turned out to have no link.
        """
        return self._questions.unanswered - self._switch_probes.dead_ends()

    @property
    def possible_switches(self) -> int:
        """The number of silent ports that may be closed switches, through which probes are sent."""
        return sum(map(self._switch_probes.may_be_a_switch, self.waiting.silent.values()))

    # --- asking ----------------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Read the ports that can be read with the first key of each; each silent far end gets one SMP."""
        self.waiting.since = self.now
        self._questions.run([self._root()])
        local = self.client.port.attributes()
        if self.own_is_silent and local.port and not self.waiting.links:
            # The route does not lead through the port's agent: nodes behind it may answer.
            self._questions.run([self._ask_first((local.port,))])

    def try_keys(self) -> None:
        """Try the further keys that the key ring has for a port, and then, on each silent or hiding port, the given
        ones. Each wrong key counts a violation at a silent port, and starts its lease.
        """
        ring, tasks = self.ring, []
        own = self.waiting.start[0]
        if () in self.waiting.silent and ring.others_for(own, ring.key_of(own)):
            tasks.append(self._root())
        for silent in self.waiting.silent.values():
            expected = ring.expected_behind(silent.near.link_end) if silent.near is not None else None
            others = ring.others_for(expected[0], ring.key_of(expected[0])) if expected is not None else ()
            if silent.near is not None and others:
                silent.asked += 1 + len(others)
                tasks.append(self.sweep.ask_again(silent.near))
        tasks += [self.sweep.read_port(port) for port in self.waiting.hiding if ring.others_for(port.guid, port.m_key)]
        self._questions.run(tasks)
        self._try_given()

    def _try_given(self) -> None:
        """Try the given keys, one after the other, on every port on which they were not tried yet."""
        while True:
            tasks: list[Task] = []
            for silent in [silent for silent in self.waiting.silent.values() if silent.tried < len(self.given)]:
                tasks.append(self._questions.ask_again(silent, self.given[silent.tried]))
                silent.tried += 1
            for hiding in [hiding for hiding in self.waiting.hiding.values() if hiding.tried < len(self.given)]:
                tasks.append(self._questions.read_port_info(hiding, self.given[hiding.tried]))
                hiding.tried += 1
            if not tasks:
                return
            self._questions.run(tasks)

    def start_leases(self, journal_block: JournalBlock) -> None:
        """Start the leases of all ports that are waited for, unless they run already."""
        self._begun = self.waiting.since = self.now  # time has passed since the survey, while the user was asked
        self._lease_starter.start_routes()
        self._try_given()
        self._lease_starter.start_hiding(journal_block)
        self._switch_probes.probe()
        self._next_early = next_early_round(self.waiting.since, self.now, self.waiting.leases)

    def next_time(self) -> float:
        """Return the time at which `ask_due` has something to do."""
        times = [self._next_early] if self.waiting.silent else []
        if self._unread():
            times.append(self.now)
        for silent in self.waiting.silent.values():
            probing = self._switch_probes.next_time(silent)
            times += [self._limit_of_silent(silent), self._due(silent), inf if probing is None else probing]
        for hiding in self.waiting.hiding.values():
            times += [self._limit_of_hiding(hiding), self._due(hiding)]
        return min(times)

    def next_opening(self) -> float | None:
        """Return the time at which the next lease should be over, None if not known."""
        times = [hiding.started + hiding.lease for hiding in self.waiting.hiding.values() if hiding.started is not None]
        times += [silent.started + lease for silent in self.waiting.silent.values() for lease in self.waiting.leases]
        return min((time for time in times if time > self.now), default=None)

    def ask_due(self, journal_block: JournalBlock) -> None:
        """Read the ports that are due now, examine the nodes behind ports that opened, and give up ports that will not
        open."""
        now = self.now + CLOCK_ROUNDING
        asked = [silent for silent in self.waiting.silent.values() if self._due(silent) <= now]
        if now >= self._next_early:
            soon = self.waiting.next_due(now)
            if soon is not None and soon - now < self.client.timing.timeout + LATE:
                self._next_early = soon + LEAST_EARLY_PAUSE  # waiting for answers now would make the next due read late
            else:
                asked += self._early_ones(asked)
                self._next_early = 0.0
        tasks = [self._questions.ask_again(silent) for silent in asked]
        hiding_ports = self.waiting.hiding.values()
        tasks += [self._questions.read_port_info(hiding) for hiding in hiding_ports if self._due(hiding) <= now]
        for port in self._unread():
            self._reads[port] = self._reads.get(port, 0) + 1
            tasks.append(self.sweep.read_port(port))
        self._questions.run(tasks)
        if not self._next_early:
            self._next_early = next_early_round(self.waiting.since, now, self.waiting.leases)
        self._try_given()
        self._switch_probes.probe()
        for hiding in list(self.waiting.hiding.values()):
            if hiding.started is not None and now > hiding.started + hiding.lease + SOON:
                hiding.started = None  # the SMP that should have started it was lost, or a right key stopped it
        self._lease_starter.start_hiding(journal_block)
        self._give_up(now)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _root(self) -> Task:
        try:
            yield from self.sweep.root()
        except (NoReply, SendRefused):
            self.own_is_silent = True
            self.waiting.add((), None)

    def _ask_first(self, path: tuple[int, ...]) -> Task:
        if (yield from self._questions.ask_who(path, None, self.ring.for_unknown_port)) is None:
            self.waiting.add(path, None)

    def _unread(self) -> list[Port]:
        """Return ports of nodes that answer, whose own PortInfo was lost on its way."""
        return [
            port
            for node in self.found.nodes
            for port in node.ports.values()
            if port.info is None
            and (port.path is not None or (node.is_switch and port.num <= node.num_ports))
            and self._reads.get(port, 0) < _MOST_READS
        ]

    # --- asking again and giving up ----------------------------------------------------------------------------------

    def _due(self, port: SilentPort | HidingPort) -> float:
        """Return the time at which a port is to be read next; infinity if that is not known, or it was read often
        enough."""
        if isinstance(port, HidingPort):
            due = next_question(port.started or 0.0, port.last, (port.lease,))
        elif port.asked < MOST_QUESTIONS:
            due = next_question(port.started, port.last, self.waiting.leases)
        else:
            due = None
        return inf if due is None else due

    def _early_ones(self, asked: Sequence[SilentPort]) -> list[SilentPort]:
        """Return the silent ports that are read early: those whose leases began first, and some of the others in
        turn."""
        chosen = set(asked)
        others = [
            silent for silent in self.waiting.silent.values() if silent not in chosen and silent.asked < MOST_QUESTIONS
        ]
        others.sort(key=lambda silent: silent.started)
        first, rest = others[: ASKED_EARLY // 2], others[ASKED_EARLY // 2 :]
        self._turn += ASKED_EARLY // 2
        return first + [rest[(self._turn + step) % len(rest)] for step in range(min(ASKED_EARLY // 2, len(rest)))]

    def _limit_of_silent(self, silent: SilentPort) -> float:
        return max(silent.started, self._begun) + patience(self.waiting.leases, self.wait)

    def _limit_of_hiding(self, hiding: HidingPort) -> float:
        return (hiding.started or 0.0) + patience((hiding.lease,), self.wait)

    def _give_up(self, now: float) -> None:
        over = [silent for silent in self.waiting.silent.values() if now >= self._limit_of_silent(silent)]
        self._switch_probes.last_look(over)
        self._questions.run(
            [self._questions.ask_again(silent) for silent in over if silent.path in self.waiting.silent]
        )
        for silent in over:
            if self.waiting.drop(silent):
                self.waiting.given_up.append(silent)
        for hiding in [each for each in self.waiting.hiding.values() if now >= self._limit_of_hiding(each)]:
            self.waiting.abandon(hiding)
