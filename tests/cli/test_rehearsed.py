"""What `apply` says and demands of the rehearsal of its plan."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ibkeys.cli.site import most_unrehearsed
from ibkeys.store.journal import Journal
from ibkeys.store.journal.rehearsals import note_rehearsal
from ibkeys.store.sqlite import UtcClock, utc_now
from tests.cli.conftest import Cli, run
from tests.cli.sites import Written, parsed

SNAPSHOT = "2026-11-20T08:00:00Z"
DEMAND = "ibkeys.cli.partitions.apply.most_unrehearsed"
"""What reads the site file, which is not read for a simulated subnet."""


def digest(plan: Path) -> str:
    found: str = json.loads(plan.read_text())["digest"]
    return found


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)


def note(folder: Path, plan: str, verdict: str, clock: UtcClock = utc_now) -> None:
    with Journal(folder / "fabric.journal", clock=clock) as journal:
        note_rehearsal(journal, plan, verdict, SNAPSHOT, "running", "/usr/sbin/opensm")  # type: ignore[arg-type]


def test_apply_says_whether_this_very_plan_was_rehearsed(cli: Cli, plan: Path, tmp_path: Path) -> None:
    note(tmp_path, "another plan", "identical")
    assert "rehearsed" not in cli("apply", plan, "--dry-run").out
    assert cli("apply", plan, "--dry-run", "-f", "json").json["rehearsal"] is None
    note(tmp_path, digest(plan), "differs")
    line = cli("apply", plan, "--dry-run").out.splitlines()[1]
    assert line.startswith("rehearsed 2")
    assert line.endswith(f" on the snapshot of {SNAPSHOT}, by the site's own OpenSM: differs")
    found = cli("apply", plan, "--dry-run", "-f", "json").json["rehearsal"]
    assert (found["plan"], found["verdict"], found["snapshot"]) == (digest(plan), "differs", SNAPSHOT)


def test_a_plan_that_was_not_rehearsed_well_is_refused_where_the_site_demands_it(
    cli: Cli, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("apply", plan, "--allow-removals", "--yes")
    monkeypatch.setattr(DEMAND, lambda: 3)
    for verdict in (None, "differs", "refused"):
        if verdict is not None:
            note(tmp_path, digest(plan), verdict)
        refused = cli(*words)
        assert refused.code == 4
        assert refused.error.startswith(
            "refused by interlock not-rehearsed: it changes 4 ports, and the site file demands"
        )
        assert "--override not-rehearsed" in refused.error
        assert cli(*words[:-1], "--dry-run").code == 4
    monkeypatch.setattr(DEMAND, lambda: 4)
    assert cli(*words[:-1], "--dry-run").code == 1
    monkeypatch.setattr(DEMAND, lambda: 3)
    note(tmp_path, digest(plan), "identical")
    assert cli(*words).code == 0


def test_the_journal_says_which_rehearsal_the_plan_of_an_apply_had(cli: Cli, plan: Path, tmp_path: Path) -> None:
    assert cli("pkey-set", 2, "3=0x8010", "--yes").code == 0
    assert cli("undo", 1, "--yes").code == 0
    assert cli("apply", plan, "--allow-removals", "--yes").code == 0
    note(tmp_path, digest(plan), "refused", later)  # made after the first apply
    assert cli("undo", 3, "--yes").code == 0
    for operation in (1, 3, 4):
        assert cli("journal", operation, "-f", "json").json["rehearsal"] is None
        assert "rehearsed" not in cli("journal", operation).out
    note(tmp_path, digest(plan), "differs")
    assert cli("apply", plan, "--allow-removals", "--yes").code == 0
    note(tmp_path, digest(plan), "identical", later)
    found = cli("journal", 5, "-f", "json").json["rehearsal"]
    assert (found["plan"], found["verdict"], found["snapshot"]) == (digest(plan), "differs", SNAPSHOT)
    [line] = [line for line in cli("journal", 5).out.splitlines() if line.startswith("rehearsed ")]
    assert line == f"rehearsed {found['made']} on the snapshot of {SNAPSHOT}, by the site's own OpenSM: differs"
    assert "rehearsal" not in cli("journal", "-f", "json").json


def test_the_interlock_can_be_overridden(cli: Cli, plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DEMAND, lambda: 0)
    assert cli("apply", plan, "--allow-removals", "--yes", "--override", "not-rehearsed").code == 0
    assert cli("undo", 1, "--yes").code == 0, "the way back needs no rehearsal"


def test_the_site_file_demands_it_and_no_option_does(site_file: Written) -> None:
    for site, most in ((site_file(require_rehearsal_above=100), 100), ("none", None)):
        context = parsed("apply", "plan.json", "--site", site)
        with context:
            assert most_unrehearsed() == most
        assert "require_rehearsal_above" not in context.params


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--now", "--faults"), "--faults is for a change, and --now has none"),
        (("--now", "--fault-runs", 3), "--fault-runs and --seed require --faults"),
        (("--now", "--seed", 3), "--fault-runs and --seed require --faults"),
        (("--pack", "a.bundle", "--now"), "--pack makes no rehearsal"),
        (("--pack", "a.bundle", "plan.json"), "--pack makes no rehearsal"),
    ],
)
def test_options_that_have_no_effect_are_refused(words: tuple[object, ...], message: str) -> None:
    result = run("rehearse", *words)
    assert (result.code, message in result.error) == (2, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("apply", "plan.json", "--yes"), "name its plan alone: `ibkeys rehearse PLAN`"),
        (("harden", "--yes"), "some of its steps change SM keys or options of OpenSM"),
        (("smkey-rotate", "--yes"), "it changes no value of a port"),
    ],
)
def test_a_command_that_cannot_be_rehearsed_is_refused_with_its_reason(words: tuple[str, ...], reason: str) -> None:
    result = run("rehearse", *words)
    assert result.code == 2
    assert result.error.startswith(f"{words[0]} cannot be rehearsed: {reason}")
