"""M_Keys of all ports, set by OpenSM from its options file: step by step, stopped after each, and back."""

from __future__ import annotations

from typing import Final, Literal

from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.scenarios.beginning import OWN_SA_KEY, opensm
from tests.recordings.world import World

_WAY: Final = "--via opensm --wait 5 --yes --override mkey-under-sm"
_DEPLOY: Final = f"mkey-deploy {_WAY} --same --protect 2 --lease 60"
_ROTATE: Final = f"mkey-rotate {_WAY} --same"
_OPEN: Final = f"{_ROTATE} --open-while-rotating"
_REMOVE: Final = f"mkey-remove {_WAY} --leave-open"
_HAS_KEYS: Final = Command(_DEPLOY, is_recorded=False)
_REST: Final = "--wait 5 --yes --override mkey-under-sm"


def _deaf(world: World) -> None:
    world.opensms[0].is_deaf = True


def _hears(world: World) -> None:
    world.opensms[0].is_deaf = False


def _stopped(
    name: str, words: str, before: list[Command], number: int, kind: Literal["signal", "sleep"], how: str, then: str
) -> Scenario:
    stop = Stop(kind, number, "killed" if how == "killed" else "interrupted")
    ends = Command(f"{'undo' if then == 'abort' else then} {_REST}")
    return Scenario(
        f"{name}-by-opensm-{how}-before-{kind}-{number}-{then}",
        [*before, Command(words, stop), Command("journal"), ends, Command("journal")],
        begin=opensm(OWN_SA_KEY),
    )


_RUNS: Final = (
    ("mkey-deploy", _DEPLOY, list[Command](), 4),
    ("mkey-rotate", _OPEN, [_HAS_KEYS], 3),
    ("mkey-remove", _REMOVE, [_HAS_KEYS], 2),
)
"""Command, its words, what comes before, and how many signals it sends at least."""

SCENARIOS: Final = [
    Scenario(
        "mkeys-by-opensm",
        [
            Command(f"{_DEPLOY} --dry-run"),
            Command(_DEPLOY),
            Command(_ROTATE),
            Command(_OPEN),
            Command(f"{_OPEN} --protect 1 --lease 40"),
            Command(_REMOVE),
            Command("keystore list"),
            Command("journal"),
        ],
        begin=opensm(OWN_SA_KEY),
    ),
    Scenario(
        "mkeys-by-opensm-of-dual-home",
        [Command(_DEPLOY), Command(_OPEN), Command(_REMOVE)],
        fabric="dual-home",
        begin=opensm(OWN_SA_KEY, "dual-home"),
    ),
    Scenario("mkey-deploy-by-opensm-with-the-default-sa-key", [Command(_DEPLOY)], begin=opensm()),
    *[
        _stopped(name, words, before, number, "signal", how, then)
        for name, words, before, count in _RUNS
        for number in range(1, count + 1)
        for how, then in (("interrupted", "resume"), ("killed", "abort"))
    ],
    *[
        _stopped(name, words, before, 1, "sleep", how, then)
        for name, words, before, _ in _RUNS
        for how, then in (("interrupted", "abort"), ("killed", "resume"))
    ],
    Scenario(
        "mkeys-by-a-deaf-opensm",
        [
            Command(_DEPLOY, before=_deaf),
            Command(f"resume {_REST}", before=_hears),
            Command(_OPEN, before=_deaf),
            Command(f"undo {_REST}", before=_hears),
        ],
        begin=opensm(OWN_SA_KEY),
    ),
    Scenario(
        "mkeys-by-opensm-confirm-within",
        [
            Command(f"{_DEPLOY} --confirm-within 60"),
            Command("confirm 1", has_json=False),
            Command(f"resume {_REST}"),
            Command(f"{_OPEN} --confirm-within 60"),
            Command("journal"),
        ],
        begin=opensm(OWN_SA_KEY),
    ),
    *[
        Scenario(
            f"mkeys-by-opensm-{word}",
            [
                Command(f"{_DEPLOY} --confirm-within 60", Stop("sleep", 12, "killed")),
                Command("journal"),
                Command(f"mkey-rotate {_REST} --same --via opensm"),
                Command(ends, has_json=False),
                Command("confirm 1", has_json=False),
                Command("journal"),
            ],
            begin=opensm(OWN_SA_KEY),
        )
        for word, ends in (("confirm", "confirm 1"), ("unconfirmed", "undo --unconfirmed 1 --wait 5"))
    ],
    Scenario(
        "mkeys-by-two-opensms",
        [
            Command(_DEPLOY),
            Command(f"{_DEPLOY} --sm-host sm2"),
            Command(f"{_OPEN} --sm-host sm2", Stop("signal", 2)),
            Command(f"resume {_REST} --sm-host sm2"),
        ],
        begin=opensm(OWN_SA_KEY, standby=True),
    ),
]
