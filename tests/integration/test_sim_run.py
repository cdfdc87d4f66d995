"""Programs on hosts of a simulated fabric: `ibkeys sim run`, `shell`, `ls` and `stop`."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ibkeys.sim.hosted.processes import hosted_processes
from ibkeys.sim.hosted.servers import ask
from ibkeys.version import __version__
from tests.corpus import DATA
from tests.integration.ibsim import RUN_TIMEOUT, ibkeys_environment, parse_dump
from tests.integration.own_umad import OwnUmad
from tests.integration.simulated import SIM, sim

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def fabric() -> Iterator[OwnUmad]:
    with OwnUmad(TWO_SWITCH, links="active") as served:
        yield served
        if served.is_running:
            assert served.counts().get("internal errors", 0) == 0


@pytest.fixture
def on(fabric: OwnUmad) -> Run:
    return lambda host, *words: sim("run", "--socket", fabric.socket_name, "--host", host, "--", *words)


@pytest.fixture
def begin(fabric: OwnUmad, stack: ExitStack) -> Callable[..., subprocess.Popen[str]]:
    def start(host: str, *words: str) -> subprocess.Popen[str]:
        """Start a program that writes a line first; return when it has."""
        process = subprocess.Popen(
            [*SIM, "run", "--socket", fabric.socket_name, "--host", host, "--", *words],
            env=ibkeys_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(process.communicate, timeout=RUN_TIMEOUT)
        stack.callback(process.terminate)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        return process

    return start


def test_a_program_is_on_the_host_that_was_named(on: Run) -> None:
    assert parse_dump(on("node03", "smpquery", "-D", "nodeinfo", "0").stdout)["PortGuid"] == "0x0002c903000a1031"
    assert on("node02", "ibstat", "-l").stdout == "mlx4_0\n"
    assert on("node02:mlx4_0", "ibstat", "-l").stdout == "mlx4_0\n"


def test_a_host_or_adapter_that_is_not_there_is_named(on: Run) -> None:
    for host in ("node77", "node02:mlx5_7"):
        done = on(host, "ibstat")
        assert done.returncode == 3
        assert host.rpartition(":")[2] in done.stderr
    assert "mlx4_0" in on("node02:mlx5_7", "ibstat").stderr


def test_ibkeys_is_the_same_one_where_path_has_none(fabric: OwnUmad) -> None:
    done = sim("run", "--socket", fabric.socket_name, "--", "ibkeys", "--version", PATH="/usr/bin:/bin")
    assert __version__ in done.stdout, done.stderr
    done = sim("run", "--socket", fabric.socket_name, "--", "ibkeys-other", PATH="/usr/bin:/bin")
    assert done.returncode == 2


def test_another_ibkeys_in_path_is_taken(fabric: OwnUmad, tmp_path: Path) -> None:
    other = tmp_path / "ibkeys"
    other.write_text("#!/bin/sh\necho other\n")
    other.chmod(0o755)
    done = sim("run", "--socket", fabric.socket_name, "--", "ibkeys", "--version", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert done.stdout == "other\n"


def test_a_fabric_is_served_for_one_program() -> None:
    done = sim("run", "--on", TWO_SWITCH, "--host", "node05", "--", "smpquery", "-D", "nodeinfo", "0")
    assert parse_dump(done.stdout)["PortGuid"] == "0x0002c903000a1051"
    listed = sim("run", "--on", TWO_SWITCH, "--", "sh", "-c", "echo $IBKEYS_SIM_SOCKET $IBKEYS_SIM_FOLDER").stdout
    socket, folder = listed.split()
    assert socket not in sim("ls").stdout
    assert not Path(folder).exists()


def test_without_a_server_nothing_is_started() -> None:
    done = sim("run", "--socket", "ibkeys-nobody", "--", "true")
    assert done.returncode == 3
    assert "no simulator runs under the socket name 'ibkeys-nobody'" in done.stderr
    assert "`ibkeys sim serve --socket ibkeys-nobody`" in done.stderr
    assert "`ibkeys sim ls`" in done.stderr
    assert sim("ctl", "--socket", "ibkeys-nobody", "show").stderr == done.stderr


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_status_is_that_of_the_program(on: Run, script: str, status: int) -> None:
    assert on("node01", "sh", "-c", script).returncode == status


def test_a_program_that_cannot_be_started_is_a_mistake_of_the_user(on: Run) -> None:
    done = on("node01", "/nonexistent/opensm")
    assert done.returncode == 2
    assert "/nonexistent/opensm: cannot be started: No such file" in done.stderr


def test_options_of_the_program_are_its_own(on: Run, fabric: OwnUmad) -> None:
    assert sim("run", "--socket", fabric.socket_name, "echo", "--host", "-h").stdout == "--host -h\n"


def test_programs_of_one_host_share_its_view_and_those_of_others_do_not(
    on: Run, begin: Callable[..., subprocess.Popen[str]], fabric: OwnUmad
) -> None:
    begin("node01", "sh", "-c", "touch /dev/shared; echo begun; read line")
    [first] = hosted_processes(fabric.socket_name)
    namespace = os.readlink(f"/proc/{first.pid}/ns/mnt")
    assert on("node01", "readlink", "/proc/self/ns/mnt").stdout.strip() == namespace
    assert on("node01", "ls", "/dev/shared").returncode == 0
    assert on("node02", "readlink", "/proc/self/ns/mnt").stdout.strip() not in (namespace, "")
    assert on("node02", "ls", "/dev/shared").returncode != 0


def test_a_program_stays_in_the_folder_where_it_was_started(
    begin: Callable[..., subprocess.Popen[str]], fabric: OwnUmad, tmp_path: Path
) -> None:
    """Also the second one on a host, which enters the view of the first one."""
    command = [*SIM, "run", "--socket", fabric.socket_name, "--host", "node01", "--", "pwd"]
    for _ in range(2):
        done = subprocess.run(
            command, env=ibkeys_environment(), cwd=tmp_path, capture_output=True, text=True, timeout=RUN_TIMEOUT
        )
        assert done.stdout == f"{tmp_path}\n"
        begin("node01", "sh", "-c", "echo begun; read line")


def test_files_of_a_host_last_as_long_as_its_server(on: Run, fabric: OwnUmad) -> None:
    folder = on("node01", "sh", "-c", "echo kept >$IBKEYS_SIM_FOLDER/note; echo $IBKEYS_SIM_FOLDER").stdout.strip()
    assert on("node01", "cat", f"{folder}/note").stdout == "kept\n"
    assert oct(os.stat(folder).st_mode)[-3:] == "700"
    fabric.end_server()
    assert not Path(folder).exists()


def test_variables_of_the_real_fabric_do_not_reach_the_program(fabric: OwnUmad) -> None:
    real = {"IBKEYS_SM_CONFIG": "/etc/ibkeys/sm.toml", "SIM_HOST": "node02", "LD_PRELOAD": ""}
    said = sim("run", "--socket", fabric.socket_name, "--", "env", **real).stdout
    names = {line.partition("=")[0] for line in said.splitlines()}
    assert not names & {*real, "IBSIM_SOCKNAME"}
    assert {"IBKEYS_SIM_SOCKET", "IBKEYS_SIM_HOST", "IBKEYS_SIM_FOLDER"} <= names


def test_completion_offers_the_nodes_of_a_sweep_on_the_host(on: Run, fabric: OwnUmad) -> None:
    def complete() -> list[str]:
        words = ["_IBKEYS_COMPLETE=bash_complete", "COMP_WORDS=ibkeys why -N node0", "COMP_CWORD=3"]
        return on("node02", "env", *words, sys.executable, "-m", "ibkeys").stdout.strip().splitlines()

    assert complete() == []
    assert on("node02", "ibkeys", "discover").returncode == 0
    assert len(complete()) == 6
    assert all("node0" in each for each in complete())


def test_a_signal_to_end_reaches_the_program(begin: Callable[..., subprocess.Popen[str]]) -> None:
    process = begin("node01", "sh", "-c", "trap 'echo told; exit 5' TERM; echo begun; while :; do sleep 0.1; done")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert process.stdout.read() == "told\n"
    assert process.wait(RUN_TIMEOUT) == 5


def test_ls_names_servers_and_the_processes_on_their_hosts(
    fabric: OwnUmad, begin: Callable[..., subprocess.Popen[str]]
) -> None:
    begin("node03", "sh", "-c", "echo begun; read line")
    document = json.loads(sim("ls", "-f", "json").stdout)
    [mine] = [each for each in document["servers"] if each["socket"] == fabric.socket_name]
    assert (mine["fabric"], mine["pid"]) == (str(TWO_SWITCH), fabric.pid)
    assert [each["host"] for each in mine["processes"]] == ["node03"]
    assert "read line" in sim("ls").stdout


def test_ls_makes_no_folder(fabric: OwnUmad) -> None:
    assert sim("ls").returncode == 0
    assert ask(fabric.socket_name).host.folder == ""
    assert Path(ask(fabric.socket_name, with_folder=True).host.folder).is_dir()


def test_stop_ends_programs_and_server(fabric: OwnUmad, begin: Callable[..., subprocess.Popen[str]]) -> None:
    first = begin("node01", "sh", "-c", "echo begun; read line")
    stubborn = begin("node02", "sh", "-c", "trap '' TERM HUP; echo begun; while :; do sleep 0.1; done")
    done = sim("stop", "--socket", fabric.socket_name)
    assert done.returncode == 0, done.stderr
    assert first.wait(RUN_TIMEOUT) != 0
    assert stubborn.wait(RUN_TIMEOUT) == 137
    assert not list(hosted_processes(fabric.socket_name))
    assert fabric.program is not None
    assert fabric.program.wait(RUN_TIMEOUT) == 0
    assert sim("stop", "--socket", fabric.socket_name).returncode == 3


def test_stop_ends_a_fabric_of_one_program_with_it(stack: ExitStack) -> None:
    """Two of them at a time never meet: the other one goes on."""
    words = [*SIM, "run", "--on", "demo", "--", "sh", "-c", "echo $IBKEYS_SIM_SOCKET; read line; ibstat -l"]
    programs = []
    for _ in range(2):
        process = subprocess.Popen(
            words, env=ibkeys_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.callback(process.kill)
        programs.append(process)
    first, other = programs
    assert first.stdout is not None
    assert other.stdout is not None
    sockets = [first.stdout.readline().strip(), other.stdout.readline().strip()]
    assert sockets[0] != sockets[1]
    assert sim("stop", "--socket", sockets[0]).returncode == 0
    assert first.wait(RUN_TIMEOUT) != 0
    first.communicate()
    assert other.communicate("\n", timeout=RUN_TIMEOUT)[0] == "HCA-1\n"
    assert other.returncode == 0


def test_a_shell_has_the_host_in_its_prompt(fabric: OwnUmad) -> None:
    done = subprocess.run(
        [*SIM, "shell", "--socket", fabric.socket_name, "--host", "node04"],
        env={**ibkeys_environment(), "SHELL": "/bin/sh"},
        input='echo "prompt: $PS1"; ibstat -l\n',
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
    )
    assert done.stdout.splitlines()[0].startswith("prompt: [node04] ")
    assert len(done.stdout.splitlines()) == 2


def test_bash_has_the_host_in_its_prompt_and_what_the_user_set(fabric: OwnUmad, tmp_path: Path) -> None:
    """On a terminal, as a user sees it: the prompt of the user's bashrc follows the name of the host."""
    (tmp_path / ".bashrc").write_text("PS1='mine> '\nalias adapters='ibstat -l'\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*SIM, "shell", "--socket", fabric.socket_name, "--host", "node04"],
        env={**ibkeys_environment(), "SHELL": "/bin/bash", "HOME": str(tmp_path), "TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = until(ours, "[node04] mine> ")
    os.write(ours, b"adapters\n")
    shown = until(ours, "[node04] mine> ")
    assert "mlx4_0" in shown
    os.write(ours, b"exit 3\n")
    assert process.wait(RUN_TIMEOUT) == 3
    os.close(ours)


def until(terminal: int, text: str) -> str:
    """Return what is written to a terminal up to *text*."""
    seen = ""
    while text not in seen:
        assert select.select([terminal], [], [], RUN_TIMEOUT)[0], seen
        seen += os.read(terminal, 1 << 12).decode(errors="replace")
    return seen


@pytest.mark.parametrize("answer", [b"", b"\0" * 7, None], ids=["nothing", "too little", "a name that no server has"])
def test_sockets_of_other_programs_are_left_out(fabric: OwnUmad, answer: bytes | None) -> None:
    """Any user may listen under such a name."""
    name = f"ibkeys-other-{os.getpid()}" + ("" if answer is not None else "-" * 80)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(b"\0" + f"{name}:umad".encode())
        listening.listen(1)

        def serve() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1000)
                connected.send(answer or b"")

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        listed = json.loads(sim("ls", "-f", "json").stdout)
    assert [each["socket"] for each in listed["servers"] if each["socket"] in (name, fabric.socket_name)] == [
        fabric.socket_name
    ]
