"""A run of mkey-deploy, mkey-rotate or mkey-remove as it is shown, asked about, made and reported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ibkeys.cli import exits
from ibkeys.cli.changing import ShownChange
from ibkeys.cli.mkeys.confirming import Awaiting
from ibkeys.cli.mkeys.rollout_output import RunOutput
from ibkeys.cli.options import Where
from ibkeys.cli.screen.colour import bar_console
from ibkeys.cli.showing import say_notes

if TYPE_CHECKING:
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.mkeys.rollout.result import PortResult


@dataclass
class ShownRun(ShownChange):
    """A run over many ports, shown in numbers and reported port by port."""

    run: PlannedRun
    where: Where
    awaits: Awaiting | None
    out: RunOutput = field(init=False)

    def __post_init__(self) -> None:
        self.out = RunOutput(self.writer.command, self.run, self.format)

    @property
    def is_pending(self) -> bool:
        """Whether ports are to be changed, or only the key store is updated."""
        return self.run.pending

    def say_notes(self) -> None:
        """Say what the sweep and the plan note, and under a subnet manager what to do instead."""
        say_notes(self.run.found)
        super().say_notes()
        if any(objection.interlock == "mkey-under-sm" for objection in self.writer.not_overridden(self.plan)):
            for line in self.run.procedure:
                exits.warn(line, "under a subnet manager")

    def show(self, put: Callable[[str], None]) -> None:
        """Write how many ports get what."""
        self.out.write_plan(put)

    def apply(self) -> None:
        """Make the run, and let it be confirmed; the account is written whatever becomes of it."""
        try:
            if self.awaits is None:
                self._make()
            else:
                self.awaits.make(self.writer, self.run, self._make)
        finally:
            self.out.write_summary()

    def _make(self) -> None:
        from ibkeys.mkeys.rollout.planned_run import carry_out

        with _bar(self.where, self.run) as step:

            def report(result: PortResult) -> None:
                self.out.report(result)
                step()

            carry_out(self.writer, self.run, report)

    def report(self, applied: bool) -> int:
        """Say what a dry run would do to each port, or whether the run is complete."""
        return self.out.exit_code() if applied else self.out.dry_run(self.consent.dry_run)


@contextmanager
def _bar(where: Where, run: PlannedRun) -> Iterator[Callable[[], None]]:
    """Yield what is called for each port; on a terminal it moves a bar."""
    if where.debug or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("ports"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=bar_console(), transient=True) as bar:
        task = bar.add_task("", total=len(run.jobs) + len(run.already_set) + len(run.skipped))
        yield lambda: bar.advance(task)
