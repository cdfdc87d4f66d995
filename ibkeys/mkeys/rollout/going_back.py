"""Rolling back: the ports of the last run get what they had before it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ibkeys.change.plan import Plan
from ibkeys.change.writer import Writer
from ibkeys.discovery.wanted import LINKS, OnFound, Wanted
from ibkeys.keys.key_setting import KeySetting
from ibkeys.mkeys.rollout.beginning import LastRun, PlannedRun
from ibkeys.mkeys.rollout.earlier_run import (
    key_named,
    last_run_with_keys,
    refuse_other_method,
    refuse_strange_ports,
    sort_ports,
    with_bounds,
)
from ibkeys.mkeys.rollout.planned_run import describe
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
    refuse_strange_ports(writer, run)
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
    store = writer.keystore
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
    sort_ports(writer, run, store, [kept for kept in ports if kept.is_begun], partial(_former, store))
    return run


def _former(store: KeyStore, kept: RunPort, now: KeySetting) -> KeySetting:
    """Return what a port had before the run."""
    return now.but(key_named(store, kept.old_name), kept.old_protect_bits, kept.old_lease_period)
