"""Plans that ibkeys applies itself, Set by Set: in parts, stopped, confirmed or not, and undone; edits of policies."""

from __future__ import annotations

from typing import Final

from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.scenarios.beginning import OTHER_PLAN, PLAN, SWAPPED_PLAN, opensm, policies
from tests.recordings.world import World

_APPLY: Final = "apply {dir}/plan.json --via direct --allow-removals --yes --override index-0"
_AFTER: Final = "apply {dir}/other.json --via direct --allow-removals --yes --override index-0"

_SWAPPED: Final = "apply {dir}/swapped.json --via direct --allow-removals --yes --override index-0"


def _silent(world: World) -> None:
    world.net.silence("node04 mlx4_0")


def _answers(world: World) -> None:
    world.net.silence("node04 mlx4_0", False)


def _somebody_writes(world: World) -> None:
    world.net.port("node03 mlx4_0", 1).p_keys = [0xFFFF, 0x8077]


SCENARIOS: Final = [
    Scenario(
        "apply",
        [
            PLAN,
            Command("apply {dir}/plan.json --via direct --dry-run"),
            Command(_APPLY),
            Command(_APPLY),
            OTHER_PLAN,
            Command("apply {dir}/other.json --via direct --yes"),
            Command(_AFTER),
            Command("undo --yes"),
            Command("undo 2 --yes"),
            Command("undo 1 --yes"),
            Command("undo 1 --yes"),
            Command("journal"),
        ],
        begin=policies,
    ),
    Scenario(
        "apply-with-breaks",
        [
            PLAN,
            Command(_APPLY, is_recorded=False),
            SWAPPED_PLAN,
            Command(_SWAPPED),
            Command(f"{_SWAPPED} --allow-break", Stop("set", 2)),
            Command("undo --yes"),
            Command("undo 1 --yes --allow-break"),
        ],
        begin=policies,
    ),
    Scenario(
        "apply-of-dual-home",
        [
            PLAN,
            Command(_APPLY),
            OTHER_PLAN,
            Command(f"{_AFTER} --allow-break", Stop("set", 4)),
            Command("resume --yes --allow-removals --allow-break"),
            Command("undo 2 --yes --allow-break"),
            Command("undo --yes 1 --allow-break"),
        ],
        fabric="dual-home",
        begin=policies,
    ),
    Scenario(
        "apply-first",
        [
            PLAN,
            Command(f"{_APPLY} --first 1"),
            Command(f"{_APPLY}"),
            Command("resume --first 1 --yes --allow-removals"),
            Command("resume --yes --allow-removals"),
            Command("undo 1 --yes"),
        ],
        begin=policies,
    ),
    *[
        Scenario(
            f"apply-{how}",
            [
                PLAN,
                Command(_APPLY, Stop("set", 3, how)),
                Command("journal"),
                Command("pkey-add 2 0x0077 --yes"),
                Command("resume --yes --allow-removals"),
                Command("undo 1 --yes", Stop("set", 2, how)),
                Command("undo 1 --yes"),
                Command("journal"),
            ],
            begin=policies,
        )
        for how in ("interrupted", "killed")
    ],
    Scenario(
        "apply-interrupted-and-undone",
        [PLAN, Command(_APPLY, Stop("set", 3)), Command("undo --yes"), Command("undo --yes")],
        begin=policies,
    ),
    Scenario(
        "apply-with-a-silent-port",
        [
            PLAN,
            Command(f"{_APPLY} --retries 0", Stop("set", 2, _silent)),
            Command("resume --yes --allow-removals", before=_answers),
            Command("undo 1 --yes", before=_somebody_writes),
        ],
        begin=policies,
    ),
    Scenario(
        "apply-confirm-within",
        [
            PLAN,
            Command(f"{_APPLY} --confirm-within 60"),
            Command("confirm 1", has_json=False),
            PLAN,
            Command(f"{_APPLY} --confirm-within 60", Stop("sleep", 3)),
            Command(f"{_APPLY} --confirm-within 60", Stop("sleep", 3, "killed")),
            Command("journal"),
            Command("pkey-add 2 0x0077 --yes"),
            Command("confirm 5", has_json=False),
            Command("confirm 5", has_json=False),
            Command("undo 6 --yes"),
        ],
        begin=policies,
    ),
    Scenario(
        "apply-unconfirmed",
        [
            PLAN,
            Command(f"{_APPLY} --confirm-within 60", Stop("sleep", 3, "killed")),
            Command("undo --yes --force --at-once --allow-break 1"),
            Command("confirm 1", has_json=False),
            Command("journal"),
        ],
        begin=policies,
    ),
    Scenario(
        "policy-edits",
        [
            Command("partition-add --policy {dir}/new.conf lustre --full 'node05*' --dry-run"),
            Command("partition-add --policy {dir}/new.conf lustre --full 'node05*' --limited 'node06*'"),
            Command("partition-add --policy {dir}/new.conf tank=0x44 --full 'node0[1-2]*' --out {dir}/out.conf"),
            Command("partition-remove --policy {dir}/new.conf lustre 'node05*'"),
            Command("partition-add --policy {dir}/new.conf gpu --out-of lustre 'node06*'"),
            Command("partition-add --policy {dir}/new.conf none --full 'node05*'"),
            Command("policy-from --out {dir}/from.conf"),
        ],
        begin=policies,
    ),
    Scenario(
        "policy-edits-of-a-running-opensm",
        [
            Command("partition-add --policy {dir}/opensm/partitions.conf lustre=0x21 --full 'node05*'"),
            Command("partition-add --policy {dir}/opensm/partitions.conf lustre=0x21 --full 'node05*' --force"),
            Command("policy-from --out {dir}/opensm/partitions.conf"),
        ],
        begin=opensm(),
    ),
]
