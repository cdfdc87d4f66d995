"""The outcome of a recovery, for each port and in total, and its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """The result for one port. ``port``: its identity as in every JSON document, with many values None for a port that
    never answered. ``reason``: why, in words for users, without any M_Key."""

    port: dict[str, Any]
    result: Literal["done", "skipped", "failed"]
    reason: str


@dataclass(slots=True)
class RecoverySummary:
    """The summary of a recovery. ``done``, ``skipped``, ``failed``: numbers of ports; ``smps``: number of SMPs sent;
    ``violations``: upper limit of the M_Key violations that ports counted, because a lost SMP or reply looks like a
    refused SMP; ``seconds``: the time that it took, on the local port's clock; ``interrupted``: whether the user ended
    it."""

    done: int = 0
    skipped: int = 0
    failed: int = 0
    smps: int = 0
    violations: int = 0
    seconds: float = 0.0
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of a recovery. ``back``: number of ports that opened; ``waiting``: number of ports that are waited
    for; ``seconds``: the time so far; ``next_opening``: seconds until the next lease should be over, None while no
    lease is known."""

    back: int
    waiting: int
    seconds: float
    next_opening: float | None


OnResult = Callable[[RecoveryResult], None]
OnStatus = Callable[[Status], None]
