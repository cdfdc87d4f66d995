"""The script of the nightly audit: it says when something changed, and when it could not tell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TWO_SWITCH, run
from tests.contrib.shipped import CONTRIB

Night = Callable[..., tuple[int, str]]


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The backend of a fabric whose state lasts for the test."""
    for name in [name for name in os.environ if name.startswith("IBKEYS_")]:
        monkeypatch.delenv(name)
    return f"{TWO_SWITCH},state={tmp_path / 'fabric'}"


@pytest.fixture
def night(fabric: str, tmp_path: Path) -> Night:
    """Run the script for a fabric that lasts, and return its exit status and the report."""
    folder = tmp_path / "state"

    def once(**environment: str) -> tuple[int, str]:
        own = {"IBKEYS_BACKEND": fabric, "IBKEYS_PROGRAM": str(Path(sys.executable).with_name("ibkeys"))}
        command = ["sh", str(CONTRIB / "ibkeys-audit-run"), str(folder)]
        done = subprocess.run(
            command, env={**os.environ, **own, **environment}, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.stdout, done.stderr) == ("", "")
        assert (folder / "report.txt").stat().st_mode & 0o777 == 0o600
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
        report = (folder / "report.txt").read_text()
        assert all(line.startswith(" ") for line in report.splitlines()), "mail takes ~! at the start of a line"
        return done.returncode, report

    return once


def test_nights_without_a_change_and_one_with_one(fabric: str, night: Night) -> None:
    status, report = night()
    assert status == 0, "the first one has nothing to compare with"
    assert "== Snapshot\n" in report
    assert "== Audit\n" in report
    status, report = night()
    assert status == 0, report
    assert "== What changed since the last snapshot\n no difference\n" in report
    assert run("pkey-add", 3, "0x8001", "--yes", "--backend", fabric).code == 0
    status, report = night()
    assert status == 1
    assert "P_Key 0x8001 added at index 1" in report
    assert "== What the audit says now and did not say (+), and says no longer (-)\n" in report
    assert night()[0] == 0


def test_a_change_is_found_where_the_snapshot_before_is_too_old_to_be_kept(
    fabric: str, night: Night, tmp_path: Path
) -> None:
    assert night()[0] == 0
    snapshots, old = tmp_path / "state" / "snapshots", "ibkeys-20250101T000000Z.db"
    (snapshots / "latest").resolve().rename(snapshots / old)
    (snapshots / "latest").unlink()
    (snapshots / "latest").symlink_to(old)
    (tmp_path / "state" / "last").write_text(f"{old}\n")
    assert run("pkey-set", 3, "1=0x8001", "--yes", "--backend", fabric).code == 0
    status, report = night(IBKEYS_KEEP="1d")
    assert (status, "P_Key 0x8001 added at index 1" in report) == (1, True), report
    assert not (snapshots / old).exists()
    (snapshots / "latest").resolve().unlink()
    status, report = night()
    assert (status, "is not there any more, so nothing was compared" in report) == (1, True), report


@pytest.mark.soak
def test_a_night_in_which_nothing_could_be_read_is_3_and_no_audit_of_yesterday(fabric: str, night: Night) -> None:
    assert night()[0] == 0
    status, report = night(IBKEYS_BACKEND="sim:/nowhere.net")
    assert status == 3
    assert "There is no new snapshot: nothing is known of now." in report
    assert "/nowhere.net" in report
    assert "== Audit" not in report
    assert run("pkey-add", 3, "0x8001", "--yes", "--backend", fabric).code == 0
    assert night()[0] == 1, "compared with the last one that was read"


@pytest.mark.soak
def test_formats_and_snapshots_of_the_environment_do_not_disturb_it(night: Night) -> None:
    assert night(IBKEYS_FORMAT="json", IBKEYS_FROM="/nowhere", IBKEYS_KEEP="1d")[0] == 0
    status, report = night(IBKEYS_POLICY="/nowhere/partitions.conf")
    assert status == 3
    assert "There is no audit of the new snapshot." in report
