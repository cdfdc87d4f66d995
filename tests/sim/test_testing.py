"""The pytest plugin, run by a pytest of its own on a test file as a user would write it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.corpus import DATA

SUITE = f"""
import ibkeys
import pytest

def test_demo(ib_fabric, ib_subnet, ib_port):
    assert ib_fabric.local().port_guid == ib_subnet.port("login1 HCA-1", 1).guid
    assert ib_port.read_p_keys()[0] == 0xFFFF


@pytest.mark.ib_fabric({str(DATA / "fabrics" / "dual-home.net")!r}, at="db01 mlx5_0", port=2, sm="db02 mlx5_0")
def test_chosen(ib_fabric, ib_subnet):
    ib_subnet.port("db01 mlx5_0", 2).p_keys = [0xFFFF, 0x8001]
    assert list(ib_fabric.find_port().read_p_keys()[:2]) == [0xFFFF, 0x8001]
    assert ib_fabric.local().sm_lid == ib_subnet.port("db02 mlx5_0", 1).lid


def test_changes_follow_each_other(ib_fabric, ib_subnet):
    make = dict(same=True, via=ibkeys.Direct(), consent=lambda proposal: ibkeys.Consent())
    first = ib_fabric.deploy_m_keys(protect=2, lease=60, **make)
    second = ib_fabric.rotate_m_keys(**make)  # with the keys and links that the first one has stored
    assert first.proven and second.proven and len(second.done) == len(first.done)
    assert [each.id for each in ib_fabric.operations()] == [first.operation, second.operation]


@pytest.mark.ib_fabric(lid=3)
def test_wrong(ib_fabric):
    pass
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "--strict-markers", "-p", "no:cacheprovider", "-q", *arguments]
    root = Path(__file__).parent.parent.parent
    environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["ibkeys.testing"]\n')
    (tmp_path / "test_script.py").write_text(SUITE)
    output = run_pytest(tmp_path)
    assert "3 passed, 1 error" in output
    assert "has no argument lid=; it knows file, sm, port_guids, links, seed, at, port" in output


def test_loading_the_plugin_loads_nothing_else(tmp_path: Path) -> None:
    code = "import sys, ibkeys.testing; print(sorted(name for name in sys.modules if name.startswith('ibkeys.')))"
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ibkeys.testing']"
