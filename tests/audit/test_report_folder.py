"""The folder of a report takes its place as a whole, and replaces nothing that is no report."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from ibkeys import files
from ibkeys.audit.formats import folder
from ibkeys.audit.formats.folder import MARK, check_folder, write_folder
from ibkeys.errors import StoreError

PAGES = {"index.html": f"<head>{MARK}</head> first", "audit.html": "one"}
LATER = {"index.html": f"<head>{MARK}</head> second"}


def content(place: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in place.iterdir()}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "report"


def test_the_folder_is_for_its_owner_only(place: Path) -> None:
    write_folder(place, PAGES)
    assert content(place) == PAGES
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in place.iterdir()} == {0o600}
    assert os.listdir(place.parent) == ["report"]


@pytest.mark.parametrize("number", [0, errno.EINVAL, errno.ENOSYS])
def test_an_earlier_report_is_replaced_as_a_whole_and_leaves_nothing(
    place: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(one: Path, other: Path) -> None:
        raise OSError(number, "no")

    write_folder(place, PAGES)
    if number:
        monkeypatch.setattr(folder, "exchange", refused)
    write_folder(place, LATER)
    assert content(place) == LATER
    assert os.listdir(place.parent) == ["report"]


def test_the_exchange_of_two_names_is_that_of_the_kernel(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(made: Path, place: Path) -> None:
        raise AssertionError("in steps")

    monkeypatch.setattr(folder, "exchange_in_steps", never)
    write_folder(place, PAGES)
    write_folder(place, LATER)
    assert content(place) == LATER


def test_an_error_on_the_way_leaves_the_earlier_report(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(place, PAGES)

    def full(path: Path, data: bytes, mode: int = 0o600) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "replace_file", full)
    with pytest.raises(StoreError, match="report: the report cannot be written: No space left on device"):
        write_folder(place, LATER)
    assert content(place) == PAGES
    assert os.listdir(place.parent) == ["report"]


def test_an_error_between_the_steps_gives_the_earlier_report_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(place, PAGES)
    rename = os.rename
    calls = []

    def refused(one: Path, other: Path) -> None:
        raise OSError(errno.EINVAL, "no")

    def second_fails(one: Path, other: Path) -> None:
        calls.append(one)
        if len(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(one, other)

    monkeypatch.setattr(folder, "exchange", refused)
    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(StoreError, match="Input/output error"):
        write_folder(place, LATER)
    assert content(place) == PAGES


def test_an_empty_folder_is_taken(place: Path) -> None:
    place.mkdir()
    write_folder(place, PAGES)
    assert content(place) == PAGES


@pytest.mark.parametrize("there", ["file", "link", "foreign", "more", "unmarked"])
def test_anything_else_stays(place: Path, there: str) -> None:
    if there == "file":
        place.write_text("mine")
    elif there == "link":
        (place.parent / "real").mkdir()
        place.symlink_to("real")
    else:
        place.mkdir()
        if there == "foreign":
            (place / "thesis.txt").write_text("mine")
        elif there == "more":
            (place / "index.html").write_text(MARK)
            (place / "notes.txt").write_text("mine")
        else:
            (place / "index.html").write_text("<title>mine</title>")
    with pytest.raises(StoreError, match="exists and is not a report that ibkeys wrote"):
        check_folder(place)
    with pytest.raises(StoreError):
        write_folder(place, PAGES)


def test_a_place_without_a_directory_is_said_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the folder above it does not exist"):
        check_folder(tmp_path / "no" / "report")
