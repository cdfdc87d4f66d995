"""The steps for files: how a file of an OpenSM with mounts of its own is named, and whose files are none of ours."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ibkeys.errors import FileError
from ibkeys.harden.files import FOLDERS
from ibkeys.host.opensm_process import OpensmProcess
from ibkeys.sm.instance import Instance, InstanceFile, Role, describe
from ibkeys.sm.machines.this_host import THIS
from ibkeys.sm.site import Running

INSIDE = Path(f"/proc/{os.getpid()}/root")


@pytest.fixture
def opensm(tmp_path: Path) -> Instance:
    """An OpenSM with a log and a folder of key files that others can read."""
    folder = tmp_path / "cache"
    folder.mkdir(0o755)
    folder.chmod(0o755)
    (tmp_path / "opensm.log").touch()
    (tmp_path / "opensm.log").chmod(0o644)
    process = OpensmProcess(7, folder, True, None, folder=tmp_path, view="host", program_known=True, ticks=1)
    return describe(process, THIS.files)


def with_file(opensm: Instance, role: Role, path: Path, place: Path) -> Running:
    file = InstanceFile(role, path, place, "default", True, THIS.files.stat(place))
    none = InstanceFile("cache" if role == "log" else "log", None, None, "default", True)
    files = {**opensm.files, role: file, none.role: none}
    return Running(replace(opensm, files=files), THIS, None)


def open_files(running: Running) -> list[tuple[str, str]]:
    return [(each.words, each.way_back) for each in cast(Any, FOLDERS).open_files(running)]


@pytest.mark.parametrize("inside", [Path("/"), INSIDE])
def test_a_file_is_named_as_its_host_names_it_and_not_by_the_process_that_reads_it(
    opensm: Instance, tmp_path: Path, inside: Path
) -> None:
    """/proc/PID/root leads there only as long as that process lives."""
    log = tmp_path / "opensm.log"
    running = with_file(opensm, "log", log, inside / log.relative_to("/"))
    assert open_files(running) == [(f"{log}: mode 0644 -> 0600", f"chmod 0644 {log}")]


def test_a_file_that_only_the_opensm_sees_stops_the_step_before_anything_is_done(
    opensm: Instance, tmp_path: Path
) -> None:
    there = tmp_path / "container" / "opensm.log"
    there.parent.mkdir()
    there.touch()
    there.chmod(0o644)
    running = with_file(opensm, "log", tmp_path / "opensm.log", there)
    with pytest.raises(
        FileError, match=r"(?s)sees a different file of that name than its host: run ibkeys in its.*a container"
    ):
        open_files(running)
    assert there.stat().st_mode & 0o777 == 0o644
