"""The steps for M_Keys: one key on all ports at level 2 with a lease, and a new key in place of a guessable one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ibkeys.change.writer import ChangeWriter
from ibkeys.harden.findings import StepName
from ibkeys.harden.step import HardeningStep, HardenRequest, StepChange, undo_of
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.opensm.course import in_words
from ibkeys.mkeys.opensm.method import OpensmMethod
from ibkeys.mkeys.opensm.planned import plan_keys, plan_rest
from ibkeys.mkeys.opensm.through import ViaOpensm
from ibkeys.mkeys.rollout.beginning import PlannedRun
from ibkeys.mkeys.rollout.found_ports import has_now
from ibkeys.mkeys.rollout.planned_run import carry_out
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.printable import counted
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import REMOVAL, MKeyRun, RunOptions, Runs

LEVEL: Final = 2
"""At level 2 a port does not answer without its key, and opens again when its lease expires. Source: IBA 14.2.4."""


@dataclass(frozen=True)
class MKeyStep(HardeningStep):
    """The step of one run of M_Keys through OpenSM."""

    name: StepName
    title: str
    command: Literal["mkey-deploy", "mkey-rotate"]

    def is_due(self, writer: ChangeWriter, asked: HardenRequest) -> bool:
        """Return whether the last run of the key store is an unfinished one of this command through OpenSM."""
        last = _open_run(writer)
        return last is not None and last.command == self.command

    def plan_change(self, writer: ChangeWriter, asked: HardenRequest) -> StepChange | None:
        """Return a new run, or the rest of an unfinished one, whichever step began it: no other run can begin before.

        Raises the errors of `plan_keys`; Refused (``open-run``) for a run that removes keys or sends Sets.
        """
        through = ViaOpensm(asked.hosts, asked.wait, listener=asked.listener)
        begun = _open_run(writer)
        if begun is not None:
            writer.goes_on = begun.id
            run = plan_rest(writer, through)
        else:
            options = RunOptions(same=True, protect=LEVEL, lease=asked.lease)
            key = _key_of_all(writer) if self.command == "mkey-deploy" else None
            run = plan_keys(writer, self.command, options, through, key)
        if not run.pending:
            return None
        back = undo_of(None if begun is None else begun.id)
        if self.command == "mkey-deploy":
            back += " (once it has ended: `ibkeys undo --leave-open`); later `ibkeys mkey-remove --via opensm`"
        return StepChange.of(run.plan, list(_in_words(run, asked)), back, lambda: _make(writer, run))


M_KEYS: Final = MKeyStep("m-keys", f"M_Keys at level {LEVEL} with a lease", "mkey-deploy")
NEW_M_KEY: Final = MKeyStep("new-m-key", "a new M_Key to replace one that is easy to guess", "mkey-rotate")


def _open_run(writer: ChangeWriter) -> MKeyRun | None:
    """Return the last run on this subnet, if it goes through OpenSM, gives keys, and is not finished."""
    with Journal.read(writer.fabric.stores.journal) as journal:
        last = Runs(journal).last({writer.fabric.own_guid})
    is_ours = last is not None and last.is_open and last.via is not None and last.command != REMOVAL
    return last if is_ours else None


def _key_of_all(writer: ChangeWriter) -> MKey | None:
    """Return the one M_Key of all ports, which stays; None if they have none, or several: several are refused as for
    any run through OpenSM."""
    found = writer.fabric.sweep()
    keys = {has_now(port.port_info).key for port in found.end_ports() if port.port_info is not None}
    only = next(iter(keys)) if len(keys) == 1 else None
    return None if only is None or only.is_zero else only


def _in_words(run: PlannedRun, asked: HardenRequest) -> Iterator[str]:
    if run.is_open:
        yield f"the unfinished run continues: {counted(len(run.jobs) + len(run.already_set), 'port')} in it"
    else:
        what = "the M_Key stays" if all(job.keeps_key for job in run.jobs) else "one new M_Key for all"
        yield f"{counted(len(run.jobs), 'port')}: {what}, level {LEVEL}, lease {asked.lease} s"
    if isinstance(run.method, OpensmMethod):
        left = run.method.record.steps[run.method.record.at :]
        yield f"intermediate steps, each verified: {', then '.join(in_words(step) for step in left)}"


def _make(writer: ChangeWriter, run: PlannedRun) -> Sequence[str]:
    """Carry a run out; return the parts that were not done, in words."""
    results: list[PortResult] = []
    carry_out(writer, run, results.append)
    return [
        f"{each.port['node_desc'] or each.port['node_guid']} port {each.port['port']}: {each.reason}"
        for each in results
        if each.result == "failed" or each.unread
    ]
