"""Sends Get SMPs to locked ports, without a key or with one to try, and sorts the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ibkeys.client.address import DirectedAddress
from ibkeys.client.request import Request
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import Method, NodeType
from ibkeys.mkeys.recovery.locked_ports import HidingPort, SilentPort
from ibkeys.mkeys.recovery.waiting import WaitingPorts
from ibkeys.topology.nodes import Port


class LockedPortGets:
    """The Gets of one search, and their numbers. ``unawaited``: number of SMPs whose answers were not waited for."""

    def __init__(self, waiting: WaitingPorts) -> None:
        self.waiting = waiting
        self.sweep = waiting.sweep
        self.client = waiting.sweep.client
        self.unawaited = 0
        statistics = self.client.statistics
        self._sent_before = statistics.sent
        self._unanswered_before = statistics.timeouts + statistics.refused

    @property
    def smps(self) -> int:
        """SMPs sent by this search."""
        return self.client.statistics.sent - self._sent_before

    @property
    def unanswered(self) -> int:
        """SMPs of this search that were not answered, including those whose answers were not waited for."""
        statistics = self.client.statistics
        return statistics.timeouts + statistics.refused - self._unanswered_before + self.unawaited

    def run(self, tasks: Iterable[Task]) -> None:
        """Run tasks to their end, and sort the answers into the ports that are waited for. Each call has the limits of
        a whole sweep."""
        tasks = list(tasks)
        if tasks:
            with self.client.bounded():
                self.client.run(tasks)
                self.sweep.query_unproven()
        self.waiting.sort_answers()

    def run_probes(self, between: Callable[[], None]) -> None:
        """Run the tasks that *between* starts, as `run` does. They are Gets of which most are not answered. *between*
        is called repeatedly, until no task is left."""
        with self.client.bounded():
            self.client.run((), between, probing=True)
            self.sweep.query_unproven()
        self.waiting.sort_answers()

    def send_unawaited(self, requests: Iterable[Request]) -> None:
        """Send SMPs without waiting for answers."""
        requests = list(requests)
        self.unawaited += len(requests) - len(self.client.send_unawaited(requests))

    def read_node_info(self, path: tuple[int, ...], near: Port | None, key: MKey = NO_MKEY) -> Task:
        """Task: send one Get(NodeInfo) along a route, and return the far end of its last link (GUID, port number); None
        without an answer. *near*: the near end of that link, None if not known."""
        request = self.client.request(
            Method.GET, NodeInfo, 0, DirectedAddress(path), node=object(), m_key=key, retries=0
        )
        try:
            info: bytes = yield request
        except IbkeysError:
            return None
        self.sweep.arrive(info, path, near, key)
        arrival = NodeInfo(info)
        is_switch = arrival.node_type == NodeType.SWITCH
        return (arrival.node_guid if is_switch else arrival.port_guid, arrival.local_port_num)

    def node_info_request(self, path: tuple[int, ...]) -> Request:
        """Return a Get(NodeInfo) without a key along a route."""
        return self.client.gets_to(path, None, NO_MKEY).ask(NodeInfo)

    def read_silent_port(self, silent: SilentPort, key: MKey = NO_MKEY) -> Task:
        """Task: send a Get(NodeInfo) with *key* to a silent port again, and note whether it answered."""
        silent.asked += 1
        silent.last = self.waiting.now
        far = yield from self.read_node_info(silent.path, silent.near, key)
        if far is not None:
            silent.answered = True
            self.waiting.identify(silent, far[0])

    def read_port_info(self, hiding: HidingPort, key: MKey = NO_MKEY) -> Task:
        """Task: get PortInfo of a port that hides its key. At level 1 a Get with a wrong key counts no violation and
        does not stop the lease timer; a Get with the right key stops the timer."""
        port = hiding.port
        hiding.last = self.waiting.now
        path = port.agent_path
        request = self.client.request(Method.GET, PortInfo, port.num, DirectedAddress(path), m_key=key)
        try:
            port.info = yield request
        except IbkeysError:
            return
        if port.m_key_state != "hidden":
            port.m_key = key
