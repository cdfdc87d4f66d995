"""Finding changes of place between two sweeps of one fabric. Pure: it uses only the two sweeps.

The place of a CA or router port is the switch port that faces it. Ports are found again by node GUID and port number,
so a port whose place differs was plugged in elsewhere. A change that has another possible explanation is unknown; it is
never guessed. There are three such cases: several nodes use the node GUID, there are several candidates, or a missing
node may be at the place of a node that did not answer.
"""

from __future__ import annotations

from typing import Final

from ibkeys.mad.attributes import NodeDescription
from ibkeys.printable import named
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.matching import MatchKey, blind_ports, match_key, nodes_of, unseen_in
from ibkeys.topology.model import Topology
from ibkeys.topology.moves import Move, Moves, Pair, UnknownFact, place_of
from ibkeys.topology.nodes import Node, Port

WHETHER_MOVED: Final = "whether its cable moved"
"""The value of `UnknownFact.what` for a port that may have moved."""
_REPLACED: Final = "whether it was replaced"


def what_moved(before: Topology, after: Topology) -> Moves:
    """Return the moves between two sweeps of one fabric, the earlier sweep first."""
    return _Classifier(before, after).classify()


class _Side:
    """One of the two sweeps.

    ``places``: its CA and router ports that face a switch; ``behind``: the same by the switch port; ``doubled``: node
    GUIDs that several of its nodes use.
    """

    def __init__(self, fabric: Topology) -> None:
        self.nodes = nodes_of(fabric)
        self.places = {match_key(port): port for port in fabric.end_ports() if leaf_of(port) is not None}
        self.behind = {match_key(place_of(port)): port for port in self.places.values()}
        self.doubled = {node.guid for node in fabric.nodes if node.twin}
        self.blind = blind_ports(fabric)

    def hides_from(self, other: _Side, unseen: set[Node]) -> bool:
        """Return whether a node of *other* may be here at another place, although it was not found.

        That is so when the far end of a switch port could not be read in this sweep, except for two cases. First:
        *other* has a CA or router at that switch port, and this node was found nowhere in this sweep (*unseen*). Then
        this node is the silent one. Second: the far end did not answer in *other* either. Then both are taken for the
        same node; otherwise one node that never answers would make all other nodes unknown.
        """
        for key in self.blind:
            node = self.nodes.get(key[:2])
            port = node.ports.get(key[2]) if node is not None else None
            if port is None or not port.is_external or port.peer is not None:
                continue
            known = other.behind.get(key)
            if known.node not in unseen if known is not None else key not in other.blind:
                return True
        return False


