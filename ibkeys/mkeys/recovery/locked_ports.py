"""Records of locked ports: a silent port, a port that hides its key, a link of a closed switch."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.topology.nodes import Port


@dataclass(slots=True, eq=False)
class SilentPort:
    """A directed route whose end does not answer: presumably a locked port. Times are in seconds on the local port's
    clock.

    ``path``: the route; ``near``: the near end of its last link, None if that port was not read; ``guid``: the GUID of
    the node or port that the known links lead to there, None if not known. ``started``: the latest time at which its
    lease began, if it has one; ``last``: the time of the last SMP to it; ``asked``: number of SMPs without its key so
    far; ``tried``: number of the user's keys that were tried on it. ``probed``: number of rounds of probes through its
    ports, the last round at ``probed_at``; ``probe_rounds``: the same number, with the rounds on other routes to the
    same switch; ``answered``: whether it has answered since.
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
    """A port at level 1 that hides its key. ``lease``: in seconds; ``started``: the time at which its lease began, None
    if it was not started; ``last``: the time at which it was last read; ``tried``: number of the user's keys that were
    tried on it."""

    port: Port
    lease: int
    started: float | None = None
    last: float = 0.0
    tried: int = 0


@dataclass(frozen=True, slots=True)
class ProbedLink:
    """Port ``num`` of the closed switch at the end of the route ``path``. A probe through this port was answered."""

    path: tuple[int, ...]
    num: int
