"""Metrics about the reading itself: when, how long, whether it was complete. They exist even without other metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ibkeys.export.family import Family, Labels, of_one
from ibkeys.version import __version__


@dataclass(frozen=True, slots=True)
class SweepAttempt:
    """One attempt to read the fabric.

    ``run`` and ``last_success``: Unix time of the end of this attempt, and of the last complete one, None if none is
    known. ``duration``: seconds, None if it failed. ``answered`` and ``lost``: SMPs, None if none was sent, as for a
    snapshot's file.
    """

    run: float
    success: bool
    last_success: float | None = None
    duration: float | None = None
    answered: int | None = None
    lost: int | None = None


def sweep_families(sweep: SweepAttempt) -> Iterator[Family]:
    """Yield the metrics of *sweep*."""
    yield Family("ibkeys_build_info", "The version of ibkeys; the value is 1.", ("version",), {(__version__,): 1})
    yield of_one("ibkeys_sweep_last_run_timestamp_seconds", "Time of the last sweep, failed or not.", sweep.run)
    if sweep.last_success is not None:
        yield of_one(
            "ibkeys_sweep_last_success_timestamp_seconds", "Time of the last complete sweep.", sweep.last_success
        )
    yield of_one(
        "ibkeys_sweep_success",
        "1: everything that should be read was read; 0: only a part of it, or nothing.",
        int(sweep.success),
    )
    if sweep.duration is not None:
        yield of_one("ibkeys_sweep_duration_seconds", "Duration of the sweep.", sweep.duration)
    if sweep.answered is not None and sweep.lost is not None:
        smps: dict[Labels, float] = {("answered",): sweep.answered, ("lost",): sweep.lost}
        yield Family("ibkeys_sweep_smps", "SMPs with an answer, and without one.", ("outcome",), smps)
