"""A change that has to be confirmed: by any process in time, or it is rolled back, also by nobody that made it."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

import pytest

import ibkeys
from ibkeys.automation.making import How
from ibkeys.change.confirming.guardian import Guardian
from ibkeys.cli.config import Config
from ibkeys.cli.opening import config_of
from ibkeys.cli.options import Where
from ibkeys.errors import StoreLocked
from tests.apply.lab import Lab
from tests.cli.sites import parsed
from tests.corpus import DATA
from tests.hostile import AnsweringPort, EndlessFabric
from tests.plan.plans import entries

ROOT = DATA.parent.parent
NET = DATA / "fabrics" / "two-switch.net"
Told = Callable[[ibkeys.Fabric, ibkeys.Progress], None]
SCRIPT = """
import os, signal, sys, ibkeys
backend, ending, seconds = sys.argv[1:]

def progress(step):
    if step.awaits_confirmation and ending == "confirmed":
        os.system(f"{sys.executable} -m ibkeys confirm {step.operation} --backend {backend} >/dev/null")
    elif step.awaits_confirmation:
        os.kill(os.getpid(), signal.SIGKILL)

with ibkeys.open(backend) as fabric:
    policy = ibkeys.partitions.parse_policy("Default=0x7fff : ALL=full ;\\nt=0x10 : ALL=full ;\\n")
    result = fabric.apply(fabric.plan(policy), confirm_within=int(seconds), progress=progress)
    print(result.proven, result.gone_back)
