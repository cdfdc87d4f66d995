"""docs/howto/second-sm.md, typed through: a standby whose file fell behind gets the master's policy."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.cli.scenes import Scene, Way
from tests.examples.pages import DOCS
from tests.recordings.world import STANDBY_HOST

PAGE: Final = DOCS / "howto" / "second-sm.md"


def test_each_command_does_what_the_page_says(tmp_path: Path) -> None:
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S) for line in block.splitlines()]
    assert len(commands) == 3
    with ExitStack() as stack:
        scene = Scene(Way("plan", opensm=""), tmp_path, stack)
        master, standby = (each.policy for each in scene.world.opensms)
        former = standby.read_text()
        master.write_text(f"{former}more=0x44 : 0x2c903000a1031=full ;\n")
        scene.world.opensms[0].begin_again()
        show, dry, spread = (each.removeprefix("ibkeys ") for each in commands)
        assert f"--sm-host {STANDBY_HOST}" in show
        assert scene.type(show) == 0
        assert "differs from the master, OpenSM (process 100), in its policy" in scene.out
        assert scene.type(dry) == 1
        assert standby.read_text() == former
        assert scene.type(f"{spread} --yes") == 0
        assert standby.read_bytes() == master.read_bytes()
        assert scene.type(f"undo 1 --yes --sm-host {STANDBY_HOST}") == 0
        assert standby.read_text() == former
