"""Names of partitions where they are shown and chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live_cluster import cluster
from tests.cli.scenes import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with cluster(tmp_path) as found:
        yield found


def test_partitions_are_shown_and_chosen_by_their_names(scene: Scene) -> None:
    for command in ("matrix", "pkey-show --all"):
        scene.must(f"{command} --partition gpu -f json")
        by_name = json.loads(scene.out)
        scene.must(f"{command} --partition 0x30 -f json")
        assert by_name == json.loads(scene.out)
        assert scene.type(f"{command} --partition gpv") == 2
        assert "'gpv': no partition has this name; did you mean gpu?" in scene.err
    scene.must("why node03")
    assert scene.out.startswith("node03 mlx4_0 can talk to, by partition:\n")
    assert "\n  0x0030 gpu (full): 1 port: node04 mlx4_0\n" in scene.out


def test_a_name_that_no_policy_explains_is_refused(scene: Scene) -> None:
    scene.must("snapshot {dir}/a.db")
    for command in ("matrix", "pkey-show --all"):
        assert scene.type(f"{command} --partition gpu --from {{dir}}/a.db") == 2
        assert "'gpu': no partition has this name, as far as is known here: give its P_Key" in scene.err
