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


def test_host_into_partition(backend: str) -> None:
    words = ("node04 mlx4_0", "0x8010", "--backend", backend)
    shown = run("host_into_partition", *words, code=1)
    assert "pkey[1]: - -> 0x8010" in shown
    assert run("host_into_partition", *words, "--yes") == shown
    assert "already at index 1" in run("host_into_partition", *words, "--yes")
    assert "node04 mlx4_0" in run("ports_of_partition", "0x8010", "--backend", backend)
    run("host_into_partition", "nobody", "0x8010", "--backend", backend, code=3)
    refused = run("host_into_partition", *words[:1], "0x8011", "--backend", f"{backend},sm=node01 mlx4_0", code=4)
    assert "active-sm" in refused


def test_the_switch_before_the_host_gets_the_key_where_it_enforces(backend: str) -> None:
    with ibkeys.open(backend) as fabric, fabric.change("test") as change:
        leaf = next(port.peer for port in fabric.sweep().end_ports() if port.node.description == "node04 mlx4_0")
        assert leaf is not None
        change.apply(change.set_p_keys(leaf, {0: 0xFFFF}))
        change.apply(change.set_enforcement(leaf, inbound=True))
    changed = run("host_into_partition", "node04 mlx4_0", "0x8010", "--backend", backend, "--yes").splitlines()
    assert [line.startswith(f"{leaf}") for line in changed] == [True, False]


def test_compare_snapshots(backend: str, tmp_path: Path) -> None:
    monday = snapshot(backend, tmp_path / "monday.db")
    assert run("compare_snapshots", monday, monday) == ""
    run("host_into_partition", "node04 mlx4_0", "0x8010", "--backend", backend, "--yes")
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
