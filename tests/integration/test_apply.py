"""plan, apply, undo through the real libibumad: smpquery reads it back, OpenSM with the same policy changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.corpus import DATA
from tests.integration.ibsim import Ibsim, parse_dump, parse_pkeys
from tests.integration.served import Served
from tests.sample import in_soak

TWO_SWITCH = DATA / "fabrics" / "two-switch.net"
HOSTS = [f"0x0002c903000a10{number}1" for number in "123456"]
POLICY = f"""\
Default=0x7fff : ALL=limited, SELF=full ;
Blue=0x12, defmember=full : {HOSTS[0]}, {HOSTS[1]}, {HOSTS[3]}=limited ;
Green=0x13, defmember=full : {HOSTS[1]}, {HOSTS[4]} ;
"""
OVERRIDES = ("--override", "index-0", "--override", "index-move")


def run(fabric: Ibsim, *arguments: str, codes: tuple[int, ...] = (0,)) -> Any:
    done = fabric.ibkeys(*arguments, "-f", "json")
    assert done.returncode in codes, done.stdout + done.stderr
    return json.loads(done.stdout)


def physical(fabric: Ibsim) -> Any:
    """Every P_Key table and enforcement bit, as ibkeys reads them."""
    tables = run(fabric, "pkey-show", "--all")["ports"]
    bits = run(fabric, "port-show", "--enforcement", "--all")["ports"]
    return [{**port, "bits": bit} for port, bit in zip(tables, bits, strict=True)]


def planned(fabric: Ibsim, enforce: str) -> dict[str, Any]:
    policy = fabric.folder / "partitions.conf"
    policy.write_text(POLICY)
    command = ("plan", "--policy", str(policy), "--out", str(fabric.folder / "p.plan"), "--enforce", enforce)
    document: dict[str, Any] = run(fabric, *command, codes=(1,))
    return document


def check_by_smpquery(fabric: Ibsim, plan: dict[str, Any]) -> None:
    for port in plan["tables"]:
        shown = parse_pkeys(fabric.smpquery("pkeys", port["lid"], port["port"]))
        assert {str(index): f"0x{key:04x}" for index, key in enumerate(shown) if key} == port["after"], port
    for port in plan["enforcement"]:
        info = parse_dump(fabric.smpquery("portinfo", port["lid"], port["port"]))
        found = {"inbound": info["PartEnforceInb"] == "1", "outbound": info["PartEnforceOutb"] == "1"}
        assert found == port["after"], port


def p_key_sets(fabric: Served) -> int:
    return sum("Set(P_KeyTable" in line for line in fabric.output)


@pytest.mark.parametrize("kind", ["ibsim", in_soak("served")])
def test_plan_apply_opensm_undo(kind: str, tmp_path: Path) -> None:
    enforce = "both"
    conf = f"part_enforce {enforce}\n"
    with Ibsim(TWO_SWITCH) if kind == "ibsim" else Served(TWO_SWITCH, extra=["-v"]) as fabric:
        fabric.opensm(conf, fabric.folder / "missing.conf")
        before = physical(fabric)
        plan = planned(fabric, enforce)
        assert len(plan["tables"]) >= 6
        file = str(fabric.folder / "p.plan")
        applied = run(fabric, "apply", file, "--via", "direct", "--allow-removals", "--yes", *OVERRIDES)
        assert applied["complete"] is True
        check_by_smpquery(fabric, plan)
        again = run(fabric, "plan", "--policy", str(fabric.folder / "partitions.conf"), "--enforce", enforce)
        assert (again["tables"], again["enforcement"]) == ([], [])
        after = physical(fabric)
        if isinstance(fabric, Served):
            assert p_key_sets(fabric) > 0
            fabric.output.clear()
        fabric.opensm(conf, POLICY)
        assert physical(fabric) == after
        if isinstance(fabric, Served):
            assert fabric.output
            assert p_key_sets(fabric) == 0
        assert run(fabric, "journal")["operations"][0]["state"] == "done"
        run(fabric, "undo", "1", "--yes")
        assert physical(fabric) == before
        assert run(fabric, "journal")["operations"][0]["state"] == "undone"


def test_when_the_shell_is_killed_the_change_goes_back_without_it() -> None:
    with Served(TWO_SWITCH) as fabric:
        fabric.opensm("", fabric.folder / "missing.conf")
        before = physical(fabric)
        planned(fabric, "both")
        end, kept = os.pipe()
        arguments = ("apply", str(fabric.folder / "p.plan"), "--via", "direct", "--confirm-within", "1")
        shell = subprocess.Popen(
            fabric.arguments(fabric.ibkeys_command(*arguments, "--allow-removals", "--yes", *OVERRIDES)),
            cwd=fabric.folder,
            env=fabric.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=[kept],
        )
        os.close(kept)
        with shell, os.fdopen(end) as gone:
            assert shell.stderr is not None
            said = next(line for line in shell.stderr if "rolling back in 1 s" in line)
            assert "`ibkeys confirm 1` from any shell" in said
            assert physical(fabric) != before
            os.killpg(shell.pid, signal.SIGKILL)
            gone.read()  # ends when the last process ends that the shell left behind
        assert physical(fabric) == before
        assert run(fabric, "journal")["operations"][0]["state"] == "undone"
