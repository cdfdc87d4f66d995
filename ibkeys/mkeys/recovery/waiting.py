"""The ports that a search waits for, and its results. Answers are sorted here; nothing is sent. The modules that send
Gets (`ibkeys.mkeys.recovery.locked_port_gets`), start leases and probe through closed switches read this state and note
the times here: a port that is added later may have a lease that runs already.
"""

from __future__ import annotations

from ibkeys.discovery.sweep import Sweep
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mkeys.recovery.locked_ports import HidingPort, ProbedLink, SilentPort
from ibkeys.mkeys.recovery.routes import LinkMap, find_routes
from ibkeys.mkeys.recovery.timing import next_get_time
from ibkeys.topology.model import Trouble
from ibkeys.topology.nodes import LinkEnd, Node, Port


class WaitingPorts:
    """The ports that one search waits for. Times are in seconds on the local port's clock.

    ``silent``: the silent ports that are waited for, by route; ``hiding``: the ports at level 1 that are waited for;
    ``given_up``: the ports that are no longer waited for. ``leases``: the leases of ports of this fabric, in seconds;
    callers may add others. ``since``: the time at which the waiting began, or the last port opened. ``reached``: GUIDs
    of the switches and end ports that were read; ``nodes``: all nodes that were found, by node GUID and by the GUIDs of
    their end ports. ``without_key``: ports of ``hiding`` that proved to have no key.

    ``leases_started``: by GUID, the time at which the lease of a port was started without an answer. ``probed_links``:
    links of closed switches that probes proved, by their far ends. ``leases_behind_started``: by the GUID of a switch
    that has opened, the time at which the leases behind it were started; ``probe_rounds``: by the same GUID, the number
    of rounds of probes through it.
    """

    def __init__(self, sweep: Sweep, links: LinkMap) -> None:
        self.sweep = sweep
        self.links = links
        self.found = sweep.topology
        self.silent: dict[tuple[int, ...], SilentPort] = {}
        self._silent_by_guid: dict[int, SilentPort] = {}
        self.hiding: dict[Port, HidingPort] = {}
        self.given_up: list[SilentPort | HidingPort] = []
        self.without_key: list[Port] = []
        self.leases: set[int] = set()
        self.since = 0.0
        self.reached: set[int] = set()
        self.nodes: dict[int, Node] = {}
        self.leases_started: dict[int, float] = {}
        self.probed_links: dict[LinkEnd, ProbedLink] = {}
        self.leases_behind_started: dict[int, float] = {}
        self.probe_rounds: dict[int, int] = {}
        self._newly_open: list[Port] = []
        self._was_locked: set[int] = set()
        self._sorted: set[Port] = set()

    @property
    def now(self) -> float:
        """The local port's clock, in seconds."""
        return self.sweep.client.port.now()

    @property
    def start(self) -> LinkEnd:
        """The local port as an end of a link: its GUID and number."""
        local = self.sweep.client.port.attributes()
        return local.port_guid, local.port

    def take_opened(self) -> list[tuple[Port, bool]]:
        """Return each end port whose M_Key (or M_Key 0) has become known since the last call, and whether it was
        locked."""
        opened, self._newly_open = self._newly_open, []
        return [(port, port.guid in self._was_locked) for port in opened]

    def next_due(self, now: float) -> float | None:
        """Return the time after *now* at which the next silent port is to be read, None if not known."""
        dues = (next_get_time(silent.started, silent.last, self.leases) for silent in self.silent.values())
        return min((due for due in dues if due is not None and due > now), default=None)

    # --- answers -----------------------------------------------------------------------------------------------------

    def sort_answers(self) -> None:
        """Sort the answers of the sweep: note the ports that opened, the silent ports, and the ports that hide their
        key."""
        for node in self.found.nodes:
            self.nodes[node.guid] = node
            for port in node.ports.values():
                if port.info is not None and port not in self._sorted and (node.is_switch or port.path is not None):
                    self._sorted.add(port)
                    if port.is_end_port:
                        self._note_read(port)
        for port in [port for port in self.hiding if port.m_key_state != "hidden" or port in self.without_key]:
            del self.hiding[port]
            self._was_locked.add(port.guid)
            self._newly_open.append(port)
        for silent in list(self.silent.values()):
            peer = silent.near.peer if silent.near is not None else None
            if peer is not None:
                self.identify(silent, peer.link_end[0])
            if peer is not None or silent.answered or silent.guid in self.reached:
                self.drop(silent)
                self._note_opened(silent)
        unanswered, self.sweep.unanswered = self.sweep.unanswered, {}
        for path, near in unanswered.items():
            self.add(path, near)

    def _note_read(self, port: Port) -> None:
        info = PortInfo(port.info or b"")
        self.reached.add(port.guid)
        self.nodes.setdefault(port.guid, port.node)
        if port.node.is_switch:
            self.reached.add(port.node.guid)
        if info.m_key_lease_period and (info.m_key or port.m_key_state == "hidden"):
            self.leases.add(info.m_key_lease_period)
        if port.m_key_state == "hidden":
            self.hiding[port] = HidingPort(port, info.m_key_lease_period, self.leases_started.get(port.guid), self.now)
        else:
            self._newly_open.append(port)

    def _note_opened(self, silent: SilentPort) -> None:
        self.since = self.now
        if silent.guid is None:
            return
        node = self.nodes.get(silent.guid)
        self._was_locked.add(node.port(0).guid if node is not None and node.is_switch else silent.guid)
        if silent.probed:
            self.leases_behind_started[silent.guid] = silent.probed_at
            self.probe_rounds[silent.guid] = self.probe_rounds.get(silent.guid, 0) + silent.probe_rounds

    # --- silent ports ------------------------------------------------------------------------------------------------

    def add_routes(self) -> None:
        """Add each node that the known links lead to, that was not reached, and whose key is not known, as a silent
        port."""
        ring = self.sweep.ring
        for guid, path in find_routes(self.links, self.start).items():
            has_key = ring.for_all is None and not ring.by_guid.get(guid, NO_MKEY).is_zero
            if path in self.silent or guid in self.reached or guid in self._silent_by_guid or has_key or not path:
                continue
            self._wait_for(SilentPort(path, None, guid, self.now, self.now, asked=0))

    def add(self, path: tuple[int, ...], near: Port | None) -> None:
        """Add the silent port at the end of the route *path*, unless another route leads to the same port, or the
        search no longer waits for it. *near*: the near end of its last link, None if not known."""
        if near is not None and near.peer is not None:
            return
        silent = self.silent.get(path)
        if silent is not None:
            silent.near = near
            return
        end = near.link_end if near is not None else None
        if end in self.probed_links or any(isinstance(old, SilentPort) and old.path == path for old in self.given_up):
            return
        far = self.links.get(end) if end is not None else None
        guid = far[0] if far else None
        if guid is None and not path:
            guid = self.start[0]
        if guid is not None:
            if guid in self.reached:
                return
            rival = self._silent_by_guid.get(guid)
            if rival is not None:
                if rival.near is None and rival.path:  # links of this run are more reliable than stored ones
                    self.drop(rival)
                    rival.path, rival.near = path, near
                    self._wait_for(rival)
                return
        limit = self.sweep.bounds.refuses_node(len(self.found.nodes) + len(self.silent), 0)
        if limit and near is not None:
            text = self.sweep.bounds.describe_left_out("what is behind it is silent and is not waited for", limit)
            self.found.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked", limit))
            return
        asked_at = self.now - self.sweep.client.timing.timeout
        since = self.leases_behind_started.get(near.node.guid, asked_at) if near is not None else asked_at
        self._wait_for(SilentPort(path, near, guid, min(since, asked_at), self.now))

    def _wait_for(self, silent: SilentPort) -> None:
        self.silent[silent.path] = silent
        if silent.guid is not None:
            self._silent_by_guid[silent.guid] = silent

    def identify(self, silent: SilentPort, guid: int) -> None:
        """Note that *guid* is the GUID of *silent*."""
        if silent.guid != guid:
            self._silent_by_guid.pop(silent.guid or 0, None)
            silent.guid = guid

    def drop(self, silent: SilentPort) -> bool:
        """Stop waiting for *silent*; return whether it was waited for."""
        if self.silent.get(silent.path) is not silent:
            return False
        del self.silent[silent.path]
        for guid in [guid for guid in (silent.guid,) if guid is not None and self._silent_by_guid.get(guid) is silent]:
            del self._silent_by_guid[guid]
        return True

    def abandon(self, hiding: HidingPort) -> None:
        """Stop waiting for a port that hides its key."""
        del self.hiding[hiding.port]
        self.given_up.append(hiding)
