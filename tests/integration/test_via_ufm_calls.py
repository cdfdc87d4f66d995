"""What UFM's calls cannot do, what they do besides, and how they fail, with ``apply --via ufm:URL``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.ufmed import NODES, RED_AND_BLUE, Members, policy, sets, stored, ufmed
from tests.managers.ufm.mock import QOS, Mock
from tests.sample import in_soak


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        in_soak("Completed", 0, "done, verified by a fresh read"),
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
            done = over.ibkeys("resume", "--yes", "--wait", "60")
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
                done = over.ibkeys("resume", "--yes", "--wait", "60")
                assert (done.returncode, stored(over.mock)) == (0, new), done.stderr
                done = over.ibkeys("plan", "--policy", over.url)
                assert done.returncode == 0, done.stdout
            else:
                done = over.undo()
                assert (done.returncode, stored(over.mock), sets(over)) == (0, RED_AND_BLUE, before), done.stderr


def test_resume_does_not_overwrite_a_membership_that_somebody_else_changed_since() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        over.mock.job, over.wait = "Running", 1
        assert over.apply().returncode == 3
        over.mock.job = None
        over.mock.store(0x10, **{f"g{NODES[2]:x}": "limited"})
        done = over.ibkeys("resume", "--yes", "--wait", "60")
        assert done.returncode == 4, done.stdout + done.stderr
        assert "in UFM's partition 0x10 is limited" in done.stderr
        assert stored(over.mock) == {0x10: {2: "limited"}}


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
        in_soak(f"Default=0x7fff : ALL=full ;\na=0x10 : {NODES[2]:#x}=both ;\n", "the full and the limited P_Key"),
        (
            f"Default=0x7fff : ALL=full ;\na=0x10, ipoib, mtu=5, Q_Key=0x22 : {NODES[2]:#x} ;\n",
            "mtu=5, Q_Key=0x22 of a (0x10): remove them from the policy, or set them in UFM first",
        ),
    ],
)
def test_what_ufm_cannot_do_is_refused(text: str, words: str) -> None:
    with ufmed({}) as over:
        over.plan(text, "--allow-both-pkeys")
        done = over.apply()
        assert done.returncode == 2
        assert words in done.stderr
        assert over.mock.changes == 0


def test_an_mtu_that_ufm_has_already_is_no_obstacle() -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}).replace("p10=0x10, ipoib", "p10=0x10, ipoib, mtu=5"))
        done = over.apply(over.served.folder / "plan.json", "--dry-run")
        assert (done.returncode, over.mock.changes) == (2, 0)
        assert "mtu=5 of p10 (0x10)" in done.stderr
        over.mock.partitions[0x10].qos = {**QOS, "mtu_limit": 4}
        done = over.apply()
        assert (done.returncode, stored(over.mock)) == (0, {0x10: {2: "full", 3: "limited"}}), done.stderr


def leaves(*nodes: int) -> Callable[[Mock], None]:
    """Another client takes nodes out of 0x10 right before the first change that comes."""

    def before_change(mock: Mock) -> None:
        for node in nodes:
            mock.partitions[0x10].members.pop(NODES[node], None)
        mock.changed()

    return before_change


@pytest.mark.soak
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
        done = over.ibkeys("resume", "--yes", "--wait", "60")
        assert (done.returncode, stored(over.mock)) == (0, {0x10: {2: "full"}}), done.stderr


@pytest.mark.parametrize("version", ["6.23.1-6", in_soak("6.20.0")])
def test_what_put_does_not_carry_is_told_before_and_what_it_loses_afterwards(version: str) -> None:
    with ufmed({0x10: {2: "full"}}) as over:
        over.plan(policy({0x10: {2: "full", 3: "limited"}}).replace(", ipoib", ""))  # UFM has it without, see below
        kept = over.mock.partitions[0x10]
        kept.name, kept.qos, kept.ip_over_ib = "lustre", {**QOS, "mtu_limit": 4}, False
        over.mock.put_resets, over.mock.version = True, version
        parts = "mtu_limit, service_level, rate_limit"
        parts = f"but not {'' if version == '6.23.1-6' else 'name, '}{parts}: it is not known whether UFM keeps"
        done = over.apply(over.served.folder / "plan.json", "--dry-run")
        assert parts in done.stderr
        assert over.mock.changes == 0
        done = over.apply()
        assert done.returncode == 0, done.stderr
        lost = "mtu_limit 2 instead of 4: restore that in UFM"
        if version == "6.23.1-6":
            assert kept.name == "lustre"
        else:
            lost = f"name api_pkey_0x10 instead of lustre, {lost}"
        assert f"/resources/pkeys/0x10: UFM made the change, but now has {lost}" in done.stderr
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
