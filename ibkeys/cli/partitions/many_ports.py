"""What apply and undo do around a change of many ports: show, check, ask, carry out, report."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ibkeys.cli import exits
from ibkeys.cli.changing import confirm
from ibkeys.cli.exits import write
from ibkeys.cli.options import Changing
from ibkeys.cli.render import write_csv, write_json
from ibkeys.cli.showing import LISTED_TROUBLES
from ibkeys.errors import Incomplete

if TYPE_CHECKING:
    from rich import progress

    from ibkeys.apply.apply_plan import ApplyPlan
    from ibkeys.change.interrupts import Interrupts
    from ibkeys.change.writer import Writer

PHASES: Final = {
    "enforcement-off": "enforcement off",
    "leaf-add": "additions, leaf ports",
    "end-add": "additions, end ports",
    "swap": "exchanges without room",
    "end-remove": "removals, end ports",
    "end-clear": "removals, end ports, second part",
    "leaf-remove": "removals, leaf ports",
    "leaf-clear": "removals, leaf ports, second part",
    "enforcement-on": "enforcement on",
}


def carry_out(
    command: str, writer: Writer, work: ApplyPlan, consent: Changing, format: str, interrupts: Interrupts, bar: Bar
) -> int:
    """Show *work*, ask, do it, report, and return the exit code. Raises Refused, and what applying raises.

    *interrupts* hold signals back while it is done, and only then.
    """
    for note in work.notes:
        exits.warn(note, "note")
    if format == "table":
        _write_phases(work, write)
    applied = False
    if consent.dry_run:
        _say_refusals(writer, work)
    elif work.pending:
        writer.check(work)
        exits.require_stdout()  # nothing is changed that could not be shown
        if work.phases:
            confirm(consent, (lambda: None) if format == "table" else lambda: _write_phases(work, _to_stderr))
        applied = True
        try:
            with interrupts:
                try:
                    writer.apply(work)
                finally:
                    bar.stop()
        except Incomplete:
            _say_failed(work, format)
            if format == "json":
                _report(command, work, consent.dry_run, applied, format)
            raise
    _say_failed(work, format)
    _report(command, work, consent.dry_run, applied, format)
    if consent.dry_run:
        return exits.SAYS_NO if work.phases else exits.DONE
    return exits.NOT_COMPLETED if work.failed or work.gone_back else exits.DONE


def _say_failed(work: ApplyPlan, format: str) -> None:
    listed = work.failed if format != "table" else work.failed[:LISTED_TROUBLES]
    for port, error in listed:
        exits.warn(f"{port}: {error}" if port is not None else error, "not written")
    if len(work.failed) > len(listed):
        exits.warn(f"and {len(work.failed) - len(listed)} more (all of them: -f json)", "not written")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def _say_refusals(writer: Writer, work: ApplyPlan) -> None:
    for refusal in work.refusals:
        exits.warn(str(refusal), "would be refused")
    for objection in writer.not_overridden(work):
        exits.warn(
            f"by interlock {objection.interlock}: {objection.message} ({objection.how_to_override})", "would be refused"
        )


def _write_phases(work: ApplyPlan, put: Callable[[str], None]) -> None:
    document = work.to_json()
    if work.digest is not None:
        put(f"digest of the plan: {work.digest}")
    put("to be done, in this order:" if document["phases"] else "nothing to change")
    for phase in document["phases"]:
        ports = f"{phase['ports']} port{'s' if phase['ports'] != 1 else ''}"
        put(f"  {PHASES[phase['phase']]}: {ports}, {phase['sets']} Set{'s' if phase['sets'] != 1 else ''}")
    if work.rest:
        put(f"{work.rest} further steps are left for `ibkeys apply --resume`")
    if work.removed:
        put(f"P_Keys that go, full to limited included: {work.removed}")
    for message in document["breaks"]:
        put(f"cut for a moment: {message}")


def _report(command: str, work: ApplyPlan, dry_run: bool, applied: bool, format: str) -> None:
    if format == "json":
        complete = applied and not (work.rest or work.failed or work.gone_back)
        document: dict[str, Any] = {"dry_run": dry_run, "applied": applied, "complete": complete}
        document |= {"undoes": work.undoes} if command == "undo" else {}
        write_json(command, {**document, "gone_back": work.gone_back, **work.to_json()})
    elif format == "csv":
        write_csv(["phase", "ports", "sets"], work.to_json()["phases"])
    elif work.gone_back:
        write("gone back: the tables are as they were" if not work.failed else "gone back, but for what is named above")
    elif applied and (work.rest or work.failed):
        on = f"ibkeys undo {work.undoes}" if work.undoes is not None else "ibkeys apply --resume"
        write(f"done in part: operation {work.operation_id} is open, `{on}` goes on")
    elif applied:
        back = "goes back" if work.undoes is None else "brings it back"
        write(f"done, verified by a fresh read; `ibkeys undo {work.operation_id}` {back}")
    elif dry_run and work.phases:
        write("dry run: nothing was changed")


class Bar:
    """A bar on a terminal while steps are made, nothing elsewhere: the `OnStep` of a run.

    It appears with the first step and must be gone (`stop`) before anything is asked or said.
    """

    def __init__(self, debug: bool) -> None:
        self._is_wanted = not debug and sys.stderr.isatty()
        self._bar: progress.Progress | None = None
        self._task: progress.TaskID | None = None

    def __call__(self, phase: str, done: int, whole: int) -> None:
        """Show how far a phase is."""
        if not self._is_wanted:
            return
        try:
            if self._bar is None:
                self._start()
            assert self._bar is not None
            assert self._task is not None
            self._bar.update(self._task, description=PHASES[phase], completed=done, total=whole)
        except (OSError, ValueError):  # the terminal is gone: the change goes on without it
            self._is_wanted, self._bar = False, None

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        self._bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def stop(self) -> None:
        """Take the bar away. May be called twice."""
        if self._bar is not None:
            with suppress(OSError, ValueError):
                self._bar.stop()
            self._bar = None


def wait_for_enter(interrupts: Interrupts) -> Callable[[float], bool]:
    """Return a function that waits for Enter at the terminal, up to the given seconds; without one it only waits.

    It raises KeyboardInterrupt when a signal asks to stop.
    """
    listening = sys.stdin is not None and sys.stdin.isatty()

    def wait(seconds: float) -> bool:
        nonlocal listening
        interrupts.check()
        if not listening:
            time.sleep(seconds)
            return False
        try:
            if not select.select([sys.stdin.fileno()], [], [], seconds)[0]:
                return False
            typed = os.read(sys.stdin.fileno(), 1024)
        except (OSError, ValueError):
            typed = b""
        listening = bool(typed)  # the terminal is gone: the time runs on
        return b"\n" in typed

    return wait
