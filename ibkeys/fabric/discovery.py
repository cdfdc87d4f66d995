"""Discovery: the whole subnet by directed routes, in one pass, with whatever else is wanted of each port.

One task asks one node or one port; tasks start others as answers arrive, so the scheduler's window is always full. The
sweep tolerates loops, cables that end at their own switch, two ports of one HCA, nodes with equal GUIDs, silent nodes
and nodes that need an M_Key. What it could not read it names; it never stops for one node.

How an M_Key is chosen for a node that has not been read yet is explained in `Sweep._proven_key` and `ask_unproven`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ibkeys.errors import IbkeysError, LimitReached, NoReply, SendRefused
from ibkeys.fabric.address import DirectedAddress
from ibkeys.fabric.client import Outcome, SmpClient, Task
from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.limits import Bounds, limit_notes
from ibkeys.fabric.linkproof import AttachedLids, blocks_of, describe_moves, link_end, moved_links, way_round
from ibkeys.fabric.model import Fabric, Node, Port, Trouble
from ibkeys.fabric.plausible import Problem, arrival_problems, node_problems, port_problems
from ibkeys.fabric.scheduler import PER_NODE, Request
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import (
    Attribute,
    GUIDInfo,
    LinearForwardingTable,
    NodeDescription,
    NodeInfo,
    PKeyTable,
    PortInfo,
    SMInfo,
    SwitchInfo,
)
from ibkeys.mad.const import GUIDS_PER_BLOCK, MAX_HOPS, P_KEYS_PER_BLOCK, PORT_STATE_NAMES, Method, NodeType, PortState
from ibkeys.mad.smp import DirectedRouteSmp


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sweep reads besides nodes and links. PortInfo of every port is read in any case: links show in it.

    ``p_keys``: the P_Key table of every port. ``guid_info``: all GUIDs of every end port. ``sm_info``: SMInfo of every
    port whose IsSM bit is set.
    """

    p_keys: bool = False
    guid_info: bool = False
    sm_info: bool = False


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
            raise _about_own_key(error, ring, client.port.attributes().port_guid) from error
        sweep.ask_unproven()
    sweep.fabric.put_in_order()
    sweep.fabric.notes += limit_notes(sweep.fabric, client.limits)
    return sweep.fabric


def _about_own_key(error: NoReply | SendRefused, ring: KeyRing, own_guid: int) -> NoReply | SendRefused:
    """Return *error* with what to do, where the own port was asked with a key that is known as its own."""
    key = ring.key_of(own_guid)
    if ring.for_all is not None or key.is_zero or key != ring.by_guid.get(own_guid):
        return error
    text = (
        f"{error}; it was asked with the M_Key that is known for it (key store, key files): if it is alive it has "
        "another, as after a subnet manager has set its own: read that one's files (--security-keys DIR, ibkeys "
        "mkey-import DIR), or ibkeys mkey-recover"
    )
    if isinstance(error, SendRefused):
        return SendRefused(text, error.errno)
    return NoReply(text, error.attempts, error.timeout)


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


