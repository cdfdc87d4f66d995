"""The steps for files: how a file of an OpenSM with mounts of its own is named, and whose files are none of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ibkeys.apply.undo import plan_undo
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import FileError, UsageError
from ibkeys.harden.files import FOLDERS, KEY_FILES
from ibkeys.harden.step import HardenRequest
from ibkeys.managers.instance import Instance, InstanceFile, read_instance
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.managers.site import RunningOpensm
from ibkeys.store.journal import FileImage, Journal
from tests.cli.conftest import run
from tests.fabricsim import subnet, tool

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
    return read_instance(process, THIS.files)


def with_log(opensm: Instance, path: Path, place: Path) -> RunningOpensm:
    file = InstanceFile("log", path, place, "default", True, THIS.files.stat(place))
    none = InstanceFile("cache", None, None, "default", True)
    files = {**opensm.files, "log": file, none.role: none}
    return RunningOpensm(replace(opensm, files=files), THIS, None)


def open_files(running: RunningOpensm) -> list[tuple[str, str]]:
    return [(each.words, each.rollback) for each in cast(Any, FOLDERS).open_files(running)]


@contextmanager
def writer(folder: Path, command: str) -> Iterator[ChangeWriter]:
    stores = {"journal": folder / "journal.db", "keystore": folder / "keys.db"}
    with tool(subnet("two-switch"), **stores) as fabric, ChangeWriter(fabric, command) as made:
        yield made


def close_log(opensm: Instance, folder: Path) -> None:
    running, step = with_log(opensm, folder / "opensm.log", folder / "opensm.log"), cast(Any, FOLDERS)
    with writer(folder, FOLDERS.command) as changing:
        step.close_all(changing, list(step.open_files(running)))


def test_what_is_closed_is_an_operation_with_the_former_mode_and_its_owner(opensm: Instance, tmp_path: Path) -> None:
    log = tmp_path / "opensm.log"
    close_log(opensm, tmp_path)
    with Journal(tmp_path / "journal.db") as journal:
        [done] = journal.list_operations()
        [file] = journal.files(done.id)
        assert journal.replaced_files() == []  # nothing was replaced
    assert (done.command, done.state, log.stat().st_mode & 0o777) == ("harden files", "done", 0o600)
    assert (file.status, file.image) == ("done", FileImage(str(log), None, None, 0o644, os.getuid(), os.getgid()))
    shown = run("journal", done.id, "--journal", tmp_path / "journal.db", "-f", "json").json
    [row] = shown["files"]
    assert (row["path"], row["mode_before"], row["mode_after"]) == (str(log), "0644", "0600")
    assert "mode 0644 -> 0600" in run("journal", done.id, "--journal", tmp_path / "journal.db").out


def test_no_undo_opens_what_was_closed(opensm: Instance, tmp_path: Path) -> None:
    close_log(opensm, tmp_path)
    with writer(tmp_path, "undo") as changing, pytest.raises(UsageError, match="chmod"):
        plan_undo(changing, 1)
    assert (tmp_path / "opensm.log").stat().st_mode & 0o777 == 0o600
    with Journal(tmp_path / "journal.db") as journal:
        assert [each.state for each in journal.list_operations()] == ["done"]


def test_what_was_cut_off_is_open_until_the_last_step_of_another_hardening(
    opensm: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ibkeys.harden.files.remove_others_rights", cut_off)
        with pytest.raises(KeyboardInterrupt):
            close_log(opensm, tmp_path)
    with writer(tmp_path, KEY_FILES.command) as changing:
        assert not FOLDERS.is_due(changing, HardenRequest(()))
        assert KEY_FILES.is_due(changing, HardenRequest(()))
        cast(Any, KEY_FILES).close_all(changing, [])
        assert not KEY_FILES.is_due(changing, HardenRequest(()))
    with Journal(tmp_path / "journal.db") as journal:
        assert [each.state for each in journal.list_operations()] == ["done"]


@pytest.mark.parametrize("inside", [Path("/"), INSIDE])
def test_a_file_is_named_as_its_host_names_it_and_not_by_the_process_that_reads_it(
    opensm: Instance, tmp_path: Path, inside: Path
) -> None:
    """/proc/PID/root leads there only as long as that process lives."""
    log = tmp_path / "opensm.log"
    running = with_log(opensm, log, inside / log.relative_to("/"))
    assert open_files(running) == [(f"{log}: mode 0644 -> 0600", f"chmod 0644 {log}")]


def test_a_file_that_only_the_opensm_sees_stops_the_step_before_anything_is_done(
    opensm: Instance, tmp_path: Path
) -> None:
    there = tmp_path / "container" / "opensm.log"
    there.parent.mkdir()
    there.touch()
    there.chmod(0o644)
    running = with_log(opensm, tmp_path / "opensm.log", there)
    with pytest.raises(
        FileError, match=r"(?s)sees a different file of that name than its host: run ibkeys in its.*a container"
    ):
        open_files(running)
    assert there.stat().st_mode & 0o777 == 0o644