class _Classifier:
    def __init__(self, before: Topology, after: Topology) -> None:
        self.before, self.after = _Side(before), _Side(after)
        self.doubled = self.before.doubled | self.after.doubled
        self.not_seen_after = unseen_in(after, before)
        self.not_seen_before = unseen_in(before, after)
        self.found = Moves()

    def classify(self) -> Moves:
        self._cables()
        self._missing("second", self.before, self.after, self.not_seen_after)
        self._missing("first", self.after, self.before, self.not_seen_before)
        self._replaced()
        self._doubled()
        self._names()
        return self.found

    # --- ports that are in both sweeps -------------------------------------------------------------------------------

    def _cables(self) -> None:
        moved = {
            match_key(place_of(old)): (old, self.after.places[key])
            for key, old in self.before.places.items()
            if key in self.after.places and self._moved(old, self.after.places[key])
        }
        done: set[MatchKey] = set()
        for place, pair in moved.items():
            now = match_key(place_of(pair[1]))
            other = moved.get(now)
            if place in done:
                continue
            if other is not None and match_key(place_of(other[1])) == place:
                done.add(now)
                self.found.moved.append(Move("swapped", (pair, other)))
            else:
                self.found.moved.append(Move("cable-moved", (pair,)))

    def _moved(self, old: Port, new: Port) -> bool:
        places = place_of(old), place_of(new)
        guids = {port.node.guid for port in (old, *places)}
        return not guids & self.doubled and match_key(places[0]) != match_key(places[1])

    def _names(self) -> None:
        for key, old in self.before.nodes.items():
            new = self.after.nodes.get(key)
            if new is None or old.guid in self.doubled:
                continue
            port = new.first_end_port()
            before, after = old.description_raw, new.description_raw
            if before is None or after is None:
                where = "either" if before is after else "the first" if before is None else "the second"
                self._unknown(port, NodeDescription.name, f"it was not read in {where} snapshot")
            elif _text(before) != _text(after):
                self.found.moved.append(Move("renamed", ((old.first_end_port(), port),)))

    # --- ports that are in one sweep only -----------------------------------------------------------------------------

    def _missing(self, which: str, mine: _Side, other: _Side, unseen: set[Node]) -> None:
        """Record as unknown the ports of *mine* that *other*, the snapshot *which*, does not have but may have
        missed."""
        if not other.hides_from(mine, unseen):
            return
        for key, port in mine.places.items():
            is_there = key in other.places or port.node in unseen or match_key(place_of(port)) in other.blind
            if not is_there and port.node.guid not in self.doubled:
                why = f"in the {which} snapshot it may be behind a port whose far end was not read"
                self._unknown(port, WHETHER_MOVED, why)

    def _replaced(self) -> None:
        """Find the removed nodes and those that took their places."""
        gone = self._only_in(self.before, self.after, self.not_seen_after)
        come = self._only_in(self.after, self.before, self.not_seen_before)
        heirs: dict[Node, dict[Node, list[Pair]]] = {}
        forerunners: dict[Node, list[Node]] = {}
        for place, new in self.after.behind.items():
            old = self.before.behind.get(place)
            if old is None or old.node not in gone or new.node not in come or place[0] in self.doubled:
                continue
            if new.node not in heirs.setdefault(old.node, {}):
                forerunners.setdefault(new.node, []).append(old.node)
            heirs[old.node].setdefault(new.node, []).append((old, new))
        unknown = {each.port.node for each in self.found.unknown}
        several = {node for node, found in (*heirs.items(), *forerunners.items()) if len(found) > 1}
        for node, found in heirs.items():
            if node in several:
                self._unknown(
                    node.first_end_port(), _REPLACED, f"at its places there are {named([*map(_label, found)])}"
                )
                continue
            [(heir, pairs)] = found.items()
            if heir in several:
                others = [each for each in forerunners[heir] if each is not node]
                why = f"at its place there is {_label(heir)}, and at that of {named([*map(_label, others)])} too"
                self._unknown(node.first_end_port(), _REPLACED, why)
            elif (heir.num_ports, heir.type) == (node.num_ports, node.type) and not {heir, node} & unknown:
                self.found.moved.append(Move("hca-replaced", tuple(pairs)))

    def _only_in(self, mine: _Side, other: _Side, unseen: set[Node]) -> set[Node]:
        return {
            node
            for key, node in mine.nodes.items()
            if key not in other.nodes and node not in unseen and node.guid not in self.doubled
        }

    # --- unknown moves ------------------------------------------------------------------------------------------------

    def _doubled(self) -> None:
        """Record as unknown the node GUIDs of several nodes that left one place and appeared at another."""
        before, after = self._places_of_doubled(self.before), self._places_of_doubled(self.after)
        for guid in sorted(before.keys() & after.keys()):
            old, new = before[guid], after[guid]
            if old.keys() - new.keys() and new.keys() - old.keys():
                port = next(port for place, port in new.items() if place not in old)
                why = f"several nodes have the node GUID 0x{guid:016x}"
                self._unknown(port, WHETHER_MOVED, why)

    def _places_of_doubled(self, side: _Side) -> dict[int, dict[tuple[int, MatchKey], Port]]:
        """Return CA and router ports, by port number and place, for each node GUID that several nodes have: the ports
        of nodes with this GUID, and those linked to switches with it."""
        found: dict[int, dict[tuple[int, MatchKey], Port]] = {}
        for place, port in side.behind.items():
            for guid in {port.node.guid, place[0]} & self.doubled:
                found.setdefault(guid, {})[port.num, place] = port
        return found

    def _unknown(self, port: Port, what: str, why: str) -> None:
        self.found.unknown.append(UnknownFact(port, what, why))


def _label(node: Node) -> str:
    return f"{node.description!r} 0x{node.guid:016x}" if node.description else f"0x{node.guid:016x}"


def _text(raw: bytes) -> bytes:
    """Return the part of a NodeDescription that is compared: the text before the first NUL."""
    return raw.partition(b"\0")[0]
