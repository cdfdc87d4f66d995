"""The files of this host: which processes may run a program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ibkeys.host.host_files import THIS_HOST

CALLED = {"10": b"/usr/sbin/opensm\0-F\0conf\0", "9": b"opensm\0", "11": b"opensm"}
OTHERS = {
    "20": b"/usr/sbin/opensmd\0",
    "21": b"vi\0opensm\0",
    "22": b"",
    "23": b"/" * 5000 + b"opensm\0",  # longer than any path
    "self": b"opensm\0",
}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    for name, line in {**CALLED, **OTHERS}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(line)
    return tmp_path


def test_processes_are_those_whose_command_line_begins_with_the_program(proc: Path) -> None:
    assert THIS_HOST.processes(proc, "opensm") == [9, 10, 11]


def test_a_process_without_a_readable_command_line_is_left_out(proc: Path) -> None:
    (proc / "30").mkdir()
    (proc / "31").mkdir()
    os.mkfifo(proc / "31" / "cmdline")
    (proc / "32").write_bytes(b"opensm\0")
    assert THIS_HOST.processes(proc, "opensm") == [9, 10, 11]


def test_without_a_proc_file_system_there_is_none(tmp_path: Path) -> None:
    assert THIS_HOST.processes(tmp_path / "proc", "opensm") == []
