"""M_Keys over a fabric: mkey-deploy, mkey-rotate and mkey-remove."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import ShownChange, writer_of
from ibkeys.cli.mkeys import rollout_options
from ibkeys.cli.mkeys.rollout_options import AT_ONCE, MAX_FAILURES, Course, Keys
from ibkeys.cli.mkeys.rollout_output import RunOutput
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, Where
from ibkeys.cli.secrets import read_m_key
from ibkeys.cli.showing import progress_bar, say_notes
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.discovery.sweep import OnFound
    from ibkeys.mkeys.rollout.new_keys import Command
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.mkeys.rollout.rest import GoOn
    from ibkeys.mkeys.rollout.result import PortResult

    NewRun = Callable[[Writer, OnFound | None], PlannedRun]


@click.command("mkey-deploy")
@rollout_options.keys
@rollout_options.course
@options.changing
@options.format
@options.fabric
def mkey_deploy(where: Where, keys: Keys, course: Course, consent: Changing, format: str) -> int:
    """Give every port of the subnet its first M_Key.

    Say whether all ports get one key (--same) or each its own (--per-port). Ports that have a key are left alone.
    Each key is generated, and is in the key store, on disk, before it is sent. Level and lease travel with it; what is
    not given stays as it is.
    """
    return _give_keys("mkey-deploy", where, keys, course, consent, format)


@click.command("mkey-rotate")
@rollout_options.keys
@rollout_options.course
@options.changing
@options.format
@options.fabric
def mkey_rotate(where: Where, keys: Keys, course: Course, consent: Changing, format: str) -> int:
    """Give every port of the subnet that has an M_Key a new one.

    Say whether all ports get one key (--same) or each its own (--per-port). Ports without a key are left alone, and so
    is every port whose key is not known. Each key is generated, and is in the key store, on disk, before it is sent;
    the old one stays there. Level and lease travel with it; what is not given stays as it is.
    """
    return _give_keys("mkey-rotate", where, keys, course, consent, format)


@click.command("mkey-remove")
@rollout_options.course
@click.option("--leave-open", is_flag=True, help="That the ports are open to everybody afterwards is meant.")
@options.changing
@options.format
@options.fabric
def mkey_remove(where: Where, course: Course, leave_open: bool, consent: Changing, format: str) -> int:
    """Take the M_Key of every port of the subnet away.

    M_Key, level and lease become 0, in one Set that carries the key that the port has now. Afterwards every host of the
    subnet may change the ports. A port whose key is not known is left alone and named. Every former key stays in the
    key store, and --abort gives it back.
    """
    course.check([])

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.rollout.removal import plan_removal

        return plan_removal(
            writer,
            course.at_once or AT_ONCE,
            course.first,
            course.max_failures or MAX_FAILURES,
            course.order or "farthest",
            progress,
            leaves_open=leave_open,
        )

    return _carry_out("mkey-remove", where, course, consent, format, plan)


def _give_keys(command: Command, where: Where, keys: Keys, course: Course, consent: Changing, format: str) -> int:
    keys.check(course)
    key = read_m_key(keys.new_m_key, "--new-m-key", confirm=True) if keys.new_m_key is not None else None
    if keys.opensm_conf is not None:
        from ibkeys.host.opensm_conf import read_conf

        read_conf(keys.opensm_conf)  # a file that cannot be read is said before the fabric is

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.rollout.new_keys import plan_run
        from ibkeys.store.keys.runs import RunOptions

        bounds = RunOptions(
            keys.same,
            keys.protect,
            keys.lease,
            course.at_once or AT_ONCE,
            course.first,
            course.max_failures or MAX_FAILURES,
        )
        file = keys.new_m_key[1:] if keys.new_m_key is not None and keys.new_m_key.startswith("@") else ""
        return plan_run(writer, command, bounds, key, course.order or "farthest", file, progress, keys.opensm_conf)

    return _carry_out(command, where, course, consent, format, plan, keys.opensm_conf)


def _carry_out(
    command: str,
    where: Where,
    course: Course,
    consent: Changing,
    format: str,
    plan_new: NewRun,
    opensm_conf: Path | None = None,
) -> int:
    """Plan with *plan_new*, or take the last run up again, and carry out what was planned."""

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        from ibkeys.mkeys.rollout.going_back import plan_return
        from ibkeys.mkeys.rollout.rest import plan_rest

        if course.abort:
            return plan_return(writer, course.at_once, course.max_failures, progress)
        if course.go_on or course.resume:
            how: GoOn = "continue" if course.go_on else "resume"
            return plan_rest(writer, how, course.at_once, course.max_failures, progress, opensm_conf)
        return plan_new(writer, progress)

    with open_fabric(where, changing=True) as fabric, writer_of(fabric, command, consent) as writer:
        with progress_bar(where) as progress:
            run = plan(writer, progress)
        begun = run.plan.command
        # Whoever means to give keys shall not take them away by finishing that run, nor the other way round.
        if "mkey-remove" in {command, begun} and command != begun:
            raise UsageError(f"the last run is one of {begun}: ibkeys {begun} {course.ways[0]}")
        return _ShownRun(writer, run, consent, format, where).carry_out()


class _ShownRun(ShownChange):
    """A run over many ports, shown in numbers and reported port by port."""

    def __init__(self, writer: Writer, run: PlannedRun, consent: Changing, format: str, where: Where) -> None:
        super().__init__(writer, run.plan, consent, format)
        self._run = run
        self._where = where
        self._out = RunOutput(writer.command, run, format)

    @property
    def is_pending(self) -> bool:
        """Whether ports are to be changed, or only the key store is to be told."""
        return self._run.pending

    def say_notes(self) -> None:
        """Say what the sweep and the plan note, and under a subnet manager what to do instead."""
        say_notes(self._run.found)
        super().say_notes()
        if any(objection.interlock == "mkey-under-sm" for objection in self.writer.not_overridden(self.plan)):
            for line in self._run.procedure:
                exits.warn(line, "under a subnet manager")

    def show(self, put: Callable[[str], None]) -> None:
        """Write how many ports get what."""
        self._out.write_plan(put)

    def apply(self) -> None:
        """Make the run; the account is written whatever becomes of it."""
        from ibkeys.mkeys.rollout.planned_run import carry_out

        try:
            with _bar(self._where, self._run) as step:

                def report(result: PortResult) -> None:
                    self._out.report(result)
                    step()

                carry_out(self.writer, self._run, report)
        finally:
            self._out.write_summary()

    def report(self, applied: bool) -> int:
        """Say what a dry run would do to each port, or whether the run is complete."""
        return self._out.exit_code() if applied else self._out.dry_run(self.consent.dry_run)


@contextmanager
def _bar(where: Where, run: PlannedRun) -> Iterator[Callable[[], None]]:
    """Yield what is called for each port; on a terminal it moves a bar."""
    if where.debug or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("ports"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=len(run.jobs) + len(run.already_set) + len(run.skipped))
        yield lambda: bar.advance(task)
