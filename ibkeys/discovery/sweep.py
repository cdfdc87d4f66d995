"""Discovery: reading the whole fabric by directed routes in one pass, with the wanted attributes of each port.

One task queries one node or one port; tasks start others as answers arrive, which keeps the scheduler's window full.
The sweep tolerates loops, cables that end at their own switch, two ports of one HCA, nodes with equal GUIDs, silent
nodes and nodes that need an M_Key. Attributes that it could not read become troubles; it never stops for one node.

`Sweep._probe`, `ibkeys.discovery.unproven` and `ibkeys.discovery.links.proof` explain which node is queried with which
M_Key, and which node is not queried. `ibkeys.discovery.identity` explains which node an answer came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ibkeys.arguments import given
from ibkeys.client.address import DirectedAddress
from ibkeys.client.request import Request
from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.bounds import Bounds
from ibkeys.discovery.identity import FoundNodes
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.gmps import LinkGmps
from ibkeys.discovery.links.proof import LinkProof, LinkProver
from ibkeys.discovery.own_port import check_own_port
from ibkeys.discovery.port_reading import PortReader
from ibkeys.discovery.unproven import UnprovenPlaces
from ibkeys.discovery.wanted import OnFound, Wanted
from ibkeys.errors import IbkeysError, LimitReached, MadStatusError, NoReply, SendRefused
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import Method, NodeType
from ibkeys.port_text import PortText
from ibkeys.printable import counted
from ibkeys.topology.impossible_values import arrival_problems, node_problems
from ibkeys.topology.model import Topology, Trouble
from ibkeys.topology.nodes import LinkEnd, Node, Port

_READERS: Final = 2
"""The number of tasks that read the ports of one switch."""
_PORTS_AT_ONCE: Final = 16
"""The number of ports of a switch that one task reads at a time."""


@dataclass(eq=False, repr=False)
class Sweep:
    """One pass over the subnet. ``topology``: its result so far. `discover` runs it to its end.

    A caller that finds nodes by other queries (`ibkeys.mkeys.recovery`) passes their NodeInfo to `arrive`, and the
    sweep continues from there. ``node_names``: NodeGUID → the name that replaces the NodeDescription.
    ``probe_retries``: attempts after the first for the query of the far end of a link; None: those of the client.
    ``provokes``: query a far end once, without a key, even if it may be a protected port; None: the ring's
    ``ask_unproven``. ``unanswered``: directed routes whose end did not answer → the near port of the last link.
    ``refused_keys``: near port → the keys that its far end did not answer to.
    """

    client: SmpClient
    ring: KeyRing
    wanted: Wanted
    progress: OnFound | None
    node_names: dict[int, str]
    probe_retries: int | None = field(default=None, kw_only=True)
    provokes: bool | None = field(default=None, kw_only=True)
    topology: Topology = field(default_factory=Topology, init=False)
    unanswered: dict[tuple[int, ...], Port] = field(default_factory=dict, init=False)
    refused_keys: dict[Port, set[MKey]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        client, ring = self.client, self.ring
        provokes = self.provokes = ring.ask_unproven if self.provokes is None else self.provokes
        self.bounds = Bounds(client.limits)
        self._nodes = FoundNodes(self.topology, ring)
        self._proves = ring.has_keys
        self._gmps = LinkGmps(client)
        self._prover = LinkProver(client, ring, self._gmps)
        self._unproven = UnprovenPlaces(
            client, ring, self._nodes, self._prover, self._gmps, self._ask_unidentified, provokes
        )
        self._reader = PortReader(
            client, ring, self.topology, self._gmps, self.wanted, self._go_on_behind, self.progress
        )

    # --- nodes ---------------------------------------------------------------------------------------------------

    def root(self) -> Task:
        """Task: query the local port, and continue from there.

        If the ring has no key for it, it is queried only once: a protected port counts each query as a violation.
        Raises NoReply or SendRefused if it does not answer, and MadStatusError if it answers with an error; MKeyNeeded
        if it answers and shows that the subnet is protected (`check_own_port`).
        """
        local = self.client.port.attributes()
        key = self.ring.key_of(local.port_guid)
        if key.is_zero and self.ring.for_all is None:
            info = yield self._ask_once((), key)
            if not self.provokes:
                own = NodeInfo(info)
                num = own.local_port_num if own.node_type != NodeType.SWITCH else 0
                self._reader.own_info = yield self.client.gets_to((), None, key).ask(PortInfo, num)
                check_own_port(local, PortInfo(self._reader.own_info))
        else:
            info, key = yield from self._ask((), local.port_guid, key)
        self._nodes.proven.add(local.port_guid)
        self._arrive(info, (), None, key)

    def arrive(self, info: bytes, path: tuple[int, ...], near: Port | None, key: MKey) -> None:
        """Process a NodeInfo that was read on the route *path* with *key*, and continue from there.

        *near*: the near port of the last link, None if the route leads through a node that does not answer. A node that
        was found before is not read again. Call it from a task.
        """
        if near is None and self._nodes.was_reached(info):
            return
        if near is None or near.peer is None:
            self._arrive(info, path, near, key)

    def ask_again(self, near: Port) -> Task:
        """Task: prove which port is the far end of *near*, and query it with the ring's keys for that port.

        Returns None if it was queried. Otherwise nothing was sent to it, and the task returns why the port by the known
        links was not proven; "" if no port is known there.
        """
        far = self.ring.expected_behind(near.link_end)
        if far is None:
            return ""
        proof = yield from self._prover.prove(near, far)
        if not proof.is_known:
            return proof.reason
        yield from self._ask_proven(near, far, proof)
        return None

    def _ask(self, path: tuple[int, ...], guid: int, key: MKey, retries: int | None = None) -> Task:
        """Task: get NodeInfo with *key*, or with the further keys that the port *guid* may have; return it and the key
        that was answered.

        The attempts are those of `KeyRing.attempts`. *retries*: None for ``probe_retries``. Raises the error of the
        last attempt if none is answered.
        """
        if retries is None:
            retries = self.client.timing.retries if self.probe_retries is None else self.probe_retries
        attempts = self.ring.attempts(guid, key, retries)
        withheld = self.ring.withheld(guid, key)
        if len(attempts) == retries + 1 and len(set(attempts)) == 1 and not withheld:
            only = self.client.gets_to(path, None, key).ask(NodeInfo)
            only.retries = retries
            return (yield only), key
        last: IbkeysError = NoReply("")
        for turn, candidate in enumerate(attempts):
            try:
                info: bytes = yield self._ask_once(path, candidate)
            except (NoReply, SendRefused) as error:
                last = error
                continue
            self._note_wrong_keys(guid, attempts, turn)
            self.ring.answered(guid, candidate)
            return info, candidate
        if withheld:
            self.topology.notes.append(
                f"port GUID 0x{guid:016x} did not answer to the keys that it may have while a change of its M_Key is "
                f"unfinished; {counted(withheld, 'other key')} of the store not sent: "
                "a wrong one counts a violation there, and its lease starts; "
                f"{given('--ask-unproven')} sends each once, to a switch once over each link"
            )
        raise last

    def _note_wrong_keys(self, guid: int, attempts: Sequence[MKey], turn: int) -> None:
        """Add a note about the attempts before *turn* that had another key than the one that was answered at *turn*."""
        answered = attempts[turn]
        wrong = sum(each != answered for each in attempts[:turn])
        if not wrong:
            return
        keys = list(dict.fromkeys(attempts))
        why = (
            "it is not the one that was confirmed last"
            if guid in self.ring.confirmed
            else "a change of its M_Key was never confirmed"
        )
        self.topology.notes.append(
            f"port GUID 0x{guid:016x} answered to key {keys.index(answered) + 1} of {len(keys)} of the store: "
            f"{why}; {counted(wrong, 'SMP')} with another key may have counted violations"
        )

    # --- the far end of a link ----------------------------------------------------------------------------------------

    def _probe(self, near: Port) -> Task:
        """Return the task that queries the far end of *near*.

        If the ring has keys of single ports, the far end is queried only if the link is proven to be the known one
        (`ibkeys.discovery.links.proof`), and with the key of the port that is known there. All other far ends wait for
        the end of the sweep.
        """
        if not self._proves:
            return self._ask_far_end(near, self.ring.for_unknown_port)
        return self._probe_known(near)

    def _probe_known(self, near: Port) -> Task:
        """Task: query the far end of *near* if the link is proven to be the known one; otherwise postpone the query."""
        doubt = yield from self.ask_again(near)
        if doubt is not None:
            self._unproven.postpone(near, doubt)

    def _ask_proven(self, near: Port, far: LinkEnd, proof: LinkProof) -> Task:
        """Task: query the far end of *near*, which is proven to be *far*, with the key of that port."""
        yield from self._ask_far_end(near, self.ring.key_of(far[0]), far, proof)

    def _ask_far_end(
        self,
        near: Port,
        key: MKey,
        far: LinkEnd | None = None,
        proof: LinkProof | None = None,
        retries: int | None = None,
    ) -> Task:
        """Task: query the far end of *near* with *key*, and process its answer.

        *far*: the port that is proven to be there; *proof*: the evidence that names it. *retries*: None for
        ``probe_retries``.
        """
        path = (*(near.node.path if near.node.is_switch else ()), near.num)
        if self.wanted.link_downed and near.link_downed is None:
            yield from self._gmps.read_counter(near)
        try:
            info, key = yield from self._ask(path, far[0] if far else 0, key, retries)
        except IbkeysError as error:
            if isinstance(error, NoReply):  # else not every key was sent
                self.refused_keys.setdefault(near, set()).update(self.ring.attempts(far[0] if far else 0, key, 0))
            self._note_silence(near, path, key, error)
            return
        if near.peer is None:
            self._arrive(info, path, near, key, far, proof)

    def query_unproven(self) -> None:
        """Query the far ends that were postponed, except those that may be a protected port (`UnprovenPlaces`)."""
        self._unproven.query_waiting()

    def _ask_unidentified(self, near: Port, proof: LinkProof | None, retries: int | None) -> Task:
        """Task: query the node behind *near* with the key for unidentified nodes. *proof*: the evidence that names it,
        if any."""
        yield from self._ask_far_end(near, self.ring.for_unknown_port, None, proof, retries)

    def _note_silence(self, near: Port, path: tuple[int, ...], key: MKey, error: IbkeysError) -> None:
        """Add a trouble that no node answered behind *near*, on the route *path*, to a query with *key*.

        If a port with an M_Key is known there and the query had no key, the trouble says how many violations the port
        may have counted.
        """
        if isinstance(error, LimitReached):
            self.topology.troubles.append(Trouble.of(near, NodeInfo.name, error))
            return
        self.unanswered[path] = near
        what = "an error came from behind it" if isinstance(error, MadStatusError) else "nothing answers behind it"
        route = PortText(f" (route {','.join(map(str, (0, *path)))})", "")
        text = PortText.joined(what, route, ": ", str(error))
        expected = self.ring.expected_behind(near.link_end)
        if key.is_zero and expected and not self.ring.by_guid.get(expected[0], NO_MKEY).is_zero:
            attempts = error.attempts if isinstance(error, NoReply) else 1
            doubt = self._unproven.doubts.get(near, "it was not proven")
            text = PortText.joined(
                text,
                f"; port GUID 0x{expected[0]:016x} is known there, but {doubt}, so the far end was queried with "
                f"{counted(attempts, 'SMP')} without a key, each of which a protected port counts as "
                f"an M_Key violation; {given('--trust-topology')} sends the key",
            )
        self.topology.troubles.append(Trouble.of(near, NodeInfo.name, error, text))

    # --- nodes that answered ------------------------------------------------------------------------------------------

    def _arrive(
        self,
        info: bytes,
        path: tuple[int, ...],
        near: Port | None,
        key: MKey,
        far: LinkEnd | None = None,
        proof: LinkProof | None = None,
    ) -> None:
        """Process a NodeInfo that was read through *near* with *key*: record the link, and start reading a new node.

        *far*: the port that is proven to be there; *proof*: the evidence that names it. A GUID that has a key and is
        known at another place is not trusted: the node that claims it keeps the key that it answered to, and gets no
        other key.
        """
        arrival = NodeInfo(info)
        num = arrival.local_port_num
        doubt = self._nodes.doubt_of(arrival, near, far, proof) if near is not None and self._proves else ""
        if far is not None:
            self._nodes.proven.add(far[0])
        on_switch = arrival.node_type == NodeType.SWITCH
        if doubt and near is not None and on_switch and self._nodes.with_guid(arrival.node_guid):
            # If it counted as a link of that switch, the node at the true end would be missing, or the switch would get
            # a wrong route.
            self.topology.troubles.append(
                Trouble(near, f"the node that answers behind it was not read: {doubt}", NodeInfo.name)
            )
            return
        node = None if doubt else self._nodes.find_node(info, num, near)
        is_new = node is None
        if node is None:
            node = self._add_node(info, arrival.node_guid, path, near)
            if node is None:
                return
        port = node.port(num)
        if near is not None:
            near.peer, port.peer = port, near
        self._reader.add_problems(
            port, arrival_problems(arrival, near is not None) + (node_problems(arrival) if is_new else [])
        )
        if not node.is_switch and port.path is None:
            port.path = path
            port.guid = arrival.port_guid
            port.m_key = key
            if not is_new:
                self.client.start(self.read_port(port))
        if is_new:
            if node.is_switch:
                own = node.port(0)
                own.guid = arrival.port_guid
                own.m_key = key
            self.client.start(self._read_node(node, num))
        if doubt:
            self.topology.doubtful[port.end_port] = doubt
            self.topology.notes.append(f"{port}: {doubt}")

    def _add_node(self, info: bytes, guid: int, path: tuple[int, ...], near: Port | None) -> Node | None:
        """Add a new node and return it. If it exceeds a limit, return None and add a trouble to *near*."""
        limit = self.bounds.refuses_node(len(self.topology.nodes), len(self._nodes.with_guid(guid)))
        if limit:
            self._leave_out(near or self.topology.nodes[0].port(0), limit)
            return None
        return self._nodes.add(info, path)

    def _leave_out(self, near: Port, limit: str) -> None:
        """Add a trouble that nothing behind *near* was read, because *limit* was reached."""
        text = self.bounds.describe_left_out("what is behind it was not read", limit)
        self.topology.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked", limit))

    # --- the attributes of a node and its ports -----------------------------------------------------------------------

    def _read_node(self, node: Node, arrival: int) -> Task:
        """Task: read a new node, and start reading its ports. *arrival*: the number of the port by which it was
        reached."""
        own = node.port(0 if node.is_switch else arrival)
        yield from self._reader.read_node(own)
        if node.guid in self.node_names:
            node.description = self.node_names[node.guid]
        if not node.is_switch:
            self.client.start(self.read_port(own))
            return
        nums = iter(range(node.num_ports + 1))
        if self._proves or self.wanted.link_downed:
            yield from self.read_port(own)  # The queries about links of other ports need the LID of port 0.
            next(nums)
        else:
            for first in self._next_ports(node, nums, 1):
                self.client.start(self.read_port(first))
        for _ in range(_READERS):
            self.client.start(self._read_ports(node, nums))

    def _read_ports(self, node: Node, nums: Iterator[int]) -> Task:
        """Task: read the ports of a switch whose numbers *nums* yields, `_PORTS_AT_ONCE` at a time.

        Several tasks share *nums*. So waiting ports take no memory, and a lost SMP delays only the ports of one task.
        """
        while ports := self._next_ports(node, nums, _PORTS_AT_ONCE):
            yield from self._reader.read_ports(ports)

    def _next_ports(self, node: Node, nums: Iterator[int], most: int) -> list[Port]:
        """Return the ports with the next *most* numbers of *nums*.

        If a limit is reached, return fewer ports, use up *nums*, and add a trouble for each port that exists already.
        """
        ports: list[Port] = []
        for num in islice(nums, most):
            limit = self.client.ended or self.bounds.refuses_port()
            if limit:
                text = self.bounds.describe_left_out("it was not read, nor were the ports after it", limit)
                node.port(num)
                for rest in (num, *nums):
                    if rest in node.ports:  # Other ports are not created: they may be too many.
                        trouble = Trouble(node.ports[rest], text, PortInfo.name, "not-asked", limit)
                        self.topology.troubles.append(trouble)
                break
            ports.append(node.port(num))
        return ports

    def read_port(self, port: Port) -> Task:
        """Task: read PortInfo and the wanted attributes of *port*, and continue behind it. To repeat a failed read,
        run the task again."""
        return self._reader.read_port(port)

    def _go_on_behind(self, port: Port) -> None:
        """Start the query of the far end of *port*, if the port has a link and its far end was not found yet."""
        if port.peer is None and port.num and port.is_linked and self._may_go_on(port):
            self.client.start(self._probe(port))

    def _may_go_on(self, port: Port) -> bool:
        """Return whether a directed route can leave by *port*: an external port of a switch, or the local port.

        A route with too many hops adds a trouble.
        """
        node = port.node
        if not node.is_switch:
            return port.path == ()
        if len(node.path) < self.client.limits.hops:
            return True
        self._leave_out(port, "hops")
        return False

    def _ask_once(self, path: tuple[int, ...], key: MKey) -> Request:
        """Return a Get(NodeInfo) without retries."""
        # A new object as *node* of each request: the scheduler sends nothing more to a node that was silent once.
        route = DirectedAddress(path)
        return self.client.request(Method.GET, NodeInfo, 0, route, node=object(), m_key=key, retries=0)
