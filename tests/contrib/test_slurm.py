"""The scripts for Slurm: what a task gets in its environment, and what a node that lacks a P_Key says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contrib.shipped import CONTRIB
from tests.host.kernel import trees

SCRIPTS = sorted((CONTRIB / "slurm").iterdir())
Script = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run a script on a node whose two ports have the P_Keys 0xffff and 0x8010."""
    tree = trees.connectx(tmp_path / "sys", ports=2)
    table = tmp_path / "slurm-partitions"
    table.write_text("# account or Slurm partition, P_Key\nphysics 0x8010\nbiology 0x8033\n")
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "IBKEYS_PROGRAM": str(Path(sys.executable).with_name("ibkeys")),
        "IBKEYS_SYSFS": str(tree.root),
        "IBKEYS_SLURM_PARTITIONS": str(table),
    }

    def ran(name: str, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = [str(CONTRIB / "slurm" / name), *args]
        return subprocess.run(
            command, env={**environment, **more}, capture_output=True, text=True, check=False, timeout=60
        )

    return ran


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_has_nothing_to_say(path: Path) -> None:
    program = shutil.which("shellcheck")
    assert program is not None, "no shellcheck: apt-get install shellcheck"
    done = subprocess.run([program, path], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def exported(text: str) -> dict[str, str]:
    """Return what Slurm takes from a TaskProlog."""
    lines = (line.removeprefix("export ") for line in text.splitlines() if line.startswith("export "))
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize("variable", ["SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION"])
def test_a_task_gets_the_p_key_of_its_account_or_slurm_partition(script: Script, variable: str) -> None:
    done = script("ibkeys-task-prolog", **{variable: "physics"})
    assert (done.returncode, done.stderr) == (0, "")
    assert exported(done.stdout) == {
        "NCCL_IB_PKEY": "1",
        "UCX_IB_PKEY": "0x0010",
        "OMPI_MCA_btl_openib_pkey": "0x0010",
        "MV2_DEFAULT_PKEY": "0x0010",
        "GASNET_IBV_PKEY": "0x0010",
        "NVSHMEM_IB_PKEY_INDEX": "1",
        "MC_PKEY_INDEX": "1",
    }


def test_the_account_counts_before_the_slurm_partition(script: Script) -> None:
    done = script("ibkeys-task-prolog", SLURM_JOB_ACCOUNT="physics", SLURM_JOB_PARTITION="biology")
    assert exported(done.stdout)["NCCL_IB_PKEY"] == "1"


@pytest.mark.parametrize("account", ["", "chemistry", "phys"])
def test_a_task_of_nobody_in_the_table_gets_nothing(script: Script, account: str) -> None:
    done = script("ibkeys-task-prolog", SLURM_JOB_ACCOUNT=account)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_task_is_not_started_in_another_partition(script: Script) -> None:
    done = script("ibkeys-task-prolog", SLURM_JOB_ACCOUNT="biology")
    assert done.returncode == 1
    assert exported(done.stdout) == {}
    assert done.stdout.startswith("print ibkeys: no P_Key of partition 0x8033 fits on ")
    assert "print ibkeys: NCCL: NCCL_IB_PKEY is not set: mlx5_0 port 1: partition 0x0033 is not in" in done.stdout
    assert all(line.startswith("print ") for line in done.stdout.splitlines())


def test_a_node_with_its_p_keys_is_healthy(script: Script) -> None:
    done = script("ibkeys-health-check", "0xffff", "0x8010")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_limited_client_is_healthy_and_gets_its_p_key(script: Script, tmp_path: Path) -> None:
    tree = trees.Tree(tmp_path / "limited")
    tree.port(tree.device("mlx5_0"), (0x7FFF, 0x0010))
    limited = {"IBKEYS_SYSFS": str(tree.root)}
    done = script("ibkeys-health-check", "0x7fff", "0x8010", **limited)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    task = script("ibkeys-task-prolog", SLURM_JOB_ACCOUNT="physics", **limited)
    assert (task.returncode, exported(task.stdout)["UCX_IB_PKEY"]) == (0, "0x0010")


def test_a_node_without_one_is_drained_with_the_reason(script: Script, tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\nfor word; do echo "$word"; done >{tmp_path / "told"}\n')
    scontrol.chmod(0o755)
    done = script("ibkeys-health-check", "--drain", "0x8010", "0x8033", SLURMD_NODENAME="node01")
    reason = (
        "P_Key 0x8033: mlx5_0 port 1: partition 0x0033 is not in the P_Key table; "
        "mlx5_1 port 1: partition 0x0033 is not in the P_Key table"
    )
    assert (done.returncode, done.stdout) == (1, f"{reason}\n")
    told = (tmp_path / "told").read_text()
    assert told == f"update\nNodeName=node01\nState=DRAIN\nReason=ibkeys: {reason}\n"


def test_a_node_without_a_device_says_so(script: Script, tmp_path: Path) -> None:
    done = script("ibkeys-health-check", "0x8010", IBKEYS_SYSFS=str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert done.stdout.startswith("P_Key 0x8010: the kernel shows no RDMA device: ")


def test_an_ibkeys_that_says_nothing_is_named(script: Script) -> None:
    done = script("ibkeys-health-check", "0x8010", IBKEYS_PROGRAM="false")
    assert (done.returncode, done.stdout) == (1, "P_Key 0x8010: false ended with exit status 1\n")


def test_a_check_of_nothing_is_a_mistake(script: Script) -> None:
    done = script("ibkeys-health-check")
    assert (done.returncode, done.stdout) == (2, "")
