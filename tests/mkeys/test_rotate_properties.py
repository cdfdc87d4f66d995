"""Whatever keys and levels ports have, and whatever is lost: no key is, and a run can be finished or undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.key_sources import add_store
from ibkeys.mkeys.planning_options import PlanningOptions
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.new_keys import plan_run
from ibkeys.mkeys.rollout.planned_run import PlannedRun
from ibkeys.mkeys.rollout.removal import OF_REMOVAL, plan_removal
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.mkeys.stored_links import remember_topology
from ibkeys.store.journal.runs import RunOptions
from tests.fabricsim import subnet, tool, writer
from tests.sample import SOAK

PORTS = 8
GIVEN = MKey(0x5F3AA10C955AC6AA)

port_state = st.tuples(st.booleans(), st.integers(0, 3), st.booleans())
"""Whether a port has a key, its level, whether its key is known."""


def reload(fabric: Any, store: Any) -> None:
    """Take the keys of the store into the ring, as the next run of the tool does."""
    fabric.ring.learned.clear()
    add_store(fabric.ring, store)


@settings(max_examples=500 if SOAK else 8)
@given(
    states=st.lists(port_state, min_size=PORTS, max_size=PORTS),
    command=st.sampled_from(["mkey-deploy", "mkey-rotate", "mkey-remove"]),
    same=st.booleans(),
    level=st.none() | st.integers(0, 3),
    first=st.none() | st.integers(1, PORTS),
    at_once=st.integers(1, 4),
    drop=st.sampled_from([0.0, 0.1, 0.3, 0.6]),
    seed=st.integers(0, 1000),
    back=st.booleans(),
)
def test_every_key_is_kept_and_every_run_comes_to_its_end(
    states: list[tuple[bool, int, bool]],
    command: Any,
    same: bool,
    level: int | None,
    first: int | None,
    at_once: int,
    drop: float,
    seed: int,
    back: bool,
) -> None:
    net = subnet("two-switch", seed)
    ports = [port for node in net.nodes for port in node.end_ports]
    with (
        TemporaryDirectory() as folder,
        tool(net, retries=1, journal=Path(folder) / "journal.db") as fabric,
        writer(fabric, "mkey-under-sm", "lease-0") as w,
    ):
        remember_topology(fabric, w.keystore, fabric.sweep())
        for number, (port, (has_key, bits, is_known)) in enumerate(zip(ports, states, strict=True), 1):
            port.m_key, port.protect_bits, port.lease_period = has_key * number, bits, 600
            if has_key and (is_known or port is ports[0] or port.node.is_switch):  # else nothing is seen behind it
                where = port.node.guid, port.guid, port.number
                w.keystore.promote(w.keystore.put_pending(*where, KeySetting(MKey(number), bits, 600), None))
        reload(fabric, w.keystore)
        before = {port.guid: (port.m_key, port.protect_bits, port.lease_period) for port in ports}

        def carry(run: PlannedRun) -> list[PortResult]:
            results: list[PortResult] = []
            if run.pending:
                carry_out(w, run, results.append)
                account = run.account
                whole = len(run.jobs) + len(run.already_set) + run.later
                assert account.done + account.failed + account.waiting == whole
                assert account.done + account.failed + account.skipped == len(results)
            for port in ports:
                # A key that nobody knew beforehand may stay unknown: then it has not been touched.
                touched = port.m_key != before[port.guid][0]
                assert not touched or not port.m_key or MKey(port.m_key) in w.keystore.all_keys().get(port.guid, [])
            return results

        if command == "mkey-remove":
            run = plan_removal(w, replace(OF_REMOVAL, at_once=at_once, first=first, max_failures=1000))
        else:
            options = RunOptions(same, level, None, at_once, first, 1000)
            run = plan_run(w, command, options, GIVEN if same else None)
        jobs = {job.port.port_guid for job in run.jobs}
        net.faults.drop = drop
        carry(run)
        net.faults.clear()
        begun = run.pending
        for port in ports:
            if port.guid not in jobs:
                assert (port.m_key, port.protect_bits, port.lease_period) == before[port.guid]
        reload(fabric, w.keystore)
        if not begun:
            return
        if back:
            carry(plan_return(w, PlanningOptions(leaves_open=True)))
            assert {port.guid: (port.m_key, port.protect_bits, port.lease_period) for port in ports} == before
            return
        carry(plan_rest(w))
        if first is not None:
            reload(fabric, w.keystore)
            carry(plan_rest(w))
        for port in ports:
            changed = port.m_key != before[port.guid][0]
            was = before[port.guid][0]
            if changed:
                assert w.keystore.current()[port.guid].reveal() == port.m_key
                assert bool(was) == (command != "mkey-deploy")
                assert bool(port.m_key) == (command != "mkey-remove")
                kept = before[port.guid][1] if level is None else level
                assert port.protect_bits == (0 if command == "mkey-remove" else kept)
