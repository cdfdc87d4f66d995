"""What became of a packet, in the one form in which the walker, the simulator and `ibkeys why` are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from tests.routes.plain import Fabric, Packet, Place, Reading
from tests.routes.walker import Direction, Walk

Cell = Literal[
    "passed",
    "in, leaf",
    "in, inter-switch port",
    "out, leaf",
    "out, inter-switch port",
    "port 0",
    "end port",
    "lost",
    "out, no cable",
]
"""What became of a packet: passed, lost, or stopped in or out at which kind of port."""
CELLS: Final[tuple[Cell, ...]] = (
    "passed",
    "in, leaf",
    "in, inter-switch port",
    "out, leaf",
    "out, inter-switch port",
    "port 0",
    "end port",
    "lost",
)


class Answer(NamedTuple):
    """The end of a packet.

    ``place``: the port that received it, or that stopped it and counts the violation; None for a lost packet.
    ``direction``: of the check that decided. ``entry``: the index of the entry by which the end port takes the packet.
    ``senders``: the ports that sent it to their links.
    """

    outcome: Literal["delivered", "stopped", "lost"]
    place: Place | None
    direction: Direction | None
    entry: int | None
    senders: frozenset[Place]


Answers = Callable[[Packet, Reading], Answer | None]
"""Says what becomes of a packet by a reading of the inbound check; None: unknown. Raises NotReached."""


class NotReached(Exception):
    """No SMP passes the link of the sender, or the last link on the route, so a sweep does not know what is behind."""


def answer_of(way: Walk) -> Answer | None:
    """Return what the walker says; None: unknown."""
    verdict, hops = way.verdict, way.hops
    if verdict.outcome == "unknown":
        return None
    senders = frozenset((hop.node, hop.out_port) for hop in hops[:-1] if hop.out_port is not None)
    if verdict.outcome == "lost":
        return Answer("lost", None, None, None, senders)
    check = hops[-1].checks[-1]
    if verdict.outcome == "stopped":
        assert way.counted is not None
        assert way.counted[0] == check.place
    return Answer(verdict.outcome, check.place, check.direction, check.index, senders)


def cell_of(fabric: Fabric, answer: Answer) -> Cell:
    """Return the cell that an answer belongs to."""
    if answer.outcome == "delivered":
        return "passed"
    if answer.place is None:
        return "lost"
    far = fabric.cables.get(answer.place)
    is_between = far is not None and fabric.nodes[far[0]].kind == "switch"
    match answer.direction:
        case "in":
            return "in, inter-switch port" if is_between else "in, leaf"
        case "out":
            return "out, no cable" if far is None else "out, inter-switch port" if is_between else "out, leaf"
        case _:
            return "port 0" if answer.place[1] == 0 else "end port"
