"""partition-spread: the policy files of all OpenSMs become the master's, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.const import SMState
from ibkeys.managers.reading import FileReading
from tests.cli.scenes import Scene, Way
from tests.recordings.recorder import Killed
from tests.recordings.scenarios.beginning import STANDBY_NODE
from tests.recordings.world import STANDBY_HOST

SM = f"--sm-host {STANDBY_HOST} --wait 5"
SPREAD = f"partition-spread {SM}"
POLICY = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\ngpu=0x30, ipoib : 0x2c903000a1031=full ;\n"
FORMER = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A cluster whose OpenSMs, on this host and on another one, have the same policy."""
    with ExitStack() as stack:
        scene = Scene(Way("plan", opensm=""), tmp_path, stack)
        write(scene, POLICY, POLICY)
        scene.world.opensms[0].begin_again()
        yield scene


def write(scene: Scene, *texts: str) -> None:
    for each, text in zip(scene.world.opensms, texts, strict=True):
        each.policy.write_text(text)


def files_of(scene: Scene) -> list[str]:
    return [each.policy.read_text() for each in scene.world.opensms]


def tables(scene: Scene) -> dict[tuple[str, int], list[int]]:
    return {(node.description, port.number): list(port.p_keys) for node in scene.world.net.nodes for port in node.ports}


def fail_over(scene: Scene, to: int) -> None:
    """Let OpenSM number *to* be master, and the other one a standby."""
    new, other = scene.world.opensms[to], scene.world.opensms[1 - to]
    other.begin(SMState.STANDBY)
    new.begin(SMState.MASTER)
    new.begin_again()


def test_the_file_of_a_standby_becomes_the_masters_and_undo_restores_it(scene: Scene) -> None:
    write(scene, POLICY, FORMER)
    before, signals = tables(scene), list[Any]()
    seen = scene.world.seen
    scene.world.seen = lambda kind, what: (signals.append(what) if kind == "signal" else None, seen(kind, what))[1]
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    standby = scene.world.opensms[1].policy
    assert f"{standby} on {STANDBY_HOST}: differs from the master's policy\n  --- as it is now" in scene.out
    assert "  +gpu=0x30, ipoib : 0x2c903000a1031=full ;\n" in scene.out
    assert scene.out.endswith("done: all files have the master's policy; `ibkeys undo 1` restores them\n")
    assert files_of(scene) == [POLICY, POLICY]
    [operation] = scene.operations()
    assert (operation["command"], operation["state"], operation["ports"]) == ("partition-spread", "done", 0)
    assert scene.type(f"{SPREAD} --yes") == 0
    assert scene.out.endswith("nothing to change: all files have the master's policy\n")
    scene.must(f"undo 1 --yes {SM}")
    assert files_of(scene) == [POLICY, FORMER]
    assert (tables(scene), signals) == (before, [])
    scene.must(f"undo 2 --yes {SM}")
    assert files_of(scene) == [POLICY, POLICY]
    assert signals == []


def test_a_dry_run_shows_the_files_and_writes_nothing(scene: Scene) -> None:
    write(scene, POLICY, FORMER)
    assert scene.type(f"{SPREAD} --dry-run") == 1
    assert scene.out.endswith("dry run: nothing was changed\n")
    assert scene.type(SPREAD) == 4
    assert "asks for confirmation" in scene.err
    assert scene.type(f"{SPREAD} --dry-run -f json") == 1
    document = json.loads(scene.out)
    [file] = document["files"]
    assert (file["host"], file["path"], file["differs"]) == (STANDBY_HOST, str(scene.world.opensms[1].policy), True)
    assert (document["file"], document["complete"]) == (str(scene.world.opensms[0].policy), False)
    assert scene.type(f"{SPREAD} --dry-run -f csv") == 1
    assert scene.out == f"host,path,differs\n{STANDBY_HOST},{scene.world.opensms[1].policy},1\n"
    assert files_of(scene) == [POLICY, FORMER]
    assert scene.operations() == []


def test_the_master_may_be_on_another_host(scene: Scene) -> None:
    fail_over(scene, 1)
    write(scene, FORMER, POLICY)
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    assert files_of(scene) == [POLICY, POLICY]


def test_a_port_that_differs_from_the_policy_is_left(scene: Scene) -> None:
    stranger = scene.world.net.port("node06 mlx4_0", 1)
    stranger.p_keys = [*stranger.p_keys[:3], 0x8055]
    write(scene, POLICY, FORMER)
    before = tables(scene)
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    assert "does not match OpenSM's policy" in scene.err
    assert (tables(scene), files_of(scene)) == (before, [POLICY, POLICY])


