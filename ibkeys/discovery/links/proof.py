"""Proving that a link is still the known one. The node of its near port and the SM are queried, never the far end.

Unless the user chose otherwise (``trust_topology``, ``ask_unproven``), the key of a port is sent over a known link
only, and a protected port is never queried without its key. So before the first query of a far end this module
determines which port is there:

1. The near port must be Active: a cable that was plugged in again falls to Down or Initialize, and an SM examines the
link before it makes it Active.

2. The SA of the master SM has a LinkRecord, read after the port was found Active, with the two ports that the link
joins. If there is one, it decides.

3. If no SA answers, or the SA has no such record, LinkDownedCounter of the near port must have the value that was
recorded when the link was proven
(0 if none was recorded), and the forwarding table of the near switch must not send the expected LID out of another
port. 255 is the counter's highest value, at which it stops, so it proves nothing.

The counter has 8 bits, needs no M_Key, and anybody can clear it. A switch that was switched off begins at 0 again. But
then the link to that switch was down too, and nothing behind it is accepted as proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ibkeys.client.smp import SmpClient, Task
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.gmps import LinkGmps
from ibkeys.errors import IbkeysError
from ibkeys.mad.attributes import LinearForwardingTable
from ibkeys.topology.forwarding import LIDS_PER_BLOCK
from ibkeys.topology.nodes import LinkEnd, Node, Port

COUNTER_FULL: Final = 255


@dataclass(frozen=True, slots=True)
class LinkProof:
    """The evidence for a link.

    ``is_known``: its far end is the expected one. ``far_end``: its far end by the SA or the forwarding table; the
    expected one if it is accepted without them; None if nothing names it. ``reason``: why it is not known, or who names
    ``far_end``, in words. ``lid``: the LID that the SA has for ``far_end``, 0 if the SA did not name it.
    """

    is_known: bool
    far_end: LinkEnd | None = None
    reason: str = ""
    lid: int = 0


class LinkProver:
    """Proves links from their near side, on behalf of one sweep."""

    def __init__(self, client: SmpClient, ring: KeyRing, gmps: LinkGmps) -> None:
        self._client = client
        self._ring = ring
        self._gmps = gmps
        self._tables: dict[tuple[Node, int], bytes] = {}

    # --- proving -------------------------------------------------------------------------------------------------

    def prove(self, near: Port, far: LinkEnd) -> Task:
        """Task: return a `LinkProof`, which shows whether the link of *near* still leads to *far*. Nothing is sent to
        the far end."""
        if self._ring.trust_topology:
            return LinkProof(True, far)
        if not near.is_active:
            reason = f"the link is {near.state_name}: the cable was plugged in again, or no SM has brought the link up"
            return LinkProof(False, None, reason)
        counter = yield from self._gmps.read_counter(near)
        named, lid = yield from self._gmps.far_end_by_sa(near)
        if named is not None:
            if named[0] == far[0]:
                return LinkProof(True, named, lid=lid)
            return LinkProof(False, named, f"the SA names port {_end_text(named)} there", lid)
        doubt = self._doubt_of_counter(near, counter)
        if not doubt:
            doubt = yield from self._doubt_of_table(near, far)
        return LinkProof(not doubt, far if not doubt else None, doubt)

    def _doubt_of_counter(self, near: Port, counter: int | None) -> str:
        if counter is None:
            return "the SA does not say what is there, and LinkDownedCounter of the port before it could not be read"
        before = self._ring.link_downed.get(near.link_end, 0)
        if counter == COUNTER_FULL:
            return "the SA does not say what is there, and LinkDownedCounter of the port before it is at its maximum"
        if counter != before:
            return (
                f"the SA does not say what is there, and LinkDownedCounter of the port before it is {counter}, not "
                f"{before}"
            )
        return ""

    def _doubt_of_table(self, near: Port, far: LinkEnd) -> Task:
        """Task: return why the forwarding table of the near switch contradicts *far*; "" if it does not.

        If there are parallel links, the table names one of them for each LID. So another port that is known to lead to
        the same node is accepted. Nothing contradicts *far* if its LID is not known, or *near* is not at a switch.
        """
        lid = self._ring.lids.get(far[0])
        if not lid or not near.node.is_switch or far[0] == near.node.guid:
            return ""  # A cable between two ports of one switch is not in its table.
        try:
            egress = (yield from self._read_block(near.node, lid // LIDS_PER_BLOCK))[lid % LIDS_PER_BLOCK]
        except IbkeysError:
            return "the forwarding table of the switch before it could not be read"
        other = self._ring.expected_behind((near.node.guid, egress))
        if egress == near.num or (other is not None and other[0] == far[0]):
            return ""
        if egress > near.node.num_ports:
            return f"the switch has no route to its LID {lid}"
        return f"the switch routes its LID {lid} through port {egress}"

    # --- identifying ---------------------------------------------------------------------------------------------

    def identify(self, near: Port) -> Task:
        """Task: return a `LinkProof` whose ``far_end`` is the port behind *near*, None if nothing names it;
        ``is_known`` is always False.

        The SA names the port, else the forwarding table, if all LIDs that it sends out of *near* belong to one known
        port. Nothing is sent to the far end.
        """
        if not near.is_active:
            reason = f"the link is {near.state_name}: neither the SA nor a forwarding table can identify the far end"
            return LinkProof(False, None, reason)
        named, lid = yield from self._gmps.far_end_by_sa(near)
        if named is not None:
            return LinkProof(False, named, "named by the SA", lid)
        guid = yield from self._only_node_behind(near)
        if guid is not None:
            return LinkProof(False, (guid, 0), "named by the forwarding table of the switch before it")
        return LinkProof(
            False, None, "neither the SA nor the forwarding table of the switch before it identifies the far end"
        )

    def _only_node_behind(self, near: Port) -> Task:
        """Task: return the GUID of the known port that is alone behind *near* by the forwarding table; None if an
        unknown LID or several ports are there, or the table cannot be read.

        The whole table is read: an unknown LID may be that of a switch, with all other ports behind it.
        """
        info = near.node.switch_info
        if info is None:
            return None
        owners = {lid: guid for guid, lid in self._ring.lids.items()}
        behind_near: set[int | None] = set()
        for block in range(info.linear_fdb_top // LIDS_PER_BLOCK + 1):
            try:
                table = yield from self._read_block(near.node, block)
            except IbkeysError:
                return None
            lids = (LIDS_PER_BLOCK * block + at for at, egress in enumerate(table) if egress == near.num)
            behind_near |= {owners.get(lid) for lid in lids}
        return behind_near.pop() if len(behind_near) == 1 else None

    def _read_block(self, switch: Node, block: int) -> Task:
        table = self._tables.get((switch, block))
        if table is None:
            key = switch.port(0).m_key
            table = yield self._client.gets_to(switch.path, switch, key).ask(LinearForwardingTable, block)
            self._tables[switch, block] = table
        return table


def _end_text(end: LinkEnd) -> str:
    return f"GUID 0x{end[0]:016x}{f' port {end[1]}' if end[1] else ''}"
