"""The changes between two snapshots of a fabric: nodes, links, moves, and the keys of each port."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from ibkeys.arguments import require
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.keys.pkey import FULL_BIT, PARTITION_MASK, PKey
from ibkeys.mad.attributes import VIOLATION_COUNTERS, PortInfo
from ibkeys.mad.fields import NumberRow
from ibkeys.topology.enforcement import as_shown
from ibkeys.topology.matching import MatchKey, blind_ports, match_key, nodes_of, ports_of, unseen_in
from ibkeys.topology.model import Topology
from ibkeys.topology.moves import Moves, UnknownFact
from ibkeys.topology.nodes import Node, Port
from ibkeys.topology.recabling import what_moved

DifferenceKind = Literal[
    "pkey-added",
    "pkey-removed",
    "pkey-moved",
    "membership",
    "m_key",
    "m_key_protect_bits",
    "m_key_lease_period",
    "enforcement",
    "counter",
]
Coming = Literal["added", "removed"]
TableEntry = tuple[int, PKey]

_PROTECTION: Final = (PortInfo.m_key_protect_bits, PortInfo.m_key_lease_period)
_ENFORCEMENT: Final = (PortInfo.partition_enforcement_inbound, PortInfo.partition_enforcement_outbound)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference at one port, as the later snapshot has it.

    ``before`` and ``after`` depend on the kind. For P_Keys they are text, None if there was no P_Key. For
    ``pkey-moved`` they are the two indexes of ``pkey``. For ``m_key`` they are the states of the key, or ``set`` and
    ``another key``. For ``enforcement`` they are true or false. For all other kinds they are numbers. ``pkey``: the
    P_Key; for ``membership`` the P_Key after the change. ``index``: the place of the P_Key in the later table. For a
    removed P_Key, both are from the earlier table. ``field``: the field's JSON name, for ``enforcement`` and
    ``counter``.
    """

    port: Port
    kind: DifferenceKind
    before: Any
    after: Any
    index: int | None = None
    pkey: str | None = None
    field: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the difference as the JSON document has it; ``delta`` is the increase of a counter."""
        names = ("kind", "index", "pkey", "field", "before", "after")
        delta = self.after - self.before if self.kind == "counter" else None
        return {**self.port.identity(), **{name: getattr(self, name) for name in names}, "delta": delta}


@dataclass(slots=True)
class Comparison:
    """The changes between two snapshots. Added nodes and links are those of the later snapshot, removed ones of the
    earlier.

    ``moves``: cables, hosts and names; the nodes and links that they explain are among the added and removed ones.
    ``keys_comparable``: whether two M_Keys that are set can be compared (fingerprints of one secret, or real keys).
    ``keys_hidden``: end ports that hid their M_Key in one snapshot or both, so that a change of it cannot be detected.
    """

    nodes_added: list[Node] = field(default_factory=list)
    nodes_removed: list[Node] = field(default_factory=list)
    links_added: list[tuple[Port, Port]] = field(default_factory=list)
    links_removed: list[tuple[Port, Port]] = field(default_factory=list)
    moves: Moves = field(default_factory=Moves)
    changes: list[Difference] = field(default_factory=list)
    unknown: list[UnknownFact] = field(default_factory=list)
    keys_comparable: bool = True
    keys_hidden: list[Port] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether anything changed."""
        return self.is_recabled or bool(self.changes)

    @property
    def is_recabled(self) -> bool:
        """Whether nodes or links were added, removed or moved, or have another name."""
        cabling = (self.nodes_added, self.nodes_removed, self.links_added, self.links_removed, self.moves.moved)
        return any(cabling)

    def unexplained_nodes(self) -> Iterator[tuple[Coming, list[Node]]]:
        """Yield the added and the removed nodes, without those that a move explains."""
        yield "added", [node for node in self.nodes_added if node not in self.moves.nodes]
        yield "removed", [node for node in self.nodes_removed if node not in self.moves.nodes]

    def unexplained_links(self) -> Iterator[tuple[Coming, list[tuple[Port, Port]]]]:
        """Yield the added and the removed links, without those that a move explains."""
        yield "added", [ends for ends in self.links_added if not self.moves.explains(ends)]
        yield "removed", [ends for ends in self.links_removed if not self.moves.explains(ends)]

    def only(self, wanted: Collection[MatchKey]) -> Comparison:
        """Return only the changes of the ports *wanted*. A node, link or move is included if at least one of its ports
        is wanted.
        """

        def is_wanted(ports: Iterable[Port]) -> bool:
            return any(match_key(port) in wanted for port in ports)

        moved = [each for each in self.moves.moved if is_wanted(each.ports)]
        return Comparison(
            [node for node in self.nodes_added if is_wanted(node.ports.values())],
            [node for node in self.nodes_removed if is_wanted(node.ports.values())],
            [ends for ends in self.links_added if is_wanted(ends)],
            [ends for ends in self.links_removed if is_wanted(ends)],
            Moves(moved, [each for each in self.moves.unknown if is_wanted([each.port])]),
            [each for each in self.changes if is_wanted([each.port])],
            [each for each in self.unknown if is_wanted([each.port])],
            self.keys_comparable,
            [port for port in self.keys_hidden if is_wanted([port])],
        )


