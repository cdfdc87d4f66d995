"""The text file: at one stroke, readable by others, and in the place of nothing that is no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibkeys.errors import FileError
from ibkeys.export.textfile import check_textfile, write_textfile


def test_it_is_replaced_at_one_stroke_and_others_may_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ibkeys.prom"
    umask = os.umask(0o077)
    try:
        write_textfile(file, b"old 1\n")
    finally:
        os.umask(umask)
    assert file.stat().st_mode & 0o777 == 0o644
    there = []
    replace = os.replace

    def look(source: str, target: Path) -> None:
        there.append((Path(source).suffix, Path(source).parent == tmp_path, file.read_bytes()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    write_textfile(file, b"new 1\n")
    assert there == [(there[0][0], True, b"old 1\n")]
    assert there[0][0] != ".prom", "the collector would read it half written"
    assert file.read_bytes() == b"new 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["ibkeys.prom"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ibkeys.prom"
    write_textfile(file, b"old 1\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"ibkeys\.prom: the text file cannot be written here: No space left"):
        write_textfile(file, b"new 1\n")
    assert file.read_bytes() == b"old 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["ibkeys.prom"]


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "no folder"])
def test_what_is_no_file_stays(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "ibkeys.prom"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.symlink_to("/etc/passwd")
    else:
        file = tmp_path / "no" / "ibkeys.prom"
    with pytest.raises(FileError, match="cannot be written here"):
        check_textfile(file)
    with pytest.raises(FileError, match="cannot be written here"):
        write_textfile(file, b"")
