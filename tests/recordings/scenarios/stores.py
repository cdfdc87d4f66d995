"""Commands that change key store, journal and OpenSM's key files, without a MAD that changes something."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.recordings.recorder import GIVEN, Command, Scenario
from tests.recordings.world import World


def _phrases(world: World, stack: ExitStack) -> None:
    for name, text in {"one.phrase": "correct horse battery staple\n", "two.phrase": "another long phrase\n"}.items():
        _keep(world.folder / name, text)


def _conf(world: World, stack: ExitStack) -> None:
    text = f"# made-up\nm_key 0x{GIVEN[1]:016x}\nm_key_protection_level 2\nm_key_lease_period 60\n"
    _keep(world.folder / "opensm.conf", text)


def _keep(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def _unplug(world: World) -> None:
    world.net.unplug("node04 mlx4_0", 1)


def _lose_stores(world: World) -> None:
    for path in world.folder.glob("*.db*"):
        path.unlink()


SCENARIOS: Final = [
    Scenario(
        "keystore-import-and-export",
        [
            Command("mkey-deploy --via direct --same --new-m-key @{dir}/given1.key --protect 1 --yes"),
            Command("keystore export {dir}/exported --guid2lid"),
            Command("keystore export {dir}/exported --write-opensm-conf {dir}/opensm.conf --protect 2 --lease 60"),
            Command("keystore import {dir}/exported", before=_lose_stores),
            Command("keystore import --opensm-conf {dir}/opensm.conf"),
            Command("keystore list"),
            Command("mkey-rotate --via direct --per-port --yes"),
            Command("keystore export {dir}/again --opensm-conf {dir}/opensm.conf"),
            Command("keystore list --settle --yes", before=_unplug),
        ],
        begin=_conf,
    ),
    Scenario(
        "keystore-encrypt",
        [
            Command("mkey-deploy --via direct --same --protect 1 --yes"),
            Command("keystore encrypt --new-passphrase @{dir}/one.phrase", has_json=False),
            Command("mkey-rotate --via direct --same --yes --keystore-passphrase @{dir}/one.phrase"),
            Command(
                "keystore encrypt --keystore-passphrase @{dir}/one.phrase --new-passphrase @{dir}/two.phrase",
                has_json=False,
            ),
            Command("keystore encrypt --keystore-passphrase @{dir}/two.phrase --decrypt", has_json=False),
        ],
        begin=_phrases,
    ),
    Scenario(
        "keystore",
        [
            Command("mkey-deploy --via direct --same --protect 1 --yes", is_recorded=False),
            Command("keystore backup {dir}/backup", has_json=False),
            Command("mkey-rotate --via direct --same --yes", is_recorded=False),
            Command("keystore restore {dir}/backup", has_json=False),
            Command("keystore restore {dir}/backup", before=_lose_stores, has_json=False),
            Command("keystore restore {dir}/backup", has_json=False),
        ],
        begin=_phrases,
    ),
]
