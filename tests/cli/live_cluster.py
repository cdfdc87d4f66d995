"""A cluster whose OpenSMs, on this host and on another one, have a policy in force."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cli.scenes import Scene, Way
from tests.recordings.opensm import Opensm
from tests.recordings.world import STANDBY_HOST

SM = f"--sm-host {STANDBY_HOST} --wait 5"
LIVE = f"--yes {SM}"
POLICY = (
    "# of the cluster\n"
    "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
    "tank, ipoib : 0x2c903000a1021=full, 0x2c903000a1031 ;  # by OpenSM\n"
    "gpu=0x30, ipoib, mtu=4 :\n"
    "    0x2c903000a1031=full,  # node03\n"
    "    0x2c903000a1041=full ;\n"
)


@contextmanager
def cluster(folder: Path, policy: str = POLICY) -> Iterator[Scene]:
    """Start a cluster whose OpenSMs, on this host and on another one, have swept with *policy*."""
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        scene = Scene(Way("plan", opensm=""), folder, stack)
        for each in scene.world.opensms:
            each.policy.write_text(policy)
        scene.world.opensms[0].begin_again()
        yield scene


def policies_shown(scene: Scene) -> tuple[list[tuple[str, int | None]], list[str]]:
    """Return, of each OpenSM, whether it has read its policy, and which operation wrote that; and the dangers."""
    scene.must(f"sm-show --sm-host {STANDBY_HOST} -f json")
    document: dict[str, Any] = json.loads(scene.out)
    policies = [
        file
        for host in document["hosts"]
        for instance in host["instances"]
        for file in instance["files"]
        if file["role"] == "policy"
    ]
    return [(each["reading"], each["written_by"]) for each in policies], [
        each["danger"] for each in document["dangers"] if each["danger"] in ("changed", "armed")
    ]


def tables(scene: Scene) -> dict[tuple[str, int], list[int]]:
    """Return the P_Key table of each port."""
    return {
        (node.description, port.number): [key for key in port.p_keys if key]
        for node in scene.world.net.nodes
        for port in node.ports
    }


def files_of(scene: Scene) -> list[bytes]:
    return [each.policy.read_bytes() for each in scene.world.opensms]


def master(scene: Scene) -> Opensm:
    return scene.world.opensms[0]
