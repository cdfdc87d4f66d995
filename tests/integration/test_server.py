"""Real programs on `ibkeys sim serve`: what they see is what they see on ibsim, and more where ibsim has nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibkeys.cli.completing import names
from tests import corpus
from tests.integration.ibsim import Ibsim, ibkeys, parse_dump, parse_pkeys
from tests.integration.polling import wait_until
from tests.integration.recordings import check_tables, first_node, recordings, stride, table_of
from tests.integration.served import Served
from tests.integration.simulated import sim

FABRICS = {file.stem: file for file in reversed(corpus.files("fabrics/*.net"))}
SAMPLES = ("two-switch", "dual-home", "ring-router")
TWO_SWITCH = FABRICS["two-switch"]


def fabrics() -> list[Any]:
    return [
        pytest.param(FABRICS[name], id=name, marks=[] if name in SAMPLES else [pytest.mark.soak])
        for name in sorted(FABRICS)
    ]


def without_date(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("# Topology file: generated on")]


def complaints(stderr: str) -> list[str]:
    """Return the lines of *stderr* that are not the client library's word on where it is attached."""
    return [line for line in stderr.splitlines() if "sim_connect" not in line]


def without_router_rates(lines: list[str]) -> list[str]:
    """Return *lines* without LID and rate where a router is at one end: ibsim does not read them there."""
    kept, in_router = [], False
    for line in lines:
        if not line.startswith("["):
            in_router = line.startswith("Rt")
        elif in_router or '"R-' in line:
            line = re.sub(r" (lid|lmc) \d+| \d+x\w+$", "", line)
        kept.append(line)
    return kept


@pytest.mark.parametrize("netfile", fabrics())
def test_ibnetdiscover_prints_what_it_prints_over_ibsim(netfile: Path) -> None:
    printed = []
    for kind in (Ibsim, Served):
        with kind(netfile) as fabric:
            done = fabric.run(["ibnetdiscover"], check=True, timeout=300)
            printed.append((without_router_rates(without_date(done.stdout)), complaints(done.stderr)))
    (theirs, *their_rest), (ours, *our_rest) = printed
    assert [
        re.sub(r"x[NX]DR$", "xSDR", line) if line != their else line for line, their in zip(ours, theirs, strict=True)
    ] == theirs, "ibsim takes the rates NDR and XDR for SDR"
    assert our_rest == their_rest


@pytest.mark.parametrize("file", recordings())
def test_opensm_makes_the_tables_that_it_made_on_ibsim(file: Path) -> None:
    expected = corpus.load(file)
    meta = expected["meta"]
    netfile = next(path for path in corpus.files("fabrics/*.net") if path.name == meta["fabric"])
    conf = "".join(f"{name} {value}\n" for name, value in meta["opensm_conf"].items())
    with Served(netfile, library="umad2sim", sim_host=meta["sim_host"] or first_node(netfile)) as fabric:
        for step in expected.get("steps") or [{**expected, "policy": meta["policy"]}]:
            policy = file.parents[1] / step["policy"] if step["policy"] else fabric.folder / "missing.conf"
            fabric.opensm(conf, policy)
            done = fabric.ibkeys("pkey-show", "--all", "-f", "json")
            assert (done.returncode, complaints(done.stderr)) == (0, [])
            ports = json.loads(done.stdout)["ports"]
            check_tables(ports, step["end_ports"], step["switch_ports"])
        for port in ports[:: stride(len(ports))]:
            shown = parse_pkeys(fabric.smpquery("pkeys", port["lid"], port["port"]))
            assert {str(index): f"0x{key:04x}" for index, key in enumerate(shown) if key & 0x7FFF} == table_of(port)