def compare(a: Snapshot, b: Snapshot) -> Comparison:
    """Return the changes from *a* to *b*. A value that could not be read in one of them is unknown, never a change.

    Raises UsageError if one is no snapshot.
    """
    for name, each in (("a", a), ("b", b)):
        require(name, each, Snapshot, "an ibkeys.Snapshot, the result of take_snapshot()")
    numbers = key_numbers(a, b)
    result = Comparison(keys_comparable=numbers is not None)
    before = nodes_of(a.fabric)
    result.nodes_added, result.links_added = _only_in(result, b.fabric, a.fabric, "first")
    result.nodes_removed, result.links_removed = _only_in(result, a.fabric, b.fabric, "second")
    result.moves = what_moved(a.fabric, b.fabric)
    result.unknown += result.moves.unknown
    for key, port in ports_of(b.fabric).items():
        old_node = before.get(key[:2])
        old = old_node.ports.get(key[2]) if old_node is not None else None
        if old is not None:
            _compare_ports(result, old, port, numbers)
    return result


def _only_in(
    result: Comparison, fabric: Topology, other: Topology, which: str
) -> tuple[list[Node], list[tuple[Port, Port]]]:
    """Return the nodes and links of *fabric* that *other*, the snapshot *which*, does not have and would have found.

    Nodes that *other* may have failed to reach are added to ``result.unknown``, and their links are left out. A link is
    added to it too if *other* could not read the far end of one of its ports and has no link at either of them.
    """
    theirs, links, unseen = nodes_of(other), _links(other), unseen_in(other, fabric)
    linked = {match_key(port) for port in other.ports() if port.peer is not None}
    nodes = []
    for key, node in nodes_of(fabric).items():
        if node in unseen:
            why = f"nothing answered there in the {which} snapshot: it did not answer, or is behind a node that did not"
            result.unknown.append(UnknownFact(node.first_end_port(), "the node", why))
        elif key not in theirs:
            nodes.append(node)
    blind, gone = blind_ports(other), []
    for link, ends in _links(fabric).items():
        if link in links or any(end.node in unseen for end in ends):
            continue
        if blind & link and not linked & link:
            why = f"the far end did not answer in the {which} snapshot"
            result.unknown.append(UnknownFact(ends[0], f"the link to {ends[1]}", why))
        else:
            gone.append(ends)
    return nodes, gone


def _links(fabric: Topology) -> dict[frozenset[MatchKey], tuple[Port, Port]]:
    return {
        frozenset((match_key(port), match_key(port.peer))): (port, port.peer)
        for port in fabric.ports()
        if port.peer is not None and match_key(port) <= match_key(port.peer)
    }


def _compare_ports(result: Comparison, old: Port, new: Port, numbers: Numbers | None) -> None:
    if old.info is None or new.info is None:
        result.unknown.append(
            UnknownFact(new, "PortInfo", "it was not read in " + _snapshot_without(old.info, new.info))
        )
    else:
        states = (old.m_key_state, new.m_key_state) if new.is_end_port else ()
        if "unreadable" in states:
            where = _snapshot_without(*(None if state == "unreadable" else state for state in states))
            result.unknown.append(UnknownFact(new, "M_Key", "it was not read in " + where))
        elif "hidden" in states:
            result.keys_hidden.append(new)
        result.changes += _port_info_changes(old, new, numbers)
    before, after = old.occupied, new.occupied
    if before is None or after is None:
        result.unknown.append(UnknownFact(new, "P_KeyTable", "it was not read in " + _snapshot_without(before, after)))
    elif before != after:
        result.changes += table_changes(new, before, after)


def _snapshot_without(before: object, after: object) -> str:
    if before is None and after is None:
        return "either snapshot"
    return "the first snapshot" if before is None else "the second snapshot"


def _port_info_changes(old: Port, new: Port, numbers: Numbers | None) -> Iterator[Difference]:
    if new.is_end_port:
        yield from m_key_changes(old, new, numbers)
    yield from setting_changes(old, new)
    yield from _row_changes(old, new, VIOLATION_COUNTERS, "counter")


