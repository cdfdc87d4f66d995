"""Plans that OpenSM or UFM applies: in its steps, stopped, confirmed or not, and undone."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from tests.fabricsim import replace_hca
from tests.recordings.opensm import POLICY
from tests.recordings.recorder import Command, Scenario, Stop
from tests.recordings.scenarios.beginning import OTHER_PLAN, PLAN, PORTS, SWAPPED_PLAN, opensm, with_ufm
from tests.recordings.world import World

_WAY: Final = "--via opensm --allow-removals --yes --wait 5"
_APPLY: Final = f"apply {{dir}}/plan.json {_WAY}"
_AFTER: Final = f"apply {{dir}}/other.json {_WAY}"
_RESUME: Final = "resume --yes --allow-removals --allow-break --wait 5"
_IN_FORCE: Final = "--sm-host sm2 --wait 5"
_REPLACE: Final = "replace node03 --baseline {dir}/monday.db --node-name-map {dir}/names --waivers {dir}/waivers.toml"
_UFM: Final = "--ufm-token @{dir}/ufm.token"
_BY_UFM: Final = f"--via {{ufm}} {_UFM} --allow-removals --yes --wait 5"
_UFM_PLAN: Final = Command("plan --policy {dir}/new.conf --full --out {dir}/plan.json", is_recorded=False)
_OTHER_UFM_PLAN: Final = Command("plan --policy {dir}/other.conf --full --out {dir}/other.json", is_recorded=False)


def _with_a_standby(world: World, stack: ExitStack) -> None:
    """Start two OpenSMs; the master has swept last, so the tables are as its policy says."""
    opensm(standby=True)(world, stack)
    world.opensms[0].begin_again()


def _with_files_beside(world: World, stack: ExitStack) -> None:
    """As `_with_a_standby`, with a node name map and waivers, which name the adapter of node03."""
    _with_a_standby(world, stack)
    port = PORTS["two-switch"][2]
    (world.folder / "names").write_text(f'{port[:-1]}0 "third" # of rack 1\n')
    waiver = f'rule = "PK001"\nports = ["{port}"]\nreason = "x"\nexpires = 2099-01-01\n'
    (world.folder / "waivers.toml").write_text(f"[[waiver]]\n{waiver}")


def _another_adapter(world: World) -> None:
    """Put another adapter into node03, and let OpenSM write its table."""
    replace_hca(next(node for node in world.net.nodes if node.description == "node03 mlx4_0"))
    world.opensms[0].begin_again()


def _standby_was_off(world: World) -> None:
    """Let the standby have a policy from before."""
    world.opensms[1].policy.write_text(POLICY)


def _deaf(world: World) -> None:
    world.opensms[0].is_deaf = True


def _hears(world: World) -> None:
    world.opensms[0].is_deaf = False


def _somebody_edits(world: World) -> None:
    with world.opensms[0].policy.open("a") as policy:
        policy.write("more=0x0055 : ALL=limited ;\n")


def _ufm_fails(world: World) -> None:
    assert world.ufm is not None
    world.ufm.fails_from = world.ufm.changes


def _ufm_works(world: World) -> None:
    assert world.ufm is not None
    world.ufm.fails_from = None


SCENARIOS: Final = [
    Scenario(
        "apply-by-opensm",
        [
            PLAN,
            Command(f"{_APPLY} --dry-run"),
            Command(_APPLY),
            OTHER_PLAN,
            Command(_AFTER),
            Command("undo 2 --yes --wait 5"),
            Command("undo 1 --yes --at-once --wait 5"),
            Command("journal"),
        ],
        begin=opensm(),
    ),
    Scenario(
        "apply-by-opensm-with-breaks",
        [
            PLAN,
            Command(_APPLY, is_recorded=False),
            SWAPPED_PLAN,
            Command(f"apply {{dir}}/swapped.json {_WAY}"),
            Command(f"apply {{dir}}/swapped.json {_WAY} --allow-break"),
            Command("undo 2 --yes --wait 5"),
            Command("undo 2 --yes --allow-break --wait 5"),
        ],
        begin=opensm(),
    ),
    Scenario(
        "apply-by-opensm-of-dual-home",
        [PLAN, Command(_APPLY), OTHER_PLAN, Command(_AFTER), Command("undo 2 --yes --allow-break --wait 5")],
        fabric="dual-home",
        begin=opensm(fabric="dual-home"),
    ),
    *[
        Scenario(
            f"apply-by-opensm-{how}-before-{kind}-{number}",
            [
                PLAN,
                Command(_APPLY),
                OTHER_PLAN,
                Command(_AFTER, Stop(kind, number, how)),
                Command("journal"),
                *([Command(_RESUME)] if number == 1 else []),
                Command("undo 2 --yes --wait 5", Stop(kind, number, how)),
                Command("undo --yes --wait 5"),
                Command("journal"),
            ],
            begin=opensm(),
        )
        for how, kind, number in (
            ("interrupted", "signal", 1),
            ("interrupted", "signal", 2),
            ("interrupted", "sleep", 1),
            ("killed", "signal", 1),
            ("killed", "signal", 2),
            ("killed", "sleep", 1),
        )
    ],
    Scenario(
        "apply-by-a-deaf-opensm",
        [
            PLAN,
            Command(_APPLY, before=_deaf),
            Command(_RESUME),
            Command(_RESUME, before=_hears),
            Command("undo 1 --yes --wait 5", before=_somebody_edits),
        ],
        begin=opensm(),
    ),
    Scenario(
        "apply-by-opensm-confirm-within",
        [
            PLAN,
            Command(f"{_APPLY} --confirm-within 60"),
            PLAN,
            Command(f"{_APPLY} --confirm-within 60", Stop("sleep", 5, "killed")),
            Command("journal"),
            Command("confirm 3", has_json=False),
            Command("undo 3 --yes --wait 5"),
            PLAN,
            Command(f"{_APPLY} --confirm-within 60", Stop("sleep", 5, "killed")),
            Command("undo --yes --force --at-once --allow-break --wait 5 5"),
        ],
        begin=opensm(),
    ),
    Scenario(
        "apply-by-two-opensms",
        [
            PLAN,
            Command(f"{_APPLY} --confirm-within 60"),
            Command(f"{_APPLY} --sm-host sm2 --confirm-within 60"),
            PLAN,
            Command(f"{_APPLY} --sm-host sm2"),
            Command("undo --yes --wait 5"),
        ],
        begin=opensm(standby=True),
    ),
    Scenario(
        "partitions-in-force",
        [
            Command(f"partition-add lustre=0x21 --full node05 --limited 'node0[3-4]' --mtu 4096 --dry-run {_IN_FORCE}"),
            Command(f"partition-add lustre=0x21 --full node05 --limited 'node0[3-4]' --ipoib --yes {_IN_FORCE}"),
            Command(f"partition-rename lustre scratch --yes {_IN_FORCE}"),
            Command(f"partition-remove scratch node04 --yes {_IN_FORCE}", Stop("signal", 1, "killed")),
            Command("resume --yes --wait 5"),
            Command(f"partition-delete scratch --yes {_IN_FORCE}"),
            Command("undo 4 --yes --wait 5"),
        ],
        begin=_with_a_standby,
    ),
    Scenario(
        "replace",
        [
            Command(
                f"partition-add lustre=0x21 --full node05 --limited 'node0[3-4]' --ipoib --yes {_IN_FORCE}",
                is_recorded=False,
            ),
            Command("snapshot {dir}/monday.db", is_recorded=False),
            Command(f"{_REPLACE} --dry-run {_IN_FORCE}", before=_another_adapter),
            Command(f"{_REPLACE} --yes {_IN_FORCE}", Stop("signal", 1, "killed")),
            Command("resume --yes --wait 5"),
            Command("undo 2 --yes --override index-move --wait 5"),
            Command(f"{_REPLACE} --yes {_IN_FORCE}"),
        ],
        begin=_with_files_beside,
    ),
    Scenario(
        "partition-spread",
        [
            Command(f"partition-add lustre=0x21 --full node03 --ipoib --yes {_IN_FORCE}", is_recorded=False),
            Command(f"partition-spread --dry-run {_IN_FORCE}", before=_standby_was_off),
            Command(f"partition-spread --yes {_IN_FORCE}"),
            Command("undo 2 --yes --wait 5"),
            Command("undo 3 --yes --wait 5"),
            Command(f"partition-spread --yes {_IN_FORCE}"),
        ],
        begin=_with_a_standby,
    ),
    Scenario(
        "apply-by-ufm",
        [
            _UFM_PLAN,
            Command(f"apply {{dir}}/plan.json {_BY_UFM}"),
            _OTHER_UFM_PLAN,
            Command(f"apply {{dir}}/other.json {_BY_UFM} --allow-break"),
            Command(f"undo 2 --yes --wait 5 {_UFM}"),
            Command(f"undo 1 --yes --wait 5 --allow-break {_UFM}"),
            Command("journal"),
        ],
        begin=with_ufm,
    ),
    *[
        Scenario(
            f"apply-by-ufm-{how}",
            [
                _UFM_PLAN,
                Command(f"apply {{dir}}/plan.json {_BY_UFM}", Stop("rest", 2, how)),
                Command("journal"),
                Command(f"resume --yes --allow-removals --wait 5 {_UFM}"),
                Command(f"undo 1 --yes --wait 5 {_UFM}", Stop("rest", 2, how)),
                Command(f"undo --yes --wait 5 {_UFM}"),
            ],
            begin=with_ufm,
        )
        for how in ("interrupted", "killed")
    ],
    Scenario(
        "apply-by-a-failing-ufm",
        [
            _UFM_PLAN,
            Command(f"apply {{dir}}/plan.json {_BY_UFM}", before=_ufm_fails),
            Command(f"resume --yes --allow-removals --wait 5 {_UFM}", before=_ufm_works),
            Command(f"apply {{dir}}/plan.json {_BY_UFM} --confirm-within 60"),
            Command(f"undo 1 --yes --wait 5 {_UFM}"),
            _UFM_PLAN,
            Command(f"apply {{dir}}/plan.json {_BY_UFM} --confirm-within 60"),
        ],
        begin=with_ufm,
    ),
]
