"""A run of M_Keys as the command line asks for it, a new one or an earlier one that goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ibkeys.cli.changing import writer_of
from ibkeys.cli.mkeys.confirming import Awaiting, awaiting
from ibkeys.cli.mkeys.rollout_options import OpensmOptions
from ibkeys.cli.mkeys.rollout_output import run_listener
from ibkeys.cli.mkeys.rollout_shown import ShownRun
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.options import Changing, SmHosts, Where
from ibkeys.cli.showing import progress_bar
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.errors import Refused

if TYPE_CHECKING:
    from ibkeys.change.writer import Writer
    from ibkeys.discovery.wanted import OnFound
    from ibkeys.mkeys.opensm.planned import ViaOpensm
    from ibkeys.mkeys.rollout.planned_run import PlannedRun

    PlanDirect = Callable[[Writer, OnFound | None], PlannedRun]
    """Plans a run by own Sets."""
    PlanThrough = Callable[[Writer, ViaOpensm, OnFound | None], PlannedRun]
    """Plans a run through OpenSM."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the command line asks of a run, without its keys. ``command``: the one that begins it, or began it;
    ``confirm_within``: seconds, None where it needs no confirmation; ``earlier``: the number of the operation that goes
    on or back, None for a new one."""

    command: str
    where: Where
    sm_hosts: SmHosts
    consent: Changing
    format: str
    is_through_opensm: bool
    opensm: OpensmOptions
    confirm_within: int | None = None
    earlier: int | None = None

    def through(self, awaits: Awaiting | None = None) -> ViaOpensm:
        """Return the options for a run through OpenSM. *awaits*: learns when the run begins."""
        from ibkeys.mkeys.opensm.planned import ViaOpensm

        listener = run_listener()
        if awaits is not None:
            listener = replace(listener, began=awaits.began)
        hosts, is_awaited, how = hosts_of(self.where, self.sm_hosts), self.confirm_within is not None, self.opensm
        return ViaOpensm(hosts, how.sm_wait, how.open_while_rotating, listener, is_awaited, how.standby_wait)

    def carry_out(self, direct: PlanDirect, through: PlanThrough) -> int:
        """Plan a run by the one or the other, show it, ask, make it, and return the exit code."""
        with self._awaiting() as awaits, self.open_writer() as writer:
            if awaits is not None:
                awaits.keep_key(self.where, writer.fabric)
            with progress_bar(self.where) as progress:
                if self.is_through_opensm:
                    run = through(writer, self.through(awaits), progress)
                else:
                    run = direct(writer, progress)
            return ShownRun(writer, run.plan, self.consent, self.format, run, self.where, awaits).carry_out()

    @contextmanager
    def open_writer(self) -> Iterator[Writer]:
        """Open the fabric, and yield the writer of the command that begins the run, or began it. Raises Refused
        (``stale``) if another command has begun a run since the earlier one was looked up."""
        from ibkeys.store.journal import Journal
        from ibkeys.store.journal.runs import Runs

        with open_fabric(self.where, changing=True) as fabric, writer_of(fabric, self.command, self.consent) as writer:
            if self.earlier is not None:
                with Journal.read(fabric.stores.journal) as journal:
                    last = Runs(journal).last()
                if last is None or last.id != self.earlier:
                    raise Refused("another command has begun a run of M_Keys in the meantime", "stale").unchanged(
                        "see `ibkeys journal`"
                    )
            yield writer

    def _awaiting(self) -> AbstractContextManager[Awaiting | None]:
        """Start the child of --confirm-within, which is left at the end; None if no run is to be confirmed."""
        if self.confirm_within is None or self.consent.dry_run:
            return nullcontext()
        return awaiting(self.where, self.sm_hosts, self.opensm.sm_wait, self.confirm_within, self.through)