def setting_changes(old: Port, new: Port) -> Iterator[Difference]:
    """Yield the changes of ProtectBits and lease of an end port, or of an external port's enforcement.

    PortInfo of both was read.
    """
    if new.is_end_port:
        yield from _row_changes(old, new, _PROTECTION)
    else:
        yield from _row_changes(old, new, _ENFORCEMENT, "enforcement")


def _row_changes(
    old: Port, new: Port, rows: Iterable[NumberRow], kind: DifferenceKind | None = None
) -> Iterator[Difference]:
    """Yield the changes of the fields *rows*. *kind*: the kind of these changes; None: each field is a kind of its
    own."""
    assert old.info is not None
    assert new.info is not None
    for row in rows:
        before, after = row.decode(old.info), row.decode(new.info)
        if before != after:
            was, now = as_shown(row.attr, before), as_shown(row.attr, after)
            yield Difference(new, kind or cast("DifferenceKind", row.attr), was, now, field=row.attr if kind else None)


Numbers = tuple[Callable[[bytes], int], Callable[[bytes], int]]
"""The functions that return a number for the M_Key in a PortInfo of the earlier and of the later snapshot. Equal keys
have equal numbers."""


def key_numbers(a: Snapshot, b: Snapshot) -> Numbers | None:
    """Return the functions that number the M_Keys of each snapshot: the keys themselves if both snapshots hold keys,
    else their fingerprints. None if the fingerprints are of different secrets, or a secret is not available."""
    for mine, other in ((a, b), (b, a)):
        if not mine.about.has_keys and not other.about.has_keys and mine.about.fingerprints != other.about.fingerprints:
            return None
        if mine.about.has_keys and not other.about.has_keys and not _same_secret(mine, other):
            return None
    if a.about.has_keys and b.about.has_keys:
        return _plain, _plain
    return a.fingerprint_number, b.fingerprint_number


def _same_secret(unmasked: Snapshot, masked: Snapshot) -> bool:
    return unmasked.fingerprints is not None and unmasked.fingerprints.id == masked.about.fingerprints


def _plain(info: bytes) -> int:
    return PortInfo(info).m_key


def m_key_changes(old: Port, new: Port, numbers: Numbers | None) -> Iterator[Difference]:
    """Yield the change of an end port's M_Key; PortInfo of both was read. If the key of one is hidden or was not read,
    nothing is yielded.

    *numbers*: the result of `key_numbers`; None: two keys that are set are not compared.
    """
    before, after = old.m_key_state, new.m_key_state
    assert old.info is not None
    assert new.info is not None
    if {before, after} & {"hidden", "unreadable"}:
        return
    if before != after:
        yield Difference(new, "m_key", before, after)
    elif before == "set" and numbers is not None and numbers[0](old.info) != numbers[1](new.info):
        yield Difference(new, "m_key", "set", "another key")


def table_changes(port: Port, before: list[TableEntry], after: list[TableEntry]) -> Iterator[Difference]:
    """Yield the changes of a P_Key table, given its valid entries before and after.

    If an entry keeps its index and partition, its membership changed. If a P_Key is at another index, it moved. If a
    P_Key has another index and another membership, both changes are yielded. All other P_Keys were removed or added.
    """
    old, new = _without_equals(before, after)
    for index, key in list(old):
        twin = next((entry for entry in new if entry[0] == index and entry[1].partition == key.partition), None)
        if twin is not None:
            old.remove((index, key))
            new.remove(twin)
            yield Difference(port, "membership", str(key), str(twin[1]), index, str(twin[1]))
    for mask in (FULL_BIT | PARTITION_MASK, PARTITION_MASK):  # unchanged P_Keys, then those with another membership
        for index, key in list(old):
            moved = next((entry for entry in new if (entry[1] ^ key) & mask == 0), None)
            if moved is None:
                continue
            old.remove((index, key))
            new.remove(moved)
            if moved[1] != key:
                yield Difference(port, "membership", str(key), str(moved[1]), moved[0], str(moved[1]))
            yield Difference(port, "pkey-moved", index, moved[0], moved[0], str(moved[1]))
    for index, key in old:
        yield Difference(port, "pkey-removed", str(key), None, index, str(key))
    for index, key in new:
        yield Difference(port, "pkey-added", None, str(key), index, str(key))


def _without_equals(before: list[TableEntry], after: list[TableEntry]) -> tuple[list[TableEntry], list[TableEntry]]:
    both = set(before) & set(after)
    return [entry for entry in before if entry not in both], [entry for entry in after if entry not in both]
