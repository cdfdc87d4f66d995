"""Commands that change one port, and the undo of each."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from tests.fabricsim import between_switches
from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.scenarios.beginning import opensm
from tests.recordings.world import World


def _counted(world: World, stack: ExitStack) -> None:
    """Let two ports have counted violations."""
    for name, count in (("node02 mlx4_0", 3), ("node05 mlx4_0", 7)):
        port = world.net.port(name, 1)
        port.m_key_violations, port.p_key_violations, port.q_key_violations = count, count + 1, count + 2


def _lose_the_next_answer(world: World) -> None:
    world.net.faults.lose_next("reply", method=2)


def _silent(world: World) -> None:
    world.net.silence("node03 mlx4_0")


def _somebody_writes(world: World) -> None:
    world.net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8077]


def _next_to_a_switch(world: World, stack: ExitStack) -> None:
    between_switches(world.net).inbound_enforcement = 1


SCENARIOS: Final = [
    Scenario(
        "pkey-set",
        [
            Command("pkey-set 2 3=0x8010 5=0x0011 --yes"),
            Command("pkey-set 2 3=0x0 --yes"),
            Command("pkey-set 2 3=0x0 --yes"),
            Command("pkey-set 2 0=0x0 --yes"),
            Command("pkey-set 2 40=0x8012 --dry-run"),
            Command("undo 1 --yes"),
            Command("undo 2 --yes"),
            Command("undo 2 --yes"),
            Command("journal"),
        ],
    ),
    Scenario(
        "pkey-add",
        [
            Command("pkey-add 2 0x0010 0x8011 --yes"),
            Command("pkey-add 2 0x0010 --yes"),
            Command("pkey-add -N 'node03 mlx4_0' 1 0x8010 --dry-run"),
            Command("pkey-add 4 0x8010 --yes", before=_lose_the_next_answer),
            Command("pkey-add 3 0x8010 --yes --retries 0", before=_silent),
            Command("pkey-add 5 0x8010 --yes", Stop("set")),
            Command("undo --yes"),
            Command("pkey-add 6 0x8010 --yes", Stop("set", how="killed")),
            Command("journal"),
            Command("undo --yes"),
        ],
    ),
    Scenario(
        "pkey-remove",
        [
            Command("pkey-add 2 0x0010 0x8011 --yes"),
            Command("pkey-remove 2 0x0010 --yes"),
            Command("pkey-remove 2 0x0099 --yes"),
            Command("undo 2 --yes", before=_somebody_writes),
            Command("undo 2 --yes"),
        ],
    ),
    Scenario(
        "enforce-set",
        [
            Command("enforce-set 7 2 --inbound on --outbound on --yes"),
            Command("enforce-set 7 2 --outbound off --yes"),
            Command("enforce-set 7 3 --inbound on --dry-run"),
            Command("undo 2 --yes"),
            Command("undo 1 --yes"),
        ],
        begin=_next_to_a_switch,
    ),
    Scenario(
        "counters-clear",
        [
            Command("counters-clear 2 --yes"),
            Command("counters-clear --all --yes"),
            Command("counters-clear --all --yes"),
            Command("undo 2 --yes"),
        ],
        begin=_counted,
    ),
    Scenario(
        "mkey-set",
        [
            Command("mkey-set 2 --new-m-key @{dir}/given1.key --protect 1 --lease 60 --yes"),
            Command("mkey-set 2 --protect 2 --yes"),
            Command("mkey-set 2 --new-m-key @{dir}/given2.key --yes"),
            Command("mkey-set 3 --new-m-key @{dir}/given1.key --dry-run"),
            Command("mkey-set 4 --new-m-key @{dir}/given1.key --yes", before=_lose_the_next_answer),
            Command("mkey-set 5 --new-m-key @{dir}/given1.key --protect 2 --lease 60 --yes", Stop("set", how="killed")),
            Command("keystore list"),
            Command("undo --yes"),
        ],
    ),
    Scenario(
        "one-port-beside-opensm",
        [
            Command("pkey-add 2 0x0010 --yes"),
            Command("pkey-add 2 0x0010 --yes --force"),
            Command("enforce-set 7 2 --inbound off --yes"),
            Command("mkey-set 2 --new-m-key @{dir}/given1.key --yes"),
            Command("undo 1 --yes --force"),
        ],
        begin=opensm(),
    ),
    Scenario(
        "one-port-of-dual-home",
        [
            Command("pkey-set 9 3=0x8010 --yes"),
            Command("pkey-add -N 'db02 mlx5_0' 2 0x8010 0x0011 --yes"),
            Command("pkey-remove -G 0x248a070300b10202 0x8010 --yes"),
            Command("enforce-set 16 3 --inbound on --outbound on --yes"),
            Command("mkey-set 17 --new-m-key @{dir}/given1.key --protect 1 --yes"),
            Command("undo 4 --yes"),
            Command("undo 3 --yes"),
            Command("journal"),
        ],
        fabric="dual-home",
    ),
]
