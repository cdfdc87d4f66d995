"""The changes at a port over many snapshots: keys, memberships, level, enforcement, place, name, and presence.

Each value is compared with the last snapshot in which it was read, so that a change is not lost where a port did not
answer in between; the event then has the two snapshots between which it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ibkeys.fabric.compare import (
    Difference,
    DifferenceKind,
    key_numbers,
    m_key_changes,
    setting_changes,
    table_changes,
)
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.keys.pkey import PARTITION_MASK
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.matching import MatchKey, blind_ports, match_key, unseen_in
from ibkeys.topology.moves import name_of
from ibkeys.topology.nodes import Node, Port
from ibkeys.topology.port_id import PortId

EventKind = DifferenceKind | Literal["appeared", "disappeared", "cable-moved", "renamed"]
Aspect = Literal["M_Key", "NodeInfo", "PortInfo", "P_KeyTable", "place", "name"]
_ASPECTS: Final[tuple[Aspect, ...]] = ("M_Key", "PortInfo", "P_KeyTable")
_OF_A_PARTITION: Final[tuple[Aspect, ...]] = ("P_KeyTable",)


@dataclass(frozen=True, slots=True)
class PortEvent:
    """One change of one port, after the snapshot of ``since`` and not later than that of ``taken`` (both UTC).

    ``kind``, ``before``, ``after``, ``index``, ``pkey`` and ``field`` are those of `Difference`; a port that appeared
    or disappeared has only a kind. With the kind ``cable-moved``, ``before`` and ``after`` are switch ports in words;
    with ``renamed``, they are NodeDescriptions of an end port's node.
    """

    port: PortId
    since: str
    taken: str
    kind: EventKind
    before: Any = None
    after: Any = None
    index: int | None = None
    pkey: str | None = None
    field: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the event as the JSON document has it."""
        names = ("since", "taken", "kind", "before", "after", "index", "pkey", "field")
        return {**self.port.to_json(), **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class _Known:
    """The port and the snapshot from which a value was last read."""

    snapshot: Snapshot
    port: Port


class PortHistory:
    """The events of the ports for which *wanted* returns true. Add the snapshots in order of time.

    *partition*: only changes that concern P_Keys of this partition; None: all. ``found_any``: whether some snapshot had
    such a port, with a P_Key of *partition* if that is given. ``unread``: each port with an attribute that could not be
    read in the snapshot added last; for a partition also, with NodeInfo, each port behind which a node may be that no
    snapshot has, because it may be a member. ``keys_comparable``: false once two M_Keys that are set could not be
    compared, because their fingerprints are of different secrets.
    """

    def __init__(self, wanted: Callable[[Port], bool], partition: int | None = None) -> None:
        self.wanted = wanted
        self.partition = partition
        self.unread: list[tuple[PortId, Aspect]] = []
        self.keys_comparable = True
        self.found_any = False
        self._known: dict[tuple[MatchKey, Aspect], _Known] = {}
        self._there: dict[MatchKey, _Known] = {}
        self._doubled: set[int] = set()
        self._last: Snapshot | None = None

    def add(self, snapshot: Snapshot) -> Iterator[PortEvent]:
        """Add the next snapshot, and yield its changes; consume all of them before adding another."""
        self.unread = []
        self._doubled |= {node.guid for node in snapshot.fabric.nodes if node.twin}
        ports = {match_key(port): port for port in snapshot.fabric.ports() if self.wanted(port)}
        self.found_any = self.found_any or any(self._concerns(port) for port in ports.values())
        yield from self._gone(snapshot, ports)
        before = self._last
        unseen = unseen_in(before.fabric, snapshot.fabric) if before is not None else set()
        for key, port in ports.items():
            if before is not None and key not in self._there and port.node not in unseen and self._concerns(port):
                yield PortEvent(port.id, before.about.finished, snapshot.about.finished, "appeared")
            if self.partition is None:
                yield from self._moved(key, _Known(snapshot, port))
            yield from self._changes(key, _Known(snapshot, port))
            self._there[key] = _Known(snapshot, port)
        if self.partition is not None:
            peers = (known.port.peer for known in self._there.values())
            blind = blind_ports(snapshot.fabric) - {match_key(peer) for peer in peers if peer is not None}
            self.unread += [(port.id, "NodeInfo") for key, port in ports.items() if key in blind]
        self._last = snapshot

    def _moved(self, key: MatchKey, new: _Known) -> Iterator[PortEvent]:
        """Yield an event if an end port is at another switch port, or if its node has another name.

        Nodes with one GUID cannot be distinguished, so nothing is yielded for them.
        """
        leaf = leaf_of(new.port)
        guids = {port.node.guid for port in (new.port, leaf) if port is not None}
        if not new.port.is_end_port or guids & self._doubled:
            return
        for aspect, kind, value_of in _WHERE_AND_WHO:
            value = value_of(new.port)
            if value is None:
                continue
            old = self._known.get((key, aspect))
            self._known[key, aspect] = new
            before = value_of(old.port) if old is not None else None
            if old is not None and before is not None and before[0] != value[0]:
                since, taken = old.snapshot.about.finished, new.snapshot.about.finished
                yield PortEvent(new.port.id, since, taken, kind, before[1], value[1])

    def _gone(self, snapshot: Snapshot, ports: Mapping[MatchKey, Port]) -> Iterator[PortEvent]:
        """Yield the ports that disappeared; those that may only have been unreadable are added to ``unread``."""
        unseen: dict[int, set[Node]] = {}  # by the snapshot that had the port last
        for key, known in list(self._there.items()):
            if key in ports:
                continue
            fabric = known.snapshot.fabric
            if id(fabric) not in unseen:
                unseen[id(fabric)] = unseen_in(snapshot.fabric, fabric)
            if known.port.node in unseen[id(fabric)]:
                self.unread.append((known.port.id, "PortInfo"))
                continue
            del self._there[key]
            if self._concerns(known.port):
                yield PortEvent(known.port.id, known.snapshot.about.finished, snapshot.about.finished, "disappeared")

    def _concerns(self, port: Port) -> bool:
        return self.partition is None or any(key.partition == self.partition for _, key in port.occupied or ())

    def _changes(self, key: MatchKey, new: _Known) -> Iterator[PortEvent]:
        for aspect in _ASPECTS if self.partition is None else _OF_A_PARTITION:
            if not _was_read(aspect, new.port):
                # An M_Key needs no entry if PortInfo has one, or if the port hides the key.
                if aspect != "M_Key" or _lacks_only_key(new.port):
                    self.unread.append((new.port.id, aspect))
                continue
            old = self._known.get((key, aspect))
            self._known[key, aspect] = new
            if old is not None:
                for each in self._differences(aspect, old, new):
                    yield _event(each, old, new)

    def _differences(self, aspect: Aspect, old: _Known, new: _Known) -> Iterator[Difference]:
        if aspect == "PortInfo":
            yield from setting_changes(old.port, new.port)
        elif aspect == "P_KeyTable":
            before, after = old.port.occupied or [], new.port.occupied or []
            for each in table_changes(new.port, before, after) if before != after else ():
                if self.partition in (None, _partition_of(each)):
                    yield each
        elif new.port.is_end_port:
            numbers = key_numbers(old.snapshot, new.snapshot)
            if numbers is None and old.port.m_key_state == new.port.m_key_state == "set":
                self.keys_comparable = False
            yield from m_key_changes(old.port, new.port, numbers)


def _place(port: Port) -> tuple[MatchKey, str] | None:
    """Return the switch port that faces an end port, as its key and in words; None if there is none."""
    leaf = leaf_of(port)
    return (match_key(leaf), str(leaf)) if leaf is not None else None


def _name(port: Port) -> tuple[str, str] | None:
    name = name_of(port.node)
    return (name, name) if name is not None else None


_WHERE_AND_WHO: Final[tuple[tuple[Aspect, EventKind, Callable[[Port], tuple[MatchKey | str, str] | None]], ...]] = (
    ("place", "cable-moved", _place),
    ("name", "renamed", _name),
)


def _was_read(aspect: Aspect, port: Port) -> bool:
    if aspect == "P_KeyTable":
        return port.p_key_raw is not None
    return port.info is not None and (aspect == "PortInfo" or port.m_key_state in ("zero", "set"))


def _lacks_only_key(port: Port) -> bool:
    """Return whether PortInfo of an end port was read without its M_Key, as some files have it."""
    return port.is_end_port and port.info is not None and port.m_key_state == "unreadable"


def _partition_of(change: Difference) -> int:
    text: str = change.pkey or change.after or change.before
    return int(text, 16) & PARTITION_MASK


def _event(change: Difference, old: _Known, new: _Known) -> PortEvent:
    """Return the event without the port itself, which would keep its whole fabric in memory."""
    since, taken = old.snapshot.about.finished, new.snapshot.about.finished
    what = (change.kind, change.before, change.after, change.index, change.pkey, change.field)
    return PortEvent(change.port.id, since, taken, *what)
