"""The methods of a run of M_Keys by name. Each plans a new run, the rest of the last run, and the way back. The journal
has the name of the method of each run, and the same method finishes or undoes the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ibkeys.change.method import MethodName
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import OnFound
from ibkeys.errors import StoreError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.hosts import SmHost
from ibkeys.mkeys.opensm import planned
from ibkeys.mkeys.opensm.record import NAME
from ibkeys.mkeys.opensm.via_opensm import ViaOpensm
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import KeyCommand, plan_run
from ibkeys.mkeys.rollout.new_run import Order
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.removal import plan_removal
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.store.journal.runs import DIRECT, MKeyRun, RunOptions


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """The user's options for planning a run. A method uses those that it has; the caller refuses the others.

    ``through``: returns the options for a run through OpenSM; ``progress``: called with the progress of the sweep.
    ``order``, ``key_file``, ``opensm_conf``: as in `plan_run`. ``at_once``, ``max_failures``, ``first``, ``hosts``: as
    in `plan_rest`, for an earlier run. ``leaves_open``: the user has agreed that ports may have no M_Key afterwards.
    """

    through: Callable[[], ViaOpensm]
    progress: OnFound | None = None
    order: Order = "farthest"
    key_file: str = ""
    opensm_conf: Path | None = None
    at_once: int | None = None
    max_failures: int | None = None
    first: int | None = None
    hosts: Sequence[SmHost] = (SmHost(),)
    leaves_open: bool = False


class KeyMethod(ABC):
    """A method of a run of M_Keys. ``name``: its name on the command line and in the journal; ``words``: how a run was
    started by it. ``sends_sets``: ibkeys sends the Sets, port by port; else a subnet manager sets one key on all ports
    in one sweep."""

    name: MethodName
    words: str
    sends_sets: bool = False

    @abstractmethod
    def plan_keys(
        self,
        writer: ChangeWriter,
        command: KeyCommand,
        options: RunOptions,
        new_key: MKey | None,
        planning: PlanningOptions,
    ) -> PlannedRun:
        """Plan a new run of mkey-deploy or mkey-rotate. *new_key*: the key for all ports; None generates keys."""

    @abstractmethod
    def plan_removal(self, writer: ChangeWriter, options: RunOptions, planning: PlanningOptions) -> PlannedRun:
        """Plan a new run that removes the M_Key of every port."""

    @abstractmethod
    def plan_rest(self, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        """Plan the rest of the last run."""

    @abstractmethod
    def plan_return(self, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        """Plan to restore the keys and levels that the last run found."""


class DirectKeys(KeyMethod):
    """The method by which ibkeys sends the Sets."""

    name = DIRECT
    words = "directly"
    sends_sets = True

    def plan_keys(
        self,
        writer: ChangeWriter,
        command: KeyCommand,
        options: RunOptions,
        new_key: MKey | None,
        planning: PlanningOptions,
    ) -> PlannedRun:
        """Plan a new run; see `plan_run`."""
        order, key_file, conf = planning.order, planning.key_file, planning.opensm_conf
        return plan_run(writer, command, options, new_key, order, key_file, planning.progress, conf)

    def plan_removal(self, writer: ChangeWriter, options: RunOptions, planning: PlanningOptions) -> PlannedRun:
        """Plan a removal; see `plan_removal`."""
        limits = options.at_once, options.first, options.max_failures, planning.order
        return plan_removal(writer, *limits, planning.progress, leaves_open=planning.leaves_open)

    def plan_rest(self, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        """Plan the rest of the last run; see `plan_rest`."""
        limits = planning.at_once, planning.max_failures, planning.progress
        return plan_rest(writer, *limits, planning.opensm_conf, planning.first, planning.hosts)

    def plan_return(self, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        """Plan the way back; see `plan_return`."""
        limits = planning.at_once, planning.max_failures, planning.progress
        return plan_return(writer, *limits, leaves_open=planning.leaves_open)


class KeysThroughOpensm(KeyMethod):
    """The method by which OpenSM sets its one M_Key on all ports."""

    name = NAME
    words = "through OpenSM"

    def plan_keys(
        self,
        writer: ChangeWriter,
        command: KeyCommand,
        options: RunOptions,
        new_key: MKey | None,
        planning: PlanningOptions,
    ) -> PlannedRun:
        """Plan a new run; see `ibkeys.mkeys.opensm.planned`."""
        with_one_key = replace(options, same=True)
        return planned.plan_keys(writer, command, with_one_key, planning.through(), new_key, planning.progress)

    def plan_removal(self, writer: ChangeWriter, options: RunOptions, planning: PlanningOptions) -> PlannedRun:
        """Plan a removal; see `ibkeys.mkeys.opensm.planned`."""
        return planned.plan_removal(writer, planning.through(), planning.progress, leaves_open=planning.leaves_open)

    def plan_rest(self, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        """Plan the rest of the last run; see `ibkeys.mkeys.opensm.planned`."""
        return planned.plan_rest(writer, planning.through(), planning.progress)

    def plan_return(self, writer: ChangeWriter, planning: PlanningOptions) -> PlannedRun:
        """Plan the way back; see `ibkeys.mkeys.opensm.planned`."""
        return planned.plan_return(writer, planning.through(), planning.progress, leaves_open=planning.leaves_open)


KEY_METHODS: Final[Mapping[str, KeyMethod]] = {each.name: each for each in (DirectKeys(), KeysThroughOpensm())}
"""Name → method."""


def method_of_run(run: MKeyRun) -> KeyMethod:
    """Return the method of a run in the journal. Raises StoreError for a method that this version does not know."""
    method = KEY_METHODS.get(run.method)
    if method is None:
        raise StoreError(f"the run was made through {run.method!r}, which this ibkeys does not know")
    return method
