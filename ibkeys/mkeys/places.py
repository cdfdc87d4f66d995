"""Ports that are not at their known place: finding which moved, were replaced or vanished, and storing that.

A key is sent only to the known place of its port (`ibkeys.discovery.links.proof`), so the user has to confirm that a
port was moved on purpose. `survey` finds what can be known without asking a protected port, and `settle` stores it. No
key is deleted: a vanished port keeps its keys, and later runs no longer wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.keyring import KeyRing
from ibkeys.discovery.wanted import LINKS
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mkeys.rollout.absent import absent_ports
from ibkeys.topology.model import Topology, Unasked
from ibkeys.topology.nodes import LinkEnd, Port


@dataclass(frozen=True, slots=True)
class MovedPort:
    """A port with a key at a new place. ``end``: (GUID, port); ``was``: the end of the link before it that is known,
    None if none is (a switch has many); ``near``: the port before it now. ``is_named``: the SA or a forwarding table
    says so; else the port itself, which answered without a key.
    """

    end: LinkEnd
    was: LinkEnd | None
    near: Port
    is_named: bool


@dataclass(frozen=True, slots=True)
class Replaced:
    """A place where another port is than the known one. ``near``: the port before it; ``known``, ``now``: the ends."""

    near: Port
    known: LinkEnd
    now: LinkEnd


@dataclass(slots=True)
class KeySurvey:
    """What a survey found. ``vanished``: GUIDs of ports with a key that are nowhere; ``claimed``: GUIDs that two places
    have, which are not settled; ``unidentified``: places of which nothing says who is there; ``found``: the sweep."""

    found: Topology
    moved: list[MovedPort] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    vanished: list[int] = field(default_factory=list)
    claimed: list[int] = field(default_factory=list)
    unidentified: list[Unasked] = field(default_factory=list)

    @property
    def pending(self) -> bool:
        """Whether there is anything to keep."""
        return bool(self.moved or self.replaced or self.vanished)

    def nears(self) -> list[Port]:
        """Return the ports before what moved and what was replaced."""
        return [each.near for each in self.moved] + [each.near for each in self.replaced]


def survey(writer: ChangeWriter) -> KeySurvey:
    """Sweep the fabric and sort what is not where it is known. Raises what `Fabric.sweep` raises.

    A port that vanished is named only while no switch is among the moved: what is behind that switch is not known yet.
    """
    ring = writer.fabric.ring
    found = writer.fabric.sweep(wanted=LINKS)
    places = KeySurvey(found, unidentified=[each for each in found.unasked if each.named is None])
    with_class_key = list(_with_class_key(found, ring))
    candidates = [*_named(found, ring), *_answered(found, ring), *with_class_key]
    times = Counter(each.end[0] for each in candidates)
    elsewhere = {each.near for each in with_class_key}
    here = {port.guid for port in found.end_ports() if port not in found.doubtful and port.peer not in elsewhere}
    places.claimed = sorted(guid for guid, count in times.items() if count > 1 or guid in here - found.missing)
    places.moved = [each for each in candidates if each.end[0] not in places.claimed]
    places.replaced = _replaced(found, ring)
    if not any(_is_switch(ring, each.end[0]) for each in places.moved):
        settled = {each.end[0] for each in places.moved} | set(places.claimed) | ring.settled
        absent = {port.port_guid for port in absent_ports(writer.keystore, found)}
        places.vanished = sorted((found.missing | absent) - settled)
    return places


def settle(writer: ChangeWriter, places: KeySurvey) -> None:
    """Keep what `survey` found in the key store: the new places, and which ports are not waited for. Raises StoreError.

    All of it or nothing is on disk when this returns.
    """
    store = writer.keystore
    links = [(*each.near.link_end, *each.end) for each in places.moved]
    links += [(*each.near.link_end, *each.now) for each in places.replaced]
    counters = {near.link_end: near.link_downed for near in places.nears() if near.link_downed is not None}
    with store.in_one_transaction():
        store.put_links(links, link_downed=counters)
        store.unsettle(each.end[0] for each in places.moved)
        store.settle(places.vanished)


def _named(found: Topology, ring: KeyRing) -> list[MovedPort]:
    """Return the protected ports that the SA or a forwarding table names at a place where they are not known."""
    moved = []
    for place in found.unasked:
        if place.named is not None:
            guid, num = place.named
            end = (guid, num or next((port for owner, port in ring.neighbors if owner == guid), 1))
            moved.append(MovedPort(end, ring.place_of(guid), place.near, is_named=True))
    return moved


def _answered(found: Topology, ring: KeyRing) -> list[MovedPort]:
    """Return the ports that answered without their key at a place where they are not known."""
    return [
        MovedPort(port.link_end, ring.place_of(port.guid), port.peer, is_named=False)
        for port in found.doubtful
        if port.peer is not None and port.guid in ring.by_guid and port.m_key == ring.for_unknown_port
    ]


def _with_class_key(found: Topology, ring: KeyRing) -> Iterator[MovedPort]:
    """Yield the ports of CAs and routers that have the key of a class and no M_Key, and were found where they are not
    known: the sweep itself doubts only a GUID with an M_Key."""
    for port in found.end_ports():
        if port.peer is None or not ring.has_class_key(port.guid) or not ring.by_guid.get(port.guid, NO_MKEY).is_zero:
            continue
        was = ring.place_of(port.guid)
        if was is not None and was != port.peer.link_end:
            yield MovedPort(port.link_end, was, port.peer, is_named=False)


def _replaced(found: Topology, ring: KeyRing) -> list[Replaced]:
    """Return the places known for a port with a key where one without a key answered."""
    replaced = []
    for port in found.ports():
        known, peer = ring.expected_behind(port.link_end), port.peer
        if known is None or peer is None or peer.end_port in found.doubtful or known[0] not in found.missing:
            continue
        now = peer.link_end
        if now[0] != known[0] and now[0] not in ring.by_guid:
            replaced.append(Replaced(port, known, now))
    return replaced


def _is_switch(ring: KeyRing, guid: int) -> bool:
    return len({port for owner, port in ring.neighbors if owner == guid}) > 1
