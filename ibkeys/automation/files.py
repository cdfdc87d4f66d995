"""Finishing and undoing changes of OpenSMs' files by a script: changes of sm_key and sa_key, or of part_enforce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ibkeys.automation.making import ChangeArguments, PreparedChange, make_change
from ibkeys.automation.methods import ThroughOpenSM
from ibkeys.automation.result import ChangeResult
from ibkeys.change.interrupts import Interrupts
from ibkeys.change.open_operations import OperationTarget
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import UsageError
from ibkeys.harden.enforcement import command_of_writer, plan_rest, plan_restoring, refuse_undo
from ibkeys.harden.enforcement_run import EnforcementPlan
from ibkeys.harden.step import HardenRequest
from ibkeys.managers.hosts import SmHost
from ibkeys.managers.site import hosts_in, reach
from ibkeys.mkeys.planning_options import RunListener
from ibkeys.smkeys.giving_up import give_up, refuse_ended, refuse_written
from ibkeys.smkeys.planning import KeyChange, plan_change
from ibkeys.smkeys.recorded_changes import require_open
from ibkeys.smkeys.run import SmKeySettings
from ibkeys.store.journal import Journal

_SM_KEYS = "smkey-rotate"


@dataclass
class _Files(PreparedChange):
    """A prepared change of files. ``words``: its description; ``act``: makes it, if its plan does not."""

    plan: Plan
    words: Sequence[str]
    interrupts: Interrupts
    act: Callable[[], Sequence[str]] | None = None

    @property
    def method(self) -> str:
        """The method ``opensm``."""
        return "opensm"

    @property
    def is_pending(self) -> bool:
        """Whether files change, or the operation's keys are given up."""
        return self.act is not None or self.plan.pending

    def notes(self) -> list[str]:
        """Return the notes of the plan, and the description of the change."""
        return [*self.plan.notes, *self.words]

    def make(self, writer: ChangeWriter) -> None:
        """Make the change."""
        with self.interrupts:
            if self.act is not None:
                self.plan.notes += self.act()
            else:
                writer.apply(self.plan)

    def result(self, is_made: bool) -> ChangeResult:
        """Return whether the files have the wanted contents, and every port shows them."""
        silent = self.plan.silent if isinstance(self.plan, EnforcementPlan) else ()
        is_done = is_made or not self.is_pending
        is_changed = is_made and self.act is None and self.plan.pending
        return ChangeResult(self.plan.command, changed=is_changed, proven=is_done and not silent, notes=tuple(silent))


def finish_files(asked: ChangeArguments, target: OperationTarget) -> ChangeResult:
    """Finish a change of files that was begun. Raises UsageError for a method other than OpenSM and for a simulated
    subnet, and the errors of planning."""
    if target.kind == "sm-keys":
        return make_change(_SM_KEYS, asked, lambda writer: _sm_keys(writer, asked, target))

    def prepare(writer: ChangeWriter) -> _Files:
        plan = plan_rest(writer, _request(asked, target), target.record)
        return _Files(plan, plan.words, Interrupts())

    return make_change(command_of_writer(target.record), asked, prepare)


def take_back_files(asked: ChangeArguments, target: OperationTarget) -> ChangeResult:
    """Restore the files as a change found them, or give up its keys if no file has them. Raises UsageError as
    `finish_files`, and the errors of planning."""
    if target.kind == "sm-keys":
        refuse_ended(target.record)
        return make_change(_SM_KEYS, asked, lambda writer: _keys_given_up(writer, asked, target))

    def prepare(writer: ChangeWriter) -> _Files:
        refuse_undo(writer, target.id)
        plan = plan_restoring(writer, _request(asked, target), target.id)
        return _Files(plan, plan.words, Interrupts())

    return make_change("undo", asked, prepare)


def _sm_keys(writer: ChangeWriter, asked: ChangeArguments, target: OperationTarget) -> _Files:
    require_open(writer, target.id)
    interrupts = Interrupts()
    settings = SmKeySettings(_opensm(asked).wait, check=interrupts.check, say=asked.tell)
    change = plan_change(writer, reach(writer.enter, _hosts(asked, target)), {}, settings, False)
    return _Files(change, [f"new sm_key and sa_key in {file.name}" for file in change.managers.files], interrupts)


def _keys_given_up(writer: ChangeWriter, asked: ChangeArguments, target: OperationTarget) -> _Files:
    prepared = _sm_keys(writer, asked, target)
    change = prepared.plan
    assert isinstance(change, KeyChange)
    refuse_written(writer, change, target.id)
    prepared.words = ["no file has the new keys: they are given up"]
    prepared.act = lambda: give_up(writer, change, target.id)
    return prepared


def _request(asked: ChangeArguments, target: OperationTarget) -> HardenRequest:
    listener = RunListener(asked.tell, asked.tell)
    wait = _opensm(asked).wait
    return HardenRequest(_hosts(asked, target), wait, listener=listener, say=asked.tell, is_dry=asked.dry_run)


def _opensm(asked: ChangeArguments) -> ThroughOpenSM:
    """Return the method that reaches the hosts. Raises UsageError for another method."""
    if not isinstance(asked.via, ThroughOpenSM | None):
        raise UsageError("the operation changes files of OpenSMs: give via=ThroughOpenSM(), or omit it")
    return asked.via or ThroughOpenSM()


def _hosts(asked: ChangeArguments, target: OperationTarget) -> list[SmHost]:
    """Return this host, and the hosts that the script gives or, if it gives none, those on which the change was begun.
    Raises UsageError for a simulated subnet, and as `_opensm`.
    """
    if asked.fabric.is_simulated:
        raise UsageError("a simulated subnet has no OpenSM on any host")
    hosts = _opensm(asked).sm_hosts()
    if len(hosts) > 1:
        return hosts
    with Journal.read(asked.fabric.stores.journal) as journal:
        return [*hosts, *hosts_in(journal.options_of(target.id))]
