"""--sa-keys beside a real OpenSM that protects every port at level 2: a host without its key files reads them all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ibkeys.mad.const import MgmtClass
from ibkeys.sim.server.outbox import PassedMad
from tests.integration.hosted import Hosted, is_of_opensm
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.policy_opensm import running_opensm
from tests.integration.trees import PARTS, fabric

SA_KEY = 0x5A5A_0000_1234_0001
M_KEY = 0x1122_3344_5566_7788
CONF = f"sa_key 0x{SA_KEY:x}\nm_key 0x{M_KEY:x}\nm_key_protection_level 2\nm_key_lease_period 60\n"


def mkey_show(served: Hosted, sa_key: int) -> subprocess.CompletedProcess[str]:
    """Run mkey-show --all --sa-keys with *sa_key*, on a host that has a file with that key and no other file."""
    path = served.folder / "sa.key"
    path.touch(0o600)
    path.write_text(f"0x{sa_key:x}\n")
    words = ("mkey-show", "--all", "--sa-keys", "--smkey", f"@{path}", "-f", "json")
    return subprocess.run(
        served.ibkeys_command(*words),
        cwd=served.folder,
        env=served.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
    )


def is_smp_of_tool(seen: PassedMad) -> bool:
    """Whether it is an SMP that a program other than the subnet manager sent."""
    return seen.out and not is_of_opensm(seen) and seen.mad[1] != MgmtClass.SUBN_ADM


@pytest.mark.parametrize("size", list(PARTS))
def test_every_port_of_a_fabric_at_level_2_is_read(size: str, tmp_path: Path) -> None:
    with Hosted(fabric(size, tmp_path)) as served, running_opensm(served, CONF):
        end_ports = [port for node in served.net.nodes for port in node.end_ports if port.is_up or not port.number]
        assert {port.protect_bits for port in end_ports} == {2}

        done = mkey_show(served, SA_KEY)
        assert done.returncode == 0, done.stderr
        shown: list[dict[str, Any]] = json.loads(done.stdout)["ports"]
        assert len(shown) == len(end_ports)
        assert {(port["m_key_protect_bits"], port["m_key_violations"]) for port in shown} == {(2, 0)}
        assert f"{M_KEY:x}" not in done.stdout + done.stderr

        smps: list[bytes] = []
        served.watchers.append(lambda seen: smps.append(seen.mad) if is_smp_of_tool(seen) else None)
        wrong = mkey_show(served, 0x666)
        assert wrong.returncode == 3
        assert "a wrong SM_Key" in wrong.stderr
        assert not smps
        assert sum(port.m_key_violations for port in end_ports) == 0
