"""``apply --via ufm:URL`` against a UFM that runs a real OpenSM: the change on the wire, the way back, and its lies."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ibkeys.plan.document_reader import read_plan
from tests.integration.tenants import tables
from tests.integration.ufmed import NODES, Ufmed, policy, stored, ufmed, waiting
from tests.integration.waiting import Waiting
from tests.ufm.mock import QOS, Mock

Members = dict[int, dict[int, str]]
RED_AND_BLUE: Members = {0x10: {2: "full", 3: "full"}, 0x20: {4: "full", 5: "limited"}}
CHANGES: dict[str, tuple[Members, Members]] = {
    "a new partition": ({}, {0x10: {2: "full", 3: "limited"}}),
    "full members come": ({0x10: {2: "full"}}, {0x10: {2: "full", 3: "full", 4: "full"}}),
    "limited members come": ({0x10: {2: "full"}}, {0x10: {2: "full", 3: "limited"}}),
    "members go": ({0x10: {2: "full", 3: "full", 4: "limited"}}, {0x10: {2: "full"}}),
    "all go": (RED_AND_BLUE, {0x20: RED_AND_BLUE[0x20]}),
    "memberships change": (RED_AND_BLUE, {0x10: RED_AND_BLUE[0x10], 0x20: {4: "limited", 5: "full"}}),
    "another partition in its place": (RED_AND_BLUE, {0x11: RED_AND_BLUE[0x10], 0x20: RED_AND_BLUE[0x20]}),
    "a partition is reused": (RED_AND_BLUE, {0x30: RED_AND_BLUE[0x10], 0x10: RED_AND_BLUE[0x20]}),
}


def sets(served: Ufmed) -> dict[tuple[int, int], set[int]]:
    return {key: {*table.values()} for key, table in tables(served.served).items()}


@pytest.mark.parametrize("name", CHANGES)
def test_the_wire_is_as_planned_and_after_undo_as_before(name: str) -> None:
    old, new = CHANGES[name]
    with ufmed(old) as over:
        over.mock.post_ignores_memberships = True
        plan, before = read_plan(over.plan(policy(new))), sets(over)
        done = over.apply()
        assert done.returncode == 0, done.stdout + done.stderr
        assert stored(over.mock) == new
        assert sets(over) == {**before, **{each.port.key: {*map(int, each.after.values())} for each in plan.tables}}
        done = over.ibkeys("plan", "--policy", over.url)
        assert done.returncode == 0, "the wire is what UFM says: " + done.stdout
        done = over.undo()
        assert done.returncode == 0, done.stdout + done.stderr
        assert (stored(over.mock), sets(over)) == (old, before)
        done = over.undo("2")  # of the undo
        assert done.returncode == 0, done.stdout + done.stderr
        assert stored(over.mock) == new


# --- a UFM that lies --------------------------------------------------------------------------------------------------


def test_a_ufm_that_says_yes_and_never_syncs_ends_with_exit_3_and_names_the_ports() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full", 3: "full"}}))
        before = sets(over)
        over.mock.syncs, over.wait = False, 1
        done = over.apply()
        assert done.returncode == 3
        assert ": node[02-03] mlx4_0, MF0;switch-a:IS5023/U1 port 2-3\n" in done.stderr
        assert "1 s without progress, although UFM has stored it" in done.stderr
        assert "look whether UFM's SM runs, is master, and took over the partitions" in done.stderr
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
        done = over.ibkeys("apply", "--resume", "--yes", "--wait", "60")
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
        assert "is full of 0x10 in UFM and none on the wire" in done.stderr
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
        done = over.served.ibkeys("apply", plan, "--yes")
        assert (done.returncode, f"`ibkeys apply {plan} {lasts}" in done.stderr) == (4, True), done.stderr
        done = over.apply()
        assert done.returncode == 4
        assert "refused by interlock drift" in done.stderr
        assert "is full of 0x10 in UFM and none on the wire" in done.stderr
        assert over.mock.changes == 0


def test_the_journal_says_which_way_it_went_and_has_no_token() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        assert over.apply().returncode == 0
        document = json.loads(over.served.ibkeys("journal", "1", "-f", "json").stdout)
        assert f"--via {over.url}" in document["operations"][0]["options"]
        assert "--ufm-token" in document["operations"][0]["options"]
        [file] = document["files"]
        assert (file["host"], file["path"]) == (f"{over.url}/ufmRestV3", "/resources/pkeys/0x10")
        done = over.served.ibkeys("undo", "--yes")
        assert done.returncode == 2
        assert "--ufm-token @FILE" in done.stderr, "who asks is not in the journal"


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


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ("Completed", 0, "done, verified by a fresh read"),
        ("Failed", 3, "job 1 of UFM failed: Failed: write of SM files"),
        ("Running", 3, "job 1 of UFM has not ended after 1 s"),
    ],
)
def test_a_job_is_waited_for(status: str, code: int, words: str) -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        over.mock.job, over.wait = status, 60 if code == 0 else 1
        done = over.apply()
        assert done.returncode == code
        assert words in done.stdout + done.stderr
        assert any(path.endswith("/jobs/1") for _, path, _, _ in over.mock.log)
        over.mock.job = None
        if code:
            done = over.ibkeys("apply", "--resume", "--yes", "--wait", "60")
            assert done.returncode == 0, done.stderr
        assert stored(over.mock) == {0x10: {2: "full"}}


def test_an_error_in_the_middle_leaves_what_can_be_resumed_and_undone() -> None:
    new: Members = {0x11: RED_AND_BLUE[0x10], 0x20: {4: "full"}}
    for way in ("resume", "undo"):
        with ufmed(RED_AND_BLUE) as over:
            over.plan(policy(new))
            before = sets(over)
            over.mock.fails_from = 1
            done = over.apply()
            assert done.returncode == 3
            assert "status 503: 503 Service Unavailable" in done.stderr
            assert "operation 1 of the journal is open" in done.stderr
            over.mock.fails_from = None
            if way == "resume":
                done = over.ibkeys("apply", "--resume", "--yes", "--wait", "60")
                assert (done.returncode, stored(over.mock)) == (0, new), done.stderr
                done = over.ibkeys("plan", "--policy", over.url)
                assert done.returncode == 0, done.stdout
            else:
                done = over.undo()
                assert (done.returncode, stored(over.mock), sets(over)) == (0, RED_AND_BLUE, before), done.stderr


def test_a_login_page_stops_everything_before_anything_is_changed() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        over.mock.page = True
        done = over.apply()
        assert done.returncode == 3
        assert "HTML page" in done.stderr
        assert over.mock.changes == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Default=0x7fff : ALL=limited, SELF=full ;\n", "changes who is in the default partition"),
        (f"Default=0x7fff : ALL=full ;\na=0x10 : {NODES[2]:#x}=both ;\n", "the full and the limited P_Key"),
    ],
)
def test_what_ufm_cannot_do_is_refused(text: str, words: str) -> None:
    with ufmed({}) as over:
        over.plan(text, "--allow-both-pkeys")
        done = over.apply()
        assert done.returncode == 2
        assert words in done.stderr
        assert over.mock.changes == 0


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


@pytest.mark.parametrize("way", ["undo", "resume"])
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
        done = over.undo() if way == "undo" else over.ibkeys("apply", "--resume", "--yes", "--allow-removals")
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


# --- what calls do besides ------------------------------------------------------------------------------------------


def leaves(*nodes: int) -> Callable[[Mock], None]:
    """Another client takes nodes out of 0x10 right before the first change that comes."""

    def before_change(mock: Mock) -> None:
        for node in nodes:
            mock.partitions[0x10].members.pop(NODES[node], None)
        mock.changed()

    return before_change


def test_one_that_left_already_is_no_error() -> None:
    with ufmed({0x10: {2: "full", 3: "full"}}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        over.mock.absent_guid, over.mock.before_change = 404, leaves(3)
        done = over.apply()
        assert (done.returncode, stored(over.mock)) == (0, {0x10: {2: "full"}}), done.stderr
        assert over.mock.changes == 1


def test_of_several_one_that_left_already_stops_no_other() -> None:
    with ufmed({0x10: {2: "full", 3: "full", 4: "full"}}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        over.mock.absent_guid, over.mock.before_change, over.wait = 404, leaves(3), 1
        done = over.apply()
        assert done.returncode == 3, "UFM refused the whole call"
        assert "has GUID 0002c903000a1041 as full of 0x10, not as no member" in done.stderr
        over.mock.before_change = lambda mock: None
        done = over.ibkeys("apply", "--resume", "--yes", "--wait", "60")
        assert (done.returncode, stored(over.mock)) == (0, {0x10: {2: "full"}}), done.stderr


@pytest.mark.parametrize("version", ["6.23.1-6", "6.20.0"])
def test_what_put_does_not_carry_is_told_before_and_what_it_loses_afterwards(version: str) -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}))
        kept = over.mock.partitions[0x10]
        kept.name, kept.qos, kept.ip_over_ib = "lustre", {**QOS, "mtu_limit": 4}, False
        over.mock.put_resets, over.mock.version = True, version
        parts = "mtu_limit, service_level, rate_limit"
        parts = (
            f"does not carry {'' if version == '6.23.1-6' else 'name, '}{parts}: whether UFM keeps them is not known"
        )
        done = over.apply(over.served.folder / "plan.json", "--dry-run")
        assert parts in done.stderr
        assert over.mock.changes == 0
        done = over.apply()
        assert done.returncode == 0, done.stderr
        lost = "mtu_limit 2 instead of 4: give that back in UFM"
        if version == "6.23.1-6":
            assert kept.name == "lustre"
        else:
            lost = f"name api_pkey_0x10 instead of lustre, {lost}"
        assert f"/resources/pkeys/0x10: UFM made the change and now has {lost}" in done.stderr
        assert not kept.ip_over_ib, "that is carried"


def test_a_partition_that_ufm_drops_with_its_last_member_comes_back_as_it_was() -> None:
    before: Members = {0x10: {2: "full", 3: "full"}}
    with ufmed(before) as over:
        over.plan(policy({}))
        had = over.mock.partitions[0x10]
        had.name, had.ip_over_ib = "lustre", False
        had.members = {guid: (word, True) for guid, (word, _) in had.members.items()}
        members = dict(had.members)
        over.mock.drops_empty = True
        done = over.apply()
        assert done.returncode == 0, done.stderr
        assert 0x10 not in over.mock.partitions
        done = over.undo()
        assert done.returncode == 0, done.stderr
        found = over.mock.partitions[0x10]
        assert (found.name, found.ip_over_ib, found.members) == ("lustre", False, members)


def test_a_guid_that_ufm_does_not_know_stops_it_before_anything_is_changed() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}))
        over.mock.partitions[0x10].members[0xABCDEF] = ("full", False)  # a host to come
        over.mock.known_guids = set(NODES.values())
        done = over.apply()
        assert done.returncode == 3
        assert "PUT was answered with status 404: no such GUID" in done.stderr
        assert over.mock.words(0x10) == {NODES[2]: "full", 0xABCDEF: "full"}
        assert over.undo().returncode == 0


# --- confirmation -----------------------------------------------------------------------------------------------------


def test_without_a_confirmation_it_goes_back() -> None:
    with ufmed({}) as over:
        before = sets(over)
        run = waiting(over, "1")
        run.hear()
        assert stored(over.mock) == {0x10: {2: "full"}}
        assert run.wait() == 3, run.said
        assert (stored(over.mock), sets(over)) == ({}, before), run.said


def test_a_confirmation_from_any_shell_keeps_it() -> None:
    with ufmed({}) as over:
        run = waiting(over, "600")
        run.hear()
        done = over.served.ibkeys("apply", "--confirm", "1")
        assert done.returncode == 0, done.stderr
        assert run.wait() == 0, run.said
        assert stored(over.mock) == {0x10: {2: "full"}}


def test_one_that_is_killed_goes_back_too() -> None:
    with ufmed({}) as over:
        before = sets(over)
        run = waiting(over, "1")
        run.hear()
        run.process.kill()
        run.wait()
        assert (stored(over.mock), sets(over)) == ({}, before), run.said
