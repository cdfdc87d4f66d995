"""docs/howto/new-partition.md, typed through: a partition is made, changed, deleted and brought back."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.cli.scenes import Scene, Way
from tests.examples.pages import DOCS
from tests.recordings.world import STANDBY_HOST

PAGE: Final = DOCS / "howto" / "new-partition.md"
HOSTS: Final = {
    "'stage[1-48]'": "node0[3-4]",
    "'stage[1-2]'": "node03",
    "'stage[40-48]'": "node04",
    "'tank*'": "node05",
    "login1": "node06",
}
"""The hosts of the page, and those of the simulated fabric."""


def test_each_command_does_what_the_page_says(tmp_path: Path) -> None:
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S) for line in block.splitlines()]
    assert len(commands) == 10
    with ExitStack() as stack:
        scene = Scene(Way("plan", opensm=""), tmp_path, stack)
        policy = scene.world.opensms[0].policy
        texts = [policy.read_text()]
        for command in commands:
            words = command.removeprefix("ibkeys ")
            for name, host in HOSTS.items():
                words = words.replace(name, host)
            if not words.startswith("partition-show"):
                words += f" --yes --wait 5 --sm-host {STANDBY_HOST}"
            assert scene.type(words) == ("--dry-run" in words), scene.err
            texts.append(policy.read_text())
    assert texts[1] == texts[0]
    assert len(set(texts)) == 7  # the deletion leads to the first, and its undo to the one before
    assert texts[-2] == texts[0]
    assert texts[-1] == texts[-3]
