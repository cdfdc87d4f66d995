"""apply: what it writes, what it refuses, and its exit codes."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ibkeys.apply.carrier import CarrierResult
from ibkeys.apply.direct import DirectCarrier
from ibkeys.errors import IbkeysError, StoreError
from tests.apply.lab import Lab
from tests.cli.conftest import DUAL_HOME, TWO_SWITCH, Cli, between_commands, pkeys, run, written
from tests.plan.plans import entries

STEPS = """\
to be done, in this order:
  additions, leaf ports: 2 ports, 2 Sets
  additions, end ports: 2 ports, 2 Sets
  removals, end ports: 1 port, 1 Set
  removals, leaf ports: 1 port, 1 Set
  enforcement on: 1 port, 1 Set
Ports  Kind           Entries
    2  ca, leaf port  1: - -> 0x8001
    node02 mlx4_0
    MF0;switch-a:IS5023/U1 port 2
    2  ca, leaf port  0: 0xffff -> 0x7fff, 1: - -> 0x8001
    node03 mlx4_0
    MF0;switch-a:IS5023/U1 port 3

Ports  Enforces  Planned
    1  off       in+out
    MF0;switch-a:IS5023/U1 port 2

P_Keys to be removed, full to limited included: 2
"""


def shown(plan: Path) -> str:
    """What `apply` says that it will do: first which plan it is."""
    return f"plan digest: {json.loads(plan.read_text())['digest']}\n{STEPS}"


def test_apply_shows_writes_and_verifies(cli: Cli, plan: Path) -> None:
    result = cli("apply", plan, "--allow-removals", "--yes", "--fold")
    assert (result.code, result.err) == (0, "")
    assert result.out == shown(plan) + "done, verified by a fresh read; `ibkeys undo 1` rolls it back\n"
    assert [pkeys(cli, lid) for lid in (2, 3)] == [{0: "0xffff", 1: "0x8001"}, {0: "0x7fff", 1: "0x8001"}]
    assert cli("port-show", "--enforcement", 7, 2, "-f", "json").json["ports"][0]["partition_enforcement_inbound"] == 1


def test_no_undo_is_offered_where_the_journal_ends_with_the_command(
    cli: Cli, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKEYS_BACKEND", TWO_SWITCH)
    assert cli("apply", plan, "--allow-removals", "--yes").out.endswith("\ndone, verified by a fresh read\n")
    assert cli("apply", plan, "--allow-removals", "--yes", "--first", 1).out.endswith("\npartly done\n")


def test_each_port_that_changes_may_have_a_row(cli: Cli, plan: Path) -> None:
    lines = cli("apply", plan, "--dry-run", "--each").out.splitlines()
    named = sorted(line.split()[0] for line in lines if " 0x0002c90" in line)  # a GUID
    assert named == [*["MF0;switch-a:IS5023/U1"] * 3, "node02", "node03"]
    assert cli("apply", plan, "--dry-run").out.splitlines() == lines, "where no terminal is"
    assert cli("apply", plan, "--each", "--fold").error == "--each and --fold exclude each other"


def test_a_plan_of_version_1_is_applied(cli: Cli, plan: Path) -> None:
    document = json.loads(plan.read_text())
    del document["sm_options"], document["policy"]["text"], document["policy"]["encoding"]
    plan.write_text(json.dumps({**document, "schema": "ibkeys.plan/1"}))
    result = cli("apply", plan, "--allow-removals", "--yes")
    assert (result.code, result.err) == (0, "")
    assert pkeys(cli, 2) == {0: "0xffff", 1: "0x8001"}


def test_a_dry_run_names_what_would_be_refused_and_exits_4(cli: Cli, plan: Path, tmp_path: Path) -> None:
    result = cli("apply", plan, "--dry-run", "--fold")
    assert (result.code, result.out) == (4, shown(plan) + "dry run: nothing was changed\n")
    assert result.err.startswith(
        "ibkeys: would be refused: the plan removes 2 P_Keys (full to limited counts as one) from 2"
    )
    assert pkeys(cli, 2) == {0: "0xffff"}
    assert not list(tmp_path.glob("*.journal*"))
    assert cli("apply", plan, "--dry-run", "--allow-removals").code == 1


def test_ports_that_are_not_on_the_fabric_are_one_line(plan: Path) -> None:
    result = run("apply", plan, "--backend", DUAL_HOME, "--dry-run", "--fold")
    assert result.code == run("apply", plan, "--backend", DUAL_HOME, "--allow-removals", "--yes").code == 3
    [line] = [line for line in result.err.splitlines() if "not written" in line]
    assert line == "ibkeys: not written: 4 ports: not found on the fabric: node[02-03] mlx4_0, " + (
        "MF0;switch-a:IS5023/U1 port 2-3"
    )
    errors = run("apply", plan, "--backend", DUAL_HOME, "--dry-run", "-f", "json").json["errors"]
    assert {(each["node_desc"], each["error"]) for each in errors} == {
        ("node02 mlx4_0", "not found on the fabric"),
        ("node03 mlx4_0", "not found on the fabric"),
        ("MF0;switch-a:IS5023/U1", "not found on the fabric"),
    }


def test_removals_without_permission_are_refused(cli: Cli, plan: Path) -> None:
    result = cli("apply", plan, "--yes")
    assert result.code == 4
    assert "--allow-removals permits it" in result.error
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_without_yes_and_terminal_nothing_is_changed(cli: Cli, plan: Path) -> None:
    result = cli("apply", plan, "--allow-removals", "--fold", stdin="y\n")
    assert (result.code, result.out) == (4, shown(plan))
    assert "--yes" in result.error


def test_a_plan_that_is_true_already_exits_0(cli: Cli, plan: Path) -> None:
    cli("apply", plan, "--allow-removals", "--yes")
    result = cli("apply", plan, "--yes", "--override", "stale")
    assert result.code == 0
    assert result.out.endswith("\nnothing to change\n")


def test_json_of_an_apply(cli: Cli, plan: Path) -> None:
    document = cli("apply", plan, "--allow-removals", "--yes", "-f", "json").json
    assert document == {
        "schema": "ibkeys.apply/1",
        "dry_run": False,
        "applied": True,
        "complete": True,
        "gone_back": False,
        "operation": 1,
        "digest": json.loads(plan.read_text())["digest"],
        "rehearsal": None,
        "carrier": "direct",
        "phases": [
            {"phase": "leaf-add", "ports": 2, "sets": 2},
            {"phase": "end-add", "ports": 2, "sets": 2},
            {"phase": "end-remove", "ports": 1, "sets": 1},
            {"phase": "leaf-remove", "ports": 1, "sets": 1},
            {"phase": "enforcement-on", "ports": 1, "sets": 1},
        ],
        "left_for_later": 0,
        "removals": 2,
        "breaks": [],
        "waiting": [],
        "other_indexes": [],
        "notes": [],
        "interlocks": [],
        "errors": [],
    }


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "nothing to apply: give a PLAN"),
        (["missing.json"], "missing.json: No such file or directory"),
        (["--first", "0", "plan.json"], "0 is not in 1..65535"),
    ],
)
def test_wrong_usage(cli: Cli, args: list[str], says: str) -> None:
    result = cli("apply", *args)
    assert result.code == 2
    assert says in result.error


def test_a_file_that_is_no_plan_is_named_with_the_place(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"schema": ')
    result = cli("apply", path, "--yes")
    assert result.code == 2
    assert result.error.startswith(f"{path}:1:12: is not JSON")


def test_an_edited_plan_is_refused(cli: Cli, plan: Path) -> None:
    plan.write_text(plan.read_text().replace("0x8001", "0x8002"))
    for args in ([], ["--dry-run"]):
        result = cli("apply", plan, "--allow-removals", "--yes", *args)
        assert result.code == 2
        assert f"{plan}: was edited after it was made" in result.error
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_plan_and_apply_and_resume_show_the_same_digest(cli: Cli, tmp_path: Path) -> None:
    policy, plan = tmp_path / "p.conf", tmp_path / "plan.json"
    policy.write_text("Default=0x7fff : ALL=full ;\nBlue=0x10 : ALL_CAS=full ;\n")
    told = cli("plan", "--policy", policy, "--out", plan).out
    line = next(line for line in told.splitlines() if line.startswith("plan digest: "))
    assert line == f"plan digest: {json.loads(plan.read_text())['digest']}"
    assert line in cli("apply", plan, "--dry-run").out
    assert line in cli("apply", plan, "--first", 1, "--yes").out
    assert line in cli("resume", "--yes", "--dry-run").out
    assert cli("resume", "--yes", "-f", "json").json["digest"] in line


def test_canary_then_resume_then_undo(cli: Cli, tmp_path: Path) -> None:
    plan = written(tmp_path, Lab().plan({number: entries(0xFFFF, 0x8001) for number in (2, 5)}))
    result = cli("apply", plan, "--yes", "--first", 1)
    assert result.code == 0
    assert result.out.endswith("partly done: operation 1 is still open; `ibkeys resume 1` continues it\n")
    assert (pkeys(cli, 2)[1], 1 in pkeys(cli, 5)) == ("0x8001", False)
    again = cli("apply", plan, "--yes", "--dry-run")
    assert (
        "refused: by interlock open-operation: operation 1 (apply) is open: `ibkeys resume 1` finishes it" in again.err
    )
    beside = cli("pkey-set", "-G", f"{Lab().host(3).guid:#x}", "5=0x8030", "--dry-run")
    note = "ibkeys: note: operation 1 (apply) is open: `ibkeys resume 1` finishes it, `ibkeys undo 1` rolls it back\n"
    assert beside.err.startswith(note)
    result = cli("resume", "--yes")
    assert (result.code, pkeys(cli, 5)[1]) == (0, "0x8001")
    assert "is open" not in result.err
    result = cli("undo", 1, "--yes")
    assert result.out.endswith("done, verified by a fresh read; `ibkeys undo 2` makes the change again\n")
    assert [pkeys(cli, lid) for lid in (2, 5)] == [{0: "0xffff"}] * 2


def test_ports_that_could_not_be_written_are_named(cli: Cli, plan: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.nodes.SimPort.set_p_key_block", lambda self, block, data: None)
        result = cli("apply", plan, "--allow-removals", "--yes", "-f", "json")
    assert result.code == 3
    document = json.loads(result.out)
    assert (document["complete"], len(document["errors"])) == (False, 2)
    assert document["errors"][0]["error"].endswith("was accepted but not stored: index 1 is 0x0000 instead of 0x8001")
    lines = result.err.splitlines()
    assert [line.split(":")[1] for line in lines] == [" not written", " error"]
    assert lines[0].startswith("ibkeys: not written: 2 ports: ")
    assert lines[-1].endswith("`ibkeys resume 1` finishes it, `ibkeys undo 1` rolls it back")


@pytest.mark.parametrize(
    ("problem", "code"), [(StoreError("the disk is full"), 3), (KeyboardInterrupt("by SIGINT"), 130)]
)
def test_they_are_named_too_where_something_else_stopped_the_change(
    cli: Cli, plan: Path, problem: IbkeysError | KeyboardInterrupt, code: int
) -> None:
    carry_out = DirectCarrier.carry_out

    def stopped(self: DirectCarrier, *arguments: Any) -> CarrierResult:
        carried = carry_out(self, *arguments)
        carried.problem = problem
        return carried

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.nodes.SimPort.set_p_key_block", lambda self, block, data: None)
        patch.setattr(DirectCarrier, "carry_out", stopped)
        result = cli("apply", plan, "--allow-removals", "--yes", "-f", "json", "-v")
    assert result.code == code
    document = json.loads(result.out)
    assert (document["complete"], len(document["errors"])) == (False, 2)
    lines = result.err.splitlines()
    assert [line.split(":")[1] for line in lines[:2]] == [" not written", " not written"]
    assert any(str(problem) in line for line in lines[2:])


def test_a_signal_at_the_question_ends_it_and_changes_nothing(
    cli: Cli, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: io.StringIO) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "y\n"

    monkeypatch.setattr("ibkeys.cli.changing.is_a_terminal", lambda: True)
    monkeypatch.setattr("tests.cli.conftest.io.StringIO", type("Input", (io.StringIO,), {"readline": interrupted}))
    result = cli("apply", plan, "--allow-removals")
    assert result.code == 130
    monkeypatch.undo()
    assert "Make this change?" in result.err
    assert "operation" not in result.err


def test_the_record_of_an_apply_ends_where_somebody_else_has_changed_what_it_set(
    cli: Cli, plan: Path, tmp_path: Path
) -> None:
    assert cli("apply", plan, "--allow-removals", "--first", 1, "--yes").code == 0
    unchanged = cli("resume", "--overtaken", "--yes")
    assert (unchanged.code, "no other user or program has changed what was set by operation 1" in unchanged.error) == (
        2,
        True,
    )
    with between_commands(tmp_path) as net:
        net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8077]
    refused = cli("resume", "--yes")
    assert (refused.code, "to keep what is there: `ibkeys resume 1 --overtaken`" in refused.error) == (4, True)
    assert "`ibkeys resume 1 --overtaken` only ends its record" in cli("journal").out
    assert cli("resume", "--overtaken", "--dry-run").code == 1
    ended = cli("resume", "--overtaken", "--yes")
    assert ended.code == 0
    assert "operation 1 (apply, begun " in ended.out
    assert pkeys(cli, 2) == {0: "0xffff", 1: "0x8077"}
    [operation] = cli("journal", "-f", "json").json["operations"]
    assert (operation["state"], operation["close_with"]) == ("undone", None)
    assert cli("resume", "--overtaken", "--yes").code == 3


def test_the_record_of_an_apply_ends_where_only_a_port_that_left_is_missing(
    cli: Cli, plan: Path, tmp_path: Path
) -> None:
    with between_commands(tmp_path) as net:
        net.unplug("node02 mlx4_0", 1)
    result = cli("apply", plan, "--allow-removals", "--override", "stale", "--yes")
    assert result.code == 3
    assert result.out.endswith(
        "if they do not come back: `ibkeys resume 1 --overtaken`, which only ends the record of the operation\n"
    )
    ended = cli("resume", "--overtaken", "--yes")
    assert "only absent ports are left: 'node02 mlx4_0'" in ended.err
    assert ended.code == 0
    [operation] = cli("journal", "-f", "json").json["operations"]
    assert operation["state"] == "done"


def test_the_command_that_ends_a_record_names_its_operation_where_two_are_open(
    cli: Cli, plan: Path, tmp_path: Path
) -> None:
    assert cli("apply", plan, "--allow-removals", "--first", 1, "--yes").code == 0
    with between_commands(tmp_path) as net:
        net.unplug("node02 mlx4_0", 1)
    beside = ("--override", "open-operation", "--override", "stale")
    result = cli("apply", plan, "--allow-removals", *beside, "--yes")
    typed = result.out.split("if they do not come back: `ibkeys ")[1].split("`")[0]
    assert typed == "resume 2 --overtaken"
    assert cli("resume", "--overtaken", "--yes").code == 2  # which one is not said
    assert cli(*typed.split(), "--yes").code == 0
    states = [each["state"] for each in cli("journal", "-f", "json").json["operations"]]
    assert states == ["open", "done"]


def test_ending_a_record_takes_no_option_of_a_change(cli: Cli, plan: Path) -> None:
    assert cli("apply", plan, "--allow-removals", "--first", 1, "--yes").code == 0
    for more in (["--allow-removals"], ["--first", 1], ["--confirm-within", 5]):
        ended = cli("resume", "--overtaken", *more, "--yes")
        assert (ended.code, f"by --overtaken, which only ends its record: omit {more[0]}" in ended.error) == (2, True)
