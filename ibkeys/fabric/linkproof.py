"""Is a link still the one that is known? Asked of the switch before it and of the SM, never of the far end itself.

A key goes over a known link only, and a port that is protected is never asked without its key. So before the first
question to a far end this module finds out who is there:

1. The near port must be Active: a cable that was plugged again falls to Down or Initialize, and an SM looks at the link
   before it makes it Active.
2. The SA of the master SM says in a LinkRecord, asked for after the port was seen Active, which two ports the link
   joins. Its word decides, either way.
3. Where no SA speaks, LinkDownedCounter of the near port must be what it was when the link was proven (0 where none was
   kept), and the forwarding table of the near switch must not send the expected LID out of another port. 255 is where
   the counter stops, so it proves nothing.

The counter has 8 bits, needs no M_Key, and anybody can clear it; a switch that was switched off begins at 0 again, but
then the link to that switch itself fell, and nothing behind it is taken as proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.fabric.client import Outcome, SmpClient, Task
from ibkeys.fabric.gmp import GmpPath, gmp_path
from ibkeys.fabric.keyring import KeyRing
from ibkeys.fabric.model import Fabric, LinkEnd, Node, Port
from ibkeys.fabric.performance import build_port_counters_get
from ibkeys.mad.attributes import LinearForwardingTable
from ibkeys.mad.const import Method, MgmtClass, NodeType
from ibkeys.mad.performance import DATA_OFFSET, PortCounters
from ibkeys.mad.records import LinkRecord, NodeRecord, SaRecord, query_of
from ibkeys.mad.sa import SA_CLASS_VERSION, SA_HEADER_SIZE, build_sa

MOST_TOLD: Final = 20
"""More moved links than this are only counted: then the known topology is that of another day."""
COUNTER_FULL: Final = 255
_LIDS_PER_BLOCK: Final = 64


@dataclass(frozen=True, slots=True)
class Proof:
    """What speaks for a link. ``is_known``: its far end is the expected one. ``found``: the end that the SA or the
    forwarding table names behind it, None where neither does. ``reason``: why it is not known, in words. ``lid``: the
    LID under which the SA names that end, 0 where it does not."""

    is_known: bool
    found: LinkEnd | None = None
    reason: str = ""
    lid: int = 0


class LinkProver:
    """Proves links from their near side, on behalf of one sweep.

    ``by_sa``, ``by_counter``: links that each of the two proved.
    """

    def __init__(self, client: SmpClient, ring: KeyRing) -> None:
        self._client = client
        self._ring = ring
        self._path: GmpPath | None = None
        self._sa_lid = 0
        self._sa_answers = False
        self._ends: dict[int, LinkEnd | None] = {}
        self._tables: dict[tuple[Node, int], bytes] = {}
        self.by_sa = self.by_counter = 0

    def start(self, own: Port) -> None:
        """Find out whether GMPs can be sent: only over an Active own port that has an entry of the default partition.

        Without them neither the SA nor a counter can be asked.
        """
        if not own.is_active and not own.node.is_switch:
            return
        umad = self._client.port
        try:
            local = umad.attributes()
            path = gmp_path(local)
            umad.register(MgmtClass.PERF_MGMT)
            umad.register(MgmtClass.SUBN_ADM, SA_CLASS_VERSION)
        except IbkeysError:
            return  # a port that may send no GMPs: then nothing is proven by them
        self._path = path
        self._sa_lid = local.sm_lid

    # --- proving -------------------------------------------------------------------------------------------------

    def prove(self, near: Port, far: LinkEnd) -> Task:
        """Task: return the `Proof` that the link of *near* still leads to *far*. Nothing is sent to the far end."""
        if self._ring.trust_topology:
            return Proof(True, far)
        if not near.is_active:
            reason = f"the link is {near.state_name}: it was plugged again, or no SM has brought it up"
            return Proof(False, None, reason)
        counter = yield from self.read_counter(near)
        named, lid = yield from self.far_end_by_sa(near)
        if named is not None:
            self.by_sa += 1
            if named[0] == far[0]:
                return Proof(True, named, lid=lid)
            return Proof(False, named, f"the SA names port {_end_text(named)} there", lid)
        doubt = self._doubt_of_counter(near, counter)
        if not doubt:
            doubt = yield from self._doubt_of_table(near, far)
        self.by_counter += not doubt
        return Proof(not doubt, far if not doubt else None, doubt)

    def _doubt_of_counter(self, near: Port, counter: int | None) -> str:
        if counter is None:
            return "no SA says who is there, and LinkDownedCounter of the port before it could not be read"
        before = self._ring.link_downed.get(near.link_end, 0)
        if counter == COUNTER_FULL:
            return "no SA says who is there, and LinkDownedCounter of the port before it is full"
        if counter != before:
            return f"no SA says who is there, and LinkDownedCounter of the port before it is {counter}, not {before}"
        return ""

    def _doubt_of_table(self, near: Port, far: LinkEnd) -> Task:
        """Task: return why the forwarding table of the near switch speaks against *far*; "" where it does not.

        Of parallel links it names one for each LID, so a port that is known to lead to the same node is as good.
        """
        lid = self._ring.lids.get(far[0])
        if not lid or not near.node.is_switch or far[0] == near.node.guid:
            return ""  # of a cable between two of its own ports its table says nothing
        try:
            out = (yield from self._block(near.node, lid // _LIDS_PER_BLOCK))[lid % _LIDS_PER_BLOCK]
        except IbkeysError:
            return "the forwarding table of the switch before it could not be read"
        other = self._ring.expected_behind((near.node.guid, out))
        if out == near.num or (other is not None and other[0] == far[0]):
            return ""
        return f"its LID {lid} is sent {f'out of port {out}' if out <= near.node.num_ports else 'nowhere'}"

    # --- identifying ---------------------------------------------------------------------------------------------

    def identify(self, near: Port) -> Task:
        """Task: return a `Proof` whose ``found`` names who is behind *near*: the SA, else the forwarding table where it
        sends a single node's LIDs out of that port. Nothing is sent to the far end. ``is_known`` is False."""
        if not near.is_active:
            reason = f"the link is {near.state_name}: neither the SA nor a forwarding table can say who is there"
            return Proof(False, None, reason)
        named, lid = yield from self.far_end_by_sa(near)
        if named is not None:
            return Proof(False, named, "named by the SA", lid)
        guid = yield from self._only_node_behind(near)
        if guid is not None:
            return Proof(False, (guid, 0), "named by the forwarding table of the switch before it")
        return Proof(False, None, "neither the SA nor the forwarding table of the switch before it says who is there")

    def _only_node_behind(self, near: Port) -> Task:
        """Task: return the GUID of the only known port whose LIDs leave by *near*; None where there is no such port.

        The whole table is read: one LID that nobody knows may be that of a switch, and all others lie behind it.
        """
        info = near.node.switch_info
        if info is None:
            return None
        owners = {lid: guid for guid, lid in self._ring.lids.items()}
        behind: set[int | None] = set()
        for block in range(info.linear_fdb_top // _LIDS_PER_BLOCK + 1):
            try:
                table = yield from self._block(near.node, block)
            except IbkeysError:
                return None
            behind |= {owners.get(_LIDS_PER_BLOCK * block + at) for at, out in enumerate(table) if out == near.num}
        return behind.pop() if len(behind) == 1 else None

    def _block(self, switch: Node, block: int) -> Task:
        table = self._tables.get((switch, block))
        if table is None:
            key = switch.port(0).m_key
            table = yield self._client.get_along(switch.path, LinearForwardingTable, block, switch, key)
            self._tables[switch, block] = table
        return table

    # --- GMPs ----------------------------------------------------------------------------------------------------

    def read_counter(self, near: Port, insists: bool = False) -> Task:
        """Task: read LinkDownedCounter of *near* into it, and return it; None where it cannot be read. *insists*: ask
        also where the agent of that node was silent before."""
        near.link_downed = None
        lid = near.lid
        if self._path is None or not lid:
            return None
        timing, mad = self._client.timing, build_port_counters_get(near.num)
        try:
            answer: bytes = yield self._path.request(
                mad, lid, timing.timeout, timing.retries, object() if insists else ("PMA", lid)
            )
        except IbkeysError:
            return None
        counters = PortCounters(answer[DATA_OFFSET : DATA_OFFSET + PortCounters.size])
        if counters.port_select == near.num:
            near.link_downed = counters.link_downed_counter
        return near.link_downed

    def far_end_by_sa(self, near: Port) -> Task:
        """Task: return the end that the SA names at the far side of *near*, and its LID; (None, 0) for none."""
        lid = near.lid
        if not lid:
            return None, 0
        record = yield from self._get_record(LinkRecord, from_lid=lid, from_port=near.num)
        if record is None:
            return None, 0
        if record.to_lid not in self._ends:
            self._ends[record.to_lid] = yield from self._port_with(record.to_lid)
        end = self._ends[record.to_lid]
        return (None, 0) if end is None else ((end[0], record.to_port), record.to_lid)

    def _port_with(self, lid: int) -> Task:
        record = yield from self._get_record(NodeRecord, lid=lid)
        if record is None:
            return None
        info = record.node_info
        return (info.node_guid if info.node_type == NodeType.SWITCH else info.port_guid, info.local_port_num)

    def _get_record(self, record: type[SaRecord], **components: int) -> Task:
        """Task: get one record with a single MAD; None when the SA has none, shows none, or does not answer."""
        if self._path is None or not self._sa_lid:
            return None
        mask, data = query_of(record, components)
        mad = build_sa(Method.GET, record.attribute_id, data=data, component_mask=mask)
        timing, lid = self._client.timing, self._sa_lid
        # A name for each port that is asked about: a sweep of a large subnet has more questions than one node may get.
        name = ("SA", record.attribute_id, *components.values())
        outcomes: list[Outcome] = yield [self._path.request(mad, lid, timing.timeout, timing.retries, name)]
        answer = outcomes[0]
        if isinstance(answer, NoReply) and not self._sa_answers:
            self._sa_lid = 0  # nobody there: the others need not wait for it
        self._sa_answers = self._sa_answers or isinstance(answer, bytes | MadStatusError)
        if isinstance(answer, IbkeysError) or len(answer) < SA_HEADER_SIZE + record.size:
            return None
        return record(answer[SA_HEADER_SIZE : SA_HEADER_SIZE + record.size])


def _end_text(end: LinkEnd) -> str:
    return f"GUID 0x{end[0]:016x}{f' port {end[1]}' if end[1] else ''}"


# --- what moved -------------------------------------------------------------------------------------------------------


def moved_links(found: Fabric, ring: KeyRing) -> Iterator[tuple[Port, LinkEnd]]:
    """Yield the ports whose link leads elsewhere than the known links say, and the end that was known there.

    A link is named once, by the switch at its end where there is one.
    """
    for port in found.ports():
        known = ring.neighbors.get(port.link_end)
        if known is None or port.peer is None or port.peer.link_end == known:
            continue
        if not port.node.is_switch and port.peer.node.is_switch:
            back = ring.neighbors.get(port.peer.link_end)
            if back is not None and back != port.link_end:
                continue
        yield port, known


def describe_moves(found: Fabric, ring: KeyRing) -> list[str]:
    """Return a line for each link that leads elsewhere than the known links say."""
    moved = list(moved_links(found, ring))
    lines = []
    for port, known in moved[:MOST_TOLD]:
        peer = port.peer
        assert peer is not None
        what = "switch" if peer.node.is_switch else "port"
        lines.append(
            f"{port} now leads to {peer} ({what} GUID 0x{peer.link_end[0]:016x}); known there was GUID "
            f"0x{known[0]:016x} port {known[1]}"
        )
    if len(moved) > MOST_TOLD:
        lines.append(f"and {len(moved) - MOST_TOLD} more links lead elsewhere than known")
    return lines
