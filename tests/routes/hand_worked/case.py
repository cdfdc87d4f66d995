"""The fabric of the packets whose way was worked out by hand from the words of the specification, and what a case is.

::

    A[1] ---- [1]S1[2] ---- [2]S2[1] ---- [1]B
                S1[3] ---- [3]S2[4] ---- [1]R (a router)
    C[1] ---- [4]S1           S2[5] ---- [2]C (a CA with two ports)

LIDs: A 1, S1 2, S2 3, R 4, C[1] 5, C[2] 6, B 8 (up to 15 where its LMC is 3). S1 sends the even LIDs of B by its port
2, the odd ones by its port 3. Every port has the table 0xffff, 0x8001; no port enforces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from tests.routes.plain import DOWN, Fabric, Node, Packet, Place, Port, Reading

KEYS: Final = (0xFFFF, 0x8001)
B_LIDS: Final = range(8, 16)
CABLES: Final[tuple[tuple[Place, Place], ...]] = (
    (("A", 1), ("S1", 1)),
    (("S1", 2), ("S2", 2)),
    (("S1", 3), ("S2", 3)),
    (("S2", 1), ("B", 1)),
    (("S2", 4), ("R", 1)),
    (("S1", 4), ("C", 1)),
    (("S2", 5), ("C", 2)),
)
A: Final = ("A", 1)
S1: Final = ("S1", 0)
B_LID: Final = 8
S2_LID: Final = 3
Changes = Mapping[str | Place, Mapping[str, Any]]
"""A node or port → the fields that differ from the fabric above."""


def fabric(changes: Changes) -> Fabric:
    """Return the fabric above with *changes*."""

    def end(lid: int) -> Port:
        return Port(table=KEYS, lid=lid)

    def switch(lid: int, ports: int, routes: dict[int, int]) -> Node:
        external = {number: Port(table=KEYS) for number in range(1, ports + 1)}
        return Node("switch", {0: end(lid), **external}, routes=routes, top=15)

    nodes = {
        "A": Node("ca", {1: end(1)}),
        "B": Node("ca", {1: end(B_LID)}),
        "C": Node("ca", {1: end(5), 2: end(6)}),
        "R": Node("router", {1: end(4)}),
        "S1": switch(2, 4, {1: 1, 2: 0, 3: 2, 4: 2, 5: 4, 6: 2} | {lid: 2 + lid % 2 for lid in B_LIDS}),
        "S2": switch(3, 5, {1: 2, 2: 2, 3: 0, 4: 4, 5: 2, 6: 5} | dict.fromkeys(B_LIDS, 1)),
    }
    for place, values in changes.items():
        name = place if isinstance(place, str) else place[0]
        node = nodes[name]
        if isinstance(place, tuple):
            ports = {**node.ports, place[1]: replace(node.ports[place[1]], **values)}
            nodes[name] = replace(node, ports=ports)
        elif "entry" in values:
            assert node.routes is not None
            nodes[name] = replace(node, routes={**node.routes, **values["entry"]})
        else:
            nodes[name] = replace(node, **values)
    cables = dict(CABLES) | {there: here for here, there in CABLES}
    return Fabric(nodes, {here: there for here, there in cables.items() if DOWN not in _states(nodes, here, there)})


def _states(nodes: Mapping[str, Node], *places: Place) -> set[int]:
    return {nodes[name].ports[number].state for name, number in places}


@dataclass(frozen=True)
class Case:
    """A packet and its way as `tests.routes.shown.shown` writes it. ``reading``: of the inbound check; "both": the
    answer is the same by both. ``why``: the words from which the answer follows."""

    name: str
    why: str
    way: str
    p_key: int = 0x8001
    to: int = B_LID
    source: Place = A
    reading: Reading | Literal["both"] = "both"
    changes: Changes = field(default_factory=dict)
    packet: Mapping[str, Any] = field(default_factory=dict)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The readings by which the answer is the same."""
        return ("partition", "membership") if self.reading == "both" else (self.reading,)

    def sent(self) -> Packet:
        """Return the packet."""
        return Packet(self.source, self.to, self.p_key, **self.packet)


def lines(text: str) -> str:
    """Return the lines of a way without the blanks around them, as `shown` writes it."""
    return "\n".join(line.strip() for line in text.strip().splitlines())


LIMITED: Final = {"table": (0xFFFF, 0x0001)}
OTHER: Final = {"table": (0xFFFF, 0x8002)}
IN: Final = {"inbound": True}
OUT: Final = {"outbound": True}
