"""Each script of ``examples`` on a simulated subnet, run as its docstring says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ibkeys
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA

ROOT = DATA.parent.parent
NET = DATA / "fabrics" / "two-switch.net"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(name: str, *args: object, code: int = 0) -> str:
    """Run an example and return what it printed; its exit status is *code*."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / f"{name}.py", *map(str, args)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def backend(tmp_path: Path) -> str:
    """A subnet whose state lasts, so that one script sees what another did; host 2 is in a partition of its own."""
    net = Subnet.from_file(NET)
    state = StateFile(tmp_path / "state", net)
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8001]
    net.port("node03 mlx4_0", 1).p_keys = [0x7FFF, 0x0001]
    state.save_if_changed()
    state.close()
    return f"sim:{NET},state={tmp_path / 'state'}"


def snapshot(backend: str, path: Path) -> Path:
    with ibkeys.open(backend) as fabric:
        ibkeys.save(fabric.take_snapshot(), path)
    return path


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_each_says_how_to_call_it(script: Path) -> None:
    documentation = script.read_text().split('"""')[1]
    assert f"\n    {script.name}" in documentation
    assert "Exit status:" in documentation.replace("\n", " ")
    assert "usage:" in run(script.stem, "--help")
    assert len(script.read_text().splitlines()) < 100


def test_audit_in_cron(backend: str, tmp_path: Path) -> None:
    found = run("audit_in_cron", "--backend", backend, code=1)
    assert "MK001 critical: node02 mlx4_0 port 1: M_Key is 0" in found
    assert "not read" not in found
    assert run("audit_in_cron", "--backend", backend, "--profile", "lab") == ""
    (tmp_path / "partitions.conf").write_text("Broken\n")
    assert "partitions.conf" in run(
        "audit_in_cron", "--backend", backend, "--policy", tmp_path / "partitions.conf", code=3
    )


def test_ports_of_partition(backend: str, tmp_path: Path) -> None:
    found = run("ports_of_partition", "0x8001", "--backend", backend)
    assert found == "node02 mlx4_0\tport 1\tLID 2\t0x8001\tfull\nnode03 mlx4_0\tport 1\tLID 3\t0x0001\tlimited\n"
    assert run("ports_of_partition", 1, "--from", snapshot(backend, tmp_path / "a.db")) == found
    assert run("ports_of_partition", 2, "--backend", backend) == ""
    assert "no such snapshot" in run("ports_of_partition", 2, "--from", tmp_path / "b.db", code=3)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "partitions.conf"
    path.write_text("Default=0x7fff, ipoib : ALL=full ;\n")
    return path


def test_host_into_partition(backend: str, policy: Path) -> None:
    words = ("node04 mlx4_0", "0x8010", "--policy", policy, "--backend", backend)
    shown = run("host_into_partition", *words, code=1)
    assert "port 1: pkey[1]: - -> 0x8010" in shown
    assert "no OpenSM on any host" in run("host_into_partition", *words, "--yes", code=3)
    assert run("host_into_partition", "node04 mlx4_0", "0x8010", *words[2:], "--direct", code=1) == shown
    run("host_into_partition", "nobody", "0x8010", *words[2:], code=3)
    taken = run("host_into_partition", *words, "--direct", "--yes", code=4)  # hosts 2 and 3 lose what is in no policy
    assert "removes 2 P_Keys" in taken


def test_a_second_host_without_a_subnet_manager_leaves_the_first_one_in(backend: str, policy: Path) -> None:
    with ibkeys.open(backend) as fabric:
        guid = fabric.sweep().port_of("node02").guid
    policy.write_text(f"{policy.read_text()}own=0x1 : ALL=limited, 0x{guid:016x}=full ;\n")
    words = ("--policy", policy, "--backend", backend, "--direct")
    for host in ("node04 mlx4_0", "node05 mlx4_0"):
        assert f"'{host}'" in run("host_into_partition", host, "0x8010", *words, "--yes")
    assert run("nightly_repair", policy, "--via", "direct", "--backend", backend) == ""


def test_nightly_repair(backend: str, policy: Path) -> None:
    words = ("nightly_repair", policy, "--via", "direct", "--backend", backend)
    assert "left to a person (removals)" in run(*words, code=1)
    with ibkeys.open(backend) as fabric:
        guid = fabric.sweep().port_of("node02").guid
    policy.write_text(f"{policy.read_text()}own=0x1 : ALL=limited, 0x{guid:016x}=full ;\n")
    assert "ports were not as the policy says, and are again" in run(*words)
    assert run(*words) == ""


def test_rotate_m_keys_needs_an_opensm(backend: str) -> None:
    assert "needs via=ThroughOpenSM(), and a simulated subnet has no OpenSM" in run(
        "rotate_m_keys", "--protect", 2, "--lease", 60, "--backend", backend, code=3
    )


def test_compare_snapshots(backend: str, tmp_path: Path) -> None:
    monday = snapshot(backend, tmp_path / "monday.db")
    assert run("compare_snapshots", monday, monday) == ""
    with ibkeys.open(backend) as fabric, fabric.change("test") as change:
        change.apply(change.plan_add_p_keys(fabric.sweep().port_of("node04"), [0x8010]))
    found = run("compare_snapshots", monday, snapshot(backend, tmp_path / "tuesday.db"), code=1)
    assert "node04 mlx4_0" in found
    assert "None -> 0x8010" in found


def test_weekly_mkey_check(backend: str, tmp_path: Path) -> None:
    words = (tmp_path / "week.db", "--backend", backend)
    first = run("weekly_mkey_check", *words, code=1)
    assert "zero" in first
    assert "MK001 " in first
    assert (tmp_path / "week.db").exists()
    assert run("weekly_mkey_check", *words, code=1) == first


def test_own_audit_rule(backend: str, tmp_path: Path) -> None:
    assert run("own_audit_rule", "node03*", "--backend", backend) == "PK900: pass\n"
    found = run("own_audit_rule", "node02*", "--from", snapshot(backend, tmp_path / "a.db"), code=1)
    assert "PK900: fail" in found
    assert "0xffff, 0x8001" in found
