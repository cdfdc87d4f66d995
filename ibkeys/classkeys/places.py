"""Checking that a port is at its known place before the key of a class is sent to it. The key goes out by LID, and only
the port that owns it may get it.

The rule is that of M_Keys: any node can claim any GUID, so a GUID alone is not enough. Unless the user trusts the
topology, the port must be behind the port where the known links place it, and that link must be proven
(`ibkeys.discovery.links.proof`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ibkeys.arguments import given
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.links.check import LinkCheck
from ibkeys.grouping import grouped
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import LinkEnd, Port


def _or_trust() -> str:
    return f"{given('--trust-topology')} sends the key anyway"


def doubtful_places(ports: Iterable[Port], found: Topology, ring: KeyRing, look: LinkCheck) -> dict[Port, str]:
    """Return those of *ports* that get no class key, each with the reason in words, and a remedy if there is one.

    *found*: the last sweep of this run. *ring*: the known links. *look*: checks links of that sweep again. The local
    port needs no known place, and no port does if the user trusts the topology. Raises TransportError.
    """
    wanted = list(ports)
    swept = _Swept(found, ring)
    doubtful = {port: why for port in wanted if (why := swept.doubt_of(port))}
    here = {port: each for port in wanted if port not in doubtful and (each := swept.find(port)) is not None}
    changed = look.at_links_to(here.values()) if not ring.trust_topology else {}
    doubtful |= {port: changed[each] for port, each in here.items() if each in changed}
    links = {
        port: link
        for port, each in here.items()
        if port not in doubtful and (link := swept.link_to_prove(each)) is not None
    }
    unproven = look.find_unproven(dict(links.values()))
    for port, (near, _) in links.items():
        if near in unproven:
            doubtful[port] = (
                f"it could not be verified that port GUID 0x{port.guid:016x} is behind {near}: {unproven[near]}; "
                f"{_or_trust()}"
            )
    return doubtful


class _Swept:
    """The result of one sweep, with the known links."""

    def __init__(self, found: Topology, ring: KeyRing) -> None:
        self._found = found
        self._ring = ring
        self._shared = {node.guid for node in found.nodes if node.twin}
        self._with_lid = Counter(each.lid for each in found.end_ports())
        self._by_guid = grouped(found.end_ports(), lambda port: port.guid)

    def find(self, port: Port) -> Port | None:
        """Return the port of the sweep with the GUID and the LID of *port*; None if there is none."""
        return next((each for each in self._by_guid.get(port.guid, ()) if each.lid == port.lid), None)

    def doubt_of(self, port: Port) -> str:
        """Return why *port* gets no key; "" if nothing in the sweep contradicts it."""
        here = self.find(port)
        if here is None:
            return f"the sweep found no port GUID 0x{port.guid:016x} at LID {port.lid}"
        if here in self._found.doubtful:
            return self._found.doubtful[here]
        if any(each.node is not here.node for each in self._by_guid[port.guid]):
            return f"another node also has port GUID 0x{port.guid:016x}"
        if here.lid and self._with_lid[here.lid] > 1:
            return f"another port also has LID {here.lid}, to which the key of port GUID 0x{port.guid:016x} would go"
        if self._needs_no_place(here):
            return ""
        near, far = _last_link(here)
        if near is None:
            return f"the place where GUID 0x{here.guid:016x} was found is not known; {_or_trust()}"
        return self._why_not_there(here, near.link_end, far) or self._doubt_of_near(near)

    def link_to_prove(self, here: Port) -> tuple[Port, LinkEnd] | None:
        """Return the link by which *here* was reached, near port and far end; None if it is not known or need not be
        proven."""
        near, far = _last_link(here)
        return None if near is None or self._needs_no_place(here) else (near, far)

    def _needs_no_place(self, here: Port) -> bool:
        """Return whether *here* is the local port, or the user trusts the GUID of every port."""
        return self._ring.trust_topology or here.agent_path == ()

    def _why_not_there(self, here: Port, near: LinkEnd, far: LinkEnd) -> str:
        guid = f"port GUID 0x{here.guid:016x}"
        if far[0] != here.guid:  # the known links name a switch by its node GUID, and a key by the port GUID
            return f"{guid} is reported by a switch with another node GUID, 0x{far[0]:016x}; {_or_trust()}"
        if self._ring.joins(near, far):
            return ""
        known = self._ring.neighbors.get(far)
        if known is None:
            why = f"{guid} has no known place, but was found behind {_in_words(near)}"
        elif known == near and far in self._ring.from_sa:
            why = f"only the SA reports {guid} behind {_in_words(near)}, and the SA gave no such key"
        else:
            why = f"{guid} is known behind {_in_words(known)}, but was found behind {_in_words(near)}"
            if not here.node.is_switch:
                why += " (`ibkeys keystore list --settle` records ports that moved)"
        return (
            f"{why}; if that is its place, put this link into the file neighbors in the directory of "
            f"{given('--security-keys')}, or use {given('--trust-topology')}"
        )

    def _doubt_of_near(self, near: Port) -> str:
        """Return why *near*, the port before, may be another port than in the known links; "" if nothing contradicts
        them.

        A node that claims the GUID of a switch could pass off its own ports as known places.
        """
        if near.end_port in self._found.doubtful:
            return f"the node GUID of {near}, before it, is not trusted: {self._found.doubtful[near.end_port]}"
        if near.node.guid in self._shared:
            return f"the node before it shares its node GUID 0x{near.node.guid:016x} with another one; {_or_trust()}"
        return ""


def _last_link(here: Port) -> tuple[Port | None, LinkEnd]:
    """Return the port before *here*, by which the sweep reached it, and the end of that link at its own node. Return
    None for the port before if there is none."""
    arrival = here.node.port(here.node.node_info.local_port_num) if here.node.is_switch else here
    return arrival.peer, arrival.link_end


def _in_words(end: LinkEnd) -> str:
    return f"GUID 0x{end[0]:016x} port {end[1]}"
