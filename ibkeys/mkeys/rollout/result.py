"""The results of a run of M_Keys: for each port, and in total."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class PortResult:
    """The result for one port. ``port``: its identity, as in every JSON document; ``reason``: why it was skipped or
    failed, in words, None for a port that is done. ``unread``: whether it was skipped because it could not be read, or
    because its key is not known; ``overtaken``: whether it was skipped because another program or administrator has
    changed a value that the run set or found."""

    port: dict[str, Any]
    result: Literal["done", "skipped", "failed"]
    reason: str | None = None
    unread: bool = False
    overtaken: bool = False


ReportPort = Callable[[PortResult], None]


@dataclass(slots=True)
class RunOutcome:
    """The results of a run in total.

    ``operation``: the number of its operation. ``done``, ``skipped``, ``failed`` and ``waiting`` count each port of the
    run once; a waiting port was not begun. ``unread``: number of skipped ports that could not be read; ``overtaken``:
    number of skipped ports that another program or administrator has changed. ``unresolved``: number of failed ports
    that answer to no key any more. ``replies_lost``: number of Sets that took effect although no reply came;
    ``sets_lost``: number of Sets that never arrived. ``violations``: upper limit of the violations that ports at levels
    2 and 3 have counted for Gets after a lost reply; of a run through OpenSM, the M_Key violations that ports have
    counted since it was planned. ``stopped``: why the run stopped before all ports were begun, in words, "" if it did
    not. ``gone_back``: whether its level was lowered because it was not confirmed in time.
    """

    operation: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    waiting: int = 0
    unread: int = 0
    overtaken: int = 0
    unresolved: int = 0
    replies_lost: int = 0
    sets_lost: int = 0
    violations: int = 0
    stopped: str = ""
    gone_back: bool = False

    def add(self, result: PortResult) -> None:
        """Count the result of one port."""
        setattr(self, result.result, getattr(self, result.result) + 1)
        self.unread += result.unread
        self.overtaken += result.overtaken

    @property
    def is_complete(self) -> bool:
        """Whether every port that the run should change is done."""
        return not (self.failed or self.unread or self.overtaken or self.stopped or self.gone_back)

    def to_json(self) -> dict[str, Any]:
        """Return the counts by their names, for a JSON document."""
        return {**asdict(self), "operation": self.operation or None, "stopped": self.stopped or None}
