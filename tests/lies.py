"""Nodes that lie about who they are, for tests: a NodeInfo with GUIDs of somebody else, wherever it is told.

The lie is one of the wire: what the simulator itself knows of the node stays true, and the SM that asked the node
believes the lie, so the SA repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ibkeys.discovery.keyring import KeyRing
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from tests.protectedsim import link_end

SYSTEM_IMAGE, NODE, PORT = slice(4, 12), slice(12, 20), slice(20, 28)
KINDS = {"port": (PORT,), "node": (NODE,), "both": (PORT, NODE), "system-image": (SYSTEM_IMAGE,)}


@dataclass(frozen=True)
class Lie:
    """Who says that it is whom. ``kind``: a word of `KINDS`; ``on_known_link``: the known links name the liar's place,
    and it has a key of its own; else it is a stranger. ``online``: the victim answers."""

    kind: str
    liar: str
    victim: str
    on_known_link: bool
    online: bool

    def __str__(self) -> str:
        place = "known" if self.on_known_link else "new"
        return f"{self.kind}-{self.liar}-as-{self.victim}-{place}-{'online' if self.online else 'offline'}"


LIES = [
    Lie(kind, liar, victim, known, online)
    for kind in KINDS
    for liar in ("host", "switch")
    for victim in ("host", "switch")
    for known in (True, False)
    for online in (True, False)
]


def tell(lie: Lie, net: Subnet, liar: SimPort, victim: SimPort, ring: KeyRing, patch: pytest.MonkeyPatch) -> None:
    """Let *liar* say from now on that it is *victim*, and make its place what *lie* says."""
    truth: Callable[[SimNode, int], bytes] = SimNode.node_info
    stolen = truth(victim.node, victim.number)

    def node_info(node: SimNode, ingress: int) -> bytes:
        told = bytearray(truth(node, ingress))
        if node is liar.node:
            for field in KINDS[lie.kind]:
                told[field] = stolen[field]
        return bytes(told)

    patch.setattr(SimNode, "node_info", node_info)
    if not lie.on_known_link:
        forget(ring, liar)
    if not lie.online:
        net.silence(victim.node)
        net.events.clear()


def forget(ring: KeyRing, port: SimPort) -> None:
    """Let *port* be a stranger: it has no key, and no link of it is known."""
    for each in port.node.end_ports:
        each.m_key = each.protect_bits = 0
        ring.by_guid.pop(each.guid, None)
        ring.lids.pop(each.guid, None)
    ends = {link_end(each) for each in port.node.all_ports}
    ring.neighbors = {near: far for near, far in ring.neighbors.items() if not {near, far} & ends}
    ring.link_downed = {near: count for near, count in ring.link_downed.items() if near in ring.neighbors}


def key_of(ring: KeyRing, port: SimPort) -> bytes:
    """The key that *ring* has for *port*, as it stands in a MAD."""
    return ring.by_guid.get(port.guid, NO_MKEY).reveal().to_bytes(8)