"""


@pytest.fixture
def backend(tmp_path: Path) -> str:
    return f"sim:{NET},state={tmp_path / 'state'}"


def run(backend: str, ending: str, seconds: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, backend, ending, str(seconds)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def stage(tmp_path: Path) -> tuple[str, str | None]:
    [operation, *_] = ibkeys.operations(ibkeys.Stores(journal=tmp_path / "state.journal"))
    return operation.record.state, operation.record.stage


def has_key(backend: str) -> bool:
    while True:
        try:
            with ibkeys.open(backend) as fabric:
                return 0x8010 in fabric.find_port("node02 mlx4_0").read_p_keys()
        except StoreLocked:  # who rolled back has yet to end
            time.sleep(0.05)  # polls a condition


def test_another_process_confirms(backend: str, tmp_path: Path) -> None:
    done = run(backend, "confirmed", 600)
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr
    assert (stage(tmp_path), has_key(backend)) == (("done", "confirmed"), True)


def test_nobody_confirms(backend: str, tmp_path: Path) -> None:
    done = run(backend, "", 600)
    assert done.returncode == -9, done.stderr
    assert stage(tmp_path) == ("done", "unconfirmed")
    [operation] = ibkeys.operations(ibkeys.Stores(journal=tmp_path / "state.journal"), open_only=True)
    assert operation.confirm().is_fresh  # in time, so the process that was left behind does nothing
    assert has_key(backend)


def test_a_script_that_died_is_rolled_back_by_the_process_that_it_left(backend: str, tmp_path: Path) -> None:
    done = run(backend, "", 1)
    assert done.returncode == -9, done.stderr
    while stage(tmp_path)[0] != "undone":
        time.sleep(0.05)  # polls a condition
    assert not has_key(backend)


class _Captured(Exception):
    """Raised in place of starting the process that rolls back; its argument is the command."""


def command_of(fabric: ibkeys.Fabric, monkeypatch: pytest.MonkeyPatch, **how: Unpack[How]) -> dict[str, Any]:
    """Return the parameters of the command that rolls an apply of a script back."""

    def start_guardian(journal: Path, command: list[str], seconds: float, closes_files: bool) -> Guardian:
        raise _Captured(command)

    monkeypatch.setattr("ibkeys.automation.partitions.start_guardian", start_guardian)
    plan = Lab().plan({2: entries(0xFFFF, 0x8001)})
    with pytest.raises(_Captured) as captured:
        fabric.apply(plan, confirm_within=60, **how)
    [words] = captured.value.args
    return parsed("undo", *words[words.index("undo") + 1 :], "1").params


def test_the_process_that_rolls_back_opens_the_fabric_as_the_script_did(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, timing = ibkeys.Limits(nodes=7, node_time=0.5, time=float("inf")), ibkeys.Timing(0.0001, 3, 8)
    keys = ibkeys.Keys(ask_unproven=True, trust_topology=True)
    local = ibkeys.Local(at="node02 mlx4_0", port=1)
    method = ibkeys.ThroughOpenSM(["sm1"], wait=600.5)
    with ibkeys.open(backend, local=local, keys=keys, timing=timing, limits=limits) as fabric:
        params = command_of(fabric, monkeypatch, via=method)
    expected = {
        **{"at": local.at, "port": 1, "ask_unproven": True, "trust_topology": True, "sm_wait": 601},
        **{"timeout": 1, "retries": 3, "outstanding_smps": 8, "sm_host": ("sm1",)},
    }
    assert {name: params[name] for name in expected} == expected
    read = ibkeys.Limits.parse(params["limit"])
    assert (read.nodes, read.node_time, read.time > 1e9, read.smps) == (7, 1, True, ibkeys.Limits().smps)


def test_what_a_command_takes_as_a_bound_is_no_error_in_the_process_that_rolls_back(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ibkeys.open(backend, timing=ibkeys.Timing(7200, 5000, 5000)) as fabric:
        params = command_of(fabric, monkeypatch, via=ibkeys.ThroughUFM("https://ufm", wait=7))
    assert [params[name] for name in ("timeout", "retries", "outstanding_smps")] == [3_600_000, 1000, 1024]
    assert params["sm_wait"] == 7


def test_the_process_that_rolls_back_is_at_the_same_port_and_reads_no_ibdiag_conf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ibdiag.conf"
    config.write_text("CA=other\nPort=2\nm_key=0x1234\n")
    monkeypatch.setattr("ibkeys.cli.opening.DEFAULT_CONFIG", config)
    monkeypatch.setattr("ibkeys.opening.open_port", lambda backend, local: AnsweringPort(EndlessFabric(2)))
    stores = ibkeys.Stores(tmp_path / "keys.db", tmp_path / "journal.db")
    with ibkeys.open(stores=stores) as fabric:
        params = command_of(fabric, monkeypatch, via=ibkeys.Direct())
    where = Where(**{each.name: params[each.name] for each in dataclasses.fields(Where) if each.name in params})
    assert (where.ca, where.port, where.backend) == ("hostile0", 1, "umad")
    assert config_of(where) == Config()


def applied(backend: str, seconds: int, progress: Told) -> ibkeys.ChangeResult:
    """Apply the policy; *progress* is told when it waits to be confirmed."""
    with ibkeys.open(backend) as fabric:
        plan = fabric.plan(ibkeys.partitions.parse_policy("Default=0x7fff : ALL=full ;\nt=0x10 : ALL=full ;\n"))

        def told(step: ibkeys.Progress) -> None:
            if step.awaits_confirmation:
                progress(fabric, step)

        return fabric.apply(plan, confirm_within=seconds, progress=told)


def test_time_runs_out_while_progress_does_not_return(backend: str, tmp_path: Path) -> None:
    cut_off, returned = threading.Event(), threading.Event()

    def post(fabric: ibkeys.Fabric, step: ibkeys.Progress) -> None:
        cut_off.wait(30)  # a server that the change itself has made unreachable
        returned.set()

    try:
        result = applied(backend, 1, post)
        assert (result.gone_back, result.proven, returned.is_set()) == (True, False, False)
    finally:
        cut_off.set()
    assert (stage(tmp_path)[0], has_key(backend)) == ("undone", False)


def test_progress_may_wait_and_confirm(backend: str, tmp_path: Path) -> None:
    def confirm(fabric: ibkeys.Fabric, step: ibkeys.Progress) -> None:
        [operation] = fabric.operations(open_only=True)
        assert (operation.id, operation.confirm().is_fresh) == (step.operation, True)

    result = applied(backend, 600, confirm)
    assert (result.gone_back, result.proven) == (False, True)
    assert (stage(tmp_path), has_key(backend)) == (("done", "confirmed"), True)


def test_what_progress_raises_while_it_waits_is_shown_and_the_time_runs(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: shown.append(args.exc_value))
    no_answer = OSError("no answer")

    def post(fabric: ibkeys.Fabric, step: ibkeys.Progress) -> None:
        raise no_answer

    assert applied(backend, 1, post).gone_back
    assert shown == [no_answer]
    assert (stage(tmp_path)[0], has_key(backend)) == ("undone", False)
