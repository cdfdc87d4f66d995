"""Discovery: the whole subnet by directed routes, in one pass, with whatever else is wanted of each port.

One task asks one node or one port; tasks start others as answers arrive, so the scheduler's window is always full. The
sweep tolerates loops, cables that end at their own switch, two ports of one HCA, nodes with equal GUIDs, silent nodes
and nodes that need an M_Key. What it could not read it names; it never stops for one node.

Who is asked with which M_Key, and who is not asked, is explained in `Sweep._probe`, `Sweep.ask_waiting` and
`ibkeys.fabric.linkproof`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ibkeys.errors import IbkeysError, LimitReached, MKeyNeeded, NoReply, SendRefused
from ibkeys.fabric.address import DirectedAddress
from ibkeys.fabric.client import Outcome, SmpClient, Task
from ibkeys.fabric.closed import ABOUT_OWN_KEY, about_own_key, own_port_is_closed, why_not_asked
from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.limits import Bounds, limit_notes
from ibkeys.fabric.link_gmps import LinkGmps
from ibkeys.fabric.linkproof import LinkProver, Proof
from ibkeys.fabric.model import Fabric, LinkEnd, Node, Port, Trouble, Unasked
from ibkeys.fabric.moved import describe_moves, describe_swaps
from ibkeys.fabric.plausible import Problem, arrival_problems, node_problems, port_problems
from ibkeys.fabric.scheduler import PER_NODE, Request
from ibkeys.fabric.tables import read_guid_info, read_p_key_table
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import (
    Attribute,
    GUIDInfo,
    NodeDescription,
    NodeInfo,
    PKeyTable,
    PortInfo,
    SMInfo,
    SwitchInfo,
)
from ibkeys.mad.const import Method, NodeType


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sweep reads besides nodes and links. PortInfo of every port is read in any case: links show in it.

    ``p_keys``: the P_Key table of every port. ``guid_info``: all GUIDs of every end port. ``sm_info``: SMInfo of every
    port whose IsSM bit is set. ``link_downed``: LinkDownedCounter of each port before its far end is asked.
    """

    p_keys: bool = False
    guid_info: bool = False
    sm_info: bool = False
    link_downed: bool = False


EVERYTHING = Wanted(p_keys=True, guid_info=True, sm_info=True)
"""What a snapshot holds."""


Progress = Callable[[int, int], None]
"""Called now and then with (nodes found, ports read)."""


