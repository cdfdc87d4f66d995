"""Planning the rest of the last run: the ports after its first ones, and the unfinished ports of an interrupted run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ibkeys.arguments import given
from ibkeys.change.choosing import verify_choice
from ibkeys.change.plan import Plan
from ibkeys.change.writer import ChangeWriter
from ibkeys.discovery.wanted import LINKS, Wanted
from ibkeys.errors import StoreError, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mkeys.planning_options import NO_OPTIONS, PlanningOptions
from ibkeys.mkeys.rollout.absent_ports import name_absent_beside_run
from ibkeys.mkeys.rollout.earlier_run import (
    last_run_with_keys,
    prefer_keys_of_run,
    refuse_other_method,
    refuse_strange_ports,
    sort_ports,
    with_bounds,
)
from ibkeys.mkeys.rollout.found_ports import reachable_ports
from ibkeys.mkeys.rollout.planned_run import LastRun, PlannedRun
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.rollout import SetsOfIbkeys
from ibkeys.mkeys.rollout.run_plan import describe
from ibkeys.store.journal.runs import REMOVAL, MKeyRun, RunPort, shared_key_name
from ibkeys.store.keystore.keystore import KeyStore


def plan_rest(writer: ChangeWriter, planning: PlanningOptions = NO_OPTIONS) -> PlannedRun:
    """Plan the rest of the last run: the ports that were interrupted or failed, then the ports after its first ones.

    A port that may have been set is judged by its answer: with its new key it is finished, otherwise it gets that key.

    Raises UsageError if there is no such run, for a run that is half rolled back or goes through OpenSM, and for
    ``planning.first`` if the run has no first ports or these are not done; StoreError if the run was rolled back;
    Refused (``stale``) if ibkeys chose the method of the run and would choose another one now, and (``overtaken``) if
    another program or administrator has changed its ports; KeyGone, StoreError; and the errors of `Fabric.sweep`.
    """
    run = rest_of_last_run(writer, planning)
    refuse_other_method(run)
    if run.last is not None and planning.hosts:
        verify_choice(writer, run.last.id, run.method_name, run.found, planning.hosts)
    refuse_strange_ports(writer, run)
    describe(writer, run, opensm_conf=planning.opensm_conf)
    return run


def rest_of_last_run(
    writer: ChangeWriter, planning: PlanningOptions = NO_OPTIONS, reading: Wanted = LINKS
) -> PlannedRun:
    """Plan as `plan_rest` does, but for a run by any method, and without changes, objections and the check for changed
    ports. *reading*: the attributes that the sweep reads. Raises UsageError, KeyGone, StoreError and the errors of
    `Fabric.sweep` as `plan_rest` does, but does not refuse a run through OpenSM."""
    store = writer.keystore
    last, ports = last_run_with_keys(writer, store)
    if last.operation.state == "undone":
        raise StoreError(f"{last.name} was rolled back, or its record was ended; there is nothing to continue")
    if last.operation.is_half_undone:
        raise UsageError(f"{last.name} is half rolled back: `ibkeys resume {last.id}` finishes that")
    bounds = with_bounds(last.options, planning.at_once, planning.max_failures)
    options = replace(bounds, first=_ports_before_stop(last, ports, planning.first))
    prefer_keys_of_run(writer.fabric.ring, store, last, ports)
    found = writer.fabric.sweep(progress=planning.progress, wanted=reading)
    run = PlannedRun(
        Plan(last.command), options, found, is_open=last.is_open, method=SetsOfIbkeys(), beginning=LastRun(last)
    )
    _sort_unfinished(writer, run, store, last, ports)
    if not any(each.unread for each in run.skipped):
        run.is_open |= last.is_left_over
    return run


def _ports_before_stop(last: MKeyRun, ports: Sequence[RunPort], more: int | None) -> int | None:
    """Return after how many ports the run stops, None if it does not stop: after its first ports (``--first``) until
    these are done, then after *more* further ports. Raises UsageError if *more* is given for a run without first ports,
    or before the first ports are done."""
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


def _sort_unfinished(
    writer: ChangeWriter, run: PlannedRun, store: KeyStore, last: MKeyRun, ports: Sequence[RunPort]
) -> None:
    """Sort the unfinished ports of the *last* run into ``run.stages``, ``run.already_set`` and ``run.skipped``.
    *ports*: all its ports."""
    shared = _key_for_all(store, last, ports)

    def wanted_setting(kept: RunPort, now: KeySetting) -> KeySetting:
        key = store.named(kept.key_name).m_key if kept.key_name is not None else shared or MKey.generate()
        # A level or lease that the run does not set stays as it was before the run.
        before = now.with_values(None, kept.old_protect_bits, kept.old_lease_period) if kept.is_begun else now
        return before.with_values(key, last.options.protect, last.options.lease)

    unfinished = [kept for kept in ports if kept.state not in ("done", "skipped", "undone")]
    first = run.options.first
    next_ports = [kept for kept in unfinished if first is None or kept.sequence < first]
    run.later = len(unfinished) - len(next_ports)
    sort_ports(writer, run, store, next_ports, wanted_setting)
    name_absent_beside_run(writer, run, store, last, ports)
    if not (run.jobs or run.already_set or run.skipped or last.is_open):
        # Every port of the run is finished, but a port that cannot be read may no longer have its setting.
        unread = [(port, reason) for port, reason in reachable_ports(writer, run.found).values() if reason]
        run.skipped += [PortResult(port.identity(), "skipped", reason, unread=True) for port, reason in unread]


def _key_for_all(store: KeyStore, last: MKeyRun, ports: Sequence[RunPort]) -> MKey | None:
    """Return the key that every port of a run gets; None if each port gets its own, or if the key is not made yet."""
    if last.command == REMOVAL:
        return NO_MKEY
    shared = shared_key_name(ports) if last.options.same else None
    return store.named(shared).m_key if shared is not None else None
