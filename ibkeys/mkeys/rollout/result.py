"""The outcome of a run: for each port, and in total."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class PortResult:
    """The result for one port. ``port``: its identity, as in every JSON document; ``reason``: None for a port that is
    done as planned. ``unread``: it was skipped because it could not be read, or its key is not known; ``overtaken``: it
    was skipped because another program or administrator has changed a value that the run set or found."""

    port: dict[str, Any]
    result: Literal["done", "skipped", "failed"]
    reason: str | None = None
    unread: bool = False
    overtaken: bool = False


ReportPort = Callable[[PortResult], None]


@dataclass(slots=True)
class RunOutcome:
    """The results of a run in total.

    ``done``, ``skipped``, ``failed`` and ``waiting`` count each port of the run once; ``waiting`` are those that were
    not begun. ``unread``: skipped ports that could not be read; ``overtaken``: skipped ports that another program or
    administrator has changed. ``unresolved``: failed ones that answer to no key any more. ``replies_lost``: Sets that
    took effect although no reply came; ``sets_lost``: Sets that never arrived. ``violations``: upper limit of the
    violations that Gets after a lost reply have counted, at ports of levels 2 and 3. ``stopped``: the reason why ports
    were left waiting, "" if none were. ``gone_back``: it was not confirmed in time, so its level was lowered.
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
        """Count one port."""
        setattr(self, result.result, getattr(self, result.result) + 1)
        self.unread += result.unread
        self.overtaken += result.overtaken

    @property
    def is_complete(self) -> bool:
        """Whether every port that the run should change is done."""
        return not (self.failed or self.unread or self.overtaken or self.stopped or self.gone_back)

    def to_json(self) -> dict[str, Any]:
        """Return the counts by their names."""
        return {**asdict(self), "operation": self.operation or None, "stopped": self.stopped or None}
