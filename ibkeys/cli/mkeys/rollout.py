"""M_Keys over a fabric: mkey-deploy and mkey-rotate."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ibkeys.cli import exits, options
from ibkeys.cli.changing import ShownChange, writer_of
from ibkeys.cli.mkeys.rollout_output import RunOutput
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, Where
from ibkeys.cli.secrets import read_m_key
from ibkeys.cli.showing import progress_bar, say_notes
from ibkeys.cli.types import Number
from ibkeys.errors import UsageError

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.discovery.sweep import OnFound
    from ibkeys.mkeys.rollout.new_keys import Command
    from ibkeys.mkeys.rollout.new_run import Order
    from ibkeys.mkeys.rollout.planned_run import PlannedRun
    from ibkeys.mkeys.rollout.rest import GoOn
    from ibkeys.mkeys.rollout.result import PortResult

F = TypeVar("F", bound=Callable[..., Any])
AT_ONCE: Final = 64
MAX_FAILURES: Final = 5


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options of a run say."""

    same: bool
    per_port: bool
    opensm_conf: Path | None
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
            click.option("--per-port", is_flag=True, help="A key of its own for each port: stock OpenSM knows none."),
            click.option(
                "--opensm-conf",
                metavar="FILE",
                type=click.Path(path_type=Path),
                help="The opensm.conf of an SM of this subnet: it must have the new key.",
            ),
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

    Say whether all ports get one key (--same) or each its own (--per-port). Ports that have a key are left alone.
    Each key is generated, and is in the key store, on disk, before it is sent. Level and lease travel with it; what is
    not given stays as it is.
    """
    return _carry_out("mkey-deploy", where, asked, consent, format)


@click.command("mkey-rotate")
@_run_options
@options.changing
@options.format
@options.fabric
def mkey_rotate(where: Where, asked: Asked, consent: Changing, format: str) -> int:
    """Give every port of the subnet that has an M_Key a new one.

    Say whether all ports get one key (--same) or each its own (--per-port). Ports without a key are left alone, and so
    is every port whose key is not known. Each key is generated, and is in the key store, on disk, before it is sent;
    the old one stays there. Level and lease travel with it; what is not given stays as it is.
    """
    return _carry_out("mkey-rotate", where, asked, consent, format)


def _carry_out(command: Command, where: Where, asked: Asked, consent: Changing, format: str) -> int:
    _check(asked)
    key = read_m_key(asked.new_m_key, "--new-m-key", confirm=True) if asked.new_m_key is not None else None
    from ibkeys.host.opensm_conf import read_conf
    from ibkeys.mkeys.rollout.going_back import plan_return
    from ibkeys.mkeys.rollout.new_keys import plan_run
    from ibkeys.mkeys.rollout.rest import plan_rest
    from ibkeys.store.keys.runs import RunOptions

    if asked.opensm_conf is not None:
        read_conf(asked.opensm_conf)  # a file that cannot be read is said before the fabric is

    def plan(writer: Writer, progress: OnFound | None) -> PlannedRun:
        if asked.abort:
            return plan_return(writer, asked.at_once, asked.max_failures, progress)
        if asked.go_on or asked.resume:
            how: GoOn = "continue" if asked.go_on else "resume"
            return plan_rest(writer, how, asked.at_once, asked.max_failures, progress, asked.opensm_conf)
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
        return plan_run(writer, command, bounds, key, order, file, progress, asked.opensm_conf)

    with open_fabric(where, changing=True) as fabric, writer_of(fabric, command, consent) as writer:
        with progress_bar(where) as progress:
            run = plan(writer, progress)
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


def _check(asked: Asked) -> None:
    ways = [name for name in ("continue", "resume", "abort") if getattr(asked, "go_on" if name == "continue" else name)]
    if len(ways) > 1:
        raise UsageError(f"--{' and --'.join(ways)} exclude each other")
    fixed = {
        "--same": asked.same,
        "--per-port": asked.per_port,
        "--new-m-key": asked.new_m_key is not None,
        "--protect": asked.protect is not None,
        "--lease": asked.lease is not None,
        "--first": asked.first is not None,
        "--order": asked.order is not None,
    }
    given = [name for name, is_given in fixed.items() if is_given]
    if asked.abort and asked.opensm_conf is not None:
        raise UsageError("--abort gives former keys back, whatever an opensm.conf says: leave --opensm-conf out")
    if ways and given:
        raise UsageError(f"--{ways[0]} is of a run that began with its own {', '.join(given)}: leave that out")
    if asked.new_m_key is not None and not asked.same:
        raise UsageError("--new-m-key is one key for every port: say so with --same; without it keys are generated")
    if asked.same and asked.per_port:
        raise UsageError("--same and --per-port exclude each other")
    if not (ways or asked.same or asked.per_port):
        raise UsageError(
            "say whether all ports get one key or each its own: --same is what stock OpenSM can keep (its m_key), "
            "--per-port lasts only where no SM runs or one that has m_key_per_port"
        )


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
