"""Each interlock, and every way to the change that it refuses: directly, by apply, by undo. None goes round it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ibkeys.apply.apply import plan_apply
from ibkeys.apply.undo import plan_undo
from ibkeys.change.consent import INTERLOCKS
from ibkeys.change.enforce import plan_enforce
from ibkeys.change.interlocks.passing import SaReachability, new_cuts
from ibkeys.change.pkeys import plan_add, plan_remove, plan_set
from ibkeys.change.plan import Plan
from ibkeys.change.wanted import EnforcementChange, TableChange
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import Refused
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.pkey import EMPTY, PKey
from ibkeys.plan.model import FabricState, PartitionPlan, PolicySource
from ibkeys.sim.nodes import SimPort
from ibkeys.store.paths import StorePaths
from ibkeys.topology.enforcement import Enforcement
from tests.apply.lab import ALL, Lab, port_id, valid
from tests.fabricsim import interlocks, tool, writer
from tests.plan.plans import Table, entries

A, B = "MF0;switch-a:IS5023/U1", "Infiniscale-IV Mellanox Technologies"
FULL, LIMITED = 0xFFFF, 0x7FFF
State = tuple[Table, str]
"""A P_Key table, and what the port enforces: ``i``, ``o``, ``io`` or nothing."""


@dataclass(frozen=True)
class Case:
    """A change that an interlock refuses, or none does (``interlock`` empty). ``port``: node and number."""

    name: str
    port: tuple[str, int]
    before: State
    after: State
    interlock: str
    sm: str = "node04 mlx4_0"


HOST, SM_HOST, OWN = ("node02 mlx4_0", 1), ("node04 mlx4_0", 1), ("node01 mlx4_0", 1)
BEFORE_SM, BEFORE_HOST, BEFORE_OWN, BETWEEN = (B, 1), (A, 2), (A, 1), (A, 7)
CASES = [
    Case("the own port's last default", OWN, (entries(FULL, 0x8001), ""), (entries(0, 0x8001), ""), "default-pkey"),
    Case("a host's last default", HOST, (entries(LIMITED, 0x8001), ""), (entries(0, 0x8001), ""), "default-pkey"),
    Case("the SM's port limited", SM_HOST, (entries(FULL), ""), (entries(LIMITED), ""), "default-pkey"),
    Case("the SM's full removed", SM_HOST, (entries(LIMITED, FULL), ""), (entries(LIMITED), ""), "default-pkey"),
    Case("the SM on port 0 limited", (A, 0), (entries(FULL), ""), (entries(LIMITED), ""), "default-pkey", A),
    Case("the SM on port 0 removed", (A, 0), (entries(FULL, 0x8001), ""), (entries(0, 0x8001), ""), "default-pkey", A),
    Case("before the SM limited", BEFORE_SM, (entries(FULL), "io"), (entries(LIMITED), "io"), "default-pkey"),
    Case("before the SM limited, out", BEFORE_SM, (entries(FULL), "o"), (entries(LIMITED), "o"), "default-pkey"),
    Case("before the SM limited, in", BEFORE_SM, (entries(FULL), "i"), (entries(LIMITED), "i"), "default-pkey"),
    Case("before the SM removed", BEFORE_SM, (entries(LIMITED, FULL), "o"), (entries(LIMITED), "o"), "default-pkey"),
    Case("before the SM enforced", BEFORE_SM, (entries(LIMITED), ""), (entries(LIMITED), "io"), "enforce-blind"),
    Case("before the SM one more way", BEFORE_SM, (entries(LIMITED), "i"), (entries(LIMITED), "io"), "enforce-blind"),
    Case("before the SM, nothing left", BEFORE_SM, (entries(FULL), "i"), ({}, "i"), "enforce-blind"),
    Case("before the own port", BEFORE_OWN, (entries(FULL, 0x8001), "o"), (entries(0, 0x8001), "o"), "enforce-blind"),
    Case("empty and enforced", BEFORE_HOST, ({}, ""), ({}, "o"), "enforce-blind"),
    Case("no default and enforced", BEFORE_HOST, (entries(0x8001), ""), (entries(0x8001), "i"), "enforce-blind"),
    Case("between switches", BETWEEN, (entries(FULL), ""), (entries(FULL), "i"), "enforce-blind"),
    Case("between switches limited", BETWEEN, (entries(FULL), "o"), (entries(LIMITED), "o"), "default-pkey"),
    Case("index 0", HOST, (entries(0x8001, FULL), ""), (entries(0, FULL), ""), "index-0"),
    Case("moved", HOST, (entries(FULL, 0x8001), ""), (entries(FULL, 0, 0x8001), ""), "index-move"),
    Case("SM is master", HOST, (entries(FULL), ""), (entries(FULL, 0x8001), ""), "active-sm"),
    Case("before a host limited", BEFORE_HOST, (entries(FULL), "io"), (entries(LIMITED), "io"), ""),
    Case("before a host enforced", BEFORE_HOST, (entries(LIMITED), ""), (entries(LIMITED), "io"), ""),
    Case("before the SM, not enforcing", BEFORE_SM, (entries(FULL), ""), (entries(LIMITED), ""), ""),
    Case("before the SM, full and enforced", BEFORE_SM, (entries(FULL), ""), (entries(FULL), "io"), ""),
    Case("a host limited", HOST, (entries(FULL), ""), (entries(LIMITED), ""), ""),
]
WAYS = ("pkey-set", "pkey-remove", "enforce-set", "apply", "undo")


def ways() -> Iterator[Any]:
    for case in CASES:
        changes_table, changes_bits = case.before[0] != case.after[0], case.before[1] != case.after[1]
        for way in WAYS:
            is_removal = all(case.before[0].get(index) == key for index, key in case.after[0].items())
            if (
                (way == "pkey-set" and not changes_table)
                or (way == "pkey-remove" and not (changes_table and is_removal))
                or (way == "enforce-set" and not changes_bits)
            ):
                continue
            yield pytest.param(case, way, id=f"{case.name} by {way}")


def put(port: SimPort, state: State) -> None:
    table, bits = state
    port.p_keys = [table.get(index, 0) for index in range(max(table, default=-1) + 1)]
    if port.number and port.node.is_switch:
        port.inbound_enforcement, port.outbound_enforcement = int("i" in bits), int("o" in bits)


def is_at(port: SimPort, state: State) -> bool:
    bits = ("i" * port.inbound_enforcement) + ("o" * port.outbound_enforcement)
    return (valid(port), bits) == (dict(state[0]), state[1])


def difference(before: Table, after: Table) -> dict[int, PKey]:
    return {index: after.get(index, EMPTY) for index in {*before, *after} if before.get(index) != after.get(index)}


def document(port: SimPort, before: State, after: State) -> PartitionPlan:
    tables = (TableChange(port_id(port), dict(before[0]), dict(after[0]), port.p_key_capacity),)
    bits = [Enforcement("i" in state[1], "o" in state[1]) for state in (before, after)]
    enforcement = (EnforcementChange(port_id(port), *bits),) if bits[0] != bits[1] else ()
    return PartitionPlan(FabricState("digest"), PolicySource("p.conf", "digest"), tables, enforcement)


def planned(w: ChangeWriter, fabric: LiveFabric, port: SimPort, case: Case, way: str) -> Plan:
    handle = fabric.find_port(port.guard.lid if port.node.is_switch else port.lid, port.number)
    if way == "pkey-set":
        return plan_set(w, handle, difference(case.before[0], case.after[0]))
    if way == "pkey-remove":
        return plan_remove(w, handle, [key for key in case.before[0].values() if key not in case.after[0].values()])
    if way == "enforce-set":
        return plan_enforce(w, handle, "i" in case.after[1], "o" in case.after[1])
    if way == "apply":
        return plan_apply(w, document(port, case.before, case.after), ALL)
    return plan_undo(w)


@pytest.mark.parametrize(("case", "way"), list(ways()))
def test_no_way_goes_round_an_interlock(tmp_path: Path, case: Case, way: str) -> None:
    lab = Lab()
    lab.net.set_sm(case.sm)
    port = lab.net.port(*case.port)
    put(port, case.after if way == "undo" else case.before)
    everything = INTERLOCKS.keys() - {case.interlock}
    with tool(lab.net) as fabric:
        fabric.stores = StorePaths(None, tmp_path / "journal.db")
        if way == "undo":  # what it goes back to was there before, and was let in at a time when nobody minded
            with writer(fabric, *INTERLOCKS) as w:
                w.apply(plan_apply(w, document(port, case.after, case.before), ALL))
            assert is_at(port, case.before)
        with writer(fabric, *everything) as w:
            plan = planned(w, fabric, port, case, way)
            found = interlocks(plan)
            if case.interlock:
                assert case.interlock in found
                with pytest.raises(Refused) as raised:
                    w.apply(plan)
                assert raised.value.interlock == case.interlock
                assert is_at(port, case.before)
            else:
                assert not found & {"default-pkey", "enforce-blind"}
        with writer(fabric, *everything, *filter(None, [case.interlock])) as w:
            w.apply(planned(w, fabric, port, case, way))
    assert is_at(port, case.after)


@pytest.mark.parametrize("way", ["pkey-add", "add what is there"])
def test_adding_sets_off_nothing_but_active_sm(way: str) -> None:
    """`pkey-add` moves and removes nothing: there is no way round by it."""
    lab = Lab()
    lab.net.set_sm("node04 mlx4_0")
    for where in (SM_HOST, OWN, BEFORE_SM, (A, 0)):
        port = lab.net.port(*where)
        put(port, (entries(FULL), "io"))
        lid = port.guard.lid if port.node.is_switch else port.lid
        with tool(lab.net) as fabric, writer(fabric) as w:
            plan = plan_add(w, fabric.find_port(lid, port.number), [PKey(LIMITED if way == "pkey-add" else FULL)])
            assert interlocks(plan) == ({"active-sm"} if way == "pkey-add" else set())


@pytest.mark.parametrize("silent", ["node04 mlx4_0", B])
def test_what_does_not_answer_behind_a_port_may_be_the_sm(silent: str) -> None:
    lab = Lab()
    lab.net.set_sm("node04 mlx4_0")
    port = lab.net.port(*(BEFORE_SM if silent != B else BETWEEN))
    put(port, (entries(FULL), "o"))
    lab.net.node(silent).silent = 2
    with tool(lab.net, retries=0) as fabric, writer(fabric, dry_run=True) as w:
        plan = plan_set(w, fabric.find_port(port.guard.lid, port.number), {0: PKey(LIMITED)})
    assert "default-pkey" in interlocks(plan)


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("former", [0, 1, 2])
def test_what_is_cut_off_already_is_not_cut_again(level: int, former: int) -> None:
    """A change that takes nothing away, or gives something back, is not refused."""
    same = new_cuts(
        SaReachability(Enforcement(True, True), former), SaReachability(Enforcement(True, True), level), lambda: "SM"
    )
    assert bool(same) == (level < former)
    assert (
        new_cuts(
            SaReachability(Enforcement(True, True), former),
            SaReachability(Enforcement(False, False), level),
            lambda: "SM",
        )
        == []
    )
    assert (
        new_cuts(
            SaReachability(Enforcement(True, False), 1), SaReachability(Enforcement(True, False), 1), lambda: "switch"
        )
        == []
    )
