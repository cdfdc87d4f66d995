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
from tests.integration.opensms import Log, listen, start
from tests.integration.own_umad import OwnUmad
from tests.integration.served import Served
from tests.integration.simulated import AS_NOBODY, SIM, needs_root, sim

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


def start_opensm(
    fabric: OwnUmad, stack: ExitStack, *options: str, host: str = "node01", until: str = "SUBNET UP"
) -> Log:
    """Start OpenSM on a host, with its own files, and without options for its port, its log or its cache."""
    words = ["run", "--socket", fabric.socket_name, "--host", host, "--", tool("opensm"), "-f", "stdout", "-s", "0"]
    process, log = listen([*SIM, *words, *options], fabric.folder, ibkeys_environment())
    stack.callback(log.close)
    stack.callback(process.wait, RUN_TIMEOUT)
    stack.callback(process.terminate)
    log.wait(until)
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


def test_an_opensm_of_another_simulated_host_is_found(fabric: OwnUmad, opensm: Log, run: Run) -> None:
    """A name as ssh takes it does, so that a command for the real hosts can be rehearsed."""
    number = its_number(fabric)
    for name in ("node01", "root@node01"):
        document = json.loads(run("node02", *IBKEYS, "sm-show", "--sm-host", name, "--sudo", "-f", "json").stdout)
        here, there = document["hosts"]
        assert (here["instances"], there["host"], there["error"]) == ([], name, None)
        [instance] = there["instances"]
        assert (instance["pid"], instance["state"]) == (number, "master")


def test_a_change_through_the_opensm_of_another_simulated_host(
    fabric: OwnUmad, run: Run, stack: ExitStack, tmp_path: Path
) -> None:
    """Files are those of that host, also where both hosts have a folder of one name for themselves."""
    policy = tmp_path / "new.conf"
    policy.write_text(POLICY)
    script = "echo 'Default=0x7fff, ipoib: ALL=full;' >/etc/ibkeys-policy; echo done"
    assert run("node01", "sh", "-c", script.replace("/etc/", "/var/log/")).stdout == "done\n"
    start_opensm(fabric, stack, "-P", "/var/log/ibkeys-policy")
    assert run("node02", *IBKEYS, "plan", policy, "--out", tmp_path / "plan").returncode == 1
    there = ("--via", "opensm", "--sm-host", "node01", "--yes")
    done = run("node02", *IBKEYS, "apply", tmp_path / "plan", *there)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "0x8010" in run("node03", "smpquery", "pkeys", "-D", "0").stdout
    assert "0x0010" in run("node01", "cat", "/var/log/ibkeys-policy").stdout
    assert run("node02", "ls", "/var/log").stdout == ""
    assert not Path("/var/log/ibkeys-policy").exists()
    done = run("node02", *IBKEYS, "undo", "1", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "0x0010" not in run("node01", "cat", "/var/log/ibkeys-policy").stdout
    assert "0x8010" not in run("node03", "smpquery", "pkeys", "-D", "0").stdout


@pytest.mark.soak
def test_a_standby_on_another_simulated_host_gets_the_policy_too(
    fabric: OwnUmad, run: Run, stack: ExitStack, tmp_path: Path
) -> None:
    policy, policies = tmp_path / "new.conf", [tmp_path / "master.conf", tmp_path / "standby.conf"]
    policy.write_text(POLICY)
    for each in policies:
        each.write_text("Default=0x7fff, ipoib: ALL=full;\n")
    start_opensm(fabric, stack, "-P", str(policies[0]), "-p", "9")
    start_opensm(fabric, stack, "-P", str(policies[1]), "-p", "5", host="node02", until="Entering STANDBY")
    assert run("node01", *IBKEYS, "plan", policy, "--out", tmp_path / "plan").returncode == 1
    words = ("apply", tmp_path / "plan", "--via", "opensm", "--yes")
    done = run("node01", *IBKEYS, *words)
    assert done.returncode == 4
    assert "node02" in done.stderr
    done = run("node01", *IBKEYS, *words, "--sm-host", "node02")
    assert done.returncode == 0, done.stderr + done.stdout
    assert ["0x0010" in each.read_text() for each in policies] == [True, True]


def test_a_node_that_is_not_in_the_fabric_is_named(run: Run) -> None:
    done = run("node01", *IBKEYS, "sm-show", "--sm-host", "node8", "-f", "json")
    error = json.loads(done.stdout)["hosts"][1]["error"]
    assert "the fabric has no host 'node8'" in error
    assert "`ibkeys sim ctl show` lists the nodes" in error
    done = run("node01", *IBKEYS, "sm-show", "--sm-host", "node01")
    assert done.returncode == 2
    assert "node01 is this host" in done.stderr


def test_no_opensm_of_another_simulator_or_of_this_host_is_found(fabric: OwnUmad, run: Run, stack: ExitStack) -> None:
    """Though its host has the same name, and its processes are seen in /proc."""
    with OwnUmad(TWO_SWITCH) as other:
        start_opensm(other, stack)
        real = Served(TWO_SWITCH, links="active")
        stack.enter_context(real)
        process, log = start(real, (tool("opensm"), "-f", "stdout", "-s", "0"), real.folder)
        stack.callback(log.close)
        stack.callback(process.wait, RUN_TIMEOUT)
        stack.callback(process.terminate)
        log.wait("SUBNET UP")
        document = json.loads(run("node02", *IBKEYS, "sm-show", "--sm-host", "node01", "-f", "json").stdout)
        assert [host["instances"] for host in document["hosts"]] == [[], []]


def shell_on(fabric: OwnUmad, *before: str) -> subprocess.CompletedProcess[str]:
    """Ask the server for a shell on node02, and let it run a command."""
    command = [*before, sys.executable, "-m", "ibkeys.sim.hosted.shell_there", fabric.socket_name, "node02"]
    return subprocess.run(
        command, env=ibkeys_environment(), input="ls /dev\n", capture_output=True, text=True, timeout=RUN_TIMEOUT
    )


def test_a_shell_that_the_server_starts_is_confined(fabric: OwnUmad) -> None:
    done = shell_on(fabric)
    assert (done.returncode, done.stderr) == (0, "")
    there = sim("run", "--socket", fabric.socket_name, "--host", "node02", "--", "ls", "/dev")
    assert done.stdout == there.stdout


@needs_root
def test_the_server_starts_no_shell_for_another_user() -> None:
    with OwnUmad(TWO_SWITCH, extra=("--allow-others",)) as served:
        done = shell_on(served, *AS_NOBODY)
    assert (done.returncode, done.stdout) == (255, "")
    assert "it belongs to another user" in done.stderr