@contextmanager
def opensm_running(fabric: Served) -> Iterator[Path]:
    """Keep OpenSM running on *fabric*; gives its log."""
    log = fabric.folder / "opensm.log"
    command = fabric.arguments(fabric.opensm_arguments("force_log_flush TRUE\n"))
    environment = {**fabric.environment, **fabric.opensm_environment}
    with open(fabric.folder / "opensm.out", "w") as out:
        manager = subprocess.Popen(
            command, cwd=fabric.folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        wait_until(lambda: log.exists() and "SUBNET UP" in log.read_text(errors="replace"))
        yield log
    finally:
        manager.kill()
        manager.wait(10)


def test_the_tools_beside_a_running_opensm() -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric, opensm_running(fabric):
        assert parse_dump(fabric.smpquery("portinfo", 1, 1))["LinkState"] == "Active"
        assert "MASTER" in fabric.run(["sminfo"], check=True).stdout
        records = fabric.run(["saquery", "NR", "1"], check=True).stdout
        assert "NodeRecord dump" in records
        counters = parse_dump(fabric.run(["perfquery", "2", "1"], check=True).stdout)
        assert counters["SymbolErrorCounter"] == "0"
        fabric.run(["ibqueryerrors"], check=True)
        state = parse_dump(fabric.run(["ibportstate", "7", "2"], check=True).stdout)
        assert (state["LinkState"], state["PhysLinkState"]) == ("Active", "LinkUp")
        fabric.run(["ibportstate", "7", "2", "disable"], check=True)
        state = parse_dump(fabric.run(["ibportstate", "7", "2"], check=True).stdout)
        assert state["PhysLinkState"] == "Disabled"
        assert not [name for name in fabric.counts() if name == "internal errors"]


def test_opensm_sweeps_again_when_a_cable_is_pulled_and_put_back() -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric, opensm_running(fabric) as log:
        host = "H-0002c903000a1030"
        fabric.steer(f"link {host}[1] down")
        wait_until(lambda: "Removed port" in log.read_text(errors="replace"))
        fabric.steer(f"link {host}[1] up")
        wait_until(lambda: "Active" in fabric.steer(f"show {host}[1]"))


def test_opensm_that_was_killed_is_noticed() -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric:
        with opensm_running(fabric):
            assert " SM" in fabric.steer("clients")
            assert "IsSM" in fabric.smpquery("portinfo", "-D", "0")
        wait_until(lambda: not fabric.steer("clients"))
        assert "IsSM\n" not in fabric.smpquery("portinfo", "-D", "0")


def test_a_node_that_nobody_has(tmp_path: Path) -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric:
        done = fabric.run(["smpquery", "nodeinfo", "-D", "0"], sim_host="nowhere")
        assert done.returncode != 0
        assert fabric.is_running


def test_over_udp() -> None:
    port = 21_000 + time.monotonic_ns() % 10_000  # below those that the kernel hands out
    with Served(TWO_SWITCH, library="umad2sim", extra=("--listen", str(port), "--allow-others")) as fabric:
        remote = {"IBSIM_SERVER_NAME": "127.0.0.1", "IBSIM_SERVER_PORT": str(port)}
        assert f"export IBSIM_SERVER_NAME=127.0.0.1 IBSIM_SERVER_PORT={port}" in "".join(fabric.output)
        done = fabric.run(["smpquery", "nodeinfo", "-D", "0"], env=remote, check=True)
        assert parse_dump(done.stdout)["NodeType"] == "Channel Adapter"
        assert len(without_date(fabric.run(["ibnetdiscover"], env=remote, check=True).stdout)) > 40


def test_twenty_programs_at_once() -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric:
        command = fabric.arguments(["ibnetdiscover"])
        programs = []
        for number in range(20):
            folder = fabric.folder / str(number)
            folder.mkdir()
            programs.append(
                subprocess.Popen(
                    command,
                    cwd=folder,
                    env=fabric.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
        printed = [without_date(program.communicate(timeout=180)[0]) for program in programs]
        assert all(each == printed[0] for each in printed)
        assert len(printed[0]) > 40


def test_welcome_verbose_lines_capture_and_a_clean_end(tmp_path: Path) -> None:
    capture = tmp_path / "seen.pcap"
    with Served(TWO_SWITCH, library="umad2sim", extra=("-v", "--pcap", str(capture))) as fabric:
        [first, *_] = [line for line in fabric.output if line.startswith("  ibkeys ")]
        assert first == f"  ibkeys sim run --socket {fabric.socket_name} -- opensm\n"
        for_ibsim_run = f"export IBSIM_SOCKNAME={fabric.socket_name} SIM_HOST=H-0002c903000a1010\n"
        assert any(line.endswith(for_ibsim_run) for line in fabric.output)
        fabric.run(["smpquery", "-y", "0x1234567", "portinfo", "-D", "0,1", "1"], check=True)
        fabric.run(["smpquery", "nodeinfo", "-D", "0,9"])
        assert fabric.program is not None
        fabric.program.send_signal(signal.SIGTERM)
        assert fabric.program.wait(10) == 0
        assert fabric.reader is not None
        fabric.reader.join(10)
        said = "".join(fabric.output)
    assert re.search(r"^0 > Get\(PortInfo, modifier 0x1\) route 0,1 tid 0x\w+$", said, re.MULTILINE), said
    assert re.search(r"^0 < GetResp\(PortInfo, .* status 0x0000", said, re.MULTILINE), said
    assert "(no answer: no route)" in said
    assert "1234567" not in said
    assert bytes.fromhex("01234567") not in capture.read_bytes()
    assert len(capture.read_bytes()) > 24 + 2 * 300
    assert capture.stat().st_mode & 0o777 == 0o600


def test_a_program_ends_when_the_server_is_killed() -> None:
    with Served(TWO_SWITCH, library="umad2sim", links="active") as fabric:
        program = fabric.begin([sys.executable, "-m", "ibkeys", "watch", "--interval", "1"])
        assert program.stdout is not None
        assert any("watching counters" in line for line in program.stdout)
        assert fabric.program is not None
        fabric.program.kill()
        said = program.communicate(timeout=180)[0]
    assert program.returncode == 3, said
    assert "the device went away while it was open" in said


def test_a_program_ends_when_the_server_hangs_while_it_attaches() -> None:
    """libumad2sim does not return from the first opendir(), also where the server is killed then."""
    program = (
        "import sys; from ibkeys.umad import devices; devices.LISTING_LIMIT = 1; from ibkeys.cli import main; main()"
    )
    with Served(TWO_SWITCH, library="umad2sim", links="active") as fabric:
        assert fabric.program is not None
        fabric.program.send_signal(signal.SIGSTOP)
        try:
            done = fabric.run([sys.executable, "-c", program, "pkey-show", "--all"])
        finally:
            fabric.program.send_signal(signal.SIGCONT)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "could not be listed within 1 s" in done.stderr


def test_state_lasts(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "fabric.state"))
    with Served(TWO_SWITCH, library="umad2sim", links="active", extra=state) as fabric:
        done = fabric.ibkeys("pkey-add", "3", "1", "0x8010", "--yes")
        assert done.returncode == 0, done.stderr
        assert ibkeys("sim", "serve", TWO_SWITCH, *state, "--socket", "other").returncode == 3, "the file is locked"
    with Served(TWO_SWITCH, library="umad2sim", links="active", extra=state) as fabric:
        assert 0x8010 in parse_pkeys(fabric.smpquery("pkeys", 3, 1))


def test_a_script(tmp_path: Path) -> None:
    script = tmp_path / "events"
    script.write_text("# a node that says nothing\nsilent H-0002c903000a1030 on\n@0.5 silent H-0002c903000a1030 off\n")
    with Served(TWO_SWITCH, library="umad2sim", extra=("--script", str(script))) as fabric:
        ask = ["smpquery", "nodeinfo", "-D", "0,1,3"]
        wait_until(lambda: fabric.run(ask).returncode == 0, 10)
        assert "silent" not in fabric.steer("show H-0002c903000a1030")
        wait_until(lambda: any("silent H-0002c903000a1030 off" in line for line in fabric.output), 10)


def test_ctl() -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric:

        def ctl(*words: str) -> subprocess.CompletedProcess[str]:
            return ibkeys("sim", "ctl", "--socket", fabric.socket_name, *words)

        assert "packet A B" in ctl("help").stdout
        done = ctl("describe", "node02 mlx4_0", "storage 2")
        assert (done.returncode, done.stderr) == (0, "")
        assert "storage 2" in fabric.smpquery("nodedesc", "-D", "0,1,2")
        assert ctl("link", "storage 2[1]", "down").returncode == 0
        wrong = ctl("link", "nowhere[1]", "down")
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert re.fullmatch(r"ibkeys: error: .*nowhere.*\n", wrong.stderr)
        assert ctl("two\nlines").returncode == 2
    assert ctl("help").returncode == 3


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("no-such-file.net",), 2),
        ((TWO_SWITCH, "--at", "nowhere"), 2),
        ((TWO_SWITCH, "--listen", "70000"), 2),
        ((TWO_SWITCH, "--listen", "host.invalid:7070"), 2),
        ((TWO_SWITCH, "--socket", ""), 2),
        ((TWO_SWITCH, "--script", "no-such-script"), 2),
        ((TWO_SWITCH, "--pcap", "no/such/folder"), 3),
    ],
)
def test_what_serve_refuses(options: tuple[str | Path, ...], code: int) -> None:
    arguments = options if "--socket" in options else (*options, "--socket", "ibkeys-refused")
    done = ibkeys("sim", "serve", *arguments)
    assert done.returncode == code, done.stderr
    assert re.fullmatch(r"ibkeys: error: .*\n", done.stderr)


