"""M_Keys of all ports, set by ibkeys itself: deployed, rotated and removed; in parts, stopped, and back."""

from __future__ import annotations

from typing import Final

from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.world import World

_DEPLOY: Final = Command("mkey-deploy --via direct --per-port --protect 2 --lease 60 --yes")
_LEAVE_OPEN: Final = " --leave-open"
"""What the undo of a finished deployment needs."""


def _silent(world: World) -> None:
    world.net.silence("node04 mlx4_0")


def _answers(world: World) -> None:
    world.net.silence("node04 mlx4_0", False)


SCENARIOS: Final = [
    Scenario(
        "mkeys",
        [
            Command("mkey-deploy --via direct --same --protect 2 --lease 60 --dry-run"),
            _DEPLOY,
            _DEPLOY,
            Command("mkey-rotate --via direct --per-port --yes"),
            Command("mkey-rotate --via direct --per-port --yes --protect 1 --lease 30 --order nearest"),
            Command("mkey-remove --via direct --yes"),
            Command("mkey-remove --via direct --yes --leave-open"),
            Command("undo 4 --yes"),
            Command("journal"),
        ],
    ),
    Scenario(
        "mkeys-all-the-same",
        [
            Command("mkey-deploy --via direct --same --new-m-key @{dir}/given1.key --protect 1 --lease 60 --yes"),
            Command("mkey-rotate --via direct --same --yes"),
            Command("mkey-remove --via direct --yes --leave-open"),
        ],
    ),
    Scenario(
        "mkeys-of-dual-home",
        [
            Command("mkey-deploy --via direct --same --protect 2 --lease 60 --yes"),
            Command("mkey-rotate --via direct --per-port --yes", Stop("set", 6)),
            Command("resume --yes"),
            Command("mkey-remove --via direct --yes --leave-open", Stop("set", 6)),
            Command("undo --yes"),
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
                Command("resume --yes", Stop("set", 2, how)),
                Command("resume --yes"),
                Command(f"undo {len(before) + 1} --yes{_LEAVE_OPEN if name == 'mkey-deploy' else ''}"),
            ],
        )
        for how in ("interrupted", "killed")
        for name, words, before in (
            ("mkey-deploy", _DEPLOY.words, []),
            ("mkey-rotate", "mkey-rotate --via direct --per-port --yes", [_DEPLOY]),
            ("mkey-remove", "mkey-remove --via direct --yes --leave-open", [_DEPLOY]),
        )
    ],
    *[
        Scenario(
            f"{name}-aborted",
            [
                *before,
                Command(words, Stop("set", 4)),
                Command("undo --yes", Stop("set", 2)),
                Command("undo --yes"),
                Command("resume --yes"),
            ],
        )
        for name, words, before in (
            ("mkey-deploy", _DEPLOY.words, []),
            ("mkey-rotate", "mkey-rotate --via direct --per-port --yes", [_DEPLOY]),
            ("mkey-remove", "mkey-remove --via direct --yes --leave-open", [_DEPLOY]),
        )
    ],
    Scenario(
        "mkeys-first",
        [
            Command("mkey-deploy --via direct --same --protect 2 --lease 60 --yes --first 2"),
            Command("mkey-deploy --via direct --same --protect 2 --lease 60 --yes"),
            Command("resume --first 2 --yes"),
            Command("resume --yes"),
            Command("mkey-rotate --via direct --same --yes --first 1"),
            Command("undo --yes"),
        ],
    ),
    Scenario(
        "mkeys-with-a-silent-port",
        [
            _DEPLOY,
            Command("mkey-rotate --via direct --per-port --yes --retries 0", Stop("set", 2, _silent)),
            Command("resume --yes", before=_answers),
            Command("resume --overtaken --yes"),
        ],
    ),
]
