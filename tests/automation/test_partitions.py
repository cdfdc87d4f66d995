"""A policy applied by a script: what it sees before, what it is told meanwhile, and what was proven at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ibkeys
from ibkeys.errors import FileFormatError, Incomplete, Refused, UsageError
from tests.automation.scripts import HOSTS, Site, site
from tests.corpus import DATA

ROOT = DATA.parent.parent


@pytest.fixture
def two(tmp_path: Path) -> Site:
    return site(tmp_path)


def names(outcomes: tuple[ibkeys.PortOutcome, ...]) -> set[str | None]:
    return {each.port.node_desc if each.port is not None else None for each in outcomes}


def test_a_plan_is_a_value_that_can_be_looked_at_and_kept(two: Site, tmp_path: Path) -> None:
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(*HOSTS[1:3]))
        assert {(each.kind, each.before, each.after) for each in plan.changes} >= {("pkey", None, "0x8010")}
        assert {port.node_desc for port in plan.ports} >= set(HOSTS[1:3])
        ibkeys.write_plan(plan, tmp_path / "plan.json")
        assert ibkeys.read_plan(tmp_path / "plan.json") == plan
        assert (two.members(), plan.method) == ([], None)  # whoever applies it says by which method
        assert fabric.apply(tmp_path / "plan.json").proven
    assert two.members() == [*HOSTS[1:3]]


def test_what_is_done_was_proven_and_a_second_time_nothing_is_to_be_done(two: Site) -> None:
    told: list[ibkeys.Progress] = []
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        result = fabric.apply(plan, progress=told.append)
        assert (result.operation, result.changed, result.proven) == (1, True, True)
        assert names(result.done) >= {HOSTS[1]}
        assert {each.port for each in result.done} == set(plan.ports)
        assert (result.failed, result.left, result.gone_back, result.problem) == ((), (), False, None)
        assert {each.operation for each in told} == {1}
        assert told[-1].done == told[-1].whole
        again = fabric.apply(fabric.plan(two.policy(HOSTS[1])))
    assert (again.operation, again.changed, again.proven, again.done) == (None, False, True, ())


def test_a_dry_run_writes_nothing_and_says_what_would_refuse_it(two: Site) -> None:
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        two.net.port(HOSTS[1], 1).p_keys = [0xFFFF, 0x8044]
        result = fabric.apply(plan, dry_run=True)
    assert [each.interlock for each in result.objections] == ["stale"]
    assert (result.operation, result.changed, result.proven) == (None, False, False)
    assert names(result.left) >= {HOSTS[1]}
    assert two.members() == []
    assert two.operations() == ()


def test_a_permission_that_is_missing_refuses(two: Site) -> None:
    with two.fabric() as fabric:
        fabric.apply(fabric.plan(two.policy(HOSTS[1])))
        plan = fabric.plan(two.policy())
        with pytest.raises(Refused) as refused:
            fabric.apply(plan)
        assert refused.value.interlock == "removals"
        assert two.members() == [HOSTS[1]]
        assert fabric.apply(plan, allow_removals=True).proven
    assert two.members() == []


def test_who_consents_sees_the_interlock_and_decides(two: Site) -> None:
    seen: list[ibkeys.Proposal] = []

    def consent(proposal: ibkeys.Proposal) -> ibkeys.Consent | None:
        seen.append(proposal)
        return answers.pop(0)

    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))
        two.net.port(HOSTS[1], 1).p_keys = [0xFFFF, 0x8044]  # somebody else writes where the plan wants another
        with pytest.raises(Refused) as refused:
            fabric.apply(plan, allow_removals=True)
        assert refused.value.interlock == "stale"
        answers: list[ibkeys.Consent | None] = [None]
        with pytest.raises(Refused) as refused:
            fabric.apply(plan, allow_removals=True, consent=consent)
        assert (refused.value.interlock, refused.value.changed) == ("confirmation", "nothing was changed")
        assert [each.interlock for each in seen[0].objections] == ["stale"]
        assert {port.node_desc for port in seen[0].ports} >= {HOSTS[1]}
        answers = [ibkeys.Consent()]  # a yes that overrides nothing is refused by the interlock
        with pytest.raises(Refused, match="stale"):
            fabric.apply(plan, allow_removals=True, consent=consent)
        assert two.operations() == ()
        stale = ibkeys.Consent(overrides=frozenset({"stale", "index-0"}))  # what is not triggered is not overridden
        answers = [stale, stale]
        seen.clear()
        assert fabric.apply(plan, allow_removals=True, consent=consent).proven
    assert [[each.interlock for each in proposal.objections] for proposal in seen] == [["stale"], ["stale"]]
    [operation] = two.operations()
    assert operation.record.starts[0].origin.overrides == ("stale",)


def test_only_the_first_switches_and_the_rest_by_the_operation(two: Site) -> None:
    with two.fabric() as fabric:
        held = fabric.apply(fabric.plan(two.policy(HOSTS[1], HOSTS[3])), first=1)
        assert (held.changed, held.proven, len(two.members())) == (True, False, 1)
        assert names(held.left) & {HOSTS[1], HOSTS[3]}
        [operation] = two.operations(open_only=True)
        assert (operation.id, operation.command, operation.is_open) == (held.operation, "apply", True)
        assert "ibkeys resume 1" in operation.next_command
        assert operation.resume(fabric).proven
        [operation] = two.operations()
        assert (operation.is_open, two.members()) == (False, [HOSTS[1], HOSTS[3]])
        back = operation.undo(fabric)
        assert (back.command, back.proven, two.members()) == ("undo", True, [])
        with pytest.raises(ibkeys.errors.StoreError, match="already been undone"):
            operation.undo(fabric)


def test_a_port_that_is_half_done_is_left_and_done_once(two: Site) -> None:
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1]))  # tables first, then the enforcement of the same switch ports
        runs = [fabric.apply(plan, first=1)]
        [operation] = two.operations()
        while not runs[-1].proven:
            assert all(each.reason == "left for a later run" for each in runs[-1].left)
            runs.append(operation.resume(fabric, first=1))
    done = [each.port for run in runs for each in run.done]
    assert len(runs) > 2
    assert len(done) == len(set(done))
    assert set(done) == set(plan.ports)
    for run in runs:
        assert not {each.port for each in run.done} & {each.port for each in run.left}


def test_a_port_that_cannot_be_written_is_in_the_result(two: Site) -> None:
    with two.fabric() as fabric:
        plan = fabric.plan(two.policy(HOSTS[1], HOSTS[3]))
        result = fabric.apply(plan, progress=lambda progress: two.net.silence(HOSTS[1]))
    assert (result.proven, result.changed) == (False, True)
    assert names(result.failed) >= {HOSTS[1]}
    assert all(each.reason for each in result.failed)
    assert isinstance(result.problem, Incomplete)
    assert two.operations(open_only=True)[0].id == result.operation


def test_an_interrupt_while_it_waits_for_a_confirmation_rolls_back(two: Site) -> None:
    def interrupt(step: ibkeys.Progress) -> None:
        if step.awaits_confirmation:
            raise KeyboardInterrupt

    with ibkeys.open(two.net) as fabric:  # a journal in memory dies with its process: no other one has to roll back
        result = fabric.apply(fabric.plan(two.policy(HOSTS[1])), confirm_within=600, progress=interrupt)
    assert (result.changed, result.gone_back, result.proven, result.done) == (True, True, False, ())
    assert two.members() == []


def test_what_no_other_process_could_roll_back_is_refused(two: Site) -> None:
    with two.fabric() as fabric, pytest.raises(UsageError, match="another process can open"):
        fabric.apply(fabric.plan(two.policy(HOSTS[1])), confirm_within=600)
    assert (two.members(), two.operations()) == ([], ())


def test_one_host_as_a_text_is_not_taken_for_one_host_per_letter() -> None:
    with pytest.raises(UsageError, match=r"hosts is a list of texts: write \['sm1'\]"):
        ibkeys.ThroughOpenSM("sm1")


def test_a_mistake_is_an_error_before_anything_is_asked(two: Site, tmp_path: Path) -> None:
    (tmp_path / "bad.conf").write_text("Broken\n")
    with two.fabric() as fabric:
        with pytest.raises(FileFormatError, match=r"bad\.conf"):
            fabric.plan(tmp_path / "bad.conf")
        plan = fabric.plan(two.policy(HOSTS[1]))
        with pytest.raises(UsageError, match="no OpenSM on any host"):
            fabric.apply(plan, via=ibkeys.ThroughOpenSM())
        with pytest.raises(UsageError, match="token_file="):
            fabric.apply(plan, via=ibkeys.ThroughUFM("https://ufm"))


def test_nothing_is_printed_and_click_is_not_loaded(tmp_path: Path) -> None:
    script = f"""
import sys, ibkeys
with ibkeys.open("sim:{DATA / "fabrics" / "two-switch.net"}") as fabric:
    policy = ibkeys.partitions.parse_policy("Default=0x7fff : ALL=full ;\\nt=0x10 : ALL=full ;\\n")
    assert fabric.apply(fabric.plan(policy)).proven
    assert fabric.deploy_m_keys(same=True, protect=1, lease=60).proven
    assert "click" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
