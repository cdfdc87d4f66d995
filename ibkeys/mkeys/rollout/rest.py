"""The rest of the last run: going on after its first ports, and finishing an interrupted run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ibkeys.arguments import given
from ibkeys.change.choosing import verify_choice
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import LINKS, OnFound, Wanted
from ibkeys.errors import StoreError, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.hosts import SmHost
from ibkeys.mkeys.rollout.absent import name_absent_beside_run
from ibkeys.mkeys.rollout.beginning import LastRun, PlannedRun
from ibkeys.mkeys.rollout.earlier_run import (
    ask_as_begun,
    last_run_with_keys,
    refuse_other_method,
    refuse_strange_ports,
    sort_ports,
    with_bounds,
)
from ibkeys.mkeys.rollout.found_ports import reachable_ports
from ibkeys.mkeys.rollout.planned_run import describe
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.store.journal.runs import REMOVAL, MKeyRun, RunPort, shared_key_name
from ibkeys.store.keystore.keystore import KeyStore


def plan_rest(
    writer: ChangeWriter,
    at_once: int | None = None,
    max_failures: int | None = None,
    progress: OnFound | None = None,
    opensm_conf: Path | None = None,
    first: int | None = None,
    hosts: Sequence[SmHost] = (SmHost(),),
) -> PlannedRun:
    """Plan the rest of the last run: the ports that were interrupted or failed, then those after its first ones.

    Ports that may have been set are judged by their answers: those with their new key are finished, the others get it.
    *first*: limit of the ports after the first ones. *opensm_conf*: as in `plan_run`. *hosts*: the hosts that may have
    an OpenSM, this one first; if empty, it is not checked whether the method would be chosen again. Raises UsageError
    if there is no such run, and for a run through a subnet manager; Refused (``stale``) if its method was chosen and
    another one would be chosen now.
    """
    run = rest_of_last_run(writer, at_once, max_failures, progress, first=first)
    refuse_other_method(run)
    if run.last is not None and hosts:
        verify_choice(writer, run.last.id, run.found, hosts)
    refuse_strange_ports(writer, run)
    describe(writer, run, opensm_conf=opensm_conf)
    return run


def rest_of_last_run(
    writer: ChangeWriter,
    at_once: int | None = None,
    max_failures: int | None = None,
    progress: OnFound | None = None,
    reading: Wanted = LINKS,
    first: int | None = None,
) -> PlannedRun:
    """Plan as `plan_rest`, for a run by any method, without changes and objections. *reading*: the attributes that the
    sweep reads."""
    store = writer.keystore
    last, ports = last_run_with_keys(writer, store)
    if last.operation.state == "undone":
        raise StoreError(f"{last.name} was rolled back, or its record was ended; there is nothing to continue")
    if last.operation.is_half_undone:
        raise UsageError(f"{last.name} is half rolled back: `ibkeys resume {last.id}` finishes that")
    options = replace(with_bounds(last.options, at_once, max_failures), first=_first(last, ports, first))
    ask_as_begun(writer.fabric.ring, store, last, ports)
    found = writer.fabric.sweep(progress=progress, wanted=reading)
    run = PlannedRun(Plan(last.command), options, found, is_open=last.is_open, beginning=LastRun(last))
    _collect(writer, run, store, last, ports)
    if not any(each.unread for each in run.skipped):
        run.is_open |= last.is_left_over
    return run


def _first(last: MKeyRun, ports: Sequence[RunPort], more: int | None) -> int | None:
    """Return the number of ports after which a run stops next, None for all: its first ones until they are done, then
    *more* than those. Raises UsageError for *more* if the run does not stop after its first ports, or these are not
    done."""
    first = last.options.first
    if first is None:
        if more is not None:
            raise UsageError(f"{last.name} was not begun with {given('--first')}: omit it")
        return None
    if any(port.state in ("sent", "failed", "waiting") for port in ports[:first]):
        if more is not None:
            raise UsageError(f"{last.name}: its first ports are not all done: omit {given('--first')}")
        return first
    return None if more is None else first + more


def _collect(writer: ChangeWriter, run: PlannedRun, store: KeyStore, last: MKeyRun, ports: Sequence[RunPort]) -> None:
    """Sort the unfinished ports of a run into jobs, those that already have their wanted setting, and skipped ones."""
    shared = _key_for_all(store, last, ports)

    def meant(kept: RunPort, now: KeySetting) -> KeySetting:
        key = store.named(kept.key_name).m_key if kept.key_name is not None else shared or MKey.generate()
        before = now.with_values(None, kept.old_protect_bits, kept.old_lease_period) if kept.is_begun else now
        return before.with_values(
            key, last.options.protect, last.options.lease
        )  # values that the run does not set stay as they were

    left = [kept for kept in ports if kept.state not in ("done", "skipped", "undone")]
    first = run.options.first
    now = [kept for kept in left if first is None or kept.sequence < first]
    run.later = len(left) - len(now)
    sort_ports(writer, run, store, now, meant)
    name_absent_beside_run(writer, run, store, last, ports)
    if not (run.jobs or run.already_set or run.skipped or last.is_open):
        # Nothing of the run is left, but it is not known whether ports that cannot be read are as it set them.
        unread = [(port, reason) for port, reason in reachable_ports(writer, run.found).values() if reason]
        run.skipped += [PortResult(port.identity(), "skipped", reason, unread=True) for port, reason in unread]


def _key_for_all(store: KeyStore, last: MKeyRun, ports: Sequence[RunPort]) -> MKey | None:
    """Return the one key that every port of a run gets; None if each gets its own."""
    if last.command == REMOVAL:
        return NO_MKEY
    shared = shared_key_name(ports) if last.options.same else None
    return store.named(shared).m_key if shared is not None else None