def read_p_key_table(client: SmpClient, port: Port, path: tuple[int, ...], m_key: MKey) -> Task:
    """Task: read all blocks of a port's P_Key table, on the route *path*, into ``port.p_key_raw``.

    Returns None, or the first error. The length is `Port.capacity`; capacity 0 sends nothing.
    Sends ceil(capacity / 32) Gets.
    """
    capacity = port.capacity
    if capacity is None:
        return NoReply(f"P_KeyTable of {port}: its size is not known, SwitchInfo could not be read")
    node, first = port.node, p_key_modifier(port, 0)
    raw: Outcome = yield from _read_blocks(
        lambda block: client.get_along(path, PKeyTable, first + block, node, m_key),
        -(-capacity // P_KEYS_PER_BLOCK),
        1 if port.is_external else PER_NODE,  # several ports of a switch are read at a time
    )
    if isinstance(raw, IbkeysError):
        return raw
    port.p_key_raw = raw[: 2 * capacity]
    return None


def _read_blocks(request: Callable[[int], Request], count: int, at_once: int) -> Task:
    """Task: get *count* blocks, *at_once* in flight; return their bytes, or the first error and ask for no more.

    A table may have 2,048 blocks, and very many ports may claim so: what waits for its turn would only take memory.
    """
    whole = bytearray()
    for start in range(0, count, at_once):
        blocks: Sequence[Outcome] = yield [request(block) for block in range(start, min(start + at_once, count))]
        for outcome in blocks:
            if isinstance(outcome, IbkeysError):
                return outcome
            whole += outcome
    return bytes(whole)


def p_key_modifier(port: Port, block: int) -> int:
    """Return the AttributeModifier of one P_KeyTable block: on a switch the port is in bits 31..16 (IBA 14.2.5.7)."""
    return (port.num << 16 | block) if port.node.is_switch else block


class Sweep:
    """One pass over the subnet, and what it found so far. `discover` runs it to its end.

    Who finds nodes in another way (`ibkeys.mkeys.recover`) hands their NodeInfo to `arrive`, and the sweep reads on
    from there. ``probe_retries``: attempts after the first for the question who is at the far end of a link, by default
    as the client has it. ``unanswered``: directed routes whose end did not answer, and the port they leave by at last.
    """

    def __init__(
        self,
        client: SmpClient,
        ring: KeyRing,
        wanted: Wanted,
        progress: Progress | None,
        node_names: dict[int, str],
        probe_retries: int | None = None,
    ) -> None:
        self.client = client
        self.ring = ring
        self.wanted = wanted
        self.progress = progress
        self.node_names = node_names
        self.fabric = Fabric()
        self.bounds = Bounds(client.limits)
        self.probe_retries = client.timing.retries if probe_retries is None else probe_retries
        self.unanswered: dict[tuple[int, ...], Port] = {}
        self._by_guid: dict[int, list[Node]] = {}
        self._ports_read = 0
        self._unproven: list[Port] = []
        self._unrouted: list[Port] = []
        self._doubts: dict[Port, str] = {}
        self._tables: dict[tuple[Node, int], bytes] = {}
        self._attached = AttachedLids(ring)

    # --- nodes ---------------------------------------------------------------------------------------------------

    def root(self) -> Task:
        """Task: ask the own port, and read on from there. Raises NoReply or SendRefused when it does not answer."""
        local = self.client.port.attributes()
        key = self.ring.key_of(local.port_guid)
        info, key = yield from self._ask((), local.port_guid, key)
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
        """Task: ask the far end of *near* once more, with whatever keys the ring has for it by now."""
        yield from self._probe(near)

    def read_again(self, port: Port) -> Task:
        """Task: get PortInfo of a port that was found and could not be read, and go on behind it."""
        yield from self._read_port(port.node, port)

    def _ask(self, path: tuple[int, ...], guid: int, key: MKey) -> Task:
        """Task: get NodeInfo with *key*, or with the further keys that the port *guid* may have; return it and the key.

        Where there are several, each attempt counts: a port at level 2 or 3 counts a violation for each with a wrong
        key. So they take turns, one attempt each, and what that may have counted is noted.
        Raises what the last attempt raised when none is answered.
        """
        keys = [key, *self.ring.others_for(guid, key)]
        if len(keys) == 1:
            only = self._get(NodeInfo, 0, path, None, key)
            only.retries = self.probe_retries
            return (yield only), key
        last: IbkeysError = NoReply("")
        for turn in range(len(keys) * (self.probe_retries + 1)):
            candidate = keys[turn % len(keys)]
            # A name of its own for each: the scheduler asks nobody again who was silent to the key before.
            name = ("turn", turn, path)
            route = DirectedAddress(path)
            request = self.client.request(Method.GET, NodeInfo, 0, route, node=name, m_key=candidate, retries=0)
            try:
                info: bytes = yield request
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

    def _probe(self, near: Port) -> Task:
        """Ask who is at the far end of *near*. A link that cannot be proven yet waits for the end of the sweep."""
        key = yield from self._proven_key(near)
        if key is None:
            self._unproven.append(near)
        else:
            yield from self._ask_far_end(near, key)

    def _ask_far_end(self, near: Port, key: MKey) -> Task:
        path = (*(near.node.path if near.node.is_switch else ()), near.num)
        expected = self.ring.expected_behind(link_end(near))
        try:
            info, key = yield from self._ask(path, expected[0] if expected else 0, key)
        except IbkeysError as error:
            self._unanswered(near, path, key, error)
            return
        if near.peer is None:
            self._arrive(info, path, near, key)

    def _proven_key(self, near: Port) -> Task:
        """Task: return the key for a first question to the far end of a link; None when it must not be sent yet.

        A key is sent at once only where the link is known and looks untouched: the far end is named by the known
        links, the near port is Active (a replugged link falls back to Down or Initialize), and, where the expected
        port's LID is known, the near switch forwards that LID out of that port.
        """
        ring = self.ring
        if ring.for_all is not None:
            return ring.for_all
        expected = ring.expected_behind(link_end(near))
        if expected is None:
            return ring.fallback
        guid, key = expected
        if ring.trust_topology:
            return key
        if not _is_active(near):
            self._doubts[near] = f"the link is {_state_name(near)}: it was plugged again, or no SM has brought it up"
            return None
        lid = ring.lids.get(guid)
        if lid and near.node.is_switch:
            try:
                out = (yield from self._table(near.node, lid // 64))[lid % 64]
            except IbkeysError:
                self._doubts[near] = "the forwarding table could not be read"
                return None
            if out != near.num:
                way = f"out of port {out}" if out <= near.node.num_ports else "nowhere"
                self._doubts[near] = f"its LID {lid} is sent {way}"
                return None
        return key

    def ask_unproven(self) -> None:
        """Ask the far ends that could not be proven, after all that could.

        Meanwhile most of them were proven from their other side. Of parallel links a forwarding table names only one
        for each LID: the others are proven by what the SM sends over them, or by the way round through them
        (`ibkeys.fabric.linkproof`). What is left is asked without a key.
        """
        while self._unproven or self._unrouted:
            unproven, self._unproven = self._unproven, []
            if unproven:
                self.client.run([self._ask_if_routed(near) for near in unproven if near.peer is None])
                continue
            unrouted, self._unrouted = [near for near in self._unrouted if near.peer is None], []
            self.client.run([self._ask_if_round(near, key) for near, key in self._keys_if_alone(unrouted)])
        self.fabric.notes += describe_moves(self.fabric, self.ring)

    def _ask_if_routed(self, near: Port) -> Task:
        expected = self.ring.expected_behind(link_end(near))
        if expected is None or not _is_active(near) or not (yield from self._is_routed(near, expected[0])):
            self._unrouted.append(near)
        elif near.peer is None:
            yield from self._ask_far_end(near, expected[1])

    def _is_routed(self, near: Port, guid: int) -> Task:
        """Task: whether the SM sends over *near* what only the known far end leads to."""
        nodes = self._by_guid.get(guid, ())
        behind = self._attached.of_found(nodes[0]) if len(nodes) == 1 else self._attached.of_known(guid)
        return (yield from self._sends(near, behind))

    def _sends(self, port: Port, lids: set[int]) -> Task:
        """Task: whether the forwarding table of the switch sends any of *lids* out of *port*."""
        if not port.node.is_switch:
            return False
        for block, wanted in blocks_of(lids):
            try:
                table = yield from self._table(port.node, block)
            except IbkeysError:
                return False
            if any(table[lid % 64] == port.num for lid in wanted):
                return True
        return False

    def _table(self, switch: Node, block: int) -> Task:
        table = self._tables.get((switch, block))
        if table is None:
            table = yield self._get(LinearForwardingTable, block, switch.path, switch, switch.port(0).m_key)
            self._tables[switch, block] = table
        return table

    def _keys_if_alone(self, unrouted: list[Port]) -> list[tuple[Port, MKey]]:
        """Return each port with the key for its far end if the links that are left all join the same two nodes: however
        these were swapped, each still leads to the same node. With the zero key otherwise."""
        ends = [(near, self._expected_port(near)) for near in unrouted]
        pairs = {frozenset((near.node, far.node)) for near, far in ends if far is not None}
        alone = len(pairs) == 1 and not moved_links(self.fabric, self.ring)
        return [(near, self._key_behind(near) if alone and far is not None else NO_MKEY) for near, far in ends]

    def _key_behind(self, near: Port) -> MKey:
        expected = self.ring.expected_behind(link_end(near))
        return expected[1] if expected is not None and _is_active(near) else NO_MKEY

    def _ask_if_round(self, near: Port, key: MKey) -> Task:
        """Task: ask the far end of *near* with the key of the node that it turns out to be, or else with *key*."""
        far = self._expected_port(near)
        home = near.node
        way = way_round(near, far.node, self._open_switches(home)) if far is not None and home.is_switch else None
        if key.is_zero and way is not None and len(home.path) + 1 + len(way) <= MAX_HOPS:
            path = (*home.path, near.num, *way)
            request = self._get(NodeInfo, 0, path, ("round", path), home.port(0).m_key)
            with suppress(IbkeysError):
                yield request
            if request.reply is not None:
                # The second link of the way is known, so the port it came back by says who sent it there.
                back = home.ports.get(DirectedRouteSmp(request.reply).return_path_bytes[len(home.path) + 2])
                if back is not None and back.peer is not None and back.peer.num == way[0]:
                    key = back.peer.end_port.m_key
        yield from self._ask_far_end(near, key)

    def _open_switches(self, home: Node) -> list[Node]:
        """Return the switches but *home* that have an Active link of which nobody knows yet where it leads."""
        return [
            node
            for node in self.fabric.nodes
            if node.is_switch
            and node is not home
            and any(port.num and port.peer is None and _is_active(port) for port in node.ports.values())
        ]

    def _expected_port(self, near: Port) -> Port | None:
        """Return the port that the known links place behind *near*, if it was found, is Active and not linked yet."""
        far = self.ring.neighbors.get(link_end(near))
        if far is None or self.ring.neighbors.get(far) != link_end(near):
            return None
        for node in self._by_guid.get(far[0], ()):
            port = node.ports.get(far[1])
            if port is not None and port.peer is None and _is_active(port):
                return port
        return None

    def _unanswered(self, near: Port, path: tuple[int, ...], key: MKey, error: IbkeysError) -> None:
        if isinstance(error, LimitReached):
            self.fabric.troubles.append(Trouble.of(near, NodeInfo.name, error))
            return
        self.unanswered[path] = near
        text = f"nothing answers behind it (route {','.join(map(str, (0, *path)))}): {error}"
        expected = self.ring.expected_behind(link_end(near))
        if key.is_zero and expected:
            attempts = error.attempts if isinstance(error, NoReply) else 1
            doubt = self._doubts.get(near, "the link could not be proven")
            text += (
                f"; port GUID 0x{expected[0]:016x} was known there, but {doubt}, so what is there was asked with "
                f"{attempts} SMP{'s' if attempts != 1 else ''} without a key, each of which a protected port counts as "
                "an M_Key violation; --trust-topology sends the key"
            )
        self.fabric.troubles.append(Trouble.of(near, NodeInfo.name, error, text))

    def _arrive(self, info: bytes, path: tuple[int, ...], near: Port | None, key: MKey) -> None:
        """A NodeInfo came in through *near*: join the link, and start reading what is new."""
        arrival = NodeInfo(info)
        num = arrival.local_port_num
        node = self._known_node(info, num, near)
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
            port.m_key = self._key_after_answer(port, near, key)
            if not is_new:
                self.client.start(self._read_port(node, port))
        if is_new:
            if node.is_switch:
                own = node.port(0)
                own.guid = arrival.port_guid
                own.m_key = self._key_after_answer(own, near, key)
            self.client.start(self._read_node(node, num))

    def _name(self, port: Port, problems: Sequence[Problem]) -> None:
        """Name as errors what *port* cannot be."""
        self.fabric.troubles += (Trouble(port, text, field) for field, text in problems)

    def _leave_out(self, near: Port, limit: str) -> None:
        text = self.bounds.left_out("what is behind it was not read", limit)
        self.fabric.troubles.append(Trouble(near, text, NodeInfo.name, "not-asked"))

    def _key_after_answer(self, port: Port, near: Port | None, sent: MKey) -> MKey:
        """The key for a port that told its GUID. One that was proven with the question stays."""
        if sent.is_zero or sent == self.ring.fallback:
            return self.ring.key_of(port.guid, link_end(near) if near else None)
        return sent

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
        nums = iter(range(node.num_ports + 1))
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
            port.info = yield self._get(PortInfo, port.num, path, node, key)
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
        if self.wanted.guid_info and (count := port.info[50]):
            raw: Outcome = yield from _read_blocks(
                lambda block: self._get(GUIDInfo, block, path, node, port.m_key),
                -(-count // GUIDS_PER_BLOCK),
                PER_NODE,
            )
            if isinstance(raw, IbkeysError):
                self.fabric.troubles.append(Trouble.of(port, GUIDInfo.name, raw))
            else:
                port.guid_info = raw[: 8 * count]
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

    def _get(
        self, attribute: type[Attribute], modifier: int, path: tuple[int, ...], node: Hashable, key: MKey
    ) -> Request:
        return self.client.get_along(path, attribute, modifier, node, key)


def _state_name(port: Port) -> str:
    state = port.info[32] & 0x0F if port.info is not None else 0
    return PORT_STATE_NAMES[PortState(state)] if state in set(PortState) else f"in state {state}"


def _is_active(port: Port) -> bool:
    return port.info is not None and port.info[32] & 0x0F == PortState.ACTIVE


def _same_node(a: bytes, b: bytes) -> bool:
    """Compare two NodeInfo without PortGUID and LocalPortNum, which on a CA or router differ from port to port."""
    if a[2] == NodeType.SWITCH:
        return a[:36] == b[:36] and a[37:] == b[37:]
    return a[:20] == b[:20] and a[28:36] == b[28:36] and a[37:40] == b[37:40]
