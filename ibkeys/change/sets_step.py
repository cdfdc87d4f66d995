"""A step of independent Sets, which the engine makes and proves, port by port."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ibkeys.change.engine import Engine
from ibkeys.change.pending_set import PendingSet
from ibkeys.change.runner import Runner, Verdict


@dataclass(frozen=True, slots=True)
class SetsStep:
    """A step of Sets: `ibkeys.change.runner.AnyStep`. ``name``: its name in the journal, "" for a change of a single
    step, which the journal does not list; ``stages``: the Sets; a stage begins when all Sets of the stage before have
    ended; ``stops_at_failure``: no stage follows one in which a Set failed."""

    name: str
    engine: Engine
    stages: Iterable[Sequence[PendingSet]]
    stops_at_failure: bool = False

    def make(self, runner: Runner) -> tuple[Verdict, list[PendingSet]]:
        """Make the Sets, and return those that failed. Raises the errors of `Engine.make`, after the Sets that were
        sent are proven; the step is then left as begun."""
        if self.name:
            runner.operation.begin_step(self.name)
        failed: list[PendingSet] = []
        for sets in self.stages:
            self.engine.make(sets)
            failed += [each for each in sets if each.error is not None]
            if failed and self.stops_at_failure:
                break
        if self.name:
            runner.operation.end_step("failed" if failed else "done")
        return Verdict(is_proven=not failed), failed
