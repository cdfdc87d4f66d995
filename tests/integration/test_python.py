"""Scripts that change a subnet beside a real OpenSM: the examples, as their docstrings say, and what they then find."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import ibkeys
from tests.corpus import DATA
from tests.integration import scripted
from tests.integration.hosted import Hosted, RunningOpensm, opensm
from tests.integration.ibsim import Ibsim
from tests.integration.keyed_opensm import POLICY, KeyedOpensm, keyed, stage_of_last_run

NET = DATA / "fabrics" / "two-switch.net"
EXAMPLES = DATA.parents[1] / "examples"


def run(served: Ibsim, name: str, *words: object, code: int = 0) -> str:
    """Run an example on the fabric and return what it said; its exit status is *code*."""
    return scripted.run(served, EXAMPLES / f"{name}.py", *words, code=code)


@pytest.fixture
def site() -> Iterator[tuple[Hosted, RunningOpensm]]:
    with Hosted(NET) as served, opensm(served, POLICY) as running:
        yield served, running


def members(served: Hosted, key: int = 0x8010) -> set[str]:
    hosts = [port for node in served.net.nodes if not node.is_switch for port in node.end_ports]
    return {port.node.description for port in hosts if key in port.p_keys}


def test_a_host_gets_into_a_partition_and_the_subnet_manager_keeps_it(site: tuple[Hosted, RunningOpensm]) -> None:
    served, running = site
    words = ("node04 mlx4_0", "0x8010", "--policy", running.policy)
    assert "-> 0x8010" in run(served, "host_into_partition", *words, code=1)
    assert members(served) == set()
    assert "active-sm" in run(served, "host_into_partition", *words, "--direct", "--yes", code=4)
    run(served, "host_into_partition", *words, "--yes")
    assert members(served) == {"node04 mlx4_0"}
    assert f"0x{served.net.port('node04 mlx4_0', 1).guid:016x}" in running.policy.read_text()
    running.sweep()
    assert members(served) == {"node04 mlx4_0"}
    assert run(served, "host_into_partition", *words, "--yes").strip() == ""


def test_the_members_of_a_tenant_are_those_of_a_list(site: tuple[Hosted, RunningOpensm]) -> None:
    served, running = site
    before = running.policy.read_bytes()
    listed = served.folder / "tenant"
    listed.write_text("node04 mlx4_0\nnode05 mlx4_0\n")
    guids = {name: f"0x{served.net.port(f'{name} mlx4_0', 1).guid:016x}" for name in ("node04", "node05", "node06")}
    assert run(served, "tenant_members", "red=0x10", listed, code=1) == f"+ {guids['node04']}\n+ {guids['node05']}\n"
    run(served, "tenant_members", "red=0x10", listed, "--yes")
    assert members(served) == {"node04 mlx4_0", "node05 mlx4_0"}
    listed.write_text("node05 mlx4_0\nnode06 mlx4_0\n")
    assert run(served, "tenant_members", "red", listed, "--yes") == f"+ {guids['node06']}\n- {guids['node04']}\n"
    assert members(served) == {"node05 mlx4_0", "node06 mlx4_0"}
    assert run(served, "tenant_members", "red", listed, "--yes").strip() == ""
    operations = ibkeys.operations(ibkeys.Stores(journal=served.folder / "stores" / "journal.db"))
    assert [each.command for each in operations] == ["partition-add", "partition-add", "partition-remove"]
    for number in (3, 2, 1):
        done = served.ibkeys("undo", number, "--yes", "--override", "index-move")
        assert done.returncode == 0, done.stdout + done.stderr
    assert running.policy.read_bytes() == before
    assert members(served) == set()


def test_every_night_what_was_taken_away_is_put_back_and_nothing_is_taken_away(
    site: tuple[Hosted, RunningOpensm],
) -> None:
    served, running = site
    guid = served.net.port("node04 mlx4_0", 1).guid
    policy = served.folder / "wanted.conf"
    policy.write_text(f"{POLICY}tenant=0x10 : 0x{guid:016x}=full ;\n")
    said = run(served, "nightly_repair", policy)
    assert "ports were not as the policy says, and are again" in said
    assert members(served) == {"node04 mlx4_0"}
    assert run(served, "nightly_repair", policy) == ""
    policy.write_text(POLICY)
    assert "left to a person (removals)" in run(served, "nightly_repair", policy, code=1)
    assert members(served) == {"node04 mlx4_0"}
    running.kill()
    assert "no subnet manager" in run(served, "nightly_repair", policy, code=1).lower()


@pytest.fixture
def protected() -> Iterator[KeyedOpensm]:
    with keyed(NET) as running:
        code, said = running.ibkeys("mkey-deploy", "--protect", "1", "--lease", "60")
        assert code == 0, said
        yield running


def rotation(opensm: KeyedOpensm, seconds: int) -> subprocess.Popen[str]:
    """Start the example; return when it waits for its confirmation."""
    words = scripted.command(opensm.served, EXAMPLES / "rotate_m_keys.py", "--protect", 2, "--within", seconds)
    process = subprocess.Popen(
        opensm.served.arguments(words),
        cwd=opensm.served.folder,
        env=opensm.served.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting for: ibkeys confirm 2\n"
    return process


def test_a_rotation_is_confirmed_by_somebody_else(protected: KeyedOpensm) -> None:
    [(old, level, _)] = protected.keys()
    assert level == 1
    process = rotation(protected, 600)
    assert protected.served.ibkeys("confirm", "2").returncode == 0
    said, _ = process.communicate()
    assert (process.returncode, "have their new key" in said) == (0, True)
    [(new, level, lease)] = protected.keys()
    assert (new != old, level, lease) == (True, 2, 60)
    protected.assert_nothing_was_lost()
    with ibkeys.open("sim:", stores=ibkeys.Stores(journal=protected.served.folder / "stores" / "journal.db")) as other:
        assert [each.is_open for each in other.operations()] == [False, False]


def test_a_rotation_of_a_script_that_dies_is_lowered_by_the_process_that_it_left(protected: KeyedOpensm) -> None:
    process = rotation(protected, 1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(children) == 1
    stores = protected.served.folder / "stores"
    while stage_of_last_run(stores) != ("open", "gone-back"):
        protected.served.steer("counts")  # polls a condition
    [(_, level, lease)] = protected.keys()
    assert (level, lease) == (1, 60)
    protected.assert_nothing_was_lost()