def discover(
    client: SmpClient,
    ring: KeyRing,
    wanted: Wanted | None = None,
    progress: Progress | None = None,
    node_names: dict[int, str] | None = None,
) -> Fabric:
    """Return the whole subnet as seen from the local port.

    SMPs: NodeInfo once for each link, NodeDescription for each node, SwitchInfo for each switch, PortInfo for each
    port, and ``ceil(capacity / 32)`` P_KeyTable blocks where wanted. Raises TransportError, and what the own port
    answers when it cannot be read at all; every other failure is in ``Fabric.troubles``, and each limit of the client's
    that was reached in ``Fabric.notes`` too.
    """
    sweep = Sweep(client, ring, wanted or Wanted(), progress, node_names or {})
    with _few_collections(), client.bounded():
        try:
            client.run([sweep.root()])
        except (NoReply, SendRefused) as error:
            raise about_own_key(error, ring, client.port.attributes().port_guid) from error
        sweep.ask_waiting()
    sweep.fabric.notes += describe_moves(sweep.fabric, ring) + describe_swaps(sweep.fabric, ring)
    sweep.fabric.put_in_order()
    sweep.fabric.notes += limit_notes(sweep.fabric, client.limits)
    return sweep.fabric


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let the garbage collector run seldom: nearly all that a sweep makes stays, and each look at it takes longer than
    the last. At Python's own thresholds that is a sixth of a sweep's time."""
    thresholds = gc.get_threshold()
    if gc.isenabled() and thresholds[0]:
        gc.set_threshold(max(thresholds[0], 100_000), *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class Sweep:
    """One pass over the subnet, and what it found so far. `discover` runs it to its end.

    Who finds nodes in another way (`ibkeys.mkeys.recover`) hands their NodeInfo to `arrive`, and the sweep reads on
    from there. ``probe_retries``: attempts after the first for the question who is at the far end of a link, by default
    as the client has it. ``provokes``: ask once, without a key, also where a protected port may be; by default as the
    ring has it. ``unanswered``: directed routes whose end did not answer, and the port they leave by at last.
    """

    def __init__(
        self,
        client: SmpClient,
        ring: KeyRing,
        wanted: Wanted,
        progress: Progress | None,
        node_names: dict[int, str],
        probe_retries: int | None = None,
        provokes: bool | None = None,
    ) -> None:
        self.client = client
        self.ring = ring
        self.wanted = wanted
        self.progress = progress
        self.node_names = node_names
        self.fabric = Fabric()
        self.bounds = Bounds(client.limits)
        self.probe_retries = client.timing.retries if probe_retries is None else probe_retries
        self.provokes = ring.ask_unproven if provokes is None else provokes
        self.unanswered: dict[tuple[int, ...], Port] = {}
        self._by_guid: dict[int, list[Node]] = {}
        self._ports_read = 0
        self._proves = ring.has_keys
        self._gmps = LinkGmps(client)
        self._prover = LinkProver(client, ring, self._gmps)
        self._protected = ring.protected() if self._proves else set()
        self._found: set[int] = set()
        self._own_info = b""
        self._waiting: list[Port] = []
        self._left: dict[Port, Proof] = {}
        self._open_ends: set[Port] = set()
        self._doubts: dict[Port, str] = {}

    # --- nodes ---------------------------------------------------------------------------------------------------

    def root(self) -> Task:
        """Task: ask the own port, and read on from there. Raises NoReply or SendRefused when it does not answer.

        Without a key for it, it is asked once: an own port that is protected counts each question as a violation.
        Raises MKeyNeeded where it answers and shows that it is protected (`own_port_is_closed`).
        """
        local = self.client.port.attributes()
        key = self.ring.key_of(local.port_guid)
        if key.is_zero and self.ring.for_all is None:
            info = yield self._get_once(NodeInfo, 0, (), key)
            if not self.provokes:
                num = NodeInfo(info).local_port_num if info[2] != NodeType.SWITCH else 0
                self._own_info = yield self._get(PortInfo, num, (), None, key)
                if reason := own_port_is_closed(PortInfo(self._own_info)):
                    raise MKeyNeeded(f"{local.ca_name} port {local.port}: {reason}; {ABOUT_OWN_KEY}")
        else:
            info, key = yield from self._ask((), local.port_guid, key)
        self._found.add(local.port_guid)
        self._arrive(info, (), None, key)

    def arrive(self, info: bytes, path: tuple[int, ...], near: Port | None, key: MKey) -> None:
        """Take a NodeInfo that came by the route *path* in answer to *key*, and read on from there.

        *near* is the port at the other end of the last link, None when the route leads through a node that does not
        answer. What is known already is not read again. Call it from a task.
        """
        arrival = NodeInfo(info)
        if near is None:
            for node in self._by_guid.get(arrival.node_guid, ()):
                known = node.is_switch or node.port(arrival.local_port_num).path is not None
                if known and _same_node(node.info, info):
                    return
        if near is None or near.peer is None:
            self._arrive(info, path, near, key)

    def ask_again(self, near: Port) -> Task:
        """Task: ask the far end of *near* once more, with whatever keys the ring has for the port that is proven there.

        Where none is, nothing is sent.
        """
        far = self.ring.expected_behind(near.link_end)
        if far is not None:
            proof = yield from self._prover.prove(near, far)
            if proof.is_known:
                yield from self._ask_far_end(near, self.ring.key_of(far[0]), far, proof)

    def read_again(self, port: Port) -> Task:
        """Task: get PortInfo of a port that was found and could not be read, and go on behind it."""
        yield from self._read_port(port.node, port)

    def _ask(self, path: tuple[int, ...], guid: int, key: MKey, retries: int | None = None) -> Task:
        """Task: get NodeInfo with *key*, or with the further keys that the port *guid* may have; return it and the key.

        Where there are several, each attempt counts: a port at level 2 or 3 counts a violation for each with a wrong
        key. So they take turns, one attempt each, and what that may have counted is noted.
        Raises what the last attempt raised when none is answered.
        """
        retries = self.probe_retries if retries is None else retries
        keys = [key, *self.ring.others_for(guid, key)]
        if len(keys) == 1:
            only = self._get(NodeInfo, 0, path, None, key)
            only.retries = retries
            return (yield only), key
        last: IbkeysError = NoReply("")
        for turn in range(len(keys) * (retries + 1)):
            candidate = keys[turn % len(keys)]
            try:
                info: bytes = yield self._get_once(NodeInfo, 0, path, candidate)
            except (NoReply, SendRefused) as error:
                last = error
                continue
            if turn:
                self.fabric.notes.append(
                    f"port GUID 0x{guid:016x} answered to key {turn % len(keys) + 1} of {len(keys)} of the store: a "
                    f"change of its M_Key was never confirmed; {turn} SMPs with another key may have counted violations"
                )
            return info, candidate
        raise last

    # --- who is at the far end of a link -------------------------------------------------------------------------

    def _probe(self, near: Port) -> Task:
        """Task: ask who is at the far end of *near*.

        Where the ring has keys of single ports, only over a link that is known (`ibkeys.fabric.linkproof`), and with
        the key of the port that is known there. A place that is not known waits for the end of the sweep.
        """
        ring = self.ring
        if not self._proves:
            yield from self._ask_far_end(near, ring.for_strangers)
            return
        far = ring.expected_behind(near.link_end)
        if far is None:
            self._waiting.append(near)
            return
        proof = yield from self._prover.prove(near, far)
        if proof.is_known:
            yield from self._ask_far_end(near, ring.key_of(far[0]), far, proof)
            return
        self._doubts[near] = proof.reason
        self._waiting.append(near)

    def _ask_far_end(
        self,
        near: Port,
        key: MKey,
        far: LinkEnd | None = None,
        proof: Proof | None = None,
        retries: int | None = None,
    ) -> Task:
        """Task: ask who is behind *near*. *far*: the end that is proven to be there; *proof*: what says so."""
        path = (*(near.node.path if near.node.is_switch else ()), near.num)
        if self.wanted.link_downed and near.link_downed is None:
            yield from self._gmps.read_counter(near)
        try:
            info, key = yield from self._ask(path, far[0] if far else 0, key, retries)
        except IbkeysError as error:
            self._unanswered(near, path, key, error)
            return
        if near.peer is None:
            self._arrive(info, path, near, key, far, proof)

    def ask_waiting(self) -> None:
        """Ask at the places that could not be proven, after all that could. Most were joined from their other side.

        A protected port that has not been found may be at any of these, and so may a protected switch that has: a link
        may be another one of it. While there is such a port, a place is first identified without SMPs to it: a
        protected port, and what nothing can identify, is not asked; another one is asked once.
        """
        before = None
        while True:
            waiting = [near for near in self._waiting if near.peer is None]
            self._waiting = []
            self._open_ends = self._find_open_ends() if waiting else set()
            if waiting and self.provokes and not self._protected <= self._found:
                self.client.run([self._ask_far_end(near, self.ring.for_strangers, retries=0) for near in waiting])
            elif waiting:
                self.client.run([self._ask_or_identify(near) for near in waiting])
            elif self._left and before != (before := self._progress()):
                self._waiting, self._left = list(self._left), {}
            else:
                break
        self._name_left()

    def _progress(self) -> tuple[int, int]:
        """What has to have changed for another look at places that were not asked to be worth it."""
        return len(self._found), sum(port.peer is None for port in self._left)

    def _ask_or_identify(self, near: Port) -> Task:
        if self._protected <= self._found and (self.provokes or not self._may_be_found_switch(near)):
            yield from self._ask_far_end(near, self.ring.for_strangers, retries=0 if self.provokes else None)
        else:
            yield from self._identify(near)

    def _may_be_found_switch(self, near: Port) -> bool:
        """Whether the link of *near* may end at a protected switch that was found, at another one of its open ends."""
        return len(self._open_ends) > (near in self._open_ends)

    def _find_open_ends(self) -> set[Port]:
        """Return the ports of protected switches that were found where another link may end: which have a link or could
        not be read, and of which no far end is known. Port 0 stands for those that were left out."""
        ends = set()
        for node in self.fabric.nodes:
            if node.is_switch and self.ring.is_protected(node.port(0).guid):
                for num in range(1, node.num_ports + 1):
                    port = node.ports.get(num)
                    if port is None or (port.peer is None and (port.info is None or port.is_linked)):
                        ends.add(port or node.port(0))
        return ends

    def _identify(self, near: Port) -> Task:
        """Task: find out who is behind *near* without asking there, and ask once where it is no protected port."""
        path = near.node.path if near.node.is_switch else ()
        try:
            near.info = yield self._get(PortInfo, near.num, path, near.node, near.end_port.m_key)
        except IbkeysError as error:
            self._left[near] = Proof(False, None, f"the port before it could not be read again: {error}")
            return
        yield from self._gmps.read_counter(near)  # before it is said who is there: --settle keeps both
        proof: Proof = yield from self._prover.identify(near)
        if near.peer is not None or self._join(near, proof):
            return
        if proof.found is None:
            may_ask = self._protected <= self._found | self.ring.settled and not self._may_be_found_switch(near)
        else:
            may_ask = not self.ring.is_protected(proof.found[0])
        if may_ask:
            yield from self._ask_far_end(near, self.ring.for_strangers, None, proof, retries=0)
        else:
            self._left[near] = proof

    def _join(self, near: Port, proof: Proof) -> bool:
        """Join *near* with the port of a protected switch that was found, where the SA names it behind *near*: then
        nobody needs to be asked. Returns whether it did."""
        switch = self._switch_named(proof)
        port = switch.ports.get(proof.found[1]) if switch is not None and proof.found is not None else None
        if port is None or port is near or port.peer is not None or not port.is_linked:
            return False
        near.peer, port.peer = port, near
        return True

    def _name_left(self) -> None:
        """Put the places that were not asked among what could not be read, each with the reason and the way on."""
        self.fabric.missing = frozenset(self._protected - self._found)
        missing = len(self.fabric.missing - self.ring.settled)
        for near, proof in self._left.items():
            if near.peer is not None:
                continue
            known = self.ring.expected_behind(near.link_end)
            is_found = proof.found is not None and proof.found[0] in self._found
            text = why_not_asked(known, proof, self._doubts.get(near, ""), missing, is_found)
            self.fabric.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))
            self.fabric.unasked.append(Unasked(near, known, proof.found))
        self._left = {}

    def _unanswered(self, near: Port, path: tuple[int, ...], key: MKey, error: IbkeysError) -> None:
        if isinstance(error, LimitReached):
            self.fabric.troubles.append(Trouble.of(near, NodeInfo.name, error))
            return
        self.unanswered[path] = near
        text = f"nothing answers behind it (route {','.join(map(str, (0, *path)))}): {error}"
        expected = self.ring.expected_behind(near.link_end)
        if key.is_zero and expected and not self.ring.by_guid.get(expected[0], NO_MKEY).is_zero:
            attempts = error.attempts if isinstance(error, NoReply) else 1
            text += (
                f"; port GUID 0x{expected[0]:016x} is known there, but {self._doubts.get(near, 'it was not proven')}, "
                f"so what is there was asked with {attempts} SMP{'s' if attempts != 1 else ''} without a key, each of "
                "which a protected port counts as an M_Key violation; --trust-topology sends the key"
            )
        self.fabric.troubles.append(Trouble.of(near, NodeInfo.name, error, text))

    # --- what answered -------------------------------------------------------------------------------------------

    def _arrive(
        self,
        info: bytes,
        path: tuple[int, ...],
        near: Port | None,
        key: MKey,
        far: LinkEnd | None = None,
        proof: Proof | None = None,
    ) -> None:
        """A NodeInfo came in through *near*, in answer to *key*: join the link, and start reading what is new.

        *far*: the end that is proven to be there. A GUID that has a key and is known at another place is not believed:
        what says so keeps the key that it answered to, and gets no other.
        """
        arrival = NodeInfo(info)
        num = arrival.local_port_num
        doubt = self._doubt_of(arrival, near, far, proof) if near is not None and self._proves else ""
        if far is not None:
            self._found.add(far[0])
        if doubt and near is not None and info[2] == NodeType.SWITCH and self._by_guid.get(arrival.node_guid):
            # Taken for a link of that switch it would hide who is at the true end, or lend that switch its own route.
            self.fabric.troubles.append(Trouble(near, f"what answers behind it is not read: {doubt}", NodeInfo.name))
            return
        node = None if doubt else self._known_node(info, num, near)
        is_new = node is None
        if node is None:
            twins = self._by_guid.get(arrival.node_guid, ())
            limit = self.bounds.refuses_node(len(self.fabric.nodes), len(twins))
            if limit:
                self._leave_out(near or self.fabric.nodes[0].port(0), limit)
                return
            node = self._new_node(info, path)
        port = node.port(num)
        if near is not None:
            near.peer, port.peer = port, near
        self._name(port, arrival_problems(info, near is not None) + (node_problems(info) if is_new else []))
        if not node.is_switch and port.path is None:
            port.path = path
            port.guid = arrival.port_guid
            port.m_key = key
            if not is_new:
                self.client.start(self._read_port(node, port))
        if is_new:
            if node.is_switch:
                own = node.port(0)
                own.guid = arrival.port_guid
                own.m_key = key
            self.client.start(self._read_node(node, num))
        if doubt:
            self.fabric.doubtful[port.end_port] = doubt
            self.fabric.notes.append(f"{port}: {doubt}")

    def _doubt_of(self, arrival: NodeInfo, near: Port, far: LinkEnd | None, proof: Proof | None) -> str:
        """Return why the GUIDs of *arrival* are not believed, "" where nothing speaks against them."""
        ring = self.ring
        guid = arrival.node_guid if arrival.node_type == NodeType.SWITCH else arrival.port_guid
        claimed = {arrival.port_guid, guid}
        known = far or ring.expected_behind(near.link_end)
        if known is not None and claimed == {known[0]}:
            return ""
        if all(ring.by_guid.get(each, NO_MKEY).is_zero for each in claimed):
            return ""
        rivals = [port for port in self._end_ports_with(claimed) if port not in self.fabric.doubtful]
        if far is None and not rivals and not any(ring.is_placed(each) for each in claimed):
            return ""  # no place is known for it, and no other one says the same
        if arrival.node_type == NodeType.SWITCH and rivals and not self._found & claimed:
            return ""  # another link of a switch that got no key either
        for rival in rivals:
            if rival.guid not in self._found:  # neither of the two is proven
                self.fabric.doubtful[rival] = f"GUID 0x{rival.guid:016x} is at {near} too, and neither is proven"
        if proof is not None and proof.found is not None and proof.found[0] == guid and self._switch_named(proof):
            return ""  # the SM names this switch behind this port too: another of its links
        there = f"; known there is GUID 0x{far[0]:016x}, to whose M_Key it answered" if far else ""
        return (
            f"it says that it is port GUID 0x{arrival.port_guid:016x} of node GUID 0x{arrival.node_guid:016x}, "
            f"{self._where_known(guid, rivals)}{there}: a port that moved, or a false GUID; it gets no M_Key of that "
            "GUID (`ibkeys mkey-list --settle` records ports that moved)"
        )

    def _switch_named(self, proof: Proof) -> Node | None:
        """Return the switch that the SA names, where it was found with that GUID and with the LID that the SA means.

        The GUID alone would be that of a liar too, whose LID is its own.
        """
        if proof.found is None or not proof.lid or proof.found[0] not in self._found:
            return None
        for node in self._by_guid.get(proof.found[0], ()):
            own = node.port(0)
            if node.is_switch and own.lid == proof.lid and own not in self.fabric.doubtful:
                return node
        return None

    def _end_ports_with(self, guids: Collection[int]) -> Iterator[Port]:
        for node in self.fabric.nodes:
            for port in node.ports.values():
                if port.is_end_port and (port.guid in guids or (node.is_switch and node.guid in guids)):
                    yield port

    def _where_known(self, guid: int, found: Sequence[Port]) -> str:
        """Return in words where the port *guid* was found, or else where it is known."""
        for port in found:
            route = ",".join(map(str, (0, *(port.path if port.path is not None else port.node.path))))
            return f"which was found at route {route} ({port})"
        place = self.ring.place_of(guid)
        return f"which is known behind GUID 0x{place[0]:016x} port {place[1]}" if place else "which is known elsewhere"

    def _name(self, port: Port, problems: Sequence[Problem]) -> None:
        """Name as errors what *port* cannot be."""
        self.fabric.troubles += (Trouble(port, text, field) for field, text in problems)

    def _leave_out(self, near: Port, limit: str) -> None:
        text = self.bounds.left_out("what is behind it was not read", limit)
        self.fabric.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))

    def _known_node(self, info: bytes, num: int, near: Port | None) -> Node | None:
        """Return the node that *info* belongs to, if it was seen before.

        Two nodes with one GUID are told apart by what cannot be equal: another NodeInfo, or a port that is already
        linked elsewhere, or has no link at all.
        """
        for node in self._by_guid.get(int.from_bytes(info[12:20]), ()):
            if not _same_node(node.info, info):
                continue
            port = node.ports.get(num)
            if port is None or port is near:
                return node
            taken = port.peer is not None and port.peer is not near
            if not taken and (near is None or port.info is None or port.is_linked):
                return node
        return None

    def _new_node(self, info: bytes, path: tuple[int, ...]) -> Node:
        guid = int.from_bytes(info[12:20])
        twins = self._by_guid.setdefault(guid, [])
        node = Node(info, path, len(twins))
        if twins:
            self.fabric.notes.append(
                f"node GUID 0x{guid:016x} is used by {len(twins) + 1} different nodes: route "
                f"{','.join(map(str, (0, *twins[0].path)))} and route {','.join(map(str, (0, *path)))}"
            )
        twins.append(node)
        # The own node comes first, also when it answers last.
        self.fabric.nodes.insert(len(self.fabric.nodes) if path else 0, node)
        return node

    # --- what is read of a node and its ports --------------------------------------------------------------------

    def _read_node(self, node: Node, arrival: int) -> Task:
        own = node.port(0 if node.is_switch else arrival)
        asked: list[type[Attribute]] = [NodeDescription, SwitchInfo] if node.is_switch else [NodeDescription]
        answers: list[Outcome] = yield [self._get(attribute, 0, node.path, node, own.m_key) for attribute in asked]
        for attribute, answer in zip(asked, answers, strict=True):
            if isinstance(answer, IbkeysError):
                self.fabric.troubles.append(Trouble.of(own, attribute.name, answer))
            elif attribute is NodeDescription:
                node.description_raw = answer
                node.description = NodeDescription(answer).node_description
            else:
                node.switch_info_raw = answer
        if node.guid in self.node_names:
            node.description = self.node_names[node.guid]
        if not node.is_switch:
            self.client.start(self._read_port(node, own))
            return
        first = 0
        if self._proves or self.wanted.link_downed:
            yield from self._read_port(node, own)  # its LID is needed to ask of the links of the others
            first = 1
        nums = iter(range(first, node.num_ports + 1))
        for _ in range(PER_NODE):
            self.client.start(self._read_ports(node, nums))

    def _read_ports(self, node: Node, nums: Iterator[int]) -> Task:
        """Task: read the ports *nums* of a switch. As many tasks share *nums* as the switch may have requests in
        flight: what waits for its turn would only take memory."""
        for num in nums:
            limit = self.client.ended or self.bounds.refuses_port()
            if limit:
                text = self.bounds.left_out("it was not read, nor were the ports after it", limit)
                node.port(num)
                for rest in (num, *nums):
                    if rest in node.ports:  # the others are not made: they would be too many
                        self.fabric.troubles.append(Trouble(node.ports[rest], text, PortInfo.name, "not-asked"))
                return
            yield from self._read_port(node, node.port(num))

    def _read_port(self, node: Node, port: Port) -> Task:
        key = port.end_port.m_key
        path = node.path if node.is_switch else port.path
        assert path is not None
        try:
            is_own = path == () and port.is_end_port
            known, self._own_info = (self._own_info, b"") if is_own else (b"", self._own_info)
            port.info = known or (yield self._get(PortInfo, port.num, path, node, key))
            if is_own:
                self._gmps.start(port)
            if port.is_end_port and port.m_key_state == "hidden":
                yield from self._uncover(node, port, path)
        except IbkeysError as error:
            self.fabric.troubles.append(Trouble.of(port, PortInfo.name, error))
        else:
            self._name(port, port_problems(port))
            if port.num and port.peer is None and port.is_linked and self._may_go_on(node, port):
                self.client.start(self._probe(port))
        if self.wanted.p_keys:
            problem = yield from read_p_key_table(self.client, port, path, key)
            if problem is not None:
                self.fabric.troubles.append(Trouble.of(port, PKeyTable.name, problem))
        if port.info is not None and port.is_end_port:
            yield from self._read_identity(node, port, path)
        self._ports_read += 1
        if self.progress and self._ports_read % 64 == 0:
            self.progress(len(self.fabric.nodes), self._ports_read)

    def _read_identity(self, node: Node, port: Port, path: tuple[int, ...]) -> Task:
        """Task: read what else an end port tells of itself: its GUIDs, and the subnet manager behind it."""
        assert port.info is not None
        if self.wanted.guid_info:
            problem = yield from read_guid_info(self.client, port, path)
            if problem is not None:
                self.fabric.troubles.append(Trouble.of(port, GUIDInfo.name, problem))
        if self.wanted.sm_info and port.is_sm:
            try:
                port.sm_info = yield self._get(SMInfo, 0, path, node, port.m_key)
            except IbkeysError as error:
                self.fabric.troubles.append(Trouble.of(port, SMInfo.name, error))

    def _uncover(self, node: Node, port: Port, path: tuple[int, ...]) -> Task:
        """Task: a port at level 1 hides its key, so it is not the one sent; try the others that it may have. A Get with
        a wrong key counts nothing at level 1."""
        for other in self.ring.others_for(port.guid, port.m_key):
            info: bytes = yield self._get(PortInfo, port.num, path, node, other)
            if any(info[:8]):
                port.info, port.m_key = info, other
                return

    def _may_go_on(self, node: Node, port: Port) -> bool:
        """Whether a directed route can leave by *port*: a CA forwards nothing, the own port is where routes begin."""
        if not node.is_switch:
            return port.path == ()
        if len(node.path) < self.client.limits.hops:
            return True
        self._leave_out(port, "hops")
        return False

    def _get_once(self, attribute: type[Attribute], modifier: int, path: tuple[int, ...], key: MKey) -> Request:
        # A name of its own for each: the scheduler asks nobody again who was silent to the SMP before.
        route = DirectedAddress(path)
        return self.client.request(Method.GET, attribute, modifier, route, node=object(), m_key=key, retries=0)

    def _get(
        self, attribute: type[Attribute], modifier: int, path: tuple[int, ...], node: Hashable, key: MKey
    ) -> Request:
        return self.client.get_along(path, attribute, modifier, node, key)


def _same_node(a: bytes, b: bytes) -> bool:
    """Compare two NodeInfo without PortGUID and LocalPortNum, which on a CA or router differ from port to port."""
    if a[2] == NodeType.SWITCH:
        return a[:36] == b[:36] and a[37:] == b[37:]
    return a[:20] == b[:20] and a[28:36] == b[28:36] and a[37:40] == b[37:40]
