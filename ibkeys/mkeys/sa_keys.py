"""M_Keys from the SA, for a host that has none of the subnet manager's files.

A trusted requester gets the M_Key of every port in PortInfoRecord. LinkRecord has the place of each port: that is the
proof of place that a key needs before it is sent. The proof is only as good as the SA's records. A node that made the
subnet manager believe a wrong GUID is in these records with that GUID, and got that GUID's M_Key from the subnet
manager already.

The SA may be a false one. So its records give no new place to a key from another source: a link of the SA counts only
if each of its ends has a key of the SA or no key, and no other source has a link there. A link of the SA gives no place
to a key of another management class (CC_Key, VS_Key, N2N key), because the SA has no such keys (`KeyRing.joins`). If
two records contradict each other, both are ignored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ibkeys.client.sa import SaClient
from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import NodeType
from ibkeys.mad.records import LinkRecord, NodeRecord, PortInfoRecord
from ibkeys.topology.nodes import LinkEnd

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class SaKeys:
    """The M_Keys and places in the SA's records, by port GUID (for a switch, that of its port 0).

    ``m_keys``: the M_Key of each port that has one; ``levels``: the M_KeyProtectBits of these ports; ``lids``: base
    LIDs; ``links``: one end of each link → the other end, in both directions; ``warnings``: lines for the user, without
    any key.
    """

    m_keys: dict[int, MKey] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    lids: dict[int, int] = field(default_factory=dict)
    links: dict[LinkEnd, LinkEnd] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add_to(self, ring: KeyRing) -> None:
        """Add these keys and links to *ring*. Keys and links from other sources stay and have priority; a 0 has none,
        because a port without a key accepts every key."""
        foreign = {
            guid
            for guid, key in ring.by_guid.items()
            if any(not each.is_zero and self.m_keys.get(guid) != each for each in (key, *ring.spares.get(guid, ())))
        }
        taken = {end for link in ring.neighbors.items() for end in link}
        links = {
            near: far for near, far in self.links.items() if not foreign & {near[0], far[0]} and not taken & {near, far}
        }
        ring.neighbors.update(links)
        ring.from_sa |= links.keys() | set(links.values())
        for guid, key in self.m_keys.items():
            if ring.by_guid.get(guid, NO_MKEY).is_zero:
                ring.by_guid[guid] = key
                ring.levels[guid] = self.levels[guid]
                ring.confirmed -= {guid}
        ring.lids = {**self.lids, **ring.lids}


def read_sa_keys(sa: SaClient) -> SaKeys:
    """Ask the SA for NodeRecord, PortInfoRecord and LinkRecord of all ports, and return the M_Keys and their places.

    OpenSM shows only ports that share a P_Key with the requester, and M_Keys only to a requester with its sa_key. It
    drops a request with a wrong sa_key: NoReply. Raises as `ibkeys.client.sa.SaClient.get_table`. No SMP is sent.
    """
    nodes = _ConsistentPairs(
        "LIDs for which it names two ports", ((each.lid, each.node_info) for each in sa.get_table(NodeRecord))
    )
    infos = _ConsistentPairs(
        "ports about which it contradicts itself", _end_ports(sa.get_table(PortInfoRecord), nodes.values)
    )
    links = _ConsistentPairs("link ends for which it names two links", _links(sa.get_table(LinkRecord), nodes.values))
    m_keys = {guid: MKey(info.m_key) for guid, info in infos.values.items() if info.m_key}
    return SaKeys(
        m_keys,
        {guid: infos.values[guid].m_key_protect_bits for guid in m_keys},
        {node.port_guid: lid for lid, node in nodes.values.items()},
        {near: far for near, far in links.values.items() if links.values.get(far) == near},
        [*_warn_without_keys(m_keys, sa), *(each.in_words() for each in (nodes, infos, links) if each.contradicted)],
    )


class _ConsistentPairs(Generic[K, V]):
    """Key-value pairs from the SA's records. ``values``: the pairs without a contradiction; ``contradicted``: the keys
    with two different values. *what*: the contradicted keys in words, after their number."""

    def __init__(self, what: str, pairs: Iterable[tuple[K, V]]) -> None:
        self.what = what
        self.values: dict[K, V] = {}
        self.contradicted: set[K] = set()
        for key, value in pairs:
            if self.values.setdefault(key, value) != value:
                self.contradicted.add(key)
        for key in self.contradicted:
            del self.values[key]

    def in_words(self) -> str:
        """Return the warning about contradictions."""
        return f"the SA contradicts itself, so this was not used: {len(self.contradicted)} {self.what}"


def _end_ports(records: Iterable[PortInfoRecord], nodes: Mapping[int, NodeInfo]) -> Iterator[tuple[int, PortInfo]]:
    """Yield the port GUID and PortInfo of each port that can have an M_Key of its own; for a switch, only port 0."""
    for record in records:
        node = nodes.get(record.endport_lid)
        if node is not None and record.port_num == (0 if _is_switch(node) else node.local_port_num):
            yield node.port_guid, record.port_info


def _links(records: Iterable[LinkRecord], nodes: Mapping[int, NodeInfo]) -> Iterator[tuple[LinkEnd, LinkEnd]]:
    """Yield both ends of each link between ports that are in the SA's records."""
    for record in records:
        near, far = nodes.get(record.from_lid), nodes.get(record.to_lid)
        if near is not None and far is not None:
            yield (_guid(near), record.from_port), (_guid(far), record.to_port)


def _guid(node: NodeInfo) -> int:
    """Return the GUID by which a link names the port of *node*: the node GUID of a switch, else the port GUID."""
    return node.node_guid if _is_switch(node) else node.port_guid


def _is_switch(node: NodeInfo) -> bool:
    return bool(node.node_type == NodeType.SWITCH)


def _warn_without_keys(m_keys: Mapping[int, MKey], sa: SaClient) -> Iterator[str]:
    """Yield a warning if the SA gave no M_Key at all."""
    if not m_keys:
        why = (
            "it hides them from a requester without its SM_Key"
            if sa.sm_key.is_zero
            else "no port has one, or it hides them"
        )
        yield f"the SA shows no M_Key: {why}"
