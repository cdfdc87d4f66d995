"""A command for one port that was killed in the middle: `resume` finishes it, and so does the command, typed again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from ibkeys.store.journal import Journal
from tests.cli.scenes import Scene, Way
from tests.recordings.recorder import Killed, Stop

WAYS: Final = {
    "pkey-set": "pkey-set 2 3=0x8010 35=0x8011 --yes",
    "pkey-add": "pkey-add 2 0x8010 0x8011 --yes",
    "pkey-remove": "pkey-remove 2 0x8020 --yes",
    "enforce-set": "enforce-set -D 0,1 3 --inbound on --outbound on --yes",
}
OTHERS: Final = {
    "pkey-set": "pkey-set 2 5=0x8015 --yes",
    "pkey-add": "pkey-add 2 0x8015 --yes",
    "pkey-remove": "pkey-remove 2 0x8021 --yes",
    "enforce-set": "enforce-set -D 0,1 3 --outbound on --yes",
}
"""The same commands with other values."""


def die_at_the_end(scene: Scene) -> None:
    """Everything is set and proven, and the journal does not know it."""

    def die(*given: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "set_state", die)
        scene.begin()


DEATHS: Final[dict[str, Callable[[Scene], None]]] = {
    "before the first Set": partial(Scene.interrupt, stop=Stop("set", 1, "killed")),
    "at its end": die_at_the_end,
}


@pytest.fixture(params=WAYS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        scene = Scene(Way(WAYS[request.param], ("pkey-add 2 0x8020 0x8021 --yes",), earlier=1), tmp_path, stack)
        yield scene


def tables(scene: Scene) -> list[object]:
    """Return the P_Key table and the enforcement of each port."""
    ports = [port for node in scene.world.net.nodes for port in node.ports]
    return [(port.p_key_bytes, port.inbound_enforcement, port.outbound_enforcement) for port in ports]


def state(scene: Scene) -> str:
    return str(scene.operations()[1]["state"])


@pytest.mark.parametrize("death", DEATHS)
def test_the_same_command_finishes_it(scene: Scene, death: str) -> None:
    DEATHS[death](scene)
    assert (scene.code, state(scene)) == ("killed", "open")
    assert scene.type(scene.way.words) == 0
    assert ("nothing to change" in scene.out) == (death == "at its end")
    assert state(scene) == "done"


@pytest.mark.parametrize("death", DEATHS)
def test_resume_finishes_it(scene: Scene, death: str) -> None:
    scene.begin()
    wanted = tables(scene)
    assert scene.go("undo") == 0
    scene.operation = 4
    DEATHS[death](scene)
    [died] = [each for each in scene.operations() if each["id"] == 4]
    assert (died["state"], died["finish_with"]) == ("open", "ibkeys resume 4")
    assert scene.type("resume --yes -f json") == 0
    assert json.loads(scene.out)["applied"] == (death != "at its end")
    assert tables(scene) == wanted
    assert scene.operations()[3]["state"] == "done"
    assert scene.go("resume") == 3
    assert f"operation 4 ({scene.command}) is not open" in scene.err


def test_resume_overwrites_nothing_that_others_have_set(scene: Scene) -> None:
    if scene.command == "enforce-set":
        return  # a bit has no third value
    scene.interrupt(Stop("set", 1, "killed"))
    for port in (port for node in scene.world.net.nodes for port in node.end_ports):
        port.p_keys = [0xFFFF, 0x8031, 0x8032, 0x8033]
    found = tables(scene)
    assert scene.go("resume") == 4
    assert "changed what it set" in scene.err
    assert scene.type("resume --yes --overtaken") == 0
    assert (tables(scene), state(scene)) == (found, "undone")


def test_only_the_record_of_what_others_have_changed_is_ended(scene: Scene) -> None:
    scene.interrupt(Stop("set", 1, "killed"))
    assert scene.type("resume --yes --overtaken") == 2
    assert "no other user or program has changed what was set" in scene.err
    assert state(scene) == "open"


@pytest.mark.parametrize("death", DEATHS)
def test_undo_rolls_it_back(scene: Scene, death: str) -> None:
    DEATHS[death](scene)
    assert scene.go("undo") == 0
    assert state(scene) == "undone"


def test_other_values_do_not_finish_it(scene: Scene) -> None:
    scene.interrupt(Stop("set", 1, "killed"))
    assert scene.type(OTHERS[scene.command]) == 0
    assert state(scene) == "open"


def test_the_second_block_is_finished_too(tmp_path: Path) -> None:
    with ExitStack() as stack:
        scene = Scene(Way(WAYS["pkey-set"]), tmp_path, stack)
        scene.interrupt(Stop("set", 2, "killed"))
        assert scene.type("pkey-set 2 3= --yes") == 0
        assert scene.operations()[0]["state"] == "open"
        assert scene.type(scene.way.words) == 0
        assert scene.operations()[0]["state"] == "done"
