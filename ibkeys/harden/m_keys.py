"""The steps for M_Keys: one key on all ports at level 2 with a lease, and a new key in place of a guessable one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.change.writer import ChangeWriter
from ibkeys.harden.findings import StepName
from ibkeys.harden.step import HardeningStep, HardenRequest, StepChange, undo_of
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.opensm.planned import plan_keys, plan_rest
from ibkeys.mkeys.planning_options import PlanningOptions, ViaOpensm
from ibkeys.mkeys.rollout.found_ports import present_setting
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.printable import counted
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import REMOVAL, MKeyRun, RunOptions, Runs

LEVEL: Final = 2
"""At level 2 a port does not answer without its key, and opens again when its lease expires. Source: IBA 14.2.4."""


@dataclass(frozen=True)
class MKeyStep(HardeningStep):
    """A step that makes one run of M_Keys through OpenSM."""

    name: StepName
    title: str
    command: Literal["mkey-deploy", "mkey-rotate"]

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether the last run of M_Keys on this subnet is unfinished, and is one of this step's command through
        OpenSM. Raises StoreError."""
        last = _open_run(writer)
        return last is not None and last.command == self.command

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return the change of a new run, or of the rest of an unfinished run, which has to end before a new one begins
        (an unfinished run of the other step too); None if no port has to be changed.

        Raises the errors of `plan_keys` and `plan_rest`; Refused (``open-run``) if the unfinished run removes keys, or
        sends Sets of ibkeys.
        """
        planning = PlanningOptions(lambda: ViaOpensm(asked.hosts, asked.wait, listener=asked.listener))
        unfinished = _open_run(writer)
        if unfinished is not None:
            writer.continued = unfinished.id
            run = plan_rest(writer, planning)
        else:
            options = RunOptions(same=True, protect=LEVEL, lease=asked.lease)
            key = _common_key(writer) if self.command == "mkey-deploy" else None
            run = plan_keys(writer, self.command, options, key, planning)
        if not run.pending:
            return None
        rollback = undo_of(None if unfinished is None else unfinished.id)
        if self.command == "mkey-deploy":
            rollback += " (once it has ended: `ibkeys undo --leave-open`); later `ibkeys mkey-remove --via opensm`"
        return StepChange.of(run.plan, list(_in_words(run, asked)), rollback, lambda: _make(writer, run))


M_KEYS: Final = MKeyStep("m-keys", f"M_Keys at level {LEVEL} with a lease", "mkey-deploy")
NEW_M_KEY: Final = MKeyStep("new-m-key", "a new M_Key to replace one that is easy to guess", "mkey-rotate")


def _open_run(writer: ChangeWriter) -> MKeyRun | None:
    """Return the last run on this subnet if it goes through OpenSM, sets keys, and is not finished; else None."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        last = Runs(journal).last({writer.fabric.own_guid})
    is_wanted = last is not None and last.is_open and not last.sends_sets and last.command != REMOVAL
    return last if is_wanted else None


def _common_key(writer: ChangeWriter) -> MKey | None:
    """Return the M_Key that all ports have, and that stays. Return None if the ports have no M_Key, or if their M_Keys
    differ, which every run through OpenSM refuses."""
    found = writer.fabric.sweep()
    keys = {present_setting(port.port_info).key for port in found.end_ports() if port.port_info is not None}
    only = next(iter(keys)) if len(keys) == 1 else None
    return None if only is None or only.is_zero else only


def _in_words(run: PlannedRun, asked: HardenRequest) -> Iterator[str]:
    if run.is_open:
        yield f"the unfinished run continues: {counted(len(run.jobs) + len(run.already_set), 'port')} in it"
    else:
        what = "the M_Key stays" if all(job.keeps_key for job in run.jobs) else "one new M_Key for all"
        yield f"{counted(len(run.jobs), 'port')}: {what}, level {LEVEL}, lease {asked.lease} s"
    steps = run.method.steps_in_words()
    if steps:
        yield f"intermediate steps, each verified: {', then '.join(steps)}"


def _make(writer: ChangeWriter, run: PlannedRun) -> Sequence[str]:
    """Carry a run out; return the parts that were not done, in words."""
    results: list[PortResult] = []
    carry_out(writer, run, results.append)
    return [
        f"{each.port['node_desc'] or each.port['node_guid']} port {each.port['port']}: {each.reason}"
        for each in results
        if each.result == "failed" or each.unread
    ]
