"""What reading commands say about a policy that an operation of the journal wrote, and told OpenSM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live_cluster import LIVE, cluster, policies_shown
from tests.cli.scenes import Scene
from tests.recordings.recorder import Stop
from tests.recordings.world import STANDBY_HOST

CHANGE = f"partition-add gpu --full node05 {LIVE}"
SHOW = f"sm-show --sm-host {STANDBY_HOST}"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        found.world.sleep(60)  # its OpenSMs run for a while
        yield found


def test_the_policy_that_an_operation_wrote_and_told_opensm_is_not_doubted(scene: Scene) -> None:
    assert policies_shown(scene) == ([("may-have-been-read", None), ("changed", None)], ["changed", "changed"])
    scene.must(CHANGE)
    assert policies_shown(scene) == ([("told", 1), ("at-takeover", 1)], [])
    scene.must(SHOW)
    assert "written by operation 1, which told OpenSM to read it" in scene.out
    assert "written by operation 1; a standby reads it when it takes over" in scene.out
    scene.must(f"undo 1 {LIVE}")
    assert policies_shown(scene) == ([("told", 2), ("at-takeover", 2)], [])


def test_a_plan_of_it_has_no_doubt_and_says_so_only_in_detail(scene: Scene) -> None:
    scene.must(CHANGE)
    scene.must("plan --policy opensm")
    assert "written by" not in scene.err
    scene.must("plan --policy opensm -v")
    assert "written by operation 1, which told OpenSM to read it" in scene.err


def test_policy_check_has_no_doubt_either(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.must(CHANGE)
    monkeypatch.setattr("ibkeys.managers.instance.judge", lambda *times: "not-read")
    scene.must("policy-check opensm")
    assert "written by operation 1, which told OpenSM to read it" in scene.err
    assert "(armed)" not in scene.err
    with pytest.MonkeyPatch.context() as here:  # `monkeypatch` would set it again after the scene
        here.delenv("IBKEYS_JOURNAL")
        scene.must("policy-check opensm")
    assert "(armed)" in scene.err  # another journal does not have the operation


def test_doctor_does_not_call_it_unread_while_the_sweep_goes_on(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.must(CHANGE)
    monkeypatch.setattr("ibkeys.managers.instance.judge", lambda *times: "not-read")
    [policy] = [each["detail"] for each in scene.checks() if each["name"] == "OpenSM policy" and each["ok"]]
    assert "3 partitions, SHA-256" in policy
    assert "(armed)" not in policy


def test_an_edit_after_the_operation_is_doubted_even_if_it_was_taken_back(scene: Scene) -> None:
    scene.must(CHANGE)
    assert policies_shown(scene)[1] == []
    policy = scene.world.opensms[0].policy
    own = policy.read_bytes()
    for text in (own + b"# by hand\n", own):
        scene.world.sleep(60)
        policy.write_bytes(text)
        assert policies_shown(scene) == ([("not-read", None), ("at-takeover", 1)], ["armed"])


def test_an_operation_that_died_is_not_believed(scene: Scene) -> None:
    scene.type(CHANGE, stop=Stop("signal", 1, "killed"))
    found, dangers = policies_shown(scene)
    assert found == [("may-have-been-read", None), ("changed", None)]
    assert dangers == ["changed", "changed"]


def test_a_standby_that_took_over_has_read_what_the_operation_wrote(scene: Scene) -> None:
    scene.must(CHANGE)
    first, second = scene.world.opensms
    first.end()
    second.begin_again()
    found, dangers = policies_shown(scene)
    assert (found, dangers) == ([("at-takeover", 1)], [])
