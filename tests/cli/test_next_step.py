"""After an audit one line says what to do next: the command for the gravest finding, as it can be typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

APART = "Default=0x7fff : ALL=limited;\na=0x10 : 0x0002c903000a1021=full;\nb=0x11 : 0x0002c903000a1031=full;\n"


def step(text: str) -> list[str]:
    """Return the words of the command that the last line of an audit names, without ``ibkeys``."""
    before, command, rule = text.splitlines()[-1].split("`")
    assert before == "next: "
    assert rule.startswith(" (")
    ibkeys, *words = shlex.split(command)
    assert ibkeys == "ibkeys"
    return words


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "a policy.conf"
    path.write_text(APART)
    return path


def test_two_ports_that_the_policy_keeps_apart_are_the_question_of_why(cli: Cli, policy: Path) -> None:
    words = step(cli("audit", "--check", "PK001,PK005", "--policy", policy).out)
    assert words[:2] == ["why", "-G"]
    answer = cli(*words)
    assert answer.code == 0
    assert "  can talk" in answer.out


def test_a_table_that_is_not_as_in_the_policy_gets_a_plan(cli: Cli, policy: Path) -> None:
    words = step(cli("audit", "--check", "PK003", "--policy", policy).out)
    assert words == ["plan", "--policy", str(policy)]
    assert cli(*words).code == 1


def test_a_snapshot_is_what_the_next_command_reads(cli: Cli, policy: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "now.db"
    assert cli("snapshot", snapshot).code == 0
    words = step(cli("audit", "--check", "PK003", "--policy", policy, "--from", snapshot).out)
    assert words == ["plan", "--policy", str(policy), "--from", str(snapshot)]
    assert cli(*words).code == 1


def test_unset_keys_are_deployed_where_no_sm_runs(cli: Cli) -> None:
    words = step(cli("audit", "--check", "MK001,PK001").out)
    assert words[0] == "mkey-deploy"
    assert cli(*words).code == 1  # a dry run with changes


def test_through_an_sm_a_hardening_mends(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IBKEYS_BACKEND", f"sim:,sm=login1 HCA-1,state={tmp_path / 'managed'}")
    assert step(cli("audit", "--check", "MK001").out) == ["harden", "--dry-run"]
    in_a_cloud = cli("audit", "--check", "MK001", "--profile", "cloud").out
    assert step(in_a_cloud) == ["harden", "--profile", "cloud", "--dry-run"]
    assert step(cli("audit", "--check", "MK001", "--profile", "lab").out) == ["audit", "--explain", "MK001"]


def test_a_rule_that_no_command_mends_is_explained(cli: Cli) -> None:
    words = step(cli("audit", "--check", "SE001").out)
    assert words == ["audit", "--explain", "SE001"]
    assert cli(*words).code == 0


@pytest.mark.parametrize("options", [("--check", "PK007"), ("--check", "MK001", "--no-remedy"), ("--check", "PK002")])
def test_without_a_finding_or_without_remedies_there_is_no_next_step(cli: Cli, options: tuple[str, ...]) -> None:
    assert "next:" not in cli("audit", *options).out
