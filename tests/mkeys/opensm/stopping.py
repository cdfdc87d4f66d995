"""Runs that are stopped at a point."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from ibkeys.errors import Refused
from tests.mkeys.opensm.madeup import Bench, MadeUpOpensm

_serial = count()

RUNS: dict[str, Callable[[Bench], None]] = {
    "deploy": Bench.deploy,
    "rotate": Bench.rotate,
    "rotate, open": lambda bench: bench.rotate(open_while_rotating=True),
    "remove": Bench.remove,
}


def bench_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    place = folder / f"{next(_serial)}" / "opensm"
    place.mkdir(parents=True)
    return Bench(MadeUpOpensm(place), monkeypatch)


def stop_at(bench: Bench, run: Callable[[Bench], object], moment: int) -> bool:
    """Stop *run* at its pause or signal with this number; return whether it got there."""
    try:
        interrupt_at(bench, run, moment)
    except KeyboardInterrupt:
        return True
    return False


def interrupt_at(bench: Bench, run: Callable[[Bench], object], moment: int) -> None:
    """As `stop_at`; raises what *run* makes of the interrupt."""
    passed = count()

    def stop(word: str) -> None:
        if next(passed) == moment:
            raise KeyboardInterrupt(word)

    bench.opensm.before_each = stop
    try:
        run(bench)
    finally:
        bench.opensm.before_each = lambda word: None


def go_back(bench: Bench) -> bool:
    """Go back; return False where keys are mixed, and that is refused."""
    try:
        bench.abort()
    except Refused as refused:
        if refused.interlock != "mixed-keys":
            raise
        return False
    return True


THEN: dict[str, Callable[[Bench], None]] = {
    "stands still": lambda bench: None,
    "finishes its sweep": lambda bench: bench.opensm.finish(),
    "is started again": lambda bench: bench.opensm.restart(),
}
"""What OpenSM does after the run was stopped."""
