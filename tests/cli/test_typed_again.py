"""A command for one port that was killed in the middle: typed again it finishes what it began, and `resume` says so."""

from __future__ import annotations

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


def state(scene: Scene) -> str:
    return str(scene.operations()[1]["state"])


@pytest.mark.parametrize("death", DEATHS)
def test_the_same_command_finishes_it(scene: Scene, death: str) -> None:
    DEATHS[death](scene)
    assert (scene.code, state(scene)) == ("killed", "open")
    assert scene.operations()[1]["finish_with"] == f"ibkeys {scene.command}"
    assert scene.go("resume") == 2
    assert (
        f"operation 2 ({scene.command}) is finished by typing its command again, with the same arguments: "
        f"`ibkeys {scene.command}` finishes it, `ibkeys undo 2` rolls it back" in scene.err
    )
    assert scene.type(scene.way.words) == 0
    assert ("nothing to change" in scene.out) == (death == "at its end")
    assert state(scene) == "done"


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