def test_a_run_that_was_cut_off_is_resumed(scene: Scene) -> None:
    write(scene, POLICY, FORMER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.change.opensm_files.OpensmFiles.signal_sm", _die)
        assert scene.type(f"{SPREAD} --yes") == "killed"
    [operation] = scene.operations()
    assert (operation["state"], operation["finish_with"]) == ("open", "ibkeys resume 1")
    assert scene.type(f"{SPREAD} --yes") == 0
    scene.must(f"resume 1 --yes {SM}")
    assert scene.operations()[0]["state"] == "done"
    assert files_of(scene) == [POLICY, POLICY]


def _die(*given: object) -> None:
    raise Killed


# --- refused ----------------------------------------------------------------------------------------------------------


def begin_a_change(scene: Scene) -> None:
    """Add a member through the master of this host, while the other OpenSM is switched off."""
    scene.world.opensms[1].end(for_good=True)
    scene.must("partition-add gpu --full node04 --yes --wait 5")


def come_back(scene: Scene) -> None:
    scene.world.opensms[1].start_again()


def test_the_policy_of_an_sm_that_was_off_is_not_spread(scene: Scene) -> None:
    begin_a_change(scene)
    come_back(scene)
    fail_over(scene, 1)
    new = files_of(scene)[0]
    assert "node04" in new
    assert scene.type(f"{SPREAD} --yes") == 4
    assert "refused by interlock older-policy: " in scene.err
    assert "has a policy from before operation 1 (partition-add, " in scene.err
    assert files_of(scene) == [new, POLICY]
    assert scene.type(f"partition-rename gpu cpu --dry-run {SM} --override standby-differs") == 1
    assert "the change starts from that older policy" in scene.err
    fail_over(scene, 0)
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    assert files_of(scene) == [new, new]
    scene.must(f"undo 2 --yes {SM}")
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    assert files_of(scene) == [new, new]


def test_after_an_undo_the_undone_policy_is_the_older_one(scene: Scene) -> None:
    begin_a_change(scene)
    come_back(scene)
    scene.must(f"undo 1 --yes {SM} --override index-move")
    write(scene, POLICY, POLICY.replace("gpu", "old"))
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    assert files_of(scene) == [POLICY, POLICY]


def test_an_older_policy_is_spread_if_it_is_meant(scene: Scene) -> None:
    begin_a_change(scene)
    come_back(scene)
    fail_over(scene, 1)
    assert scene.type(f"{SPREAD} --yes --override older-policy") == 0, scene.err
    assert files_of(scene) == [POLICY, POLICY]


def test_a_policy_edited_since_the_last_change_is_spread(scene: Scene) -> None:
    begin_a_change(scene)
    come_back(scene)
    scene.world.sleep(10)
    edited = files_of(scene)[0] + "more=0x44 : 0x2c903000a1031=full ;\n"
    scene.world.opensms[0].policy.write_text(edited)
    scene.world.opensms[0].sweep()
    assert scene.type(f"{SPREAD} --yes") == 0, scene.err
    assert files_of(scene) == [edited, edited]


@pytest.mark.parametrize(("reading", "overridden"), [("may-have-been-read", 0), ("not-read", 4)])
def test_an_edit_that_may_not_be_in_force_is_not_spread(
    reading: FileReading, overridden: int, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit during a sweep: the sweep ends after it, and has read the policy before it."""
    monkeypatch.setattr("ibkeys.managers.instance.judge", lambda *facts: reading)
    scene.world.opensms[0].policy.write_text(files_of(scene)[0] + "more=0x44 : 0x2c903000a1031=full ;\n")
    before = files_of(scene)
    assert scene.type(f"{SPREAD} --yes") == 4
    assert "refused by interlock stale" in scene.err
    assert files_of(scene) == before
    assert scene.type(f"{SPREAD} --yes --override stale") == overridden, scene.err


def test_an_sm_that_is_off_is_named_and_once_left_out_on_purpose_only_noted(scene: Scene) -> None:
    scene.must(f"partition-rename gpu cpu --yes {SM}")
    scene.world.opensms[1].end(for_good=True)
    guid = f"0x{scene.world.net.port(STANDBY_NODE, 1).guid:016x}"
    assert scene.type("partition-spread --yes") == 4
    assert f"(port GUID {guid}), seen in operation 1, is not there now" in scene.err
    assert scene.type("partition-spread --dry-run") == 4
    add = "partition-add cpu --full node04 --yes --wait 5"
    assert scene.type(add) == 4
    scene.must(f"{add} --override standby-differs")
    scene.must("partition-add cpu --full node02 --yes --wait 5")
    assert f"(port GUID {guid}), seen in operation 1, is not there now" in scene.err
    assert "operation 2 left it out on purpose" in scene.err
    assert scene.type("partition-spread --yes") == 0
    assert "no other OpenSM has a policy file of its own" in scene.out
    assert "Not compared: the SM at" in scene.out
    assert guid in scene.out
    assert "all files have the master's policy" not in scene.out


def test_an_older_policy_is_named_while_the_former_master_is_away(scene: Scene) -> None:
    scene.must(f"partition-rename gpu cpu --yes {SM}")
    scene.world.opensms[1].end(for_good=True)
    scene.must("partition-add cpu --full node04 --yes --wait 5 --override standby-differs")
    come_back(scene)
    scene.world.opensms[0].end(for_good=True)
    new = scene.world.opensms[1]
    new.begin(SMState.MASTER)
    new.begin_again()
    older = "has a policy from before operation 2 (partition-add, "
    add = f"partition-add cpu --full node02 {SM}"
    assert scene.type(f"{add} --yes") == 4
    assert older in scene.err
    assert "gets the new policy too" not in scene.err
    assert scene.type(f"{add} --dry-run --override standby-differs") == 1
    assert older in scene.err
    assert "the change starts from that older policy" in scene.err
    assert scene.type(f"{SPREAD} --yes") == 4
    assert older in scene.err
    assert scene.type(f"{SPREAD} --yes --override standby-differs") == 0
    assert "that older policy is in force" in scene.err
    assert "Not compared: the SM at" in scene.out


def test_without_a_master_on_a_known_host_there_is_nothing_to_spread(scene: Scene) -> None:
    fail_over(scene, 1)
    assert scene.type("partition-spread --yes") == 2
    assert "name that host: --sm-host HOST" in scene.err
