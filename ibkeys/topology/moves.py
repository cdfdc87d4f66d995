"""Changes of place between two sweeps: moved cables, swapped hosts, replaced HCAs, changed names.

`ibkeys.topology.recabling` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from ibkeys.mad.attributes import NodeDescription
from ibkeys.printable import clean
from ibkeys.topology.enforcement import leaf_of
from ibkeys.topology.matching import MatchKey, match_key
from ibkeys.topology.nodes import Node, Port

MoveKind = Literal["cable-moved", "swapped", "hca-replaced", "renamed"]
Link = frozenset[MatchKey]
Pair = tuple[Port, Port]
"""A port as the earlier and as the later sweep has it."""


@dataclass(frozen=True, slots=True)
class Move:
    """One change of place, with its ports.

    ``pairs`` depends on the kind. For ``cable-moved`` it has the port. For ``swapped`` it has the two ports that
    exchanged their places. For ``hca-replaced`` it has each port of the removed node, with the port that took its
    place. For ``renamed`` it has the node's first end port.
    """

    kind: MoveKind
    pairs: tuple[Pair, ...]

    @property
    def nodes(self) -> frozenset[Node]:
        """The nodes that this change removed and added; empty unless an HCA was replaced."""
        return frozenset(port.node for pair in self.pairs for port in pair) if self.kind == "hca-replaced" else _NOBODY

    @property
    def links(self) -> frozenset[Link]:
        """The links that this change removed and added."""
        if self.kind == "renamed":
            return frozenset()
        return frozenset(_link(port) for pair in self.pairs for port in pair)

    @property
    def ports(self) -> Iterator[Port]:
        """The ports of the change, before and after, with the switch ports that face them; of a renamed node without
        these."""
        for pair in self.pairs:
            yield from pair
            if self.kind != "renamed":
                yield from map(place_of, pair)

    @property
    def is_likely_replacement(self) -> bool:
        """Whether a node with a new GUID is at the place of another, and has its name."""
        return self.kind == "hca-replaced" and self.same_name is True

    @property
    def same_name(self) -> bool | None:
        """Whether the two nodes of the first pair have the same NodeDescription; None if either was not read."""
        before, after = (name_of(port.node) for port in self.pairs[0])
        return None if before is None or after is None else before == after

    def to_json(self) -> dict[str, Any]:
        """Return the move as the JSON document has it: a port of the later sweep with ``before`` and ``after``.

        ``before`` and ``after`` are switch ports. For ``hca-replaced`` they are the removed port and the added port,
        for ``renamed`` the two names. ``same_name`` and ``places`` are null except for ``hca-replaced``, and ``with``
        is null except for ``swapped``.
        """
        old, new = self.pairs[0]
        replaced = self.kind == "hca-replaced"
        return {
            **new.identity(),
            "kind": self.kind,
            "before": self._shown(old),
            "after": self._shown(new),
            "same_name": self.same_name if replaced else None,
            "places": [place_of(port).identity() for port, _ in self.pairs] if replaced else None,
            "with": self.pairs[1][1].identity() if self.kind == "swapped" else None,
        }

    def _shown(self, port: Port) -> dict[str, Any] | str | None:
        value = self._changed_value(port)
        return value.identity() if isinstance(value, Port) else value

    def _changed_value(self, port: Port) -> Port | str | None:
        """Return the value of a port that differs before and after: the name of its node (None if it was not read), the
        port, or its place."""
        if self.kind == "renamed":
            return name_of(port.node)
        return port if self.kind == "hca-replaced" else place_of(port)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a flat row for each port, with ``before`` and ``after`` as text."""
        for old, new in self.pairs:
            before, after = (
                str(value) if isinstance(value, Port) else value for value in map(self._changed_value, (old, new))
            )
            yield {**new.identity(), "kind": self.kind, "before": before, "after": after}


_NOBODY: frozenset[Node] = frozenset()


@dataclass(frozen=True, slots=True)
class UnknownFact:
    """A fact about a port that could not be determined. ``what``: the fact. ``why``: the reason."""

    port: Port
    what: str
    why: str


@dataclass
class Moves:
    """The changes of place, and those that may have happened. Changes that a move explains are not reported
    separately."""

    moved: list[Move] = field(default_factory=list)
    unknown: list[UnknownFact] = field(default_factory=list)

    @cached_property
    def nodes(self) -> frozenset[Node]:
        """The nodes that the moves removed or added."""
        return frozenset().union(*(each.nodes for each in self.moved))

    @cached_property
    def links(self) -> frozenset[Link]:
        """The links that the moves removed or added."""
        return frozenset().union(*(each.links for each in self.moved))

    def explains(self, ends: tuple[Port, Port]) -> bool:
        """Return whether one of the moves removed or added the link between *ends*."""
        return frozenset(map(match_key, ends)) in self.links


def name_of(node: Node) -> str | None:
    """Return NodeDescription, without the names of a node-name-map; None if it was not read."""
    raw = node.description_raw
    return NodeDescription(raw).node_description if raw is not None else None


def place_of(port: Port) -> Port:
    """Return the switch port that faces *port*, which must have one."""
    leaf = leaf_of(port)
    assert leaf is not None, "a port that moved has a place before and after"
    return leaf


def _link(port: Port) -> Link:
    return frozenset((match_key(port), match_key(place_of(port))))


# --- in words ---------------------------------------------------------------------------------------------------------


def move_in_words(row: Mapping[str, Any]) -> str:
    """Return a move, as `Move.to_json` has it, as one line. GUIDs are added where two of its nodes have one name."""
    return clean(_MOVES[row["kind"]](row))


def _renamed(row: Mapping[str, Any]) -> str:
    node = f"{row['node_type'] or 'node'} {row['node_guid']}"
    return f"renamed: {_quoted(row['before'])} -> {_quoted(row['after'])} ({node})"


def _hca_replaced(row: Mapping[str, Any]) -> str:
    before, after = row["before"], row["after"]
    names = f"{_quoted(before['node_desc'])} -> {_quoted(after['node_desc'])}"
    if row["same_name"]:
        names = f"{_quoted(after['node_desc'])}, the name is the same"
    [_, *places] = _short_names(row, *row["places"])
    return f"HCA replaced: {names}, {before['node_guid']} -> {after['node_guid']} at {', '.join(places)}"


def _cable_moved(row: Mapping[str, Any]) -> str:
    port, before, after = _short_names(row, row["before"], row["after"])
    return f"cable moved: {port}: {before} -> {after}"


def _swapped(row: Mapping[str, Any]) -> str:
    port, other, before, after = _short_names(row, row["with"], row["before"], row["after"])
    return f"swapped: {port} (now at {after}) and {other} (now at {before})"


_MOVES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "cable-moved": _cable_moved,
    "swapped": _swapped,
    "hca-replaced": _hca_replaced,
    "renamed": _renamed,
}


def _short_names(*ports: Mapping[str, Any]) -> list[str]:
    nodes = {each["node_guid"]: each["node_desc"] for each in ports}
    with_guids = len({*nodes.values()}) < len(nodes)
    return [_short_name(each, with_guids or not each["node_desc"]) for each in ports]


def _short_name(port: Mapping[str, Any], with_guid: bool) -> str:
    return " ".join(
        [*filter(None, [port["node_desc"]]), *([port["node_guid"]] if with_guid else []), f"port {port['port']}"]
    )


def _quoted(name: str | None) -> str:
    return "a name that was not read" if name is None else repr(name)
