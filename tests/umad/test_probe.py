"""What doctor sees on hosts in all states, each a folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from ibkeys.errors import LibraryMissing
from ibkeys.umad.port import LocalCa
from ibkeys.umad.probe import ProbeResult, probe
from tests.umad.conftest import PORT, make_ca, make_port


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with an HCA, ib_umad loaded, run as root."""
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband_mad").mkdir()
    (tmp_path / "sys/class/infiniband_mad/abi_version").write_text("5\n")
    (tmp_path / "dev/infiniband").mkdir(parents=True)
    (tmp_path / "dev/infiniband/umad0").touch()
    return tmp_path


def look(root: Path, *cas: LocalCa) -> dict[str, ProbeResult]:
    return {check.name: check for check in probe(root, lambda: None, lambda: cas)}


def test_all_is_well(host: Path) -> None:
    checks = look(host, make_ca("mlx5_0", PORT))
    assert list(checks) == [
        "libibumad",
        "RDMA devices",
        "kernel module ib_umad",
        "device files",
        "channel adapter mlx5_0",
        "port mlx5_0/1",
    ]
    assert all(check.ok for check in checks.values())
    assert checks["port mlx5_0/1"].detail == "Active, link up, InfiniBand, LID 7, SM LID 1"


def test_bare_host(tmp_path: Path) -> None:
    checks = look(tmp_path)
    assert [check.ok for check in checks.values()] == [True, False, False, False, False]
    assert all(check.advice for check in list(checks.values())[1:])


def test_module_missing(host: Path) -> None:
    (host / "sys/class/infiniband_mad/abi_version").unlink()
    assert look(host)["kernel module ib_umad"].advice == "modprobe ib_umad"


def test_no_permission(host: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(os, "access", return_value=False)
    check = look(host)["device files"]
    assert (check.ok, "umad0" in check.detail, "root" in check.advice) == (False, True, True)


def test_no_device_files_under_the_preload_library(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "dev/infiniband/umad0").unlink()
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/umad2sim/libumad2sim.so")
    assert look(host)["device files"].ok is None


@pytest.mark.parametrize(
    ("changes", "ok", "word"),
    [
        ({"capability_mask": 0x400}, False, "virtual function"),
        ({"link_layer": "Ethernet"}, None, "Ethernet"),
        ({"state": 1, "phys_state": 2}, None, "cable"),
        ({"state": 2}, None, "subnet manager"),
    ],
)
def test_ports_that_are_not_ready(host: Path, changes: dict[str, object], ok: bool | None, word: str) -> None:
    check = look(host, make_ca("mlx5_0", make_port(**changes)))["port mlx5_0/1"]
    assert check.ok is ok
    assert word in check.advice


def test_without_the_extension(host: Path) -> None:
    def missing() -> None:
        raise LibraryMissing("ibkeys was built without libibumad", errno.ENOSYS, "apt-get install gcc")

    checks = {check.name: check for check in probe(host, missing, lambda: pytest.fail("asked"))}
    assert checks["libibumad"] == ProbeResult(
        "libibumad", False, "ibkeys was built without libibumad", "apt-get install gcc"
    )
    assert checks["channel adapters"].ok is None
