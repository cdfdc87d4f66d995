"""mkey-deploy and mkey-rotate where ports fail, fall silent or belong to others, and where output or disk fail."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ibkeys.cli import exits
from ibkeys.mad.const import Method
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore.keystore import KeyStore
from tests.cli.conftest import KEY, TWO_SWITCH, Cli, between_commands
from tests.cli.rolling import LEVEL_2, keys_in, shown
from tests.corpus import DATA


def test_ports_that_somebody_else_changed_are_no_ports_that_could_not_be_asked(cli: Cli, tmp_path: Path) -> None:
    cli("mkey-deploy", "--same", "--protect", 1, "--lease", 60, "--yes")
    cli("mkey-rotate", "--same", "--protect", 2, "--lease", 120, "--yes")
    with between_commands(tmp_path) as net:
        net.port("node03 mlx4_0", 1).protect_bits = 3
    result = cli("undo", 2, "--yes")
    assert result.code == 3
    assert "it has level 3 with lease 120 s, which this run neither found nor set" in result.out
    assert "1 port has what this run neither found nor set" in result.err
    assert "could not be queried" not in result.err
    assert "mkey-recover" not in result.err
    assert "--overtaken" not in result.err  # what could go back is back
    assert cli("journal", "-f", "json").json["operations"][1]["state"] == "undone"
    with between_commands(tmp_path) as net:
        port = net.port("node03 mlx4_0", 1)
        assert (port.protect_bits, port.lease_period) == (3, 120)


def test_a_port_that_cannot_be_asked_is_named_and_the_run_is_not_complete(
    cli: Cli, key_file: Path, tmp_path: Path
) -> None:
    assert cli("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 1, "--lease", 60, "--yes").code == 0
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes", "--keystore", tmp_path / "other")
    assert result.code == 3
    assert "left alone: node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2: it is at level 1 and hides" in result.out
    last = result.err.splitlines()[-1]
    reason = "the run is not complete: 1 port could not be queried"
    assert last.startswith(f"ibkeys: error: {reason}; `ibkeys keystore import` ")


def test_failures_are_named_and_stop_the_run(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0
    send = Subnet.send

    def losing(net: Subnet, mad: bytes, *where: Any) -> Any:
        """No Set arrives at LID 4."""
        if mad[3] == Method.SET and mad[80:82] == b"\0\4":
            return []
        return send(net, mad, *where)

    monkeypatch.setattr(Subnet, "send", losing)
    result = cli("mkey-rotate", "--per-port", "--yes", "-t", 50, "--at-once", 1, "--max-failures", 1)
    assert result.code == 3
    said = result.err.splitlines()
    assert said[-2] == (
        "ibkeys: failed: node04 mlx4_0 (ca 0x0002c903000a1040) port 1, LID 4: "
        "Set(PortInfo) was lost on its way each time; its old M_Key stays"
    )
    assert said[-1] == "ibkeys: error: the run is not complete: 1 port failed, 7 ports not begun"
    assert result.out.endswith(
        "operation 2: 0 ports done, 1 failed, 0 left alone, 7 waiting\n"
        "  replies lost after the Set took effect: 0; Sets that never arrived: 3\n"
        "  queries after lost replies added at most 3 M_Key violations\n"
        "stopped: 1 port has failed, which is the most that may\n"
        "next: `ibkeys resume` finishes the run, `ibkeys undo` rolls it back\n"
    )
    monkeypatch.setattr(Subnet, "send", send)
    assert cli("resume", "--yes").code == 0
    assert shown(cli) == {("set", 2, 60)}


def test_a_host_that_falls_silent_is_named_and_resume_finishes_when_it_answers_again(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0
    before = keys_in(tmp_path)
    quick = ("--yes", "-t", 50, "--retries", 0)
    send = Subnet.send

    def silencing(net: Subnet, mad: bytes, *where: Any) -> Any:
        """From its Set on, node02 answers nothing."""
        key = net.port("node02 mlx4_0", 1).m_key
        outcome = send(net, mad, *where)
        if net.port("node02 mlx4_0", 1).m_key == key:
            return outcome
        net.silence("node02 mlx4_0")
        return Drop.SILENT

    with monkeypatch.context() as patch:
        patch.setattr(Subnet, "send", silencing)
        result = cli("mkey-rotate", "--per-port", *quick)
    assert result.code == 3
    (failed,) = (line for line in result.err.splitlines() if line.startswith("ibkeys: failed: "))
    assert "node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2: after the Set it answers neither" in failed
    assert "operation 2: 7 ports done, 1 failed, 0 left alone, 0 waiting\n" in result.out
    assert "  1 port answers to neither key: the old and the new one are in the key store\n" in result.out
    still = cli("resume", *quick)
    assert still.code == 3
    assert "node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID ?: the sweep did not find it" in still.out
    with between_commands(tmp_path) as net:
        net.silence("node02 mlx4_0", False)
    result = cli("resume", "--yes")
    assert result.code == 0
    assert result.out.endswith("operation 2: 1 port done, 0 failed, 0 left alone, 0 waiting\n")
    with between_commands(tmp_path) as net:
        now = {port.m_key for node in net.nodes for port in node.end_ports if port.is_up or port.number == 0}
    assert len(now) == 8
    assert not now & {key.reveal() for key in before}


def test_ports_that_failed_for_one_cause_are_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("mkey-deploy", "--per-port", *LEVEL_2, "--yes").code == 0
    send = Subnet.send

    def losing(net: Subnet, mad: bytes, *where: Any) -> Any:
        """No Set arrives at LIDs 4 and 5."""
        if mad[3] == Method.SET and mad[80:82] in (b"\0\4", b"\0\5"):
            return []
        return send(net, mad, *where)

    monkeypatch.setattr(Subnet, "send", losing)
    result = cli("mkey-rotate", "--per-port", "--yes", "-t", 50)
    assert result.code == 3
    failed = [line for line in result.err.splitlines() if line.startswith("ibkeys: failed: ")]
    assert failed == [
        "ibkeys: failed: 2 ports: Set(PortInfo) was lost on its way each time; its old M_Key stays: node[04-05] mlx4_0"
    ]
    each = cli("resume", "--yes", "-t", 50, "-f", "json")
    rows = [json.loads(line) for line in each.out.splitlines()]
    assert sum(row.get("result") == "failed" for row in rows) == 2
    assert sum(line.startswith("ibkeys: failed: node0") for line in each.err.splitlines()) == 2


def test_an_internal_error_shows_no_key(cli: Cli, key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError(f"key {KEY:#x}")

    monkeypatch.setattr("ibkeys.mkeys.key_edit.KeyEdit.prove", broken)
    result = cli("mkey-deploy", "--same", "--new-m-key", f"@{key_file}", *LEVEL_2, "--yes", "-d")
    assert result.code == 3
    assert "internal error (RuntimeError at test_rollout_failures.py:" in result.err
    assert f"{KEY:x}" not in result.err + result.out


def test_when_the_reader_of_the_output_leaves_the_run_goes_on_to_its_end(cli: Cli, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ibkeys", "mkey-deploy", "--per-port", *map(str, LEVEL_2), "--yes", "-f", "json"]
    with subprocess.Popen(
        [*command, "--at-once", "1"],
        cwd=DATA.parent.parent,
        env={**os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as deploy:
        assert deploy.stdout is not None
        assert deploy.stderr is not None
        assert json.loads(deploy.stdout.readline())["result"] == "done"
        deploy.stdout.close()
        said = deploy.stderr.read()
        assert deploy.wait(60) == 0
    assert "error" not in said
    with KeyStore(tmp_path / "fabric.keys", create=False) as store:
        assert {row.state for row in store.rows()} == {"current"}
    assert shown(cli) == {("set", 2, 60)}


def test_a_disk_that_gets_full_meanwhile_does_not_stop_the_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fill(text: str) -> None:
        exits.write_exact(text)
        monkeypatch.setattr("ibkeys.cli.streams.failure_of", lambda stream: OSError(errno.ENOSPC, "full"))

    monkeypatch.setattr("ibkeys.cli.mkeys.rollout_output.write_exact", fill)
    result = cli("mkey-deploy", "--per-port", *LEVEL_2, "--at-once", 2, "--yes", "-f", "json")
    assert result.code == 3
    assert result.err.endswith("ibkeys: error: standard output cannot be written: [Errno 28] full\n")
    monkeypatch.undo()
    with KeyStore(tmp_path / "fabric.keys", create=False) as store:
        assert {row.state for row in store.rows()} == {"current"}
    monkeypatch.setenv("IBKEYS_BACKEND", f"{TWO_SWITCH},state={tmp_path / 'fabric'}")
    assert shown(cli) == {("set", 2, 60)}
