"""Rolling back: the ports of the last run get what they had before it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer
from ibkeys.discovery.wanted import LINKS, OnFound, Wanted
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mkeys.rollout.beginning import LastRun
from ibkeys.mkeys.rollout.earlier_run import (
    key_named,
    known_job,
    last_run_with_keys,
    name_not_found,
    refuse_another_subnet,
    refuse_other_method,
    refuse_overtaken,
    with_bounds,
)
from ibkeys.mkeys.rollout.found_ports import has_it_already, put_in_stages, reachable_ports
from ibkeys.mkeys.rollout.planned_run import PlannedRun, describe
from ibkeys.mkeys.rollout.port_job import Job
from ibkeys.store.journal.runs import RunPort
from ibkeys.store.keys.keystore import KeyStore


def plan_return(
    writer: Writer,
    at_once: int | None = None,
    max_failures: int | None = None,
    progress: OnFound | None = None,
) -> PlannedRun:
    """Plan to give every port that the last run has begun what it had before: key, level and lease.

    Raises UsageError if there is none, and for a run that goes through a subnet manager.
    """
    run = return_of_last_run(writer, at_once, max_failures, progress)
    refuse_other_method(run)
    refuse_another_subnet(writer, run.found)
    refuse_overtaken(run)
    describe(writer, run)
    return run


def return_of_last_run(
    writer: Writer,
    at_once: int | None = None,
    max_failures: int | None = None,
    progress: OnFound | None = None,
    reading: Wanted = LINKS,
) -> PlannedRun:
    """Like `plan_return`, for a run of any kind; nothing is reported yet. *reading*: what the sweep reads."""
    with writer.open_store() as store:
        last, ports = last_run_with_keys(writer, store)
        options = replace(with_bounds(last.options, at_once, max_failures), first=None)
        found = writer.fabric.sweep(progress=progress, wanted=reading)
        unused = [store.ref_of(port.key_name) for port in ports if port.key_name is not None and not port.is_begun]
        run = PlannedRun(
            Plan(last.command),
            options,
            found,
            goes_back=True,
            is_open=last.is_left_over,
            beginning=LastRun(last, unused),
        )
        reachable = reachable_ports(writer, found)
        begun = [kept for kept in ports if kept.is_begun]
        jobs: list[Job] = []
        for kept in begun:
            if kept.port_guid not in reachable:
                continue
            job = known_job(writer, run, store, kept, reachable, partial(_former, store, kept))
            if job is None:
                continue
            job.returns_from, job.ref = _row(store, kept.key_name), _row(store, kept.old_name)
            (run.already_set if has_it_already(job) else jobs).append(job)
    name_not_found(writer, run, [kept for kept in begun if kept.port_guid not in reachable])
    put_in_stages(writer, run, jobs)
    return run


def _row(store: KeyStore, name: str | None) -> int | None:
    return None if name is None else store.ref_of(name)


def _former(store: KeyStore, kept: RunPort, now: KeySetting) -> KeySetting:
    """Return what a port had before the run."""
    return now.but(key_named(store, kept.old_name), kept.old_protect_bits, kept.old_lease_period)
