"""The search for ports whose M_Key is lost: who is silent or hides its key, starting the leases, asking again.

Everything here is sent without a key, or with keys that the user offers; no SMP changes a port. A closed switch still
forwards directed-route SMPs, so nodes behind it can be asked: along known links each on its own route, else by blind
probes through the first ports of the switch. The leases of nodes behind each other so run side by side.

After its lease was started no port is asked with its right key until it has opened: that would stop the timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ibkeys.client.address import DirectedAddress
from ibkeys.client.scheduler import Request
from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.sweep import Sweep, Wanted
from ibkeys.errors import IbkeysError, NoReply, SendRefused
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import Method, NodeType
from ibkeys.mkeys.recovery.hidden_nodes import BlindProbes
from ibkeys.mkeys.recovery.lease_start import Provoker, Record
from ibkeys.mkeys.recovery.routes import Links, routes
from ibkeys.mkeys.recovery.timing import (
    DUE,
    LATE,
    LEAST_SCOUTING,
    MOST_QUESTIONS,
    SCOUTS,
    SOON,
    Closed,
    Hidden,
    next_question,
    next_scouting,
    patience,
)
from ibkeys.topology.model import LinkEnd, Node, Port, Topology, Trouble

_MOST_READS: Final = 5


class Search:
    """One search from one local port. ``closed`` and ``hidden``: who is waited for; ``given_up``: who was.

    ``provoker`` starts leases, ``blind`` looks behind closed switches. ``leases``: seconds, as ports of this fabric
    show them or the key store has them; it may be added to. ``given``: keys to try on everybody. ``reached``: GUIDs of
    switches and end ports that were read; ``without_key``: hiding ports that proved to have none. ``own_is_silent``:
    the own port did not answer at first.
    """

    def __init__(
        self, client: SmpClient, ring: KeyRing, links: Links, node_names: dict[int, str], wait: float | None = None
    ) -> None:
        self.client = client
        self.ring = ring
        self.links = links
        self.wait = wait
        self.given: Sequence[MKey] = ()
        self.sweep = Sweep(client, ring, Wanted(), None, node_names, probe_retries=0, provokes=True)
        self.closed: dict[tuple[int, ...], Closed] = {}
        self._closed_by_guid: dict[int, Closed] = {}
        self.nodes: dict[int, Node] = {}
        self.hidden: dict[Port, Hidden] = {}
        self.given_up: list[Closed | Hidden] = []
        self.without_key: list[Port] = []
        self.leases: set[int] = set()
        self.own_is_silent = False
        self.reached: set[int] = set()
        self._found: list[Port] = []
        self._was_locked: set[int] = set()
        self._seen: set[Port] = set()
        self._reads: dict[Port, int] = {}
        self.provoker = Provoker(self)
        self.blind = BlindProbes(self)
        self._next_scouts = 0.0
        self._since = self._begun = 0.0
        self._turn = 0
        statistics = client.statistics
        self._sent_before = statistics.sent
        self._unanswered_before = statistics.timeouts + statistics.refused

    # --- what was found and what it cost ---------------------------------------------------------------------------

    @property
    def fabric(self) -> Topology:
        """What has been read so far."""
        return self.sweep.fabric

    @property
    def now(self) -> float:
        """The local port's clock, in seconds."""
        return self.client.port.now()

    @property
    def start(self) -> LinkEnd:
        """The local port, as links name it."""
        local = self.client.port.attributes()
        return local.port_guid, local.port

    @property
    def is_over(self) -> bool:
        """Whether nobody is waited for any more."""
        return not (self.closed or self.hidden or self._unread())

    @property
    def smps(self) -> int:
        """SMPs sent by this search."""
        return self.client.statistics.sent - self._sent_before

    @property
    def violations(self) -> int:
        """M_Key violations that this search can have counted: SMPs without the right key that were not answered, but
        for blind probes through ports that turned out to have no link."""
        statistics = self.client.statistics
        unanswered = statistics.timeouts + statistics.refused - self._unanswered_before
        return unanswered + self.provoker.told - self.blind.dead_ends()

    def take_found(self) -> list[tuple[Port, bool]]:
        """Return, once each, the end ports whose M_Key has become known (zero included), and whether it was locked."""
        found, self._found = self._found, []
        return [(port, port.guid in self._was_locked) for port in found]

    # --- asking ----------------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Read all that can be read with the first key of each port, each silent far end asked once."""
        self._since = self.now
        self.run([self._root()])
        local = self.client.port.attributes()
        if self.own_is_silent and local.port and not self.links:
            # The route does not lead through the port's agent: what is behind it may answer.
            self.run([self._ask_first((local.port,))])

    def add_routes(self) -> None:
        """Take up the nodes that the known links lead to, that were not reached, and of which no key is known."""
        ring = self.ring
        for guid, path in routes(self.links, self.start).items():
            has_key = ring.for_all is None and not ring.by_guid.get(guid, NO_MKEY).is_zero
            if path in self.closed or guid in self.reached or guid in self._closed_by_guid or has_key or not path:
                continue
            self._wait_for(Closed(path, None, guid, self.now, self.now, asked=0))

    def try_keys(self) -> None:
        """Try the further keys that the ring has for a port, and then, on each silent or hiding port, those given.

        Each wrong one counts a violation at a silent port, and starts its lease.
        """
        ring, tasks = self.ring, []
        own = self.start[0]
        if () in self.closed and ring.others_for(own, ring.key_of(own)):
            tasks.append(self._root())
        for spot in self.closed.values():
            expected = ring.expected_behind(spot.near.link_end) if spot.near is not None else None
            others = ring.others_for(expected[0], ring.key_of(expected[0])) if expected is not None else ()
            if spot.near is not None and others:
                spot.asked += 1 + len(others)
                tasks.append(self.sweep.ask_again(spot.near))
        tasks += [self.sweep.read_again(port) for port in self.hidden if ring.others_for(port.guid, port.m_key)]
        self.run(tasks)
        self._try_given()

    def _try_given(self) -> None:
        """Try the given keys, one after the other, on everybody on whom they were not tried yet."""
        while True:
            tasks: list[Task] = []
            for spot in [spot for spot in self.closed.values() if spot.tried < len(self.given)]:
                tasks.append(self.poll(spot, self.given[spot.tried]))
                spot.tried += 1
            for hidden in [hidden for hidden in self.hidden.values() if hidden.tried < len(self.given)]:
                tasks.append(self.show(hidden, self.given[hidden.tried]))
                hidden.tried += 1
            if not tasks:
                return
            self.run(tasks)

    def provoke(self, record: Record) -> None:
        """Start the leases of all that are waited for, as far as they do not run already."""
        self._begun = self._since = self.now  # the user may have thought it over since the survey
        self.provoker.start_routes()
        self._try_given()
        self.provoker.start_hidden(record)
        self.blind.probe()
        self._next_scouts = next_scouting(self._since, self.now, self.leases)

    def next_time(self) -> float:
        """Return when `ask_due` has something to do."""
        times = [self._next_scouts] if self.closed else []
        if self._unread():
            times.append(self.now)
        for spot in self.closed.values():
            due = next_question(spot.started, spot.last, self.leases)
            times.append(self._limit_of_closed(spot))
            if due is not None and spot.asked < MOST_QUESTIONS:
                times.append(due)
            blind = self.blind.next_time(spot)
            if blind is not None:
                times.append(blind)
        for hidden in self.hidden.values():
            due = next_question(hidden.started or 0.0, hidden.last, (hidden.lease,))
            times += [self._limit_of(hidden), *([due] if due is not None else [])]
        return min(times)

    def next_opening(self) -> float | None:
        """Return when the next lease should be over, None when that is not known."""
        times = [hidden.started + hidden.lease for hidden in self.hidden.values() if hidden.started is not None]
        times += [spot.started + lease for spot in self.closed.values() for lease in self.leases]
        return min((time for time in times if time > self.now), default=None)

    def ask_due(self, record: Record) -> None:
        """Ask whoever is due at this time, look behind what opened, and give up whom nothing can be expected of."""
        now = self.now + DUE
        asked = [spot for spot in self.closed.values() if self._is_due(spot, now)]
        if now >= self._next_scouts:
            soon = self.next_due(now)
            if soon is not None and soon - now < self.client.timing.timeout + LATE:
                self._next_scouts = soon + LEAST_SCOUTING  # waiting for scouts would make the others late
            else:
                asked += self._scouts(asked)
                self._next_scouts = 0.0
        tasks = [self.poll(spot) for spot in asked]
        for hidden in self.hidden.values():
            due = next_question(hidden.started or 0.0, hidden.last, (hidden.lease,))
            if due is not None and due <= now:
                tasks.append(self.show(hidden))
        for port in self._unread():
            self._reads[port] = self._reads.get(port, 0) + 1
            tasks.append(self.sweep.read_again(port))
        self.run(tasks)
        if not self._next_scouts:
            self._next_scouts = next_scouting(self._since, now, self.leases)
        self._try_given()
        self.blind.probe()
        for hidden in list(self.hidden.values()):
            if hidden.started is not None and now > hidden.started + hidden.lease + SOON:
                hidden.started = None  # what should have started it was lost, or a right key stopped it
        self.provoker.start_hidden(record)
        self._give_up(now)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def run(self, tasks: Iterable[Task]) -> None:
        """Run tasks to their end, and sort what they brought. Each run may take what a whole sweep may."""
        tasks = list(tasks)
        if tasks:
            with self.client.bounded():
                self.client.run(tasks)
                self.sweep.ask_waiting()
        self._take_stock()

    def run_probes(self, between: Callable[[], None]) -> None:
        """Run the tasks that *between* starts, as `run` does: questions that most will not answer."""
        with self.client.bounded():
            self.client.run((), between, probing=True)
            self.sweep.ask_waiting()
        self._take_stock()

    def _root(self) -> Task:
        try:
            yield from self.sweep.root()
        except (NoReply, SendRefused):
            self.own_is_silent = True
            self._add((), None)

    def _ask_first(self, path: tuple[int, ...]) -> Task:
        if (yield from self.look(path, None, self.ring.for_unknown_port)) is None:
            self._add(path, None)

    def look(self, path: tuple[int, ...], near: Port | None, key: MKey = NO_MKEY) -> Task:
        """Task: ask once who is at the end of a route; return the link's far end, None when nobody answers."""
        request = self.client.request(
            Method.GET, NodeInfo, 0, DirectedAddress(path), node=object(), m_key=key, retries=0
        )
        try:
            info: bytes = yield request
        except IbkeysError:
            return None
        self.sweep.arrive(info, path, near, key)
        arrival = NodeInfo(info)
        is_switch = info[2] == NodeType.SWITCH
        return (arrival.node_guid if is_switch else arrival.port_guid, arrival.local_port_num)

    def question(self, path: tuple[int, ...]) -> Request:
        """Return the question, without a key, who is at the end of a route."""
        return self.client.get_along(path, NodeInfo, 0, None, NO_MKEY)

    def poll(self, spot: Closed, key: MKey = NO_MKEY) -> Task:
        """Task: ask somebody silent once more."""
        spot.asked += 1
        spot.last = self.now
        far = yield from self.look(spot.path, spot.near, key)
        if far is not None:
            spot.answered = True
            if spot.guid != far[0]:
                self._closed_by_guid.pop(spot.guid or 0, None)
                spot.guid = far[0]

    def show(self, hidden: Hidden, key: MKey = NO_MKEY) -> Task:
        """Task: get PortInfo of a port that hides its key: at level 1 this counts nothing and stops nothing, unless
        *key* is the right one."""
        port = hidden.port
        hidden.last = self.now
        path = port.node.path if port.node.is_switch else port.path
        assert path is not None
        request = self.client.request(Method.GET, PortInfo, port.num, DirectedAddress(path), m_key=key)
        try:
            port.info = yield request
        except IbkeysError:
            return
        if port.m_key_state != "hidden":
            port.m_key = key

    # --- who is where ------------------------------------------------------------------------------------------------

    def _take_stock(self) -> None:
        """Sort what the last run brought: who opened, who is silent, who hides its key."""
        for node in self.fabric.nodes:
            self.nodes[node.guid] = node
            for port in node.ports.values():
                if port.info is not None and port not in self._seen and (node.is_switch or port.path is not None):
                    self._seen.add(port)
                    if port.is_end_port:
                        self._take_up(port)
        for port in [port for port in self.hidden if port.m_key_state != "hidden" or port in self.without_key]:
            del self.hidden[port]
            self._was_locked.add(port.guid)
            self._found.append(port)
        for spot in list(self.closed.values()):
            peer = spot.near.peer if spot.near is not None else None
            if peer is not None and spot.guid != peer.link_end[0]:
                self._closed_by_guid.pop(spot.guid or 0, None)
                spot.guid = peer.link_end[0]
            if peer is not None or spot.answered or spot.guid in self.reached:
                self.drop(spot)
                self._opened(spot)
        unanswered, self.sweep.unanswered = self.sweep.unanswered, {}
        for path, near in unanswered.items():
            self._add(path, near)

    def _take_up(self, port: Port) -> None:
        info = PortInfo(port.info or b"")
        self.reached.add(port.guid)
        self.nodes.setdefault(port.guid, port.node)
        if port.node.is_switch:
            self.reached.add(port.node.guid)
        if info.m_key_lease_period and (info.m_key or port.m_key_state == "hidden"):
            self.leases.add(info.m_key_lease_period)
        if port.m_key_state == "hidden":
            self.hidden[port] = Hidden(port, info.m_key_lease_period, self.provoker.started.get(port.guid), self.now)
        else:
            self._found.append(port)

    def _opened(self, spot: Closed) -> None:
        self._since = self.now
        if spot.guid is None:
            return
        node = self.nodes.get(spot.guid)
        self._was_locked.add(node.port(0).guid if node is not None and node.is_switch else spot.guid)
        self.blind.opened(spot)

    def _add(self, path: tuple[int, ...], near: Port | None) -> None:
        """Take up somebody silent, unless it is known by another route or as a closed switch seen from behind."""
        if near is not None and near.peer is not None:
            return
        spot = self.closed.get(path)
        if spot is not None:
            spot.near = near
            return
        end = near.link_end if near is not None else None
        if end in self.blind.ends or any(isinstance(old, Closed) and old.path == path for old in self.given_up):
            return
        far = self.links.get(end) if end is not None else None
        guid = far[0] if far else None
        if guid is None and not path:
            guid = self.start[0]
        if guid is not None:
            if guid in self.reached:
                return
            rival = self._closed_by_guid.get(guid)
            if rival is not None:
                if rival.near is None and rival.path:  # links of this run are better than those that somebody saw once
                    self.drop(rival)
                    rival.path, rival.near = path, near
                    self._wait_for(rival)
                return
        limit = self.sweep.bounds.refuses_node(len(self.fabric.nodes) + len(self.closed), 0)
        if limit and near is not None:
            text = self.sweep.bounds.left_out("what is behind it is silent and is not waited for", limit)
            self.fabric.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))
            return
        asked_at = self.now - self.client.timing.timeout
        since = self.blind.since.get(near.node.guid, asked_at) if near is not None else asked_at
        self._wait_for(Closed(path, near, guid, min(since, asked_at), self.now))

    def _wait_for(self, spot: Closed) -> None:
        self.closed[spot.path] = spot
        if spot.guid is not None:
            self._closed_by_guid[spot.guid] = spot

    def drop(self, spot: Closed) -> bool:
        """Wait for *spot* no longer; whether it was waited for."""
        if self.closed.get(spot.path) is not spot:
            return False
        del self.closed[spot.path]
        for guid in [guid for guid in (spot.guid,) if guid is not None and self._closed_by_guid.get(guid) is spot]:
            del self._closed_by_guid[guid]
        return True

    def _unread(self) -> list[Port]:
        """Ports of nodes that answer, whose PortInfo was lost on its way."""
        return [
            port
            for node in self.fabric.nodes
            for port in node.ports.values()
            if port.info is None
            and (port.path is not None or (node.is_switch and port.num <= node.num_ports))
            and self._reads.get(port, 0) < _MOST_READS
        ]

    # --- asking again and giving up ----------------------------------------------------------------------------------

    def _is_due(self, spot: Closed, now: float) -> bool:
        due = next_question(spot.started, spot.last, self.leases)
        return due is not None and due <= now and spot.asked < MOST_QUESTIONS

    def next_due(self, now: float) -> float | None:
        """Return when the next silent port is to be asked after *now*, None when that is not known."""
        dues = (next_question(spot.started, spot.last, self.leases) for spot in self.closed.values())
        return min((due for due in dues if due is not None and due > now), default=None)

    def _scouts(self, asked: Sequence[Closed]) -> list[Closed]:
        """Choose who is asked early: those whose leases began first, and some of the others in turn."""
        chosen = set(asked)
        others = [spot for spot in self.closed.values() if spot not in chosen and spot.asked < MOST_QUESTIONS]
        others.sort(key=lambda spot: spot.started)
        first, rest = others[: SCOUTS // 2], others[SCOUTS // 2 :]
        self._turn += SCOUTS // 2
        return first + [rest[(self._turn + step) % len(rest)] for step in range(min(SCOUTS // 2, len(rest)))]

    def _limit_of_closed(self, spot: Closed) -> float:
        return max(spot.started, self._begun) + patience(self.leases, self.wait)

    def _limit_of(self, hidden: Hidden) -> float:
        return (hidden.started or 0.0) + patience((hidden.lease,), self.wait)

    def abandon(self, hidden: Hidden) -> None:
        """Wait for a port that hides its key no longer."""
        del self.hidden[hidden.port]
        self.given_up.append(hidden)

    def _give_up(self, now: float) -> None:
        over = [spot for spot in self.closed.values() if now >= self._limit_of_closed(spot)]
        self.blind.last_look(over)
        self.run([self.poll(spot) for spot in over if spot.path in self.closed])
        for spot in over:
            if self.drop(spot):
                self.given_up.append(spot)
        for hidden in [each for each in self.hidden.values() if now >= self._limit_of(each)]:
            self.abandon(hidden)
