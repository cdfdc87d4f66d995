"""OpenSM and infiniband-diags, unchanged, on our own libibumad."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT, SIM_HOSTS, parse_dump, parse_pkeys, tool
from tests.integration.opensms import Log, listen, start_with
from tests.integration.own_umad import OwnUmad

FABRICS = DATA / "fabrics"
TWO_SWITCH = FABRICS / "two-switch.net"
SM = "node01"
POLICY = "Default=0x7fff, ipoib: ALL=full;\nten=0x0010: 0x0002c903000a1021=full, 0x0002c903000a1031=limited;\n"
Serve = Callable[..., OwnUmad]


@pytest.fixture
def serve(stack: ExitStack) -> Serve:
    return lambda netfile=TWO_SWITCH, **options: stack.enter_context(OwnUmad(netfile, **options))


@pytest.fixture
def up(serve: Serve, stack: ExitStack) -> OwnUmad:
    """The fabric of two switches with OpenSM on node01."""
    served = serve()
    run_opensm(served, stack)
    return served


def run_opensm(served: OwnUmad, stack: ExitStack, conf: str = "sweep_interval 0\n") -> Log:
    process, log = start_with(served, conf)
    stack.callback(log.close)
    stack.callback(process.wait, RUN_TIMEOUT)
    stack.callback(process.kill)
    log.wait("SUBNET UP")
    return log


@pytest.mark.parametrize("name", ["two-switch.net", "dual-home.net", "ring-router.net", "dualport64.net"])
def test_opensm_brings_the_subnet_up_on_its_own_port(serve: Serve, stack: ExitStack, name: str) -> None:
    served = serve(FABRICS / name)
    model = Subnet.from_file(FABRICS / name, "file")
    home = model.node(SIM_HOSTS[name])
    log = run_opensm(served, stack)
    guids = {port.guid for port in home.end_ports}
    used = re.search(r"Using default GUID (0x[0-9a-f]+)", "".join(log.lines))
    assert used is not None
    assert int(used[1], 16) in guids
    ports = re.findall(r"PortInfoRecord dump", served.on("", "saquery", "PIR").stdout)
    assert len(ports) == sum(node.is_switch or port.is_up for node in model.nodes for port in node.all_ports)
    records = served.on("", "saquery", "NR").stdout
    found = {int(guid, 16) for guid in re.findall(r"port_guid\.*(0x[0-9a-f]+)", records)}
    assert found <= {port.guid for node in model.nodes for port in node.end_ports}
    assert served.counts().get("internal errors", 0) == 0


def test_diags_say_what_the_model_says(up: OwnUmad) -> None:
    info = parse_dump(up.on("node03", "smpquery", "nodeinfo", "-D", "0").stdout)
    assert info["PortGuid"] == "0x0002c903000a1031"
    found = up.on(SM, "ibnetdiscover").stdout
    assert len(re.findall("^Ca\t", found, re.MULTILINE)) == 6
    assert len(re.findall("^Switch\t", found, re.MULTILINE)) == 2
    status = up.on("node05", "ibstat").stdout
    assert "Port GUID: 0x0002c903000a1051" in status
    assert "State: Active" in status
    assert "SMINFO_MASTER" in up.on("node05", "sminfo").stdout
    assert "SMINFO_MASTER" in up.on(SM, "sminfo", "-D", "0").stdout
    assert up.on("node02", "ibstat", "-l").stdout == "mlx4_0\n"
    lid = parse_dump(up.on("node05", "smpquery", "portinfo", "-D", "0").stdout)["Lid"]
    assert f"Base lid: {lid}" in status


def test_an_answer_of_many_segments_arrives_whole(up: OwnUmad) -> None:
    for host in (SM, "node04"):
        assert up.on(host, "saquery", "-p").stdout.count("PathRecord dump") == 64


def test_p_keys_of_a_policy_reach_the_ports(serve: Serve) -> None:
    served = serve()
    served.opensm("no_partition_enforcement TRUE\n", POLICY)
    tables = {
        host: parse_pkeys(served.on(host, "smpquery", "pkeys", "-D", "0").stdout)[:3]
        for host in ("node02", "node03", "node04")
    }
    assert {host: sorted(key for key in keys if key) for host, keys in tables.items()} == {
        "node02": [0x8010, 0xFFFF],
        "node03": [0x0010, 0xFFFF],
        "node04": [0xFFFF],
    }


def test_a_sm_shows_as_long_as_it_runs(serve: Serve, stack: ExitStack) -> None:
    served = serve()
    process, log = start_with(served, "sweep_interval 0\n")
    stack.callback(log.close)
    log.wait("SUBNET UP")
    assert "IsSM" in served.on("node02", "smpquery", "portinfo", "-D", "0,1,1").stdout
    assert " SM" in served.steer("clients")
    process.send_signal(signal.SIGKILL)
    process.wait(RUN_TIMEOUT)
    served.wait_until(lambda: not served.steer("clients"))
    assert "IsSM" not in served.on("node02", "smpquery", "portinfo", "-D", "0,1,1").stdout


def test_a_sm_answers_a_program_at_its_own_port(up: OwnUmad) -> None:
    for words in (("-D", "0"), ()):
        assert "SMINFO_MASTER" in up.on(SM, "sminfo", *words).stdout


def test_only_one_opensm_runs_at_a_port(up: OwnUmad) -> None:
    done = up.run(up.opensm_arguments(extra=("-o", "-f", "stdout")), check=False)
    assert "ERR" in done.stdout
    assert "SUBNET UP" not in done.stdout


def test_a_standby_takes_over(serve: Serve, stack: ExitStack) -> None:
    served = serve()
    first, its_log = start_with(served, "sm_priority 14\nsweep_interval 1\n")
    stack.callback(its_log.close)
    stack.callback(first.wait, RUN_TIMEOUT)
    stack.callback(first.kill)
    its_log.wait("SUBNET UP")
    folder = served.folder / "second"
    folder.mkdir()
    (folder / "conf").write_text("sm_priority 3\nsminfo_polling_timeout 200\npolling_retry_number 2\n")
    environment = {**served.environment, "IBKEYS_SIM_HOST": "node04", "OSM_CACHE_DIR": str(folder)}
    environment["OSM_TMP_DIR"] = str(folder)
    process, log = listen([tool("opensm"), "-F", str(folder / "conf"), "-f", "stdout"], folder, environment)
    stack.callback(log.close)
    stack.callback(process.wait, RUN_TIMEOUT)
    stack.callback(process.kill)
    log.wait("Entering STANDBY state")
    first.kill()
    log.wait("Entering MASTER state")
    log.wait("SUBNET UP")


def test_a_program_ends_when_the_fabric_is_gone(serve: Serve, stack: ExitStack) -> None:
    served = serve()
    process, log = start_with(served, "sweep_interval 0\n")
    stack.callback(log.close)
    stack.callback(process.kill)
    log.wait("SUBNET UP")
    served.end_server()
    assert process.wait(RUN_TIMEOUT) == 1
    log.wait("ibkeys: process [0-9]+ ends: the simulated fabric is gone")


THREADS = """
import ctypes, threading
library = ctypes.CDLL("libibumad.so.3")
begun = threading.Barrier(17)
def wait():
    port = library.umad_open_port(None, 0)
    library.umad_register(port, 0x81, 1, 0, None)
    buffer, length = ctypes.create_string_buffer(4096), ctypes.c_int(256)
    begun.wait()
    library.umad_recv(port, buffer, ctypes.byref(length), -1)
