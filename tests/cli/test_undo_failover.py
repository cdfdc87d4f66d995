"""Undo after a failover: another SM is master than at the change, and the former one or its host may be away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.mad.const import SMState
from tests.cli.live_cluster import LIVE, POLICY, cluster, policies_shown, tables
from tests.cli.scenes import Scene
from tests.recordings.opensm import Opensm
from tests.recordings.recorder import Stop
from tests.recordings.world import STANDBY_HOST, World

CHANGE = f"partition-add gpu --full node02 {LIVE}"
LATER = f"partition-add tank --limited node04 {LIVE}"
OVERRIDE = "--override standby-differs"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        found.world.sleep(60)
        yield found


def end(opensm: Opensm) -> None:
    opensm.end(for_good=True)


def take_over(opensm: Opensm) -> None:
    """Let an OpenSM be the master, with the policy in its file."""
    if not opensm.runs:
        opensm.start_again()
    opensm.begin(SMState.MASTER)
    opensm.begin_again()


def policies(scene: Scene) -> list[str]:
    return [each.policy.read_text() for each in scene.world.opensms]


def test_an_undo_after_a_failover_and_its_own_undo_reach_both_files(scene: Scene) -> None:
    first, second = scene.world.opensms
    scene.must(CHANGE)
    changed = policies(scene)
    end(first)
    take_over(second)
    assert scene.type(f"undo 1 {LIVE}") == 4
    assert "refused by interlock standby-differs: the SM at 'node01 mlx4_0'" in scene.err
    first.start_again()
    scene.must(f"undo 1 {LIVE}")
    assert policies(scene) == [POLICY, POLICY]
    end(second)
    take_over(first)
    second.start_again()
    scene.must(f"undo 2 {LIVE}")
    assert policies(scene) == changed


def test_the_ports_of_the_sms_are_not_taken_for_somebody_elses_work(scene: Scene) -> None:
    """SELF gives the new master's another membership than before, and ALL the former master's."""
    first, second = scene.world.opensms
    scene.must(f"partition-add gpu --full node05 --full node01 {LIVE}")
    end(first)
    take_over(second)
    first.start_again()
    scene.must(f"undo 1 {LIVE}")
    assert policies(scene) == [POLICY, POLICY]
    assert "port 1: before the operation it had 0xffff, and it would get 0x7fff" in scene.err
    assert (
        "note: SELF in the former policy means the port of the present master: 'node05 mlx4_0' 0x0002c903000a1050 port "
        "1: before the operation it had 0x7fff, and it would get 0xffff" in scene.err
    )


def test_the_port_of_a_former_master_that_is_away_is_known_as_such(scene: Scene) -> None:
    first, second = scene.world.opensms
    scene.must(f"partition-add gpu --full node05 --full node01 {LIVE}")
    end(first)
    take_over(second)
    assert scene.type(f"undo 1 {LIVE}") == 4
    assert "refused by interlock standby-differs" in scene.err
    assert "drift" not in scene.err
    scene.must(f"undo 1 {LIVE} {OVERRIDE}")
    assert policies(scene) == [POLICY, POLICY]


def test_an_undo_says_that_the_master_never_had_the_change(scene: Scene) -> None:
    """The standby was off during two changes, and is master now, with an older policy."""
    first, second = scene.world.opensms
    scene.must(CHANGE)
    older = second.policy.read_text()
    end(second)
    scene.must(f"{LATER} {OVERRIDE}")
    middle = first.policy.read_text()
    scene.must(f"partition-rename gpu ml {LIVE}")
    end(first)
    take_over(second)
    first.start_again()
    scene.must(f"undo 3 {LIVE}")
    assert policies(scene) == [middle, older]
    kept = f"note: the operation did not write {second.policy} on {STANDBY_HOST}, which the master reads now: it stays"
    assert kept in scene.err
    assert f"{first.policy} differs from it after the undo" in scene.err
    scene.must(f"undo 2 {LIVE}")
    assert policies(scene) == [older, older]
    assert kept in scene.err
    assert "differs from it" not in scene.err


def test_a_change_can_be_undone_without_the_host_of_a_standby_that_is_dead(scene: Scene) -> None:
    first, second = scene.world.opensms
    scene.must(CHANGE)
    changed = second.policy.read_text()
    end(second)
    scene.world.silent_hosts.add(STANDBY_HOST)
    assert scene.type("undo 1 --yes --wait 5") == 3
    assert f"host {STANDBY_HOST}: it does not answer" in scene.err
    assert "--override standby-differs" in scene.err
    assert policies(scene) == [changed, changed]
    scene.must(f"undo 1 --yes --wait 5 {OVERRIDE}")
    assert f"note: host {STANDBY_HOST}: it does not answer: left out" in scene.err
    assert policies(scene) == [POLICY, changed]
    scene.world.silent_hosts.clear()
    end(first)
    take_over(second)
    first.start_again()
    scene.type(f"partition-spread {LIVE}")
    assert "refused by interlock older-policy" in scene.err
    assert "has a policy from before operation 2" in scene.err


def test_a_change_that_only_a_dead_host_has_is_not_undone_without_it(scene: Scene) -> None:
    """The master is on another host than at the change, whose host is dead."""
    first, second = scene.world.opensms
    end(first)
    take_over(second)
    first.start_again()
    scene.must(CHANGE)
    end(first)
    scene.must(f"{LATER} {OVERRIDE}")
    end(second)
    take_over(first)
    scene.world.silent_hosts.add(STANDBY_HOST)
    before = policies(scene)
    assert scene.type(f"undo 2 --yes --wait 5 {OVERRIDE}") == 2
    assert f"partitions.conf on {STANDBY_HOST} was replaced too, and that host was not reached" in scene.err
    assert policies(scene) == before


def test_a_policy_written_for_a_standby_is_not_said_to_be_told(scene: Scene) -> None:
    """The undo writes only the file of the former master, which is a standby now."""
    first, second = scene.world.opensms
    scene.must(CHANGE)
    end(first)
    take_over(second)
    scene.must(f"{LATER} {OVERRIDE}")
    end(second)
    take_over(first)
    second.start_again()
    scene.must(f"undo 2 {LIVE}")
    assert policies_shown(scene)[0][1] == ("at-takeover", 3)


def test_a_rollback_that_the_death_of_the_master_stops_is_not_called_one(scene: Scene) -> None:
    """Nobody tells the new master to read the restored files, so no port changes: a background process tries again."""

    def fail_over(world: World) -> None:
        end(world.opensms[0])
        take_over(world.opensms[1])

    stop = Stop("sleep", 100, fail_over)
    assert scene.type(f"{CHANGE} --confirm-within 300", stop) == 3
    assert "no longer runs" in scene.err
    assert scene.out.endswith("not everything is rolled back, as listed above; see `ibkeys journal 1`\n")
    assert 0x8030 in tables(scene)["node02 mlx4_0", 1]
    [_, rollback] = scene.operations()
    assert (rollback["command"], rollback["state"]) == ("undo", "open")
