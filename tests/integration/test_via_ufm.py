"""``apply --via ufm:URL`` against a UFM that runs a real OpenSM: the change on the wire, the way back, and its lies."""

from __future__ import annotations

import pytest

from ibkeys.plan.document_reader import read_plan
from tests.integration.test_sm_policies import tables
from tests.integration.ufmed import Ufmed, policy, stored, ufmed

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
