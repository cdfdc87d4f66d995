"""What partition-add and its siblings say: of hosts that are down, of what no port shows, and in the journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live_cluster import LIVE, POLICY, cluster, files_of, master, tables
from tests.cli.scenes import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        yield found


def test_an_undo_shows_the_index_that_a_p_key_gets_back(scene: Scene) -> None:
    """OpenSM remembers at which index it was."""
    scene.must(f"partition-remove tank node03 {LIVE}")
    [row] = [line for line in scene.out.splitlines() if line.startswith("node03 mlx4_0")]
    assert row.endswith(" 1: 0x0001 -> -")
    scene.must(f"undo 1 {LIVE}")
    [row] = [line for line in scene.out.splitlines() if line.startswith("node03 mlx4_0")]
    assert row.endswith(" 1: - -> 0x0001")
    assert "at other indexes" not in scene.err


def test_the_last_line_does_not_call_verified_what_no_port_shows(scene: Scene) -> None:
    scene.must(f"partition-rename gpu ml {LIVE}")
    assert "verified" not in scene.out
    told = "done, and no port changes: OpenSM was told to read the policy"
    assert f"{told}; `ibkeys undo 1` rolls it back\n" in scene.out
    scene.must(f"undo 1 {LIVE}")
    assert f"{told}; `ibkeys undo 2` makes the change again\n" in scene.out
    standby = scene.world.opensms[1].policy
    standby.write_text(POLICY.replace("gpu", "gpus"))
    scene.must(f"partition-spread {LIVE}")
    scene.must(f"undo 3 {LIVE}")
    assert "done, and no port changes; `ibkeys undo 4` makes the change again\n" in scene.out


def test_the_journal_says_which_flags_were_set(scene: Scene) -> None:
    scene.must(f"partition-add gpu --mtu 1024 --q-key default {LIVE}")
    scene.must(f"partition-add lustre=0x21 --full node05 --no-ipoib {LIVE}")
    assert [each["subject"] for each in scene.operations()] == ["gpu --mtu --q-key", "lustre=0x0021 node05 --no-ipoib"]


def test_the_refusal_for_a_standby_that_answers_first_says_to_reach_it(scene: Scene) -> None:
    assert scene.type("partition-add gpu --full node05 --yes --wait 5") == 4
    assert "not on any host that was examined; reach it with --sm-host (if it is stopped, start it first)" in scene.err


def test_the_name_of_a_former_adapter_leads_to_its_guid(tmp_path: Path) -> None:
    gone = "0x0002c903000a6031"
    policy = POLICY.replace("0x2c903000a1031=full,  # node03", f"{gone}=full,  # node03")
    with cluster(tmp_path, policy.replace("0x2c903000a1031", gone)) as scene:
        assert scene.type(f"replace node03 node03 {LIVE}") == 2
        assert f"an earlier snapshot: --baseline; node03 had port GUID {gone}: give that GUID" in scene.err
        assert scene.type(f"replace node02 node03 {LIVE}") == 2
        assert scene.err.endswith("an earlier snapshot: --baseline\n")  # nothing is known of it
        scene.must(f"replace {gone} node03 {LIVE}")


def test_the_journal_has_the_ports_of_a_rollback(scene: Scene) -> None:
    before = tables(scene)
    assert scene.type(f"partition-add gpu --full node05 --confirm-within 5 {LIVE}") == 3
    assert tables(scene) == before
    change, rollback = scene.operations()
    assert (rollback["undoes"], rollback["ports"]) == (1, change["ports"])
    scene.must("journal 2")
    assert "0x8030 -> -" in scene.out
    scene.must(f"undo 2 {LIVE}")
    assert tables(scene) != before


def test_the_index_of_a_p_key_that_is_new_to_a_port_is_detail(scene: Scene) -> None:
    """No program uses it yet. OpenSM remembers an index of its own for it."""
    scene.must(f"partition-add tank --limited node04 {LIVE} -f json")
    assert [(each["pkey"], each["index"]) for each in json.loads(scene.out)["other_indexes"]] == [("0x0001", 1)]
    assert "at other indexes" not in scene.err
    scene.must(f"undo 1 {LIVE}")
    scene.must(f"partition-add tank --limited node04 {LIVE} -v")
    assert "note: 1 port has new P_Keys at other indexes than planned: 'node04 mlx4_0'" in scene.err
    assert "look it up again" not in scene.err


def test_a_port_that_needs_no_change_is_named_where_others_change(scene: Scene) -> None:
    scene.must(f"partition-remove gpu node03 node02 {LIVE}")
    assert "note: 1 port is already as requested: 0x0002c903000a1021 (node02 mlx4_0)" in scene.err
    scene.must(f"partition-add gpu --full node0[2-4] {LIVE}")
    assert "note: 1 port is already as requested: 0x0002c903000a1041 (node04 mlx4_0)" in scene.err
    scene.must(f"partition-add gpu --full node04 {LIVE}")
    assert "as requested" not in scene.err  # "nothing to change" says it


# --- a host that is down ---------------------------------------------------------------------------------------------

DOWN = "0x0002c903000a1041"


def pull_node04(scene: Scene) -> None:
    scene.world.net.unplug("node04 mlx4_0", 1)


def test_the_name_of_a_host_that_is_down_leads_to_its_guids(scene: Scene) -> None:
    text = POLICY.replace("0x2c903000a1041=full ;\n", f"{DOWN}=full ;  # node04 mlx4_0\n")
    for each in scene.world.opensms:
        each.policy.write_text(text)
    master(scene).begin_again()
    pull_node04(scene)
    before = files_of(scene)
    for words in (f"tank --limited node04 {LIVE}", f"tank --limited node04 --policy {master(scene).policy}"):
        assert scene.type(f"partition-add {words}") == 2
        assert (
            "'node04': nothing that was read has this name; a host that is down is named by its port GUIDs: node04 "
            f"mlx4_0 had port GUID {DOWN}; did you mean node0" in scene.err
        )
    assert files_of(scene) == before


def test_a_name_that_nothing_knows_is_said_to_need_guids_if_its_host_is_down(scene: Scene) -> None:
    pull_node04(scene)
    assert scene.type(f"partition-add tank --limited node04 {LIVE}") == 2
    assert "a host that is down is named by its port GUIDs, which `ibstat -p` shows on the host" in scene.err
    assert scene.type(f"partition-add tank --limited 77 {LIVE}") == 2
    assert "is down" not in scene.err


def test_a_port_that_is_down_is_not_called_verified_and_gets_its_name(scene: Scene) -> None:
    scene.must("pkey-set -G 0x2c903000a1041 5=0x8055 --yes --override active-sm")  # the journal learns the name
    pull_node04(scene)
    assert scene.type(f"partition-add tank --limited {DOWN} {LIVE}") == 0, scene.err
    assert f"    {DOWN}=limited ;  # node04 mlx4_0\n" in master(scene).policy.read_text()
    assert (
        f"note: {DOWN}: not on the fabric, or not read: OpenSM gives a port the P_Keys of the policy once" in scene.err
    )
    assert f"the tables are verified by a fresh read; not verified: {DOWN}, as the note says; `ibkeys undo" in scene.out
    assert scene.type(f"partition-add tank --limited node02 {LIVE}") == 0, scene.err
    assert "done, verified by a fresh read" in scene.out  # a member that was absent before is no part of this change
    assert "the plan names" not in scene.err
    scene.must(f"partition-add tank --limited node05 {LIVE} -v")
    assert "note: the plan names " in scene.err
