"""undo: what it gives back, what it refuses, and that an undo can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apply.lab import Lab
from tests.cli.conftest import Cli, pkeys, written
from tests.plan.plans import entries


def test_undo_of_pkey_set(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("pkey-set", 3, "3=0x8011", "--yes")
    assert cli("undo", 1, "--yes").code == 0
    assert (pkeys(cli, 2), pkeys(cli, 3)) == ({0: "0xffff"}, {0: "0xffff", 3: "0x8011"})
    refused = cli("undo", "--yes")
    named = "the last one is operation 2 (pkey-set), and `ibkeys undo 2` rolls it back"
    assert (refused.code, named in refused.error) == (2, True)
    assert cli("undo", 2, "--yes").code == 0
    assert pkeys(cli, 3) == {0: "0xffff"}
    result = cli("undo", "--yes")
    assert result.code == 3
    assert "nothing to undo" in result.error


def test_undo_does_not_write_over_what_came_later(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    cli("pkey-set", 2, "3=0x8011", "--yes")
    result = cli("undo", 1, "--yes")
    assert result.code == 4
    assert "interlock stale: 1 port changed in the meantime or cannot be read: 'node02 mlx4_0'" in result.error
    assert pkeys(cli, 2)[3] == "0x8011"


def test_undo_dry_run_and_refusal_without_yes(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    assert cli("undo", 1, "--dry-run").code == 1
    assert cli("undo", 1).code == 4
    assert pkeys(cli, 2)[3] == "0x8010"


def test_an_undo_is_undone_and_says_so(cli: Cli) -> None:
    cli("pkey-set", 2, "3=0x8010", "--yes")
    [before] = cli("journal", "-f", "json").json["operations"]
    document = cli("undo", 1, "--yes", "-f", "json").json
    assert (document["operation"], document["undoes"], document["complete"]) == (2, 1, True)
    again = cli("undo", 1, "--yes")
    assert (
        again.code,
        "has already been undone by operation 2; `ibkeys undo 2` makes the change again" in again.error,
    ) == (
        3,
        True,
    )
    first = cli("journal", "-f", "json").json["operations"][0]
    assert (first["started"], first["finished"]) == (before["started"], before["finished"])
    assert "nothing to undo" in cli("undo", "--yes").error
    assert cli("undo", 2, "--yes").code == 0
    assert pkeys(cli, 2)[3] == "0x8010"
    told = [
        (each["command"], each["state"], each["undoes"]) for each in cli("journal", "-f", "json").json["operations"]
    ]
    assert told == [("pkey-set", "done", None), ("undo", "undone", 1), ("undo", "done", 2)]
    assert cli("undo", 1, "--yes").code == 0
    assert pkeys(cli, 2) == {0: "0xffff"}


def test_counters_that_were_cleared_are_in_the_journal_and_not_given_back(cli: Cli) -> None:
    lab = Lab()
    lab.host(2).p_key_violations = 7
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.subnet.Subnet.from_file", lambda *args, **rest: lab.net)
        cli("counters-clear", 2, "--yes")
    assert "p_key_violations: 7 -> 0" in cli("journal", 1).out
    result = cli("undo", 1, "--yes")
    assert result.code == 2
    assert "counters cannot be restored" in result.error


def test_a_way_back_that_cuts_somebody_needs_allow_break(cli: Cli, tmp_path: Path) -> None:
    lab = Lab()
    lab.put({number: entries(0, 0x8001 if number < 3 else 0x8002) for number in range(1, 5)}, "io")
    to = {number: entries(0, 0x8002 if number < 3 else 0x8001) for number in range(1, 5)}
    plan = written(tmp_path, lab.plan(to))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibkeys.sim.subnet.Subnet.from_file", lambda *args, **rest: lab.net)
        assert cli("apply", plan, "--allow-removals", "--allow-break", "--yes").code == 0
        there = lab.image()
        refused = cli("undo", 1, "--yes")
        assert (refused.code, lab.image() == there) == (4, True)
        assert "--allow-break permits it" in refused.error
        dry = cli("undo", 1, "--dry-run")
        assert (dry.code, "would be refused" in dry.err, "temporary loss of connectivity: " in dry.out) == (
            4,
            True,
            True,
        )
        assert cli("undo", 1, "--dry-run", "--allow-break").code == 1
        assert cli("undo", 1, "--yes", "--allow-break").code == 0
    assert lab.host(1).p_keys[1] == 0x8001
