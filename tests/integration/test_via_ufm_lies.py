"""``apply --via ufm:URL`` against a UFM that lies, hides members, or has another client that is faster."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibkeys.plan.document_reader import read_plan
from tests.integration.ufmed import NODES, Members, policy, sets, stored, ufmed
from tests.integration.waiting import Waiting
from tests.managers.ufm.mock import Mock
from tests.sample import in_soak


@pytest.mark.soak
def test_a_ufm_that_says_yes_and_never_syncs_ends_with_exit_3_and_names_the_ports() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full", 3: "full"}}))
        before = sets(over)
        over.mock.syncs, over.wait = False, 1
        done = over.apply()
        assert done.returncode == 3
        assert ": node[02-03] mlx4_0, MF0;switch-a:IS5023/U1 port 2-3\n" in done.stderr
        assert "1 s without progress, although UFM has stored it" in done.stderr
        assert "check whether UFM's SM runs, is master, and has read the partitions" in done.stderr
        assert "node04" not in done.stderr
        assert (stored(over.mock), sets(over)) == ({0x10: {2: "full", 3: "full"}}, before)
        over.mock.syncs = True
        done = over.undo()
        assert done.returncode == 0, done.stdout + done.stderr
        assert (stored(over.mock), sets(over)) == ({}, before)


def test_what_did_not_sync_is_finished_by_resume_when_it_does() -> None:
    new = {0x10: {2: "full", 3: "limited"}, 0x20: {4: "full"}}
    with ufmed({0x20: {4: "full", 5: "full"}}) as over:
        plan = read_plan(over.plan(policy(new)))
        before = sets(over)
        over.mock.syncs, over.wait = False, 1
        assert over.apply().returncode == 3
        over.mock.syncs, over.wait = True, 60
        over.mock.changed()
        done = over.ibkeys("resume", "--yes", "--wait", "60")
        assert done.returncode == 0, done.stdout + done.stderr
        assert stored(over.mock) == new
        assert sets(over) == {**before, **{each.port.key: {*map(int, each.after.values())} for each in plan.tables}}
        assert over.undo().returncode == 0
        assert (stored(over.mock)[0x20], sets(over)) == ({4: "full", 5: "full"}, before)


def test_a_ufm_that_loses_half_is_found_out_by_reading_back() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full", 3: "full"}}))
        before = sets(over)
        over.mock.loses_half, over.wait = True, 1
        done = over.apply()
        assert done.returncode == 3
        assert "node03 mlx4_0 (ca 0x0002c903000a1030) port 1" in done.stderr
        assert "reported success, but has GUID 0002c903000a1031 as no member of 0x10, not as full" in done.stderr
        assert "node02" not in done.stderr
        over.mock.loses_half, over.wait = False, 60
        assert over.undo().returncode == 0
        assert (stored(over.mock), sets(over)) == ({}, before)


def meddle(base: int, node: int, after: int) -> Callable[[Mock, int], None]:
    """Another client puts a node into a partition, when the UFM is read for the *after*-th time."""

    def before_read(mock: Mock, number: int) -> None:
        if number == after:
            mock.partitions[base].members[NODES[node]] = ("full", False)
            mock.changed()

    return before_read


def test_somebody_who_is_faster_is_not_overwritten() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}))
        over.mock.before_read = meddle(0x10, 5, over.mock.reads + 1)
        done = over.apply()
        assert done.returncode == 4
        assert "interlock stale, which cannot be overridden" in done.stderr
        assert "0002c903000a1051 is full instead of no member" in done.stderr
        assert stored(over.mock) == {0x10: {2: "full", 5: "full"}}
        assert over.mock.changes == 0
        over.mock.before_read = lambda mock, number: None
        assert over.undo().returncode == 0
        assert stored(over.mock) == {0x10: {2: "full", 5: "full"}}, "what another stored stays"


def test_what_another_stored_since_the_plan_is_named() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}))
        over.mock.syncs = False
        over.mock.partitions[0x10].members[NODES[3]] = ("full", False)
        done = over.apply()
        assert done.returncode == 4
        assert "interlock stale" in done.stderr
        assert "is full of 0x10 in UFM and none on the port" in done.stderr
        assert over.mock.changes == 0


def test_what_ufm_has_and_its_sm_never_wrote_is_drift() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.mock.syncs = False
        over.mock.partitions[0x10].members[NODES[3]] = ("full", False)
        plan = over.served.folder / "plan.json"
        done = over.ibkeys("plan", "--policy", over.url, "--out", plan)
        assert done.returncode == 1, done.stdout + done.stderr
        lasts = f"--via {over.url}/ufmRestV3`"
        assert f"`ibkeys apply PLAN {lasts}" in done.stdout
        for words in ((), ("--via", "direct")):
            done = over.served.ibkeys("apply", plan, *words, "--yes")
            assert (done.returncode, f"`ibkeys apply {plan} {lasts}" in done.stderr) == (4, True), done.stderr
        done = over.apply()
        assert done.returncode == 4
        assert "refused by interlock drift" in done.stderr
        assert "is full of 0x10 in UFM and none on the port" in done.stderr
        assert over.mock.changes == 0


@pytest.mark.soak
def test_after_an_undo_those_who_came_since_stay() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "full"}}))
        assert over.apply().returncode == 0
        over.mock.partitions[0x10].members[NODES[5]] = ("limited", False)
        over.mock.partitions[0x10].members[0xABCDEF] = ("full", False)  # a host to come
        over.running.give(over.mock.conf().encode())
        done = over.undo()
        assert done.returncode == 0, done.stdout + done.stderr
        assert over.mock.words(0x10) == {NODES[2]: "full", NODES[5]: "limited", 0xABCDEF: "full"}


def test_a_partition_whose_members_ufm_does_not_tell_is_left_alone() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "full"}}))
        over.mock.partitions[0x10].members = {}
        done = over.apply()
        assert done.returncode == 2
        assert "UFM lists no members of partition 0x10, and 1 port has it" in done.stderr
        assert over.mock.changes == 0


def test_members_without_a_membership_are_left_alone() -> None:
    """A host to come has no port on the wire: only UFM knows of it."""
    with ufmed({}) as over:
        over.plan(policy({0x10: {3: "limited"}}))
        over.mock.store(0x10, gabcdef="full")
        over.mock.untold = True
        done = over.apply()
        assert done.returncode == 2
        assert "UFM lists members of partition 0x10 without their membership" in done.stderr
        over.mock.untold = False

        def before_read(mock: Mock, number: int, first: int = over.mock.reads + 1) -> None:
            mock.untold = number >= first

        over.mock.before_read = before_read
        before = over.mock.reads
        done = over.apply()
        assert over.mock.reads == before + 2, "all partitions, and the one again"
        assert done.returncode == 4
        assert "it now lists members without their membership" in done.stderr
        assert over.mock.changes == 0
        assert over.mock.words(0x10) == {0xABCDEF: "full"}


@pytest.mark.parametrize("way", [in_soak("undo"), "resume"])
def test_going_on_takes_nobody_out_of_a_partition_that_ufm_lists_as_empty(way: str) -> None:
    """A PUT of what this operation changed, and of nobody else, would take out all others."""
    before, after = {4: "full", 5: "limited", 6: "full"}, {4: "full", 5: "full", 6: "full"}
    with ufmed({0x20: before}) as over:
        over.plan(policy({0x20: after}))
        if way == "resume":
            over.mock.syncs, over.wait = False, 1
            assert over.apply().returncode == 3
            over.mock.partitions[0x20].members[NODES[5]] = ("limited", False)
            over.wait = 60
        else:
            assert over.apply().returncode == 0
        changes = over.mock.changes
        over.mock.hides = True
        done = over.undo() if way == "undo" else over.ibkeys("resume", "--yes", "--allow-removals")
        assert done.returncode == 2, done.stdout + done.stderr
        assert "UFM lists no members of partition 0x20" in done.stderr
        assert over.mock.changes == changes
        assert over.mock.words(0x20).keys() == {NODES[4], NODES[5], NODES[6]}


def test_who_goes_back_by_itself_waits_until_ufm_lists_the_members_again() -> None:
    before: Members = {0x20: {4: "full", 5: "limited", 6: "full"}}
    with ufmed(before) as over:
        over.plan(policy({0x20: {4: "full", 5: "full", 6: "full"}}))
        words = "--confirm-within", "1", "--allow-removals", "--ufm-token", f"@{over.token}"
        run = Waiting(over.served, "apply", over.served.folder / "plan.json", *words, via=over.url)
        run.hear()
        changes, over.mock.hides = over.mock.changes, True
        run.hear("UFM lists no members of partition 0x20")
        assert over.mock.changes == changes
        over.mock.hides = False
        assert run.wait() == 3, run.said
        assert stored(over.mock) == before, "its child has tried again"


def test_a_ufm_that_shows_a_change_a_moment_later_is_believed() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}))
        over.mock.stale_reads = 3
        done = over.apply()
        assert done.returncode == 0, done.stderr
        assert stored(over.mock) == {0x10: {2: "full", 3: "limited"}}
        over.mock.stale_reads = 0
        done = over.undo()
        assert (done.returncode, stored(over.mock)) == (0, {0x10: {2: "full"}}), done.stderr
