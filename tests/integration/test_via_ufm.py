"""``apply --via ufm:URL`` against a UFM that runs a real OpenSM: the change on the wire, the way back, who confirms."""

from __future__ import annotations

import json

import pytest

from ibkeys.plan.document_reader import read_plan
from tests.integration.ufmed import RED_AND_BLUE, Members, policy, sets, stored, ufmed, waiting
from tests.sample import sampled

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


@pytest.mark.parametrize("name", sampled(CHANGES, ["memberships change", "another partition in its place"]))
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


def test_the_journal_says_which_way_it_went_and_has_no_token() -> None:
    with ufmed({}) as over:
        over.plan(policy({0x10: {2: "full"}}))
        assert over.apply().returncode == 0
        document = json.loads(over.served.ibkeys("journal", "1", "-f", "json").stdout)
        assert f"--via {over.url}" in document["operations"][0]["options"]
        assert "--ufm-token" in document["operations"][0]["options"]
        [file] = document["files"]
        assert (file["host"], file["path"]) == (f"{over.url}/ufmRestV3", "/resources/pkeys/0x10")
        done = over.served.ibkeys("undo", "1", "--yes")
        assert done.returncode == 2
        assert "--ufm-token @FILE" in done.stderr, "who asks is not in the journal"


@pytest.mark.soak
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
        done = over.served.ibkeys("confirm", "1")
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
