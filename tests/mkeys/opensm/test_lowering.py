"""What goes back of a run that nobody confirms: the level, to where it was, never below 1, and never a key."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ibkeys.change.confirming.confirmation import confirm, is_unconfirmed
from ibkeys.change.confirming.guardian import Guardian
from ibkeys.change.interrupts import ExplainedInterrupt
from ibkeys.change.writer import ChangeWriter
from ibkeys.doctor.stores import open_operations
from ibkeys.errors import NotStored, Refused, StoreError, UsageError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.hosts import SmHost
from ibkeys.mkeys.confirming import AwaitedRun
from ibkeys.mkeys.opensm.course import RunKeys, plan_steps
from ibkeys.mkeys.opensm.planned import plan_rest
from ibkeys.mkeys.opensm.record import RunRecord
from ibkeys.mkeys.opensm.rollback import fallback_level, is_raised, lower_level, raising_step
from ibkeys.mkeys.planning_options import PlanningOptions, ViaOpensm
from ibkeys.store.journal import Journal, Stage
from ibkeys.store.journal.runs import NewRunPort, RunOptions, Runs
from tests.mkeys.opensm.madeup import Bench
from tests.mkeys.opensm.stopping import THEN, bench_in, go_back, interrupt_at, stop_at
from tests.sample import SOAK

A, B = MKey(0xA94F13D02E7C5B68), MKey(0x17C4E5906F2BD38A)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return bench_in(tmp_path, monkeypatch)


def journal(bench: Bench) -> Path:
    return bench.opensm.folder.parent / "journal.db"


def stage(bench: Bench, operation: int = 1) -> Stage | None:
    with Journal.read(journal(bench)) as stored:
        return stored.find(operation).stage


def confirm_operation(bench: Bench, operation: int = 1) -> bool:
    with Journal(journal(bench)) as stored:
        return confirm(stored, operation, lambda kept: None)


def keys_of(bench: Bench) -> set[int]:
    return {port.m_key for port in bench.opensm.ports()}


def highest_level(bench: Bench) -> int:
    """Return the highest level of all ports, and of the options file: OpenSM may be about to set that."""
    said = re.findall(r"^m_key_protection_level (.)$", bench.opensm.conf.read_text(), re.MULTILINE)
    return max([port.protect_bits for port in bench.opensm.ports()] + [int(each) for each in said])


# --- which level ------------------------------------------------------------------------------------------------------

levels, leases = st.integers(0, 3), st.sampled_from((0, 60, 90))
former = st.builds(KeySetting, st.sampled_from((NO_MKEY, A)), levels, leases)
wanted = st.builds(KeySetting, st.sampled_from((NO_MKEY, A, B)), levels, leases)


@given(former, wanted, st.booleans(), st.integers(0, 9))
def test_it_falls_to_the_former_level_and_never_below_1(
    former: KeySetting, wanted: KeySetting, is_open: bool, at: int
) -> None:
    keys, steps = RunKeys(former, wanted), plan_steps(former, wanted, is_open)
    record = RunRecord(keys, list(steps), [], min(at, len(steps)))
    reached = [keys.setting(step) for step in steps[: record.at + 1]]
    number = raising_step(record)
    if not is_raised(record):
        assert all(each.protect <= max(former.protect, 1) for each in reached)
        return
    assert number is not None
    level = max(former.protect, 1)
    assert fallback_level(record) == level
    assert any(each.protect > level for each in reached)
    for _ in range(2):  # however often it goes back, it is one step more at most
        at = record.at = lower_level(record)
        now = keys.setting(record.steps[at])
        assert now == KeySetting(wanted.key, level, steps[number].lease)
        assert record.steps[at + 1 :] == steps[number:]
        assert record.steps[:number] == steps[:number]
        assert len(record.steps) <= len(steps) + 1
        record.at = len(record.steps)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (KeySetting(A, 2, 60), KeySetting(B, 2, 60)),
        (KeySetting(A, 3, 60), KeySetting(B, 2, 60)),
        (KeySetting(A, 2, 60), KeySetting(NO_MKEY, 0, 0)),
        (KeySetting(NO_MKEY, 0, 0), KeySetting(A, 1, 0)),
        (KeySetting(A, 0, 0), KeySetting(B, 1, 60)),
    ],
)
def test_a_run_that_raises_no_level_above_has_nothing_to_go_back(before: KeySetting, after: KeySetting) -> None:
    assert raising_step(RunRecord(RunKeys(before, after), plan_steps(before, after), [])) is None


# --- through OpenSM ---------------------------------------------------------------------------------------------------


RUNS: dict[str, tuple[int, int, Callable[[Bench], None]]] = {
    "deploy": (1, 2, lambda bench: bench.deploy(confirm=True)),
    "rotate": (2, 3, lambda bench: bench.rotate(level=3, confirm=True)),
}
"""The level that a run falls to, that which it raises the ports to, and the run."""


@given(
    st.sampled_from(sorted(RUNS)),
    st.integers(0, 60),
    st.sampled_from(sorted(THEN)),
    st.integers(0, 20),
    st.sampled_from(("resume", "abort")),
)
@settings(max_examples=100 if SOAK else 4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_stopped_at_any_moment_twice_only_what_is_above_is_lowered_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, moment: int, then: str, again: int, way_on: str
) -> None:
    bench = bench_in(tmp_path, monkeypatch)
    falls_to, rises_to, make = RUNS[what]
    if what == "rotate":
        bench.deploy()
    former = bench.opensm.key()
    stop_at(bench, make, moment)
    number = 2 if what == "rotate" else 1
    if not is_unconfirmed(journal(bench), number):
        return  # it was stopped before it began
    THEN[then](bench)
    before, keys, conf = highest_level(bench), keys_of(bench), bench.opensm.conf.read_bytes()
    if stop_at(bench, lambda each: each.lower(number), again):
        bench.lower(number)
    bench.opensm.finish()
    assert keys <= keys_of(bench) | {former[0]}
    if before > falls_to:
        assert highest_level(bench) == falls_to
    else:
        assert (highest_level(bench) <= before, bench.opensm.conf.read_bytes()) == (True, conf)
    assert (stage(bench, number), bench.run_state()) == ("gone-back", "open")
    if way_on == "abort" and go_back(bench):
        assert (bench.opensm.key(), bench.run_state()) == (former, "undone")
    else:
        bench.resume()
        assert (bench.opensm.key()[1:], bench.run_state()) == ((rises_to, 60), "done")
        assert not is_unconfirmed(journal(bench), number)
    assert bench.quiet()


def test_after_a_rotation_the_new_key_stays_at_the_former_level(bench: Bench) -> None:
    bench.deploy(level=1, lease=60)
    first = bench.opensm.key()
    bench.rotate(level=2, confirm=True)
    second = bench.opensm.key()
    assert (second[0] != first[0], second[1:]) == (True, (2, 60))
    lowering = bench.lower(2)
    assert lowering is not None
    assert bench.opensm.key() == (second[0], 1, 60)
    assert bench.opensm.conf.read_text().endswith(
        f"m_key 0x{second[0]:016x}\nm_key_protection_level 1\nm_key_lease_period 60\n"
    )
    with pytest.raises(StoreError, match="operation 2 was rolled back already"):
        bench.lower(2)
    bench.abort()
    assert bench.opensm.key() == first
    assert bench.quiet()


def test_what_would_not_go_back_is_refused_before_anything_is_changed(bench: Bench) -> None:
    bench.deploy()
    before = bench.opensm.key(), bench.opensm.conf.read_bytes()
    with pytest.raises(UsageError, match="raises no level above 2 that could be rolled back"):
        bench.rotate(confirm=True)
    with pytest.raises(UsageError, match="omit confirm_within="):
        bench.remove(confirm=True)
    assert (bench.opensm.key(), bench.opensm.conf.read_bytes()) == before
    assert bench.run_state() == "done"


@pytest.mark.parametrize("what", sorted(RUNS))
def test_a_deaf_opensm_leaves_the_lower_level_in_its_file_and_it_is_tried_again(bench: Bench, what: str) -> None:
    falls_to, _, make = RUNS[what]
    if what == "rotate":
        bench.deploy()
    make(bench)
    number = 2 if what == "rotate" else 1
    bench.opensm.is_deaf = True
    with pytest.raises(NotStored, match="did not change within") as told:
        bench.lower(number)
    advice = f"with `ibkeys undo {number}`, or keep the raised level with `ibkeys resume {number}`"
    assert advice in str(told.value)
    assert f"m_key_protection_level {falls_to}\n" in bench.opensm.conf.read_text()
    assert is_unconfirmed(journal(bench), number)
    bench.opensm.is_deaf = False
    bench.lower(number)
    assert bench.opensm.key()[1:] == (falls_to, 60)


def test_while_a_run_may_go_back_no_other_begins_and_a_resume_keeps_it(bench: Bench) -> None:
    bench.deploy(confirm=True)  # its process died at the end of it
    before = bench.opensm.key()
    assert (bench.run_state(), stage(bench)) == ("done", "running")
    with pytest.raises(
        Refused, match=r"operation 1 .*`ibkeys confirm 1` keeps it, `ibkeys undo 1` restores"
    ) as refused:
        bench.rotate()
    assert refused.value.interlock == "open-run"
    with bench.writer() as writer:
        assert plan_rest(writer, PlanningOptions(lambda: ViaOpensm([SmHost()], 1))).pending
    bench.resume()
    assert (bench.opensm.key(), bench.run_state(), stage(bench)) == (before, "done", "confirmed")
    bench.rotate()
    assert bench.opensm.key()[0] != before[0]


def test_what_began_on_another_subnet_since_keeps_no_level_from_being_lowered(bench: Bench) -> None:
    bench.deploy(confirm=True)
    with Journal(journal(bench)) as stored:
        number = stored.operation("mkey-deploy").put_on_disk()
        Runs(stored).begin(number, RunOptions(), [NewRunPort(0x77, 0x78, 1)])
    bench.lower(1)
    assert (bench.opensm.key()[1:], stage(bench)) == ((1, 60), "gone-back")


def test_a_run_that_waits_is_a_problem_that_doctor_names(bench: Bench) -> None:
    bench.deploy(confirm=True)
    with Journal(journal(bench)) as stored:
        assert stored.move_stage(1, "running", "unconfirmed")
    [found] = open_operations(journal(bench))
    assert (found.ok, "waits to be confirmed" in found.detail, "`ibkeys confirm 1`" in found.advice) == (
        False,
        True,
        True,
    )
    assert confirm_operation(bench)
    assert not list(open_operations(journal(bench)))


def test_an_interrupt_while_it_goes_back_is_told_no_undo(bench: Bench) -> None:
    bench.deploy(confirm=True)
    with pytest.raises(
        ExplainedInterrupt, match=r"with `ibkeys undo 1`, or keep the raised level with `ibkeys resume 1`"
    ):
        interrupt_at(bench, lambda each: each.lower(), 2)
    assert is_unconfirmed(journal(bench), 1)
    bench.lower()
    assert bench.opensm.key()[1:] == (1, 60)


def test_a_port_that_is_away_meanwhile_is_named_and_the_others_are_proven(bench: Bench) -> None:
    bench.deploy(confirm=True)
    net = bench.opensm.net
    host = next(node for node in net.nodes if node.description.startswith("node03"))
    peer = net.unplug(host, 1)
    assert peer is not None
    lowering = bench.lower()
    assert lowering is not None
    assert lowering.unproven == {host.ports[0].guid: "the sweep did not find it"}
    assert bench.opensm.key()[1:] == (1, 60)  # of all that are there
    net.plug(host, 1, peer.node, peer.number)
    bench.opensm.restart()
    bench.resume()
    assert (bench.opensm.key()[1:], bench.run_state()) == ((2, 60), "failed")
    assert bench.quiet()


def test_what_somebody_else_changed_meanwhile_is_not_said_to_be_rolled_back(bench: Bench) -> None:
    bench.deploy(confirm=True)
    conf = bench.opensm.conf
    conf.write_text(conf.read_text().replace("m_key_protection_level 2", "m_key_protection_level 3"))
    bench.opensm.restart()
    with pytest.raises(Refused, match="another user or program has changed what it set") as refused:
        bench.lower()
    assert refused.value.interlock == "overtaken"
    assert (stage(bench), is_unconfirmed(journal(bench), 1)) == ("confirmed", False)
    assert bench.opensm.key()[1:] == (3, 60)
    with pytest.raises(StoreError, match="operation 1 was confirmed"):
        bench.lower()


# --- who confirms -----------------------------------------------------------------------------------------------------


def ended(writer: ChangeWriter, error: BaseException | None = None, answers: bool = False) -> tuple[bool, list[str]]:
    """Let operation 1 be confirmed within 60 s on a clock that moves when it is waited for; return what became of it,
    and what was said. *answers*: the user presses Enter."""
    clock, said = [0.0], list[str]()

    def wait(seconds: float) -> bool:
        clock[0] += seconds
        return answers

    guardian = cast(Guardian, SimpleNamespace(send=said.append))
    unused = cast(Any, None)  # the lowering is not made here
    awaiting = AwaitedRun(guardian, 60, unused, lambda _: wait, said.append, unused, 1)
    return awaiting.is_kept(writer, error, wait, lambda: clock[0]), said


def test_enter_confirms_and_afterwards_it_is_too_late_to_go_back(bench: Bench) -> None:
    bench.deploy(confirm=True)
    with bench.writer() as writer:
        is_kept, said = ended(writer, answers=True)
        assert (is_kept, said[0], said[-1]) == (True, "waiting", "operation 1 is confirmed")
    assert not confirm_operation(bench)
    with pytest.raises(StoreError, match="operation 1 was confirmed"):
        bench.lower()
    assert bench.opensm.key()[1:] == (2, 60)


def test_when_the_time_is_over_or_the_user_interrupts_nobody_confirms_any_more(bench: Bench) -> None:
    bench.deploy(confirm=True)
    with bench.writer() as writer:
        assert ended(writer, KeyboardInterrupt("by SIGTERM")) == (False, ["by SIGTERM: the level is lowered to 1"])
        is_kept, said = ended(writer, NotStored("2 ports did not take it"))
        assert (is_kept, said[1], said[-1]) == (False, "2 ports did not take it", "not confirmed: rolling back")
    with pytest.raises(StoreError, match="too late"):
        confirm_operation(bench)


def test_a_run_that_waits_for_nothing_is_not_confirmed(bench: Bench) -> None:
    bench.deploy()
    with pytest.raises(StoreError, match="is not waiting for a confirmation"):
        confirm_operation(bench)
    with pytest.raises(StoreError, match="is not waiting for a confirmation"):
        bench.lower()


def test_one_that_stopped_before_its_level_was_raised_does_not_wait(bench: Bench) -> None:
    assert stop_at(bench, lambda each: each.deploy(confirm=True), 3)
    with pytest.raises(StoreError, match=r"is still running.* died: `ibkeys resume 1` finishes it"):
        confirm_operation(bench)
    with bench.writer() as writer:
        assert ended(writer, KeyboardInterrupt()) == (True, [])
    assert not is_unconfirmed(journal(bench), 1)


def test_what_cannot_be_read_was_not_confirmed(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"no database" * 99)
    assert is_unconfirmed(tmp_path / "journal.db", 1)