for _ in range(16):
    threading.Thread(target=wait).start()
begun.wait()
print("begun", flush=True)
"""


def test_a_program_with_several_threads_says_once_that_the_fabric_is_gone(serve: Serve, stack: ExitStack) -> None:
    served = serve()
    process = subprocess.Popen(
        [sys.executable, "-c", THREADS],
        env=served.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    served.end_server()
    said = process.communicate(timeout=RUN_TIMEOUT)[1]
    assert process.returncode == 1
    assert said == f"ibkeys: process {process.pid} ends: the simulated fabric is gone\n"


def test_without_a_fabric_a_program_ends_at_once(serve: Serve) -> None:
    served = serve()
    environment = {"IBKEYS_SIM_SOCKET": "ibkeys-nobody"}
    done = served.run(["ibstat"], env=environment)
    assert done.returncode == 1
    assert "no simulated fabric is served under the name 'ibkeys-nobody'" in done.stderr
    done = served.on("node77", "ibstat", check=False)
    assert done.returncode == 1
    assert "node77" in done.stderr


def test_the_library_is_the_one_that_programs_load(serve: Serve) -> None:
    served = serve()
    said = served.run(["smpquery", "nodeinfo", "-D", "0"], env={"LD_DEBUG": "libs"}, check=True).stderr
    loaded = [line for line in said.splitlines() if "calling init" in line and "libibumad" in line]
    assert [Path(line.rpartition("init: ")[2]).parts[-3:] for line in loaded] == [("sim", "lib", "libibumad.so.3")]


def test_ibkeys_runs_on_a_simulated_host(up: OwnUmad) -> None:
    """Also where this machine has adapters of its own: those of the host are what it sees."""
    found = up.ibkeys_on("node03", "pkey-show", "-D", "0", "-f", "json")
    assert "0xffff" in found.stdout
    assert up.ibkeys_on("node05", "discover", "-f", "json").stdout.count('"node_guid"') >= 8
    manager = up.ibkeys_on("node05", "sm-show").stdout
    assert "node01" in manager


def test_names_of_a_simulated_fabric_do_not_replace_those_of_the_real_one(up: OwnUmad, tmp_path: Path) -> None:
    """Where the environment alone leads there, the cache is that of this host."""
    up.run(up.ibkeys_command("discover"), env={**up.at("node05"), "XDG_CACHE_HOME": str(tmp_path)}, check=True)
    assert [path.name for path in (tmp_path / "ibkeys").iterdir()] == ["simulated-nodes"]


def test_traps_reach_opensm_and_its_answers_the_agents(serve: Serve, stack: ExitStack) -> None:
    served = serve()
    log = run_opensm(served, stack, "sweep_interval 0\n")
    before = len(log.lines)
    served.steer("link H-0002c903000a1060[1] down")
    log.wait("trap type 128|num:128|LinkState", before)
    log.wait("SUBNET UP", before)
    served.wait_until(lambda: "trap-repressed" in served.steer("events 200"))
    assert "node06" not in served.on("node02", "saquery", "NR").stdout


def test_reports_reach_the_one_who_subscribed(serve: Serve, stack: ExitStack) -> None:
    served = serve()
    run_opensm(served, stack, "sweep_interval 0\nm_key 0x1\nm_key_protection_level 2\n")
    words = ("watch", "--interval", "0", "--count", "1", "-f", "json", "--smkey", "0x1", "-y", "0x1")
    command = served.arguments(served.ibkeys_command(*words))
    environment = {**served.environment, "IBKEYS_SIM_HOST": "node03"}
    process, log = listen(command, served.folder, environment)
    stack.callback(log.close)
    stack.callback(process.wait, RUN_TIMEOUT)
    stack.callback(process.kill)
    served.wait_until(lambda: "InformInfoRecord dump" in served.on("node02", "saquery", "-I").stdout)
    served.on("node05", "smpquery", "-y", "0x99", "nodeinfo", "-D", "0,1,2", check=False)
    event = json.loads(log.wait("^{"))
    assert (event["source"], event["trap"]) == ("report", 256)
