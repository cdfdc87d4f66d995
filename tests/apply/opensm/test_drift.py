"""Tables that are not as OpenSM wrote them: what is an interlock, what a note, and what a rewrite does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.apply.apply import plan_apply
from ibkeys.apply.apply_plan import ApplyHooks, FinishedApply
from ibkeys.apply.by_sm.course import CarrierSettings
from ibkeys.errors import Incomplete, Refused
from tests.apply.opensm.bench import ALL, GREEN, OLD, Bench
from tests.apply.opensm.madeup import MadeUpOpensm, put, valid
from tests.fabricsim import interlocks, tool


def test_drift_that_opensm_would_not_write_is_an_interlock_and_rewrite_mends_it(bench: Bench) -> None:
    leaver = bench.opensm.net.port("node02 mlx4_0", 1)
    put(leaver, {0: 0x7FFF})  # by hand; OpenSM remembers Red
    with pytest.raises(Refused) as refused:
        bench.apply(OLD + "More=0x30 : 0x2c903000a1051=full ;\n")
    assert refused.value.interlock == "drift"
    assert "node02" in str(refused.value)
    bench.settings = CarrierSettings(wait=5, rewrite=True)
    plan = bench.apply(OLD + "More=0x30 : 0x2c903000a1051=full ;\n")
    assert [phase.name for phase in plan.phases] == ["rewrite", "policy"]
    assert valid(leaver)[1] == 0x8010
    assert not any(0x7001 in {key & 0x7FFF for key in table.values()} for table in bench.tables().values())


def test_a_rewrite_cuts_nobody_and_joins_nobody(bench: Bench) -> None:
    one, other = (bench.opensm.net.port(f"{name} mlx4_0", 1) for name in ("node02", "node03"))
    put(one, {0: 0x7FFF, 6: 0x8033})  # taken out of Red by hand, and joined with the other one
    put(other, {0: 0x7FFF, 1: 0x8010, 6: 0x8033})
    seen: list[set[int]] = []
    bench.opensm.host.before_each = lambda word: seen.append({*valid(one).values()})
    bench.settings = CarrierSettings(wait=5, rewrite=True)
    new = OLD.replace("0x2c903000a1021=full, 0x2c903000a1031=full", "0x2c903000a1031=full")
    new += "Gold=0x33 : 0x2c903000a1021=full, 0x2c903000a1031=full ;\nMore=0x34 : 0x2c903000a1021=full ;\n"
    plan = bench.apply(new)
    assert plan.phases[0].name == "rewrite"
    assert {0x7FFF, 0x8033, 0x7001} in seen
    assert all(0x8033 in keys and 0x8010 not in keys for keys in seen)
    assert {*valid(one).values()} == {0x7FFF, 0x8033, 0x8034}
    assert bench.states() == {1: "done"}


def test_a_rewrite_does_not_fill_a_table_so_that_its_leaf_port_enforces_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = OLD + "".join(f"P{number}=0x{number:x} : 0x2c903000a1021=full ;\n" for number in range(0x100, 0x100 + 61))
    bench = Bench(MadeUpOpensm(full), monkeypatch, tmp_path)
    end = bench.opensm.net.port("node02 mlx4_0", 1)
    assert (len(valid(end)), end.p_key_capacity) == (63, 64)
    seen: list[int] = []
    bench.opensm.host.before_each = lambda word: seen.append(len(valid(end)))
    bench.settings = CarrierSettings(wait=5, rewrite=True)
    bench.apply(full + "More=0x30 : 0x2c903000a1051=full ;\n")
    assert {*seen} == {63}


def test_drift_that_the_change_writes_over_is_a_note(bench: Bench) -> None:
    put(bench.opensm.net.port("node02 mlx4_0", 1), {0: 0x7FFF, 1: 0x8010, 5: 0x8099})
    plan = bench.apply(GREEN)
    assert "drift" not in interlocks(plan)
    assert any("not match OpenSM's present policy" in note for note in plan.notes)


def test_drift_elsewhere_is_a_note_and_does_not_hinder_the_undo(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)
    before = bench.tables()
    bench.apply(GREEN)
    put(stranger, {0: 0x7FFF, 5: 0x8055})
    plan = bench.undo()
    assert any("node06" in note and "leaves alone" in note for note in plan.notes)
    assert valid(stranger) == {0: 0x7FFF, 5: 0x8055}
    assert bench.states() == {1: "undone", 2: "done"}
    put(stranger, {0: 0x7FFF})
    assert bench.tables() == before


def test_an_edit_elsewhere_in_the_middle_stops_it_and_resume_goes_on(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)
    hooks = ApplyHooks(on_begin=lambda operation: put(stranger, {0: 0x7FFF, 5: 0x8055}))
    with pytest.raises(Incomplete, match="index 5 is 0x8055"):
        bench.apply(GREEN, hooks=hooks)
    bench.resume()
    assert valid(stranger)[5] == 0x8055
    assert bench.states() == {1: "done"}


def test_drift_elsewhere_that_is_older_than_the_change_is_a_note(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, GREEN)
    put(stranger, {0: 0x7FFF, 5: 0x8055})
    done = bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert any("node06" in note and "leaves alone" in note for note in done.notes)
    assert bench.states() == {1: "done"}


def test_drift_elsewhere_in_a_partition_of_the_change_is_an_interlock(bench: Bench) -> None:
    with tool(bench.opensm.net, "node03 mlx4_0") as fabric:
        plan = bench.opensm.plan(fabric, GREEN)
    put(bench.opensm.net.port("node06 mlx4_0", 1), {0: 0x7FFF, 5: 0x8011})
    with pytest.raises(Refused, match="node06") as refused:
        bench.run(lambda changing, carrier: plan_apply(changing, plan, ALL, None, carrier))
    assert refused.value.interlock == "drift"


def test_who_does_not_confirm_goes_back_whatever_drifted_elsewhere(bench: Bench) -> None:
    stranger = bench.opensm.net.port("node06 mlx4_0", 1)

    def ended(run: FinishedApply) -> None:
        put(stranger, {0: 0x7FFF, 5: 0x8055})
        assert run.plan.carrier.go_back(run.operation).failed == []

    before = bench.tables()
    bench.apply(GREEN, hooks=ApplyHooks(on_end=ended))
    put(stranger, {0: 0x7FFF})
    assert bench.tables() == before
