"""Records of locked ports: a silent port, a port that hides its key, a link of a closed switch."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.topology.nodes import Port


@dataclass(slots=True, eq=False)
class SilentPort:
    """A directed route whose end does not answer: presumably a locked port.

    ``near``: the port of the last link, where its node answers; ``guid``: the node or port expected there by the known
    links. ``started``: the latest time at which its lease began if it has one; ``last``: the time of the last SMP to
    it; ``asked``: SMPs without its key so far; ``tried``: number of given keys that were tried. ``probed``: number of
    rounds of probes through its ports, the last one at ``probed_at``; ``probe_rounds``: the same number including other
    routes to the same switch.
    """

    path: tuple[int, ...]
    near: Port | None
    guid: int | None
    started: float
    last: float
    asked: int = 1
    tried: int = 0
    probed: int = 0
    probed_at: float = 0.0
    probe_rounds: int = 0
    answered: bool = False


@dataclass(slots=True, eq=False)
class HidingPort:
    """A port at level 1 that hides its key. ``started``: the time at which its lease began, None until it was started;
    ``lease`` in seconds; ``last``: the time of the last read; ``tried``: number of given keys that were tried."""

    port: Port
    lease: int
    started: float | None = None
    last: float = 0.0
    tried: int = 0


@dataclass(frozen=True, slots=True)
class ProbedLink:
    """Port ``num`` of the closed switch at the end of the route ``path``, found by a probe through it."""

    path: tuple[int, ...]
    num: int
