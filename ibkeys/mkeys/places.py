"""Ports that are not at their known place: finding those that moved, were replaced or vanished, and storing the result.

A key is sent only to the known place of its port (`ibkeys.discovery.links.proof`), so the user has to confirm that a
port was moved on purpose. `survey` finds such ports without an SMP to a protected port, and `settle` stores their new
places. No key is deleted: the key store keeps the keys of a vanished port, and later runs no longer wait for the port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.wanted import LINKS
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mkeys.rollout.absent_ports import absent_ports
from ibkeys.topology.model import Topology, UnqueriedPlace
from ibkeys.topology.nodes import LinkEnd, Port


@dataclass(frozen=True, slots=True)
class MovedPort:
    """A port with a key at a new place. ``end``: its GUID and port number; ``was``: the near end of its link by the key
    store, None if not known (a switch has many links); ``near``: the near end of its link now. ``is_named``: whether
    the SA or a forwarding table names the port there; otherwise the port itself answered there without a key.
    """

    end: LinkEnd
    was: LinkEnd | None
    near: Port
    is_named: bool


@dataclass(frozen=True, slots=True)
class ReplacedPort:
    """A place where another port is than the known one. ``near``: the near end of the link; ``known``: the far end by
    the key store; ``now``: the far end now."""

    near: Port
    known: LinkEnd
    now: LinkEnd


@dataclass(slots=True)
class KeySurvey:
    """The result of a survey. ``found``: the fabric as the sweep read it; ``vanished``: GUIDs of ports with a key that
    were not found; ``claimed``: GUIDs that were found at two places, neither of which is stored; ``unidentified``:
    places where it is not known which port is there.
    """

    found: Topology
    moved: list[MovedPort] = field(default_factory=list)
    replaced: list[ReplacedPort] = field(default_factory=list)
    vanished: list[int] = field(default_factory=list)
    claimed: list[int] = field(default_factory=list)
    unidentified: list[UnqueriedPlace] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.moved or self.replaced or self.vanished)

    def nears(self) -> list[Port]:
        """Return the near ends of the links to moved and replaced ports."""
        return [each.near for each in self.moved] + [each.near for each in self.replaced]


def survey(writer: ChangeWriter) -> KeySurvey:
    """Sweep the fabric, and return the ports that are not at their known place. Raises the errors of `Fabric.sweep`,
    and StoreError. Ports that vanished are listed only if no switch has moved: the ports behind such a switch are not
    known yet.
    """
    ring = writer.fabric.ring
    found = writer.fabric.sweep(wanted=LINKS)
    places = KeySurvey(found, unidentified=[each for each in found.unasked if each.named is None])
    with_class_key = list(_find_with_class_key(found, ring))
    candidates = [*_find_named(found, ring), *_find_answered(found, ring), *with_class_key]
    times = Counter(each.end[0] for each in candidates)
    elsewhere = {each.near for each in with_class_key}
    here = {port.guid for port in found.end_ports() if port not in found.doubtful and port.peer not in elsewhere}
    places.claimed = sorted(guid for guid, count in times.items() if count > 1 or guid in here - found.missing)
    places.moved = [each for each in candidates if each.end[0] not in places.claimed]
    places.replaced = _find_replaced(found, ring)
    if not any(_is_switch(ring, each.end[0]) for each in places.moved):
        settled = {each.end[0] for each in places.moved} | set(places.claimed) | ring.settled
        absent = {port.port_guid for port in absent_ports(writer.keystore, found)}
        places.vanished = sorted((found.missing | absent) - settled)
    return places


def settle(writer: ChangeWriter, places: KeySurvey) -> None:
    """Store the result of `survey` in the key store: the new places, and the vanished ports, which runs no longer wait
    for. Raises StoreError. Either all or nothing is on disk afterwards.
    """
    store = writer.keystore
    links = [(*each.near.link_end, *each.end) for each in places.moved]
    links += [(*each.near.link_end, *each.now) for each in places.replaced]
    counters = {near.link_end: near.link_downed for near in places.nears() if near.link_downed is not None}
    with store.in_one_transaction():
        store.put_links(links, link_downed=counters)
        store.unsettle(each.end[0] for each in places.moved)
        store.settle(places.vanished)


def _find_named(found: Topology, ring: KeyRing) -> list[MovedPort]:
    """Return the protected ports that the SA or a forwarding table names at another place than the known one."""
    moved = []
    for place in found.unasked:
        if place.named is not None:
            guid, num = place.named
            end = (guid, num or next((port for owner, port in ring.neighbors if owner == guid), 1))
            moved.append(MovedPort(end, ring.place_of(guid), place.near, is_named=True))
    return moved


def _find_answered(found: Topology, ring: KeyRing) -> list[MovedPort]:
    """Return the ports that answered without their key at another place than the known one."""
    return [
        MovedPort(port.link_end, ring.place_of(port.guid), port.peer, is_named=False)
        for port in found.doubtful
        if port.peer is not None and port.guid in ring.by_guid and port.m_key == ring.for_unknown_port
    ]


def _find_with_class_key(found: Topology, ring: KeyRing) -> Iterator[MovedPort]:
    """Yield the ports of CAs and routers that have a key of another management class and no M_Key, and were found at
    another place than the known one. The sweep itself checks the place only of ports with an M_Key."""
    for port in found.end_ports():
        if port.peer is None or not ring.has_class_key(port.guid) or not ring.by_guid.get(port.guid, NO_MKEY).is_zero:
            continue
        was = ring.place_of(port.guid)
        if was is not None and was != port.peer.link_end:
            yield MovedPort(port.link_end, was, port.peer, is_named=False)


def _find_replaced(found: Topology, ring: KeyRing) -> list[ReplacedPort]:
    """Return the known places of missing ports with a key where another port, for which no key is known, answered."""
    replaced = []
    for port in found.ports():
        known, peer = ring.expected_behind(port.link_end), port.peer
        if known is None or peer is None or peer.end_port in found.doubtful or known[0] not in found.missing:
            continue
        now = peer.link_end
        if now[0] != known[0] and now[0] not in ring.by_guid:
            replaced.append(ReplacedPort(port, known, now))
    return replaced


def _is_switch(ring: KeyRing, guid: int) -> bool:
    return len({port for owner, port in ring.neighbors if owner == guid}) > 1
