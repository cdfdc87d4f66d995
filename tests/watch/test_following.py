"""A log that is followed: what comes, rotation, truncation, and files that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.watch.following import LONGEST_LINE, FollowedFile


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "opensm.log"
    path.write_text("before\n")
    return path


def add(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def test_only_what_is_written_from_now_on_comes(log: Path) -> None:
    with FollowedFile(log) as followed:
        assert followed.new_lines() == []
        add(log, "one\ntwo\nthr")
        assert followed.new_lines() == ["one", "two"]
        add(log, "ee\n")
        assert followed.new_lines() == ["three"]


def test_the_rest_of_a_line_that_was_begun_before_is_left_out(log: Path) -> None:
    add(log, "begun")
    with FollowedFile(log) as followed:
        add(log, " and ended\nnext\n")
        assert followed.new_lines() == ["next"]


def test_logrotate_renames_the_file_and_its_writer_opens_a_new_one_later(log: Path) -> None:
    with FollowedFile(log) as followed:
        rotated = log.rename(log.with_suffix(".1"))
        add(rotated, "still here\n")
        assert followed.new_lines() == ["still here"]
        assert followed.problem == ""
        add(rotated, "the last\n")
        log.write_text("the first of the new file\n")
        assert followed.new_lines() == ["the last"]
        assert followed.new_lines() == []
        assert followed.new_lines() == ["the first of the new file"]


def test_copytruncate_and_opensm_s_truncation(log: Path) -> None:
    with FollowedFile(log) as followed:
        add(log, "one\n" * 10)
        assert len(followed.new_lines()) == 10
        os.truncate(log, 0)
        add(log, "new\n")
        assert followed.new_lines() == ["new"]


def test_a_file_that_is_not_there_is_waited_for_and_read_from_its_start(tmp_path: Path) -> None:
    with FollowedFile(tmp_path / "later.log") as followed:
        assert followed.new_lines() == []
        assert "does not exist" in followed.problem
        (tmp_path / "later.log").write_text("one\n")
        assert followed.new_lines() == ["one"]
        assert followed.problem == ""


def test_what_is_no_file_is_refused_without_being_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(OSError, match="not a regular file"):
            FollowedFile(tmp_path / name)


def test_a_file_that_becomes_a_fifo_is_a_problem_and_not_the_end(log: Path) -> None:
    with FollowedFile(log) as followed:
        log.unlink()
        os.mkfifo(log)
        followed.new_lines()
        assert "FIFO" in followed.problem
        log.unlink()
        log.write_text("back\n")
        assert followed.new_lines() == ["back"]


def test_a_line_without_end_is_left_out_and_takes_no_memory(log: Path) -> None:
    with FollowedFile(log) as followed:
        for _ in range(64):
            add(log, "x" * 65536)
            assert followed.new_lines() == []
            assert len(followed.rest) <= LONGEST_LINE
        add(log, "\nnext\n")
        assert followed.new_lines() == ["next"]


def test_bytes_that_are_no_text_spoil_nothing(log: Path) -> None:
    with FollowedFile(log) as followed:
        add(log, b"\xff\xfe\0\n\nnext\n")
        assert followed.new_lines() == ["\ufffd\ufffd\0", "", "next"]


@settings(max_examples=40)
@given(chunks=st.lists(st.text(alphabet="ab\n", max_size=20), max_size=10))
def test_however_it_is_cut_the_same_lines_come(tmp_path_factory: pytest.TempPathFactory, chunks: list[str]) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    path.touch()
    with FollowedFile(path) as followed:
        lines = []
        for chunk in chunks:
            add(path, chunk)
            lines += followed.new_lines()
    assert lines == "".join(chunks).split("\n")[:-1]


def test_more_than_is_read_at_a_time_is_said_to_be_there(log: Path) -> None:
    with FollowedFile(log) as followed:
        lines = [f"{number:08d}" + "y" * 91 for number in range(6000)]
        add(log, "".join(f"{line}\n" for line in lines))
        came = followed.new_lines()
        assert 0 < len(came) < len(lines)
        while followed.is_behind:
            came += followed.new_lines()
        assert came == lines


def test_after_a_failure_it_is_read_on_and_not_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> bytes:
        raise OSError(5, "Input/output error")

    with FollowedFile(log) as followed:
        add(log, "one\ntw")
        assert followed.new_lines() == ["one"]
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", fail)
            assert (followed.new_lines(), followed.problem) == ([], "Input/output error")
        add(log, "o\n")
        assert (followed.new_lines(), followed.problem) == (["two"], "")
