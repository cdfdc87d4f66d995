"""The history of a simulated subnet: its clock, its events, and which nodes and ports may differ from the start.

Nodes and ports hold a reference to the history, so the history identifies them by numbers only: the index of a node and
the number of a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ibkeys.errors import UsageError

MAX_EVENTS: Final = 20_000


def earliest(times: Iterable[float | None]) -> float | None:
    """Return the earliest of *times*, where None means never; None if there is none."""
    return min((time for time in times if time is not None), default=None)


class SimEvent(NamedTuple):
    """One event. ``time``: seconds of the subnet's clock; ``node``: a NodeDescription; ``detail``: further values by
    name. No event holds an M_Key."""

    time: float
    kind: str
    node: str
    port: int
    detail: dict[str, Any]


class SimHistory:
    """The history of one subnet.

    ``events``: the last events (see `MAX_EVENTS`). ``changes``: a count that grows with each change. ``reroutes``: a
    count that grows with each write that may change a directed route; routes that were found before may be outdated.
    ``touched_ports`` (index of the node, port number) and ``touched_nodes`` (index): the ports and nodes that may
    differ from the start. ``fresh_ports`` and ``fresh_nodes``: the ports and nodes that may have changed since the last
    `forget_fresh`.
    """

    def __init__(self) -> None:
        self.events: list[SimEvent] = []
        self.changes = 0
        self.reroutes = 0
        self.touched_ports: set[tuple[int, int]] = set()
        self.touched_nodes: set[int] = set()
        self.fresh_ports: set[tuple[int, int]] = set()
        self.fresh_nodes: set[int] = set()
        self._now = 0.0
        self._clock: Callable[[], float] | None = None

    @property
    def now(self) -> float:
        """The subnet's clock in seconds."""
        if self._clock is not None:
            self._now = max(self._now, self._clock())
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises UsageError for a negative number."""
        if seconds < 0:
            raise UsageError(f"time does not go back ({seconds} s)")
        self._now = self.now + seconds

    def follow_clock(self, clock: Callable[[], float] | None) -> None:
        """Let `now` follow *clock* (seconds) as long as *clock* is ahead of the virtual time; None ends this."""
        self._clock = clock

    def touch_port(self, index: int, number: int, *, reroutes: bool = True) -> None:
        """Record that a port may have changed. *reroutes*: whether a directed route may have changed with it."""
        self.reroutes += reroutes
        self.touched_ports.add((index, number))
        self.fresh_ports.add((index, number))

    def touch_node(self, index: int, *, reroutes: bool = True) -> None:
        """Record that a node itself may have changed. *reroutes* as for `touch_port`."""
        self.reroutes += reroutes
        self.touched_nodes.add(index)
        self.fresh_nodes.add(index)

    def forget_fresh(self) -> None:
        """Empty ``fresh_ports`` and ``fresh_nodes``, because all changes up to now are saved."""
        self.fresh_ports.clear()
        self.fresh_nodes.clear()

    def record(self, kind: str, node: str, port: int, detail: dict[str, Any]) -> None:
        """Record an event, which counts as a change too."""
        self.changes += 1
        if len(self.events) >= MAX_EVENTS:
            del self.events[: MAX_EVENTS // 2]
        self.events.append(SimEvent(self.now, kind, node, port, detail))
