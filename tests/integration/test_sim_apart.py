"""Real and simulated hosts stay apart: OpenSMs, stores, settings and ssh of ibkeys."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.managers.elsewhere.remote import RemoteFiles
from ibkeys.managers.opensm.process import opensm_processes
from ibkeys.sim.hosted.processes import hosted_processes
from tests.corpus import DATA
from tests.integration.ibsim import NO_LAYERS, RUN_TIMEOUT, ibkeys_environment, tool
from tests.integration.opensms import Log, listen
from tests.integration.own_umad import OwnUmad
from tests.integration.served import Served
from tests.integration.simulated import SIM, sim

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
POLICY = "Default=0x7fff, ipoib: ALL=full;\nten=0x0010: ALL=full;\n"
IBKEYS = (sys.executable, "-c", f"{NO_LAYERS}\nfrom ibkeys.cli import main\nmain()")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fabric() -> Iterator[OwnUmad]:
    with OwnUmad(TWO_SWITCH) as served:
        yield served


@pytest.fixture
def run(fabric: OwnUmad) -> Run:
    return lambda host, *words: sim("run", "--socket", fabric.socket_name, "--host", host, "--", *words)


def start_opensm(fabric: OwnUmad, stack: ExitStack, *options: str) -> Log:
    """Start OpenSM on node01, with its own files, and without options for its port, its log or its cache."""
    words = ["run", "--socket", fabric.socket_name, "--host", "node01", "--", tool("opensm"), "-f", "stdout", "-s", "0"]
    process, log = listen([*SIM, *words, *options], fabric.folder, ibkeys_environment())
    stack.callback(log.close)
    stack.callback(process.wait, RUN_TIMEOUT)
    stack.callback(process.terminate)
    log.wait("SUBNET UP")
    return log


@pytest.fixture
def opensm(fabric: OwnUmad, stack: ExitStack) -> Log:
    return start_opensm(fabric, stack)


def its_number(fabric: OwnUmad) -> int:
    [found] = [each.pid for each in hosted_processes(fabric.socket_name) if "opensm" in each.command]
    return found


def test_an_opensm_there_is_none_of_this_host(fabric: OwnUmad, opensm: Log) -> None:
    number = its_number(fabric)
    assert number not in [each.pid for each in opensm_processes()]
    assert Path(f"/proc/{number}/comm").read_text() == "opensm\n"
    with RemoteFiles("there", ["sh", "-s"], {}) as files:  # as through ssh
        assert number in files.processes(Path("/proc"), "opensm")
        assert number not in [each.pid for each in opensm_processes(host=files)]


def test_it_is_found_on_its_host_and_on_no_other(fabric: OwnUmad, opensm: Log, run: Run) -> None:
    number = its_number(fabric)
    document = json.loads(run("node01", *IBKEYS, "sm-show", "-f", "json").stdout)
    [instance] = document["hosts"][0]["instances"]
    assert (instance["pid"], instance["state"]) == (number, "master")
    document = json.loads(run("node02", *IBKEYS, "sm-show", "-f", "json").stdout)
    assert document["hosts"][0]["instances"] == []
    assert [each["state"] for each in document["managers"]] == ["master"]


def test_a_real_apply_beside_it_finds_no_opensm(fabric: OwnUmad, opensm: Log, tmp_path: Path) -> None:
    """The real one is on another fabric, which has no subnet manager."""
    policy = tmp_path / "partitions.conf"
    policy.write_text(POLICY)
    with Served(TWO_SWITCH, links="active") as real:
        assert json.loads(real.ibkeys("sm-show", "-f", "json").stdout)["hosts"][0]["instances"] == []
        assert real.ibkeys("plan", policy, "--out", tmp_path / "plan", check=False).returncode == 1
        refused = real.ibkeys("apply", tmp_path / "plan", "--yes", "--via", "opensm", check=False)
        assert refused.returncode == 4, refused
        done = real.ibkeys("apply", tmp_path / "plan", "--yes", "--via", "direct", check=False)
        assert done.returncode == 0, done.stderr
    assert "0x8010" not in fabric.on("node02", "smpquery", "pkeys", "-D", "0").stdout


def test_a_change_through_opensm_there_touches_only_files_of_the_host(
    fabric: OwnUmad, run: Run, stack: ExitStack, tmp_path: Path
) -> None:
    """The policy lies in the folder of the test, so that the one of this host could not be replaced by a mistake."""
    policy, current = tmp_path / "new.conf", tmp_path / "partitions.conf"
    policy.write_text(POLICY)
    current.write_text("Default=0x7fff, ipoib: ALL=full;\n")
    start_opensm(fabric, stack, "-P", str(current))
    assert run("node01", *IBKEYS, "plan", policy, "--out", tmp_path / "plan").returncode == 1
    done = run("node01", *IBKEYS, "apply", tmp_path / "plan", "--via", "opensm", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "0x8010" in run("node02", "smpquery", "pkeys", "-D", "0").stdout
    assert "0x0010" in current.read_text()
    journal = json.loads(run("node01", *IBKEYS, "journal", "-f", "json").stdout)
    assert len(journal["operations"]) == 1
    assert json.loads(run("node02", *IBKEYS, "journal", "-f", "json").stdout)["operations"] == []


def test_no_other_host_is_reached_by_ssh(run: Run) -> None:
    done = run("node01", *IBKEYS, "sm-show", "--sm-host", "root@sm2")
    assert done.returncode == 2
    assert "on the simulated host node01 no other host is reached" in done.stderr
