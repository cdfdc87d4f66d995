"""A crash at any call of the system: the file is the old or the new one, whole, and the next run cleans up."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ibkeys.host.replacing.replace import clean_up
from ibkeys.store.journal import FileEntry, Journal
from tests.host.replacing.crash_driver import NEW, OLD, THEIRS
from tests.host.replacing.helpers import ROOT, names
from tests.sample import in_soak
from tests.store.journaled import recorded

DRIVER = Path(__file__).with_name("crash_driver.py")
WAYS = pytest.mark.parametrize("way", ["exchange", in_soak("rename only")])


def crashed(kind: str, way: str, directory: Path) -> list[Path]:
    """Return the folders that the driver left, one for each call at which it died."""
    subprocess.run(
        [sys.executable, str(DRIVER), kind, way, str(directory)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    return [directory / str(number) for number in range(int((directory / "end").read_text()) + 1)]


def entries(folder: Path) -> list[FileEntry]:
    journal = Journal(folder / "journal.db")
    return [entry for record in journal.list_operations() for entry in journal.files(record.id)]


def beside(folder: Path) -> list[str]:
    return [name for name in names(folder) if ".ibkeys-" in name]


def read(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


@WAYS
@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("replace", OLD, NEW),
        ("create", None, NEW),
        ("remove", OLD, None),
    ],
)
def test_after_a_crash_the_file_is_whole_and_the_next_run_cleans_up(
    tmp_path: Path, kind: str, way: str, before: bytes | None, after: bytes | None
) -> None:
    folders = crashed(kind, way, tmp_path)
    assert len(folders) > (8 if after is None else 20)
    seen, dirty = set(), 0
    for folder in folders:
        file, found = folder / "policy", entries(folder)
        now = read(file)
        assert now in (before, after), folder
        assert found or now == before, folder
        dirty += bool(beside(folder))
        left = clean_up(recorded(found))
        assert left.foreign == ()
        assert beside(folder) == []
        assert clean_up(recorded(found)).removed == ()
        assert read(file) == now
        assert all((entry.image.before, entry.image.after) == (before, after) for entry in found)
        seen.add(now)
        if now is not None and kind != "create":
            assert stat.S_IMODE(file.stat().st_mode) == 0o640
            assert os.getxattr(file, "user.note") == b"kept"
    assert seen == {before, after}
    assert dirty > 0


@pytest.mark.parametrize("kind", ["race", "race with removal"])
def test_what_somebody_wrote_in_the_moment_of_the_crash_is_never_gone(tmp_path: Path, kind: str) -> None:
    raced = foreign = 0
    for folder in crashed(kind, "exchange", tmp_path):
        left = clean_up(recorded(entries(folder)))
        foreign += len(left.foreign)
        if (folder / "raced").exists():
            raced += 1
            assert [read(path) for path in (folder / "policy", *left.foreign)].count(THEIRS) == 1, folder
        else:
            assert (read(folder / "policy"), left.foreign) == (OLD, ())
    assert raced > foreign > 0
