"""A folder of snapshots: names, the link to the newest, and what is removed and what never."""

from __future__ import annotations

import dataclasses
import os
from datetime import timedelta
from pathlib import Path

import pytest

from ibkeys.errors import StoreError
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.fabric.snapshot_folder import SnapshotFolder, newest_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from tests.fabricsim import subnet, tool

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    with tool(subnet("two-switch")) as fabric:
        return take_snapshot(fabric, Fingerprints.generate())


def put(folder: SnapshotFolder, snapshot: Snapshot, started: str, keep: timedelta | None = None) -> list[str]:
    """Put a snapshot that was begun at *started* into the folder, and return the names of those that went for it."""
    begun = dataclasses.replace(snapshot, about=dataclasses.replace(snapshot.about, started=started))
    folder.check()
    path = folder.place_for(begun)
    save_snapshot(path, begun)
    return [each.name for each in folder.finish(path, keep)]


def names(folder: SnapshotFolder) -> list[str]:
    return [path.name for path in folder.snapshots()]


def test_names_tell_the_time_and_the_link_leads_to_the_newest(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = SnapshotFolder(tmp_path / "made" / "here")
    for started in ("2026-11-20T09:30:00Z", "2026-11-21T09:30:00Z", "2026-11-21T09:30:00Z"):
        assert put(folder, snapshot, started) == []
    assert names(folder) == [
        "ibkeys-20261120T093000Z.db",
        "ibkeys-20261121T093000Z.db",
        "ibkeys-20261121T093000Z-2.db",
    ]
    assert os.readlink(folder.path / "latest") == "ibkeys-20261121T093000Z-2.db"
    assert newest_snapshot(folder.path) == folder.snapshots()[-1]
    assert newest_snapshot(folder.path / "latest") == folder.path / "latest"


def test_what_is_older_than_it_may_be_goes_and_nothing_else(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = SnapshotFolder(tmp_path)
    put(folder, snapshot, "2026-10-01T00:00:00Z")
    (real,) = folder.snapshots()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept_elsewhere = elsewhere / "ibkeys-20260101T000000Z.db"
    kept_elsewhere.write_bytes(real.read_bytes())
    others = {
        "monday.db": real.read_bytes(),  # a snapshot by another name
        "ibkeys-20260101T000000Z.db": b"SQLite format 3\0 of another program",
        "ibkeys-20260102T000000Z.db": b"",
        "ibkeys-20260103T000000Z.db.bak": real.read_bytes(),
        "ibkeys-20261399T000000Z.db": real.read_bytes(),  # no such day
    }
    for name, data in others.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "ibkeys-20260104T000000Z.db").symlink_to(kept_elsewhere)
    (tmp_path / "ibkeys-20260105T000000Z.db").mkdir()
    os.mkfifo(tmp_path / "ibkeys-20260106T000000Z.db")
    before = {path.name for path in tmp_path.iterdir()}
    assert put(folder, snapshot, "2026-11-19T23:59:59Z", 30 * DAY) == [real.name]
    assert put(folder, snapshot, "2026-11-20T00:00:00Z", 30 * DAY) == []
    assert {path.name for path in tmp_path.iterdir()} == before - {real.name} | {
        "ibkeys-20261119T235959Z.db",
        "ibkeys-20261120T000000Z.db",
    }
    assert {name: (tmp_path / name).read_bytes() for name in others} == others
    assert kept_elsewhere.exists()


def test_the_newest_one_stays_also_where_a_clock_went_back(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = SnapshotFolder(tmp_path)
    put(folder, snapshot, "2027-01-01T00:00:00Z")
    assert put(folder, snapshot, "2026-11-20T00:00:00Z", timedelta(seconds=1)) == []
    assert names(folder) == ["ibkeys-20261120T000000Z.db", "ibkeys-20270101T000000Z.db"]


@pytest.mark.parametrize("kind", ["file", "folder", "link elsewhere"])
def test_what_is_called_latest_and_is_not_ours_stays(tmp_path: Path, snapshot: Snapshot, kind: str) -> None:
    latest = tmp_path / "latest"
    if kind == "file":
        latest.write_text("mine")
    elif kind == "folder":
        latest.mkdir()
    else:
        latest.symlink_to("/etc/passwd")
    with pytest.raises(StoreError, match="not a link to a snapshot"):
        put(SnapshotFolder(tmp_path), snapshot, "2026-11-20T00:00:00Z")
    assert names(SnapshotFolder(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]


def test_a_snapshot_that_may_not_be_read_is_named(
    tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SnapshotFolder(tmp_path)
    put(folder, snapshot, "2026-11-20T09:30:00Z")
    [path] = folder.snapshots()

    def refuse(each: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(each))

    monkeypatch.setattr("ibkeys.fabric.snapshot_folder.is_snapshot", refuse)
    with pytest.raises(StoreError, match=f"^{path}: the snapshot cannot be opened"):
        folder.snapshots()


def test_a_folder_with_too_few_of_them_or_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has 0 snapshots, and 2 are needed"):
        SnapshotFolder(tmp_path).last(2)
    with pytest.raises(StoreError, match="there is no such folder"):
        SnapshotFolder(tmp_path / "no").snapshots()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="is not a directory"):
        SnapshotFolder(tmp_path / "file").check()
