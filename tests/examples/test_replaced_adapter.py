"""docs/howto/replaced-adapter.md, typed through, and its line for a script."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import ibkeys
from tests.cli.scenes import Scene, Way
from tests.examples.pages import DOCS
from tests.fabricsim import replace_hca
from tests.recordings.world import STANDBY_HOST

PAGE: Final = DOCS / "howto" / "replaced-adapter.md"
POLICY: Final = "Default=0x7fff : ALL=limited, SELF=full ;\ngpu=0x30 : 0x0002c903000a1021=full ;  # node02\n"


def cluster(folder: Path, stack: ExitStack) -> Scene:
    """Start a cluster where the adapter of node02 was replaced after the snapshot monday.db."""
    scene = Scene(Way("plan", opensm=""), folder, stack)
    for each in scene.world.opensms:
        each.policy.write_text(POLICY)
    scene.world.opensms[0].begin_again()
    scene.must("snapshot {dir}/monday.db")
    replace_hca(next(node for node in scene.world.net.nodes if node.description == "node02 mlx4_0"))
    scene.world.opensms[0].begin_again()
    return scene


def test_each_command_does_what_the_page_says(tmp_path: Path) -> None:
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S) for line in block.splitlines()]
    assert len(commands) == 5
    with ExitStack() as stack:
        scene = cluster(tmp_path, stack)
        (tmp_path / "new.conf").write_text(POLICY)
        policy, texts = scene.world.opensms[0].policy, []
        for command in commands:
            words = command.removeprefix("ibkeys ").replace("monday.db", "{dir}/monday.db")
            words = words.replace("new.conf", "{dir}/new.conf")
            if not words.startswith("discover") and "--policy" not in words:
                words += f" --yes --wait 5 --sm-host {STANDBY_HOST} --override index-move"
            assert scene.type(words) == ("--dry-run" in words), scene.err
            if words.startswith("discover"):
                assert scene.out.splitlines()[-1] in PAGE.read_text()
            texts.append(policy.read_text())
    edited = POLICY.replace("a1021", "a6021")
    assert texts == [POLICY, POLICY, edited, edited, POLICY]
    assert (tmp_path / "new.conf").read_text() == edited


def test_a_script_replaces_it_too(tmp_path: Path) -> None:
    with ExitStack() as stack:
        scene = cluster(tmp_path, stack)
        stores = ibkeys.Stores(str(tmp_path / "keys.db"), str(tmp_path / "journal.db"))
        fabric = stack.enter_context(ibkeys.open(stores=stores))
        via = ibkeys.ThroughOpenSM([STANDBY_HOST], wait=5)
        result = fabric.partitions.replace("node02", baseline=tmp_path / "monday.db", via=via)
        assert (result.command, result.proven, result.operation) == ("replace", True, 1)
        assert "replaced: node02 mlx4_0 (0x0002c903000a1020) -> node02 mlx4_0 (0x0002c903000a6020)" in result.notes
        assert {each.policy.read_text() for each in scene.world.opensms} == {POLICY.replace("a1021", "a6021")}
