"""Names of partitions where they are shown and chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import TWO_SWITCH, run
from tests.cli.live_cluster import LIVE, cluster
from tests.cli.scenes import Scene

SWEEPS = ("pkey-show --all", "mkey-show --all", "port-show --all", "discover", "discover --names")


UNKNOWN = "'gpu': no partition has this name, as far as is known here: give its P_Key"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        yield found


def test_partitions_are_shown_and_chosen_by_their_names(scene: Scene) -> None:
    for command in (*SWEEPS, "matrix", "compare", "compare --policy opensm", "audit --check PK009"):
        scene.must(f"{command} --partition gpu -f json")
        by_name = json.loads(scene.out)
        scene.must(f"{command} --partition 0x30 -f json")
        assert by_name == json.loads(scene.out)
        assert scene.type(f"{command} --partition gpv") == 2
        assert "'gpv': no partition has this name; did you mean gpu?" in scene.err
    scene.must("why node03")
    assert scene.out.startswith("node03 mlx4_0 can talk to, by partition:\n")
    assert "\n  0x0030 gpu (full): 1 port: node04 mlx4_0\n" in scene.out


def test_the_policy_of_the_command_line_names_partitions(scene: Scene) -> None:
    scene.must("snapshot {dir}/a.db")
    policy = scene.world.opensms[0].policy
    for command in ("audit --check PK009", "compare"):
        given = f"{command} --policy {policy} --from {{dir}}/a.db -f json"
        scene.type(f"{given} --partition gpu")
        by_name = json.loads(scene.out)
        scene.type(f"{given} --partition 0x30")
        assert by_name == json.loads(scene.out)
        assert by_name["looked_at"]["ports"] < by_name["looked_at"]["of"]


def test_a_partition_of_a_difference_has_its_name_from_the_opensm_of_this_host(scene: Scene) -> None:
    scene.must("snapshot {dir}/a.db")
    scene.must(f"partition-add gpu --full node05 {LIVE}")
    scene.must("snapshot {dir}/b.db")
    assert scene.type("diff {dir}/a.db {dir}/b.db --partition gpu -f json") == 1, scene.err
    by_name = json.loads(scene.out)
    scene.type("diff {dir}/a.db {dir}/b.db --partition 0x30 -f json")
    assert by_name == json.loads(scene.out)
    assert scene.type("diff {dir}/a.db {dir}/b.db --partition gpv") == 2
    assert "'gpv': no partition has this name; did you mean gpu?" in scene.err


def test_history_takes_the_name_of_a_partition_that_is_no_node(scene: Scene) -> None:
    scene.must("snapshot --into {dir}/days")
    scene.must(f"partition-add gpu --full node05 {LIVE}")
    scene.must("snapshot --into {dir}/days")
    scene.must("history gpu {dir}/days -f json")
    by_name = json.loads(scene.out)
    scene.must("history 0x30 {dir}/days -f json")
    assert by_name["events"] == json.loads(scene.out)["events"] != []
    assert scene.type("history gpv {dir}/days") == 2
    assert "gpv: no snapshot in" in scene.err


def test_a_packet_follows_a_partition_by_its_name(scene: Scene) -> None:
    scene.must("why node03 node04 --packet gpu -f json")
    by_name = json.loads(scene.out)
    scene.must("why node03 node04 --packet 0x8030 -f json")
    assert by_name == json.loads(scene.out)
    assert scene.type("why node03 node04 --packet gpv") == 2
    assert "'gpv': no partition has this name; did you mean gpu?" in scene.err
    assert scene.type("why node03 node04 --packet 8030") == 2
    assert "begins with 0x" in scene.err


def test_a_name_that_no_policy_explains_is_refused(scene: Scene) -> None:
    scene.must("snapshot {dir}/a.db")
    for command in (*SWEEPS, "matrix", "audit", "compare"):
        assert scene.type(f"{command} --partition gpu --from {{dir}}/a.db") == 2
        assert "'gpu': no partition has this name, as far as is known here: give its P_Key" in scene.err


def test_a_host_without_an_opensm_knows_no_names(tmp_path: Path) -> None:
    assert run("snapshot", tmp_path / "a.db", "--backend", TWO_SWITCH).code == 0
    result = run("diff", tmp_path / "a.db", tmp_path / "a.db", "--partition", "gpu")
    assert (result.code, result.error) == (2, UNKNOWN)
