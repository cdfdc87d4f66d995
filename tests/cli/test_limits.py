"""Limits on the command line: what is left out is named, and the exit status is 3."""

from __future__ import annotations

import pytest

from tests.cli.conftest import TWO_SWITCH, run

SWEEPS = [
    ("discover",),
    ("pkey-show", "--all"),
    ("mkey-show", "--all"),
    ("port-show", "--caps", "--all"),
    ("audit",),
    ("matrix",),
    ("mkey-recover",),
    ("mkey-recover", "--dry-run"),
]


@pytest.mark.parametrize("command", SWEEPS, ids=" ".join)
def test_a_limit_that_is_reached_is_named_with_its_option(command: tuple[str, ...]) -> None:
    result = run(*command, "--backend", TWO_SWITCH, "--limit", "nodes=4")
    assert result.code == 3
    assert "the sweep found 4 nodes, its limit (--limit nodes=N raises it)" in result.err


def test_the_environment_holds_several_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_LIMIT", "ports=7 nodes=1000")
    result = run("discover", "--backend", TWO_SWITCH)
    assert "the sweep read 7 switch ports" in result.err
    monkeypatch.setenv("IBKEYS_LIMIT", "ports=1000 nodes=4")
    result = run("discover", "--backend", TWO_SWITCH)
    assert "the sweep found 4 nodes" in result.err


def test_a_name_that_is_no_limit_is_a_usage_error() -> None:
    result = run("discover", "--backend", TWO_SWITCH, "--limit", "nodes=many")
    assert result.code == 2
    assert "limit 'nodes=many': 'many' is not a decimal number of at most 12 digits" in result.error


def test_a_snapshot_keeps_what_was_left_out(tmp_path: object) -> None:
    file = f"{tmp_path}/cut.db"
    assert run("snapshot", file, "--backend", TWO_SWITCH, "--limit", "nodes=4").code == 3
    result = run("discover", "--from", file)
    assert result.code == 3
    assert "the sweep found 4 nodes, its limit (--limit nodes=N raises it)" in result.err
