"""M_Keys over a fabric: mkey-deploy and mkey-rotate."""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import confirm, name_of, say, warn_of, warn_of_refusals
from ibkeys.cli.exits import write
from ibkeys.cli.options import Changing, Where
from ibkeys.cli.render import IDENTITY, heading_of, schema, write_csv
from ibkeys.cli.secrets import read_m_key
from ibkeys.cli.showing import LISTED_TROUBLES, progress_bar, say_notes
from ibkeys.cli.types import Number
from ibkeys.cli.where import open_fabric
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.fabric.discovery import Progress
    from ibkeys.mkeys.rollout import PortResult
    from ibkeys.mkeys.rotate import Command, GoOn, Order, PlannedRun

F = TypeVar("F", bound=Callable[..., Any])
AT_ONCE: Final = 64
MAX_FAILURES: Final = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options of a run say."""

    same: bool
    new_m_key: str | None
    protect: int | None
    lease: int | None
    first: int | None
    order: str | None
    at_once: int | None
    max_failures: int | None
    go_on: bool
    resume: bool
    abort: bool


def _run_options(command: F) -> F:
    names = list(Asked.__dataclass_fields__)

    @functools.wraps(command)
    def wrapper(**values: Any) -> Any:
        return command(asked=Asked(**{name: values.pop(name) for name in names}), **values)

    wrapped: Any = wrapper
    for option in reversed(
        [
            click.option("--same", is_flag=True, help="One key for all ports, as stock OpenSM needs it."),
            click.option(
                "--new-m-key",
                metavar="@FILE|-",
                help="The key, with --same: @FILE reads it, '-' asks for it without echo.  [default: generated]",
            ),
            click.option("--protect", type=Number(0, 3), metavar="0..3", help="M_KeyProtectBits."),
            click.option("--lease", type=Number(0, 65535), metavar="SECONDS", help="M_KeyLeasePeriod, 0 for none."),
            click.option("--first", type=Number(1, 1_000_000), metavar="N", help="Only the first N ports, then wait."),
            click.option("--continue", "go_on", is_flag=True, help="After --first: the other ports."),
            click.option("--resume", is_flag=True, help="Finish a run that was cut off, stopped, or had failures."),
            click.option("--abort", is_flag=True, help="Give the ports of the last run back what they had before."),
            click.option(
                "--order",
                type=click.Choice(["farthest", "nearest"]),
                help="Which ports come first, by hops from here.  [default: farthest]",
            ),
            click.option(
                "--at-once", type=Number(1, 1024), metavar="N", help=f"Most ports in change.  [default: {AT_ONCE}]"
            ),
            click.option(
                "--max-failures",
                type=Number(1, 1_000_000),
                metavar="N",
                help=f"Stop when N ports have failed.  [default: {MAX_FAILURES}]",
            ),
        ]
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


@click.command("mkey-deploy")
@_run_options
@options.changing
@options.format
@options.fabric
def mkey_deploy(where: Where, asked: Asked, consent: Changing, format: str) -> int:
    """Give every port of the subnet its first M_Key.

    Ports that have a key are left alone. Each key is generated, one for each port, and is in the key store, on disk,
    before it is sent. Level and lease travel with it; what is not given stays as it is.
    """
    return _carry_out("mkey-deploy", where, asked, consent, format)


@click.command("mkey-rotate")
@_run_options
@options.changing
@options.format
@options.fabric
def mkey_rotate(where: Where, asked: Asked, consent: Changing, format: str) -> int:
    """Give every port of the subnet that has an M_Key a new one.

    Ports without a key are left alone, and so is every port whose key is not known. Each key is generated, one for
    each port, and is in the key store, on disk, before it is sent; the old one stays there. Level and lease travel
    with it; what is not given stays as it is.
    """
    return _carry_out("mkey-rotate", where, asked, consent, format)


def _carry_out(command: Command, where: Where, asked: Asked, consent: Changing, format: str) -> int:
    _check(asked)
    key = read_m_key(asked.new_m_key, "--new-m-key", confirm=True) if asked.new_m_key is not None else None
    from ibkeys.change.consent import Consent
    from ibkeys.change.writer import Writer
    from ibkeys.mkeys.rotate import carry_out, plan_rest, plan_return, plan_run
    from ibkeys.store.runs import RunOptions

    def plan(writer: Writer, progress: Progress | None) -> PlannedRun:
        if asked.abort:
            return plan_return(writer, asked.at_once, asked.max_failures, progress)
        if asked.go_on or asked.resume:
            how: GoOn = "continue" if asked.go_on else "resume"
            return plan_rest(writer, how, asked.at_once, asked.max_failures, progress)
        bounds = RunOptions(
            asked.same,
            asked.protect,
            asked.lease,
            asked.at_once or AT_ONCE,
            asked.first,
            asked.max_failures or MAX_FAILURES,
        )
        order: Order = "nearest" if asked.order == "nearest" else "farthest"
        file = asked.new_m_key[1:] if asked.new_m_key is not None and asked.new_m_key.startswith("@") else ""
        return plan_run(writer, command, bounds, key, order, file, progress)

    agreed = Consent(consent.force, frozenset(consent.override))
    with (
        open_fabric(where, changing=True) as fabric,
        Writer(fabric, command, agreed, dry_run=consent.dry_run) as writer,
    ):
        with progress_bar(where) as progress:
            run = plan(writer, progress)
        say_notes(run.found)
        warn_of(run.plan)
        if any(objection.interlock == "mkey-under-sm" for objection in writer.uncovered(run.plan)):
            for line in run.procedure:
                exits.warn(line, "under a subnet manager")
        out = _Output(command, run, format)
        if format == "table":
            out.write_plan(write)
        if consent.dry_run or not run.pending:
            warn_of_refusals(writer, run.plan)
            return out.dry_run(consent.dry_run)
        writer.check(run.plan)
        exits.flush_stdout()
        confirm(consent, lambda: None if format == "table" else out.write_plan(say))
        try:
            with _bar(where, run) as step:

                def report(result: PortResult) -> None:
                    out.report(result)
                    step()

                carry_out(writer, run, report)
        finally:
            out.write_summary()
    return out.exit_code()


def _check(asked: Asked) -> None:
    ways = [name for name in ("continue", "resume", "abort") if getattr(asked, "go_on" if name == "continue" else name)]
    if len(ways) > 1:
        raise UsageError(f"--{' and --'.join(ways)} exclude each other")
    fixed = {
        "--same": asked.same,
        "--new-m-key": asked.new_m_key is not None,
        "--protect": asked.protect is not None,
        "--lease": asked.lease is not None,
        "--first": asked.first is not None,
        "--order": asked.order is not None,
    }
    given = [name for name, is_given in fixed.items() if is_given]
    if ways and given:
        raise UsageError(f"--{ways[0]} is of a run that began with its own {', '.join(given)}: leave that out")
    if asked.new_m_key is not None and not asked.same:
        raise UsageError("--new-m-key is one key for every port: say so with --same; without it keys are generated")


class _Output:
    """What a run says: each port as it is done with, and the account at the end."""

    def __init__(self, command: str, run: PlannedRun, format: str) -> None:
        self._command = command
        self._run = run
        self._format = format
        self._rows: list[dict[str, Any]] = []
        self._listed = 0

    def write_plan(self, put: Callable[[str], None]) -> None:
        """Write what would change: how many ports, what of them, and which are left alone."""
        run = self._run
        if not run.jobs and not run.settled:
            put(
                "nothing to change"
                + ("; only the key store is to be told that the run has ended" if run.pending else "")
            )
        for job in run.settled:
            put(f"{heading_of(job.port.identity())}: has it already, only the key store is to be told")
        if run.jobs:
            back = ", back to what they had" if run.goes_back else ""
            put(f"{_ports(len(run.jobs))} in change{back}, at most {run.options.at_once} at once")
        kinds = Counter((change.kind, change.before, change.after) for change in run.plan.changes)
        for (kind, before, after), count in kinds.items():
            name = name_of({"kind": kind, "index": None}) if kind != "m_key" else self._key_name()
            put(f"  {name}: {before} -> {after} on {_ports(count)}")
        for stage, what in zip(run.stages[1:], ("last, the port of an SM", "last of all, the own port"), strict=False):
            for job in stage:
                put(f"  {what}: {heading_of(job.port.identity())}")
        if run.later:
            put(f"  {_ports(run.later)} wait for --continue")
        reasons = Counter(result.reason for result in run.skipped if not result.unread)
        for reason, count in reasons.items():
            put(f"left alone: {_ports(count)}: {reason}")
        for result in [result for result in run.skipped if result.unread][:LISTED_TROUBLES]:
            put(f"left alone: {heading_of(result.port)}: {result.reason}")
        unread = sum(result.unread for result in run.skipped)
        if unread > LISTED_TROUBLES:
            put(f"left alone: and {unread - LISTED_TROUBLES} more (all of them: -f json)")

    def _key_name(self) -> str:
        if self._run.goes_back:
            return "M_Key"
        return "M_Key, one for all" if self._run.options.same else "M_Key, each its own"

    def dry_run(self, is_dry: bool) -> int:
        """Write what would be done to each port, in the order of change, and return the exit code."""
        run = self._run
        for result in run.skipped:
            self.report(result)
            run.account.add(result)
        changes: dict[int, list[dict[str, Any]]] = {}
        for change in run.plan.changes:
            each = {"kind": change.kind, "index": None, "before": change.before, "after": change.after}
            changes.setdefault(id(change.port), []).append(each)
        for job in run.jobs:
            self._planned(job.port.identity(), changes.get(id(job.port), []))
        run.account.waiting = len(run.jobs) + len(run.settled) + run.later
        self.write_summary(is_dry)
        if run.account.unread:
            return self.exit_code()
        return exits.SAYS_NO if run.pending else exits.DONE

    def _planned(self, port: dict[str, Any], changes: list[dict[str, Any]]) -> None:
        if self._format == "json":
            self._line({**port, "result": "planned", "reason": None, "changes": changes})
        elif self._format == "csv":
            self._rows.append({**port, "result": "planned", "reason": None})
        else:
            listed = ", ".join(f"{name_of(each)} {each['before']} -> {each['after']}" for each in changes)
            write(f"{heading_of(port)}: {listed}")

    def report(self, result: PortResult) -> None:
        """Say what became of one port."""
        row = {**result.port, "result": result.result, "reason": result.reason}
        if self._format == "json":
            self._line(row)
        elif self._format == "csv":
            self._rows.append(row)
        if result.result == "failed" and (self._format != "table" or self._listed < LISTED_TROUBLES):
            self._listed += 1
            exits.warn(f"{heading_of(result.port)}: {result.reason}", "failed")

    def _line(self, document: dict[str, Any]) -> None:
        write(json.dumps(document))
        exits.flush_stdout()

    def write_summary(self, dry_run: bool = False) -> None:
        """Write the account of the run."""
        account = self._run.account
        if self._format == "json":
            summary = {"unreached": self._run.found.unreached, **account.to_json()}
            extra = {"interlocks": [o.interlock for o in self._run.plan.objections]} if dry_run else {}
            self._line({"schema": schema(self._command), "dry_run": dry_run, "summary": summary, **extra})
            return
        if self._format == "csv":
            write_csv([*IDENTITY, "result", "reason"], self._rows)
            return
        if dry_run or not self._run.pending:
            if dry_run:
                write("dry run: nothing was changed")
            return
        write(
            f"run {account.run}: {_ports(account.done)} done, {account.failed} failed, {account.skipped} left alone, "
            f"{account.waiting} waiting"
        )
        if account.replies_lost or account.sets_lost:
            write(
                f"  replies lost after the Set took effect: {account.replies_lost}; Sets that never arrived: "
                f"{account.sets_lost}"
            )
        if account.violations:
            write(f"  asking after lost replies has counted at most {account.violations} M_Key violations")
        if account.unresolved:
            write(f"  {_ports(account.unresolved)} answer to no key: the old and the new one are in the key store")
        for line in self._next_steps():
            write(line)

    def _next_steps(self) -> Iterator[str]:
        account, run = self._run.account, self._run
        again = f"ibkeys {self._command}"
        if account.stopped:
            yield f"stopped: {account.stopped}"
        if run.goes_back:
            if account.failed or account.waiting:
                yield f"next: `{again} --abort` goes on with those that are not back"
        elif account.failed or account.stopped or (account.waiting and not run.later):
            yield f"next: `{again} --resume` finishes the run, `{again} --abort` goes back"
        elif run.later:
            yield f"next: look at the ports, then `{again} --continue` for the others, or `{again} --abort`"

    def exit_code(self) -> int:
        """Return the exit code, and say on standard error what is missing."""
        account = self._run.account
        if account.is_complete:
            return exits.DONE
        missing = [f"{account.failed} failed"] if account.failed else []
        missing += [f"{account.unread} could not be asked"] if account.unread else []
        missing += [f"{account.waiting} were not begun"] if account.stopped else []
        exits.warn(f"the run is not complete: of the ports {', '.join(missing)}", "error")
        return exits.NOT_COMPLETED


def _ports(count: int) -> str:
    return f"{count} port{'s' if count != 1 else ''}"


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
        task = bar.add_task("", total=len(run.jobs) + len(run.settled) + len(run.skipped))
        yield lambda: bar.advance(task)
