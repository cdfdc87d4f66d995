"""The keys and enforcement of OpenSM itself: smkey-rotate and harden."""

from __future__ import annotations

from typing import Final

from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.scenarios.beginning import OWN_SA_KEY, opensm
from tests.recordings.world import World

_ROTATE: Final = "smkey-rotate --yes --wait 5"
_RESUME: Final = "resume --yes --wait 5"
_HARDEN: Final = "harden --via opensm --yes --wait 5 --override mkey-under-sm"


def _deaf(world: World) -> None:
    world.opensms[0].is_deaf = True


def _hears(world: World) -> None:
    world.opensms[0].is_deaf = False


SCENARIOS: Final = [
    Scenario(
        "smkey-rotate",
        [
            Command("smkey-rotate --dry-run"),
            Command(_ROTATE),
            Command(f"{_ROTATE} --new-sm-key @{{dir}}/given2.key --new-sa-key @{{dir}}/given3.key"),
            Command("undo 2 --yes"),
            Command("confirm 2", has_json=False),
            Command("journal"),
        ],
        begin=opensm(),
    ),
    Scenario(
        "smkey-rotate-of-two-opensms",
        [
            Command(_ROTATE),
            Command(f"{_ROTATE} --sm-host sm2"),
            Command(f"{_ROTATE} --sm-host sm2", Stop("signal", 2)),
            Command(_RESUME),
        ],
        begin=opensm(OWN_SA_KEY, standby=True),
    ),
    *[
        Scenario(
            f"smkey-rotate-{how}",
            [
                Command(_ROTATE, Stop("signal", 1, how)),
                Command("journal"),
                Command(_ROTATE),
                Command("undo --yes"),
                Command(f"{_RESUME} --overtaken"),
                Command(_RESUME),
                Command("journal"),
            ],
            begin=opensm(),
        )
        for how in ("interrupted", "killed")
    ],
    Scenario(
        "smkey-rotate-of-a-deaf-opensm",
        [Command(_ROTATE, before=_deaf), Command(f"{_RESUME} --overtaken"), Command(_ROTATE, before=_hears)],
        begin=opensm(),
    ),
    Scenario(
        "harden",
        [
            Command("harden --via opensm --dry-run"),
            Command(_HARDEN),
            Command(f"{_HARDEN} --policy {{dir}}/new.conf --allow-removals"),
            Command("undo 2 --yes --wait 5"),
            Command("undo 2 --yes"),
            Command("undo 5 --yes"),
            Command("resume 2 --yes"),
            Command("journal"),
        ],
        begin=opensm("part_enforce off\n"),
    ),
    *[
        Scenario(
            f"harden-{how}-before-signal-{number}",
            [
                Command(_HARDEN, Stop("signal", number, how)),
                Command("journal"),
                Command(_HARDEN),
                Command("undo 2 --yes --wait 5"),
            ],
            begin=opensm("part_enforce off\n"),
        )
        for how, number in (("interrupted", 1), ("killed", 1), ("interrupted", 2), ("killed", 3))
    ],
    *[
        Scenario(
            f"harden-{how}-then-{way.split()[0]}",
            [
                Command(_HARDEN, Stop("signal", 2, how)),
                Command("confirm 2", has_json=False),
                Command(f"{way} --yes --wait 5"),
                Command("journal"),
            ],
            begin=opensm("part_enforce off\n"),
        )
        for how, way in (("interrupted", "resume"), ("killed", "undo"))
    ],
    Scenario(
        "harden-undo-interrupted",
        [
            Command(_HARDEN),
            Command("undo 2 --yes --wait 5", Stop("signal", 1, "killed")),
            Command("journal"),
            Command("resume --overtaken --yes"),
            Command(_RESUME),
            Command("journal"),
        ],
        begin=opensm("part_enforce off\n"),
    ),
]
