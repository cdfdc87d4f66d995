"""Keys that are lost: mkey-recover and sm-repair."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from tests.recordings.recorder import GIVEN, Command, Scenario, Stop
from tests.recordings.scenarios.beginning import locked
from tests.recordings.world import World

_SNAPSHOT: Final = Command("snapshot {dir}/before", is_recorded=False, has_json=False)


def _lock(world: World) -> None:
    with ExitStack() as stack:
        locked(world, stack)


def _keys_to_try(world: World, stack: ExitStack) -> None:
    path = world.folder / "try"
    path.touch(0o600)
    path.write_text("".join(f"{key:#018x}\n" for key in (GIVEN[1], GIVEN[0])))


def _opensm_died(world: World) -> None:
    """OpenSM set the second key on every other port, and died before it wrote its key files."""
    cache = world.folder / "died"
    cache.mkdir(mode=0o700)
    _conf(world, GIVEN[1])
    for number, port in enumerate(port for node in world.net.nodes for port in node.end_ports if port.m_key):
        port.m_key = GIVEN[number % 2]
        port.touch()


def _conf(world: World, key: int) -> None:
    path = world.folder / "opensm.conf"
    path.touch(0o600)
    path.write_text(f"m_key {key:#x}\nm_key_protection_level 2\nm_key_lease_period 60\n")


_REPAIR: Final = "sm-repair --cache-dir {dir}/died --opensm-conf {dir}/opensm.conf"

SCENARIOS: Final = [
    Scenario(
        "mkey-recover",
        [
            _SNAPSHOT,
            Command("mkey-recover --topology {dir}/before --dry-run", before=_lock),
            Command("mkey-recover --topology {dir}/before --yes"),
            Command("mkey-recover --topology {dir}/before --yes"),
            Command("keystore list"),
        ],
    ),
    Scenario(
        "mkey-recover-with-keys",
        [
            _SNAPSHOT,
            Command(
                "mkey-recover --topology {dir}/before --try-keys {dir}/try --set-new --protect 2 --lease 60 --yes",
                Stop("set", 3),
                _lock,
            ),
            Command("mkey-recover --topology {dir}/before --try-keys {dir}/try --set-new --yes"),
            Command("keystore list"),
        ],
        begin=_keys_to_try,
    ),
    Scenario(
        "mkey-recover-of-dual-home",
        [_SNAPSHOT, Command("mkey-recover --topology {dir}/before --set-new --yes", before=_lock)],
        fabric="dual-home",
    ),
    Scenario(
        "sm-repair",
        [
            Command(
                "mkey-deploy --via direct --same --new-m-key @{dir}/given1.key --protect 2 --lease 60 --yes",
                is_recorded=False,
            ),
            Command(f"{_REPAIR} --dry-run", before=_opensm_died),
            Command("keystore import --opensm-conf {dir}/opensm.conf", is_recorded=False),
            Command(f"{_REPAIR} --yes"),
            Command(f"{_REPAIR} --yes"),
        ],
    ),
]
