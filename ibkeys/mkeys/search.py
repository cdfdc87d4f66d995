"""The search for ports whose M_Key is lost: who is silent or hides its key, starting the leases, asking again.

Everything here is sent without a key, or with keys that the user offers; no SMP changes a port. A closed switch still
forwards directed-route SMPs, so nodes behind it can be asked: along known links each on its own route, else by blind
probes through the first ports of the switch. The leases of nodes behind each other so run side by side.

A lease is started by a question that is refused (level 2 and 3), or by a TrapRepress (level 1), which nobody answers
and which changes nothing on a port that has no key; where that counts no violation, by a Set(P_KeyTable) of the block
that was just read. After that no port is asked with its right key until it has opened: that would stop the timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused
from ibkeys.fabric.address import DirectedAddress
from ibkeys.fabric.client import SmpClient, Task
from ibkeys.fabric.discovery import Sweep, Wanted, link_end, p_key_modifier
from ibkeys.fabric.keyring import KeyRing, PortId
from ibkeys.fabric.model import Fabric, Node, Port
from ibkeys.fabric.scheduler import Request
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import NodeInfo, PKeyTable, PortInfo
from ibkeys.mad.const import MAX_HOPS, Method
from ibkeys.mad.notice import Notice
from ibkeys.mkeys.links import Links, routes
from ibkeys.mkeys.waiting import (
    LATE,
    LEAST_SCOUTING,
    MOST_QUESTIONS,
    SCOUTS,
    BlindEnd,
    Closed,
    Hidden,
    next_question,
    next_scouting,
    patience,
)
from ibkeys.store.journal import Entry

BLIND_PROBES: Final = 64
"""Ports of a closed switch that are probed, from 1 on: it does not tell how many it has."""
HEARD_AT_ONCE: Final = 32
"""Closed switches in one step whose blind probes are waited for; the probes of others only start leases."""
TOLD_AT_ONCE: Final = 256
"""Closed switches in one step that get blind probes for which nobody waits."""
FIRST_LOOKS: Final = 1024
"""Nodes of the known links that are asked, and waited for, when the leases are started; others get a question for
which nobody waits."""
MOST_BLIND_WAVES: Final = 3
"""Waves through one closed switch: to start the leases behind it, when they should be over, and before it is given
up."""
SOON: Final = 2.0
"""Seconds after the end of its lease within which a port should have been seen open."""
_MOST_READS: Final = 5
_MOST_PROVOCATIONS: Final = 3
_SATURATED: Final = 0xFFFF
_DUE: Final = 1e-6

Record = Callable[[Port, bytes], Entry]
"""Puts a P_KeyTable block that is about to be written back into the journal."""


class Search:
    """One search from one local port. ``closed`` and ``hidden``: who is waited for; ``given_up``: who was.

    ``blind_ends``: links of closed switches that blind probes proved. ``leases``: seconds, as ports of this fabric show
    them or the key store has them; it may be added to. ``given``: keys to try on everybody.
    ``own_is_silent``: the own port did not answer at first.
    """

    def __init__(
        self, client: SmpClient, ring: KeyRing, links: Links, node_names: dict[int, str], wait: float | None = None
    ) -> None:
        self.client = client
        self.ring = ring
        self.links = links
        self.wait = wait
        self.given: Sequence[MKey] = ()
        self.sweep = Sweep(client, ring, Wanted(), None, node_names, probe_retries=0)
        self.closed: dict[tuple[int, ...], Closed] = {}
        self._closed_by_guid: dict[int, Closed] = {}
        self._linked_guids = {guid for guid, _ in links}
        self._nodes: dict[int, Node] = {}
        self.hidden: dict[Port, Hidden] = {}
        self.given_up: list[Closed | Hidden] = []
        self.without_key: list[Port] = []
        self.blind_ends: dict[PortId, BlindEnd] = {}
        self.leases: set[int] = set()
        self.own_is_silent = False
        self.reached: set[int] = set()
        self._found: list[Port] = []
        self._was_locked: set[int] = set()
        self._seen: set[Port] = set()
        self._reads: dict[Port, int] = {}
        self._told: dict[int, float] = {}
        self._provocations: dict[Port, int] = {}
        self._behind_since: dict[int, float] = {}
        self._blind_waves: dict[int, int] = {}
        self._told_in_vain = 0
        self._next_scouts = 0.0
        self._since = self._begun = 0.0
        self._turn = 0
        statistics = client.statistics
        self._sent_before = statistics.sent
        self._unanswered_before = statistics.timeouts + statistics.refused

    # --- what was found and what it cost ---------------------------------------------------------------------------

    @property
    def fabric(self) -> Fabric:
        """What has been read so far."""
        return self.sweep.fabric

    @property
    def now(self) -> float:
        """The local port's clock, in seconds."""
        return self.client.port.now()

    @property
    def start(self) -> PortId:
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
        return unanswered + self._told_in_vain - sum(self._dead_ends(guid) for guid in self._blind_waves)

    def _dead_ends(self, guid: int) -> int:
        node = self._nodes.get(guid)
        if node is None:
            return 0
        linked = sum(0 < port.num <= BLIND_PROBES and port.is_linked for port in node.ports.values())
        return self._blind_waves[guid] * (BLIND_PROBES - (linked if node.is_switch else 0))

    def take_found(self) -> list[tuple[Port, bool]]:
        """Return, once each, the end ports whose M_Key has become known (zero included), and whether it was locked."""
        found, self._found = self._found, []
        return [(port, port.guid in self._was_locked) for port in found]

    # --- asking ----------------------------------------------------------------------------------------------------

    def survey(self) -> None:
        """Read all that can be read with the first key of each port, each silent far end asked once."""
        self._since = self.now
        self._run([self._root()])
        local = self.client.port.attributes()
        if self.own_is_silent and local.port and not self.links:
            # The route does not lead through the port's agent: what is behind it may answer.
            self._run([self._ask_first((local.port,))])

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
            expected = ring.expected_behind(link_end(spot.near)) if spot.near is not None else None
            if spot.near is not None and expected and ring.others_for(*expected):
                spot.asked += 1 + len(ring.others_for(*expected))
                tasks.append(self.sweep.ask_again(spot.near))
        tasks += [self.sweep.read_again(port) for port in self.hidden if ring.others_for(port.guid, port.m_key)]
        self._run(tasks)
        self._try_given()

    def _try_given(self) -> None:
        """Try the given keys, one after the other, on everybody on whom they were not tried yet."""
        while True:
            tasks: list[Task] = []
            for spot in [spot for spot in self.closed.values() if spot.tried < len(self.given)]:
                tasks.append(self._poll(spot, self.given[spot.tried]))
                spot.tried += 1
            for hidden in [hidden for hidden in self.hidden.values() if hidden.tried < len(self.given)]:
                tasks.append(self._show(hidden, self.given[hidden.tried]))
                hidden.tried += 1
            if not tasks:
                return
            self._run(tasks)

    def provoke(self, record: Record) -> None:
        """Start the leases of all that are waited for, as far as they do not run already."""
        self._begun = self._since = self.now  # the user may have thought it over since the survey
        self._provoke_routes()
        self._try_given()
        self._provoke_hidden(record)
        self._probe_blindly()
        self._next_scouts = next_scouting(self._since, self.now)

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
            if self._is_time(spot, self.now + _DUE):
                times.append(self.now)
            elif self._has_blind_wave_left(spot) and self.leases:
                times.append(max(self.leases) + (spot.blind_at + LATE if spot.blind else spot.started + SOON))
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
        now = self.now + _DUE
        asked = [spot for spot in self.closed.values() if self._is_due(spot, now)]
        if now >= self._next_scouts:
            soon = self._next_due(now)
            if soon is not None and soon - now < self.client.timing.timeout + LATE:
                self._next_scouts = soon + LEAST_SCOUTING  # waiting for scouts would make the others late
            else:
                asked += self._scouts(asked)
                self._next_scouts = next_scouting(self._since, now)
        tasks = [self._poll(spot) for spot in asked]
        for hidden in self.hidden.values():
            due = next_question(hidden.started or 0.0, hidden.last, (hidden.lease,))
            if due is not None and due <= now:
                tasks.append(self._show(hidden))
        for port in self._unread():
            self._reads[port] = self._reads.get(port, 0) + 1
            tasks.append(self.sweep.read_again(port))
        self._run(tasks)
        self._try_given()
        self._probe_blindly()
        for hidden in list(self.hidden.values()):
            if hidden.started is not None and now > hidden.started + hidden.lease + SOON:
                hidden.started = None  # what should have started it was lost, or a right key stopped it
        self._provoke_hidden(record)
        self._give_up(now)

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _run(self, tasks: Iterable[Task]) -> None:
        tasks = list(tasks)
        if tasks:
            self.client.run(tasks)
            self.sweep.ask_unproven()
        self._take_stock()

    def _root(self) -> Task:
        try:
            yield from self.sweep.root()
        except (NoReply, SendRefused):
            self.own_is_silent = True
            self._add((), None)

    def _ask_first(self, path: tuple[int, ...]) -> Task:
        if (yield from self._look(path, None, self.ring.for_strangers)) is None:
            self._add(path, None)

    def _look(self, path: tuple[int, ...], near: Port | None, key: MKey = NO_MKEY) -> Task:
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
        is_switch = info[2] == 2
        return (arrival.node_guid if is_switch else arrival.port_guid, arrival.local_port_num)

    def _poll(self, spot: Closed, key: MKey = NO_MKEY) -> Task:
        spot.asked += 1
        spot.last = self.now
        far = yield from self._look(spot.path, spot.near, key)
        if far is not None:
            spot.answered = True
            if spot.guid != far[0]:
                self._closed_by_guid.pop(spot.guid or 0, None)
                spot.guid = far[0]

    def _show(self, hidden: Hidden, key: MKey = NO_MKEY) -> Task:
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

    def _write_back(self, hidden: Hidden, record: Record) -> Task:
        """Task: read the first block of P_Keys and write the same bytes, without a key."""
        port = hidden.port
        path = port.node.path if port.node.is_switch else port.path
        assert path is not None
        route, modifier = DirectedAddress(path), p_key_modifier(port, 0)
        try:
            block: bytes = yield self.client.request(Method.GET, PKeyTable, modifier, route)
        except IbkeysError:
            return
        entry = record(port, block)
        write = self.client.request(Method.SET, PKeyTable, modifier, route, data=block, retries=0)
        try:
            yield write
        except MadStatusError:
            entry.failed()
        except (NoReply, SendRefused):
            entry.failed()
            hidden.started = self.now
        else:
            entry.done()
            self.without_key.append(port)

    # --- who is where ------------------------------------------------------------------------------------------------

    def _take_stock(self) -> None:
        """Sort what the last run brought: who opened, who is silent, who hides its key."""
        for node in self.fabric.nodes:
            self._nodes[node.guid] = node
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
            if peer is not None and spot.guid != link_end(peer)[0]:
                self._closed_by_guid.pop(spot.guid or 0, None)
                spot.guid = link_end(peer)[0]
            if peer is not None or spot.answered or spot.guid in self.reached:
                self._drop(spot)
                self._opened(spot)
        unanswered, self.sweep.unanswered = self.sweep.unanswered, {}
        for path, near in unanswered.items():
            self._add(path, near)

    def _take_up(self, port: Port) -> None:
        info = PortInfo(port.info or b"")
        self.reached.add(port.guid)
        self._nodes.setdefault(port.guid, port.node)
        if port.node.is_switch:
            self.reached.add(port.node.guid)
        if info.m_key_lease_period and (info.m_key or port.m_key_state == "hidden"):
            self.leases.add(info.m_key_lease_period)
        if port.m_key_state == "hidden":
            self.hidden[port] = Hidden(port, info.m_key_lease_period, self._told.get(port.guid), self.now)
        else:
            self._found.append(port)

    def _opened(self, spot: Closed) -> None:
        self._since = self.now
        if spot.guid is None:
            return
        node = self._nodes.get(spot.guid)
        self._was_locked.add(node.port(0).guid if node is not None and node.is_switch else spot.guid)
        if spot.blind:
            self._behind_since[spot.guid] = spot.blind_at
            self._blind_waves[spot.guid] = self._blind_waves.get(spot.guid, 0) + spot.waves

    def _add(self, path: tuple[int, ...], near: Port | None) -> None:
        """Take up somebody silent, unless it is known by another route or as a closed switch seen from behind."""
        if near is not None and near.peer is not None:
            return
        spot = self.closed.get(path)
        if spot is not None:
            spot.near = near
            return
        end = link_end(near) if near is not None else None
        if end in self.blind_ends or any(isinstance(old, Closed) and old.path == path for old in self.given_up):
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
                    self._drop(rival)
                    rival.path, rival.near = path, near
                    self._wait_for(rival)
                return
        asked_at = self.now - self.client.timing.timeout
        since = self._behind_since.get(near.node.guid, asked_at) if near is not None else asked_at
        self._wait_for(Closed(path, near, guid, min(since, asked_at), self.now))

    def _wait_for(self, spot: Closed) -> None:
        self.closed[spot.path] = spot
        if spot.guid is not None:
            self._closed_by_guid[spot.guid] = spot

    def _drop(self, spot: Closed) -> bool:
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

    # --- starting leases ---------------------------------------------------------------------------------------------

    def _trap_repress(self, path: tuple[int, ...]) -> Request:
        return self.client.request(Method.TRAP_REPRESS, Notice, 0, DirectedAddress(path))

    def _question(self, path: tuple[int, ...]) -> Request:
        return self.client.get_along(path, NodeInfo, 0, None, NO_MKEY)

    def _tell(self, requests: Iterable[Request]) -> None:
        """Send SMPs for whose answers nobody waits."""
        requests = list(requests)
        self._told_in_vain += len(requests) - len(self.client.tell(requests))

    def _provoke_routes(self) -> None:
        """Start the leases of nodes that only known links tell of, all together: first by TrapRepress, which waits for
        nobody, then by a question, which tells who is open, and starts the lease where an agent ignored the former."""
        spots = [spot for spot in self.closed.values() if not spot.asked]
        if not spots:
            return
        self._tell(self._trap_repress(spot.path) for spot in spots)
        for spot in spots:
            spot.asked, spot.started = 2, self.now
            if spot.guid is not None:
                self._told[spot.guid] = self.now
        self._tell(self._question(spot.path) for spot in spots[FIRST_LOOKS:])
        for spot in spots:
            spot.last = self.now
        self._run([self._poll(spot) for spot in spots[:FIRST_LOOKS]])

    def _provoke_hidden(self, record: Record) -> None:
        """Start the leases of ports at level 1; their M_KeyViolations tell whether they took notice."""
        waiting = [hidden for hidden in self.hidden.values() if hidden.started is None]
        for hidden in [each for each in waiting if not each.lease or self._provoked(each.port) > _MOST_PROVOCATIONS]:
            waiting.remove(hidden)
            self._abandon(hidden)
        for by_set in (False, False, True):
            if not waiting:
                return
            before = {hidden.port: PortInfo(hidden.port.info or b"").m_key_violations for hidden in waiting}
            if by_set:
                self._run([self._write_back(hidden, record) for hidden in waiting])
            else:
                self._tell(self._trap_repress(hidden.port.path or hidden.port.node.path) for hidden in waiting)
            now = self.now
            self._run([self._show(hidden) for hidden in waiting if hidden.port in self.hidden])
            for hidden in waiting:
                count = PortInfo(hidden.port.info or b"").m_key_violations
                if count > before[hidden.port] or count == _SATURATED:
                    hidden.started = now
            waiting = [each for each in waiting if each.port in self.hidden and each.started is None]
        for hidden in waiting:
            hidden.started = self.now  # it will be seen when the lease should be over

    def _provoked(self, port: Port) -> int:
        count = self._provocations[port] = self._provocations.get(port, 0) + 1
        return count

    # --- behind closed switches --------------------------------------------------------------------------------------

    def may_be_a_switch(self, spot: Closed) -> bool:
        """Whether something may be behind *spot* that only blind probes would find."""
        if len(spot.path) >= MAX_HOPS or (not spot.path and self.start[1]):
            return False
        # Where the known links tell what is behind it, each of those is asked on its own route.
        return spot.guid is None or spot.guid not in self._linked_guids

    def _has_blind_wave_left(self, spot: Closed) -> bool:
        return spot.blind < MOST_BLIND_WAVES - 1 and self.may_be_a_switch(spot)

    def _probe_blindly(self) -> None:
        """Ask who is behind closed switches: at once, and again when the leases behind them should be over."""
        now = self.now + _DUE
        ready = [spot for spot in self.closed.values() if self._is_time(spot, now)]
        # Of each open switch first one closed neighbour, then the second: several may lead to the same closed one.
        rank: dict[Node | None, int] = {}
        ranked = []
        for spot in ready:
            node = spot.near.node if spot.near is not None else None
            rank[node] = rank.get(node, 0) + 1
            ranked.append((rank[node], spot))
        ready = [spot for _, spot in sorted(ranked, key=lambda each: each[0])]
        told = ready[HEARD_AT_ONCE : HEARD_AT_ONCE + TOLD_AT_ONCE]
        self._count_wave(told)
        self._tell(self._question((*spot.path, num)) for num in range(1, BLIND_PROBES + 1) for spot in told)
        for spot in told:
            spot.blind_at = self.now
        if ready:
            self._blind_wave(ready[:HEARD_AT_ONCE])

    def _count_wave(self, spots: Sequence[Closed]) -> None:
        for spot in spots:
            spot.blind += 1
            spot.waves += 1
            spot.blind_at = self.now

    def _is_time(self, spot: Closed, now: float) -> bool:
        """Whether to probe through *spot* now: for the first time unless most of its own lease is over, for then it
        will soon tell itself what is behind it; again when the leases behind it should be over."""
        lease = max(self.leases, default=0)
        if not self._has_blind_wave_left(spot):
            return False
        if spot.blind:
            return bool(lease) and now >= spot.blind_at + lease + LATE
        return not spot.started + lease / 2 < now < spot.started + lease + SOON

    def _blind_wave(self, spots: Sequence[Closed]) -> None:
        self._count_wave(spots)
        # One port of each switch after the other, so that no switch has all its probes at once.
        self._run([self._blind_probe(spot, num) for num in range(1, BLIND_PROBES + 1) for spot in spots])
        asked_at = self.now - self.client.timing.timeout
        for spot in spots:
            spot.blind_at = max(spot.blind_at, asked_at)
        self._calm()

    def _blind_probe(self, spot: Closed, num: int) -> Task:
        far = yield from self._look((*spot.path, num), None)
        if far is None or self.closed.get(spot.path) is not spot:
            return
        self.blind_ends[far] = BlindEnd(spot.path, num, far)
        for other in list(self.closed.values()):
            if other is not spot and other.near is not None and link_end(other.near) == far:
                self._drop(other)  # the same switch, seen from behind
                spot.waves += other.waves

    def _calm(self) -> None:
        """Ask the ports whose keys are known with them: a blind probe may have hit one and started its lease."""

        tasks = []
        for port in self.fabric.end_ports():
            info = port.port_info
            if info is not None and info.m_key and info.m_key_protect_bits >= 2 and info.m_key_lease_period:
                tasks.append(self._ask_with_key(port, MKey(info.m_key)))
        self._run(tasks)

    def _ask_with_key(self, port: Port, key: MKey) -> Task:
        path = port.node.path if port.node.is_switch else port.path
        assert path is not None
        try:
            yield self.client.request(Method.GET, NodeInfo, 0, DirectedAddress(path), m_key=key)
        except IbkeysError:
            return

    # --- asking again and giving up ----------------------------------------------------------------------------------

    def _is_due(self, spot: Closed, now: float) -> bool:
        due = next_question(spot.started, spot.last, self.leases)
        return due is not None and due <= now and spot.asked < MOST_QUESTIONS

    def _next_due(self, now: float) -> float | None:
        dues = (next_question(spot.started, spot.last, self.leases) for spot in self.closed.values())
        return min((due for due in dues if due is not None and due > now), default=None)

    def _scouts(self, asked: Sequence[Closed]) -> list[Closed]:
        """Choose who is asked early: those whose leases began first, and some of the others in turn."""
        others = [spot for spot in self.closed.values() if spot not in asked and spot.asked < MOST_QUESTIONS]
        others.sort(key=lambda spot: spot.started)
        first, rest = others[: SCOUTS // 2], others[SCOUTS // 2 :]
        self._turn += SCOUTS // 2
        return first + [rest[(self._turn + step) % len(rest)] for step in range(min(SCOUTS // 2, len(rest)))]

    def _limit_of_closed(self, spot: Closed) -> float:
        return max(spot.started, self._begun) + patience(self.leases, self.wait)

    def _limit_of(self, hidden: Hidden) -> float:
        return (hidden.started or 0.0) + patience((hidden.lease,), self.wait)

    def _abandon(self, hidden: Hidden) -> None:
        del self.hidden[hidden.port]
        self.given_up.append(hidden)

    def _give_up(self, now: float) -> None:
        over = [spot for spot in self.closed.values() if now >= self._limit_of_closed(spot)]
        last_look = [spot for spot in over if self.may_be_a_switch(spot) and spot.blind < MOST_BLIND_WAVES]
        for first in range(0, len(last_look), HEARD_AT_ONCE):
            self._blind_wave(last_look[first : first + HEARD_AT_ONCE])
        self._run([self._poll(spot) for spot in over if spot.path in self.closed])
        for spot in over:
            if self._drop(spot):
                self.given_up.append(spot)
        for hidden in [each for each in self.hidden.values() if now >= self._limit_of(each)]:
            self._abandon(hidden)
