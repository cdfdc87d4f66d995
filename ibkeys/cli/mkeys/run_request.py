"""A run of M_Keys as the command line requests it: a new run, or an earlier run that is resumed or undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ibkeys.cli.changing import require_typed_method, writer_of
from ibkeys.cli.guarding import hand_over
from ibkeys.cli.mkeys.confirming import awaiting_confirmation
from ibkeys.cli.mkeys.rollout_options import OpensmOptions
from ibkeys.cli.mkeys.rollout_output import run_listener
from ibkeys.cli.mkeys.rollout_shown import ShownRun
from ibkeys.cli.opening import open_fabric
from ibkeys.cli.showing import progress_bar
from ibkeys.cli.sm.files_request import ChangeWithHostsOptions
from ibkeys.cli.sm.hosts import hosts_of
from ibkeys.errors import Refused

if TYPE_CHECKING:
    from ibkeys.change.method import MethodChoice
    from ibkeys.change.writer import ChangeWriter
    from ibkeys.discovery.wanted import OnFound
    from ibkeys.managers.hosts import SmHost
    from ibkeys.mkeys.confirming import AwaitedRun
    from ibkeys.mkeys.methods import KeyMethod
    from ibkeys.mkeys.planning_options import PlanningOptions, ViaOpensm
    from ibkeys.mkeys.rollout.planned_run import PlannedRun

    PlanRun = Callable[[KeyMethod, ChangeWriter, PlanningOptions], PlannedRun]
    """A function that plans a run by this method."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The request for a run, without its keys.

    ``command``: the command that begins or began the run. ``method``: None if it is not chosen yet; ``check`` then
    raises UsageError for options that the chosen method does not have. ``confirm_within``: seconds; None: no
    confirmation. ``earlier``: the number of the operation to resume or undo; None for a new run.
    """

    command: str
    command_options: ChangeWithHostsOptions
    method: KeyMethod | None
    opensm: OpensmOptions
    confirm_within: int | None = None
    earlier: int | None = None
    check: Callable[[KeyMethod], None] = lambda method: None

    def hosts(self) -> list[SmHost]:
        """Return the hosts that may have an OpenSM, this one first; none for a simulated subnet."""
        return hosts_of(self.command_options.where, self.command_options.sm_hosts)

    def through(self, awaits: AwaitedRun | None = None) -> ViaOpensm:
        """Return the options for a run through OpenSM.

        *awaits*: the wait for the confirmation, which is notified when the run begins; None if there is none.
        """
        from ibkeys.mkeys.planning_options import ViaOpensm

        listener = run_listener()
        if awaits is not None:
            listener = replace(listener, began=awaits.began)
        how, is_awaited = self.opensm, self.confirm_within is not None
        return ViaOpensm(self.hosts(), how.sm_wait, how.open_while_rotating, listener, is_awaited, how.standby_wait)

    def planning(self, progress: OnFound | None = None, awaits: AwaitedRun | None = None) -> PlanningOptions:
        """Return the options for planning the run. *awaits*: as in `through`."""
        from ibkeys.mkeys.planning_options import PlanningOptions

        return PlanningOptions(lambda: self.through(awaits), progress)

    def carry_out(self, plan: PlanRun) -> int:
        """Plan the run by its method, show the plan, ask the user, make the run, and return the exit code.

        Raises Refused for an interlock, without confirmation, and if no method fits; UsageError for options that the
        method does not have; and the errors of *plan* and of the run.
        """
        command_options = self.command_options
        awaited = awaiting_confirmation(command_options, self.opensm, self.confirm_within, self.through)
        with awaited as awaits, self.open_writer() as writer:
            if awaits is not None:
                hand_over(awaits.guardian, command_options.where, writer.fabric)
            with progress_bar(command_options.where) as progress:
                method, choice = self._choose(writer, progress)
                run = plan(method, writer, self.planning(progress, awaits))
                run.choice = choice
            return ShownRun(
                writer, run.plan, command_options.consent, command_options.format, run, command_options.where, awaits
            ).carry_out()

    def _choose(self, writer: ChangeWriter, progress: OnFound | None) -> tuple[KeyMethod, MethodChoice | None]:
        """Return the method of the run, and the choice of it; None if the method was known already.

        Raises Refused if no method fits, or if the user must type the method; UsageError for options that the method
        does not have.
        """
        if self.method is not None:
            return self.method, None
        from ibkeys.mkeys.methods import KEY_METHODS
        from ibkeys.mkeys.opensm.planned import choose_for_keys

        choice = choose_for_keys(writer, self.hosts(), progress)
        assert choice is not None  # the method of a simulated subnet is known
        method = KEY_METHODS[choice.require()]
        self.check(method)
        require_typed_method(self.command_options.consent, choice)
        return method, choice

    @contextmanager
    def open_writer(self) -> Iterator[ChangeWriter]:
        """Open the fabric, and yield the writer for the command that begins or began the run.

        Raises Refused (``stale``) if another command has begun a run since the earlier one was looked up.
        """
        from ibkeys.store.journal import Journal
        from ibkeys.store.journal.runs import Runs

        where, consent = self.command_options.where, self.command_options.consent
        with (
            open_fabric(where, changing=True) as fabric,
            writer_of(fabric, self.command, consent, self.earlier) as writer,
        ):
            if self.earlier is not None:
                with Journal.read(fabric.stores.journal) as journal:
                    is_last = Runs(journal).is_last(self.earlier)
                if not is_last:
                    raise Refused("another command has begun a run of M_Keys in the meantime", "stale").unchanged(
                        "see `ibkeys journal`"
                    )
            yield writer