def test_a_script_with_a_mistake_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "events"
    for text, place in (("silent\n", r"1:1"), ("\nsilent nowhere on\n", r", line 2")):
        script.write_text(text)
        done = ibkeys("sim", "serve", TWO_SWITCH, "--script", script, "--socket", "ibkeys-refused")
        assert done.returncode == 2
        assert re.search(place, done.stderr), done.stderr


def test_a_name_in_use() -> None:
    with Served(TWO_SWITCH, library="umad2sim") as fabric:
        done = ibkeys("sim", "serve", TWO_SWITCH, "--socket", fabric.socket_name)
        assert done.returncode == 3
        assert "another simulator runs there" in done.stderr


def test_a_verbose_server_serves_on_when_its_reader_leaves() -> None:
    """Programs that are attached hang or crash when the server goes."""
    with Served(TWO_SWITCH, library="umad2sim", extra=("-v",)) as fabric:
        assert fabric.is_running  # for its environment; the server with the closed pipe is another one
        name = f"{fabric.socket_name}-closed"
        command = [sys.executable, "-m", "ibkeys", "sim", "serve", "-v", "--socket", name, str(TWO_SWITCH)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stderr is not None
            try:
                while server.stdout.readline() != "ready\n":
                    pass
                server.stdout.close()
                for _ in range(2):
                    asked = fabric.run(["smpquery", "-D", "nodeinfo", "0"], env={"IBSIM_SOCKNAME": name}, timeout=180)
                    assert asked.returncode == 0, asked.stderr
                server.terminate()
                said = server.stderr.read()
                assert server.wait(60) == 0
            finally:
                server.kill()
        assert said.count("printing or capturing of MADs ends here") == 1


def test_the_line_for_opensm_that_the_server_prints_brings_the_subnet_up() -> None:
    with Served(TWO_SWITCH) as served:
        [words] = [line.split() for line in served.output if "opensm" in line]
        assert words[:3] == ["ibkeys", "sim", "run"]
        done = sim(*words[2:], "-f", "stdout", "-o", timeout=180)
        assert "SUBNET UP" in done.stdout
        served.steer('link "node03 mlx4_0:1" down'.replace(':1"', '":1'))
        assert "Down" in served.steer('show "node03 mlx4_0":1')


def test_names_are_kept_for_completion_while_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Served(TWO_SWITCH, library="umad2sim") as fabric:
        which = names.list_of_server(fabric.socket_name)
        assert {"H-0002c903000a1010", "node01 mlx4_0"} <= set(names.load_names(which))
    assert list((tmp_path / "ibkeys").iterdir()) == []
