"""Rolling back the last run: its ports get the settings from before the run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ibkeys.change.interlocks.m_keys import no_keys_left
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import LINKS, Wanted
from ibkeys.errors import Refused
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mkeys.planning_options import NO_OPTIONS, PlanningOptions
from ibkeys.mkeys.rollout.earlier_run import (
    key_named,
    last_run_with_keys,
    prefer_keys_of_run,
    refuse_other_method,
    refuse_strange_ports,
    sort_ports,
    with_bounds,
)
from ibkeys.mkeys.rollout.planned_run import LastRun, PlannedRun
from ibkeys.mkeys.rollout.rollout import SetsOfIbkeys
from ibkeys.mkeys.rollout.run_plan import describe
from ibkeys.printable import counted
from ibkeys.store.journal.runs import RunPort
from ibkeys.store.keystore.keystore import KeyStore


def plan_return(writer: ChangeWriter, planning: PlanningOptions = NO_OPTIONS) -> PlannedRun:
    """Plan to give every port that the last run has begun its former key, level and lease.

    Raises UsageError if there is no run, and for a run through OpenSM; Refused (``overtaken``) if another program or
    administrator has changed its ports since; KeyGone, StoreError; and the errors of `note_return_of_former_keys` and
    `Fabric.sweep`.
    """
    run = return_of_last_run(writer, planning)
    refuse_other_method(run)
    refuse_strange_ports(writer, run)
    describe(writer, run)
    note_return_of_former_keys(writer, run, planning.leaves_open)
    return run


def return_of_last_run(
    writer: ChangeWriter, planning: PlanningOptions = NO_OPTIONS, reading: Wanted = LINKS
) -> PlannedRun:
    """Plan as `plan_return` does, but for a run by any method, and without changes, notes, objections and the check for
    changed ports. *reading*: the attributes that the sweep reads. Raises the errors of `last_run_with_keys` and
    `Fabric.sweep`."""
    store = writer.keystore
    last, ports = last_run_with_keys(writer, store)
    options = replace(with_bounds(last.options, planning.at_once, planning.max_failures), first=None)
    prefer_keys_of_run(writer.fabric.ring, store, last, ports)
    found = writer.fabric.sweep(progress=planning.progress, wanted=reading)
    unused = [store.ref_of(port.key_name) for port in ports if port.key_name is not None and not port.is_begun]
    run = PlannedRun(
        Plan(last.command),
        options,
        found,
        goes_back=True,
        is_open=last.is_left_over,
        method=SetsOfIbkeys(),
        beginning=LastRun(last, unused),
    )
    sort_ports(writer, run, store, [kept for kept in ports if kept.is_begun], partial(_former, store))
    return run


def note_return_of_former_keys(writer: ChangeWriter, run: PlannedRun, leaves_open: bool) -> None:
    """If *run* rolls back a run that has ended, note in its plan that the former M_Keys return. Raises Refused
    (``confirmation``) if ports have no M_Key afterwards, unless *leaves_open*; in a dry run the refusal is added to the
    plan instead."""
    if not run.undoes_ended:
        return
    if any(job.wanted.key not in (NO_MKEY, job.old.key) for job in run.jobs):
        run.plan.notes.append("the former M_Keys return, and others may know them: `ibkeys mkey-rotate` gives new ones")
    losing = sum(job.wanted.key.is_zero and not job.old.key.is_zero for job in run.jobs)
    if losing and not leaves_open:
        question = no_keys_left(f"{counted(losing, 'port')} would have no M_Key")
        refusal = Refused(f"{question.text}; {question.answer} says that this is meant", "confirmation").unchanged()
        if not writer.dry_run:
            raise refusal
        run.plan.refusals.append(refusal)


def _former(store: KeyStore, kept: RunPort, now: KeySetting) -> KeySetting:
    """Return the setting of a port from before the run."""
    return now.with_values(key_named(store, kept.old_name), kept.old_protect_bits, kept.old_lease_period)
