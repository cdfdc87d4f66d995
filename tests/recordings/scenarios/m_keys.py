"""M_Keys of all ports, set by ibkeys itself: deployed, rotated and removed; in parts, stopped, and back."""

from __future__ import annotations

from typing import Final

from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.world import World

_DEPLOY: Final = Command("mkey-deploy --per-port --protect 2 --lease 60 --yes")


def _silent(world: World) -> None:
    world.net.silence("node04 mlx4_0")


def _answers(world: World) -> None:
    world.net.silence("node04 mlx4_0", False)


SCENARIOS: Final = [
    Scenario(
        "mkeys",
        [
            Command("mkey-deploy --same --protect 2 --lease 60 --dry-run"),
            _DEPLOY,
            _DEPLOY,
            Command("mkey-rotate --per-port --yes"),
            Command("mkey-rotate --per-port --yes --protect 1 --lease 30 --order nearest"),
            Command("mkey-remove --yes"),
            Command("mkey-remove --yes --leave-open"),
            Command("undo --yes"),
            Command("journal"),
        ],
    ),
    Scenario(
        "mkeys-all-the-same",
        [
            Command("mkey-deploy --same --new-m-key @{dir}/given1.key --protect 1 --lease 60 --yes"),
            Command("mkey-rotate --same --yes"),
            Command("mkey-remove --yes --leave-open"),
        ],
    ),
    Scenario(
        "mkeys-of-dual-home",
        [
            Command("mkey-deploy --same --protect 2 --lease 60 --yes"),
            Command("mkey-rotate --per-port --yes", Stop("set", 6)),
            Command("mkey-rotate --resume --yes"),
            Command("mkey-remove --yes --leave-open", Stop("set", 6)),
            Command("mkey-remove --abort --yes"),
        ],
        fabric="dual-home",
    ),
    *[
        Scenario(
            f"{name}-{how}",
            [
                *before,
                Command(words, Stop("set", 3, how)),
                Command("journal"),
                Command("pkey-add 2 0x0010 --yes"),
                Command(f"{name} --resume --yes", Stop("set", 2, how)),
                Command(f"{name} --resume --yes"),
                Command(f"{name} --abort --yes"),
            ],
        )
        for how in ("interrupted", "killed")
        for name, words, before in (
            ("mkey-deploy", _DEPLOY.words, []),
            ("mkey-rotate", "mkey-rotate --per-port --yes", [_DEPLOY]),
            ("mkey-remove", "mkey-remove --yes --leave-open", [_DEPLOY]),
        )
    ],
    *[
        Scenario(
            f"{name}-aborted",
            [
                *before,
                Command(words, Stop("set", 4)),
                Command(f"{name} --abort --yes", Stop("set", 2)),
                Command(f"{name} --abort --yes"),
                Command(f"{name} --resume --yes"),
            ],
        )
        for name, words, before in (
            ("mkey-deploy", _DEPLOY.words, []),
            ("mkey-rotate", "mkey-rotate --per-port --yes", [_DEPLOY]),
            ("mkey-remove", "mkey-remove --yes --leave-open", [_DEPLOY]),
        )
    ],
    Scenario(
        "mkeys-first",
        [
            Command("mkey-deploy --same --protect 2 --lease 60 --yes --first 2"),
            Command("mkey-deploy --same --protect 2 --lease 60 --yes"),
            Command("mkey-deploy --continue --first 2 --yes"),
            Command("mkey-deploy --continue --yes"),
            Command("mkey-rotate --same --yes --first 1"),
            Command("mkey-rotate --abort --yes"),
        ],
    ),
    Scenario(
        "mkeys-with-a-silent-port",
        [
            _DEPLOY,
            Command("mkey-rotate --per-port --yes --retries 0", Stop("set", 2, _silent)),
            Command("mkey-rotate --resume --yes", before=_answers),
            Command("mkey-rotate --overtaken --yes"),
        ],
    ),
]
