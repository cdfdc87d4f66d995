"""Taking rights away from a file or folder on an SM's host: from the very one that was seen, and never giving any."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged, FileError
from ibkeys.managers.machines.machine import Machine
from tests.managers.machines.there import OLD, Here, There

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="as root only")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("name", ["opensm.log", "with blank", "-dash", "quo'te\"$(x)`y`", "ü"])
def test_a_file_loses_rights_while_it_grows(machine: Machine, file: Path, name: str) -> None:
    path = file.rename(file.with_name(name))
    seen = machine.files.stat(path)
    with path.open("ab") as log:
        log.write(b"more\n")
    assert machine.set_mode(path, seen, 0o600) == 0o640
    assert (mode_of(path), path.read_bytes()) == (0o600, OLD + b"more\n")
    assert machine.set_mode(path, machine.files.stat(path), 0o600) == 0o600


def test_a_folder_loses_rights(machine: Machine, file: Path) -> None:
    file.parent.chmod(0o755)
    assert machine.set_mode(file.parent, machine.files.stat(file.parent), 0o700) == 0o755
    assert (mode_of(file.parent), mode_of(file)) == (0o700, 0o640)


def test_a_link_leads_to_what_was_seen(machine: Machine, file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    assert machine.set_mode(link, machine.files.stat(link), 0o600) == 0o640
    assert mode_of(file) == 0o600


@pytest.mark.parametrize("mode", [0o660, 0o641, 0o4640, 0o1600, 0o777])
def test_no_rights_are_given(machine: Machine, file: Path, mode: int) -> None:
    with pytest.raises(FileError, match=f"has mode 0640, and {mode:04o} would give more rights"):
        machine.set_mode(file, machine.files.stat(file), mode)
    assert mode_of(file) == 0o640


def other_file(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(OLD)
    other.chmod(0o640)
    other.rename(file)


def link_in_place(file: Path) -> None:
    file.rename(file.with_name("former"))
    other = file.with_name("theirs")
    other.write_bytes(OLD)
    other.chmod(0o640)
    file.symlink_to(other)


def pipe_in_place(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o640)


@pytest.mark.parametrize(
    "change",
    [
        other_file,
        link_in_place,
        pipe_in_place,
        os.unlink,
        lambda file: file.chmod(0o644),
        pytest.param(lambda file: os.chown(file, 1, -1), marks=needs_root),
    ],
)
def test_what_is_not_as_it_was_seen_keeps_its_mode(
    machine: Machine, file: Path, change: Callable[[Path], None]
) -> None:
    seen = machine.files.stat(file)
    change(file)
    before = {each.name: mode_of(each) for each in file.parent.iterdir()}
    with pytest.raises(
        FileError, match=f"^{machine.name or '/'}.*(is not the file that was examined|neither a regular file)"
    ):
        machine.set_mode(file, seen, 0o600)
    assert {each.name: mode_of(each) for each in file.parent.iterdir()} == before


def test_what_nobody_looked_at_closely_keeps_its_mode(machine: Machine, file: Path) -> None:
    with pytest.raises(FileChanged):
        machine.set_mode(file, replace(machine.files.stat(file), identity=None), 0o600)
    assert mode_of(file) == 0o640


def test_what_is_no_file_and_no_folder_keeps_its_mode(machine: Machine, file: Path) -> None:
    pipe_in_place(file)
    with pytest.raises(FileError):
        machine.set_mode(file, machine.files.stat(file), 0o600)
    assert mode_of(file) == 0o640


@pytest.mark.parametrize(
    ("script", "words"),
    [("echo 'chmod: Read-only' >&2; exit 1", "Read-only"), (":", "it has mode 640")],
)
def test_a_mode_that_cannot_be_set_is_told(there: There, file: Path, script: str, words: str) -> None:
    with there.machine() as host:
        there.tool("chmod", script)
        with pytest.raises(FileError, match=f"^sm2: {file}: its mode cannot be set to 0600: .*{words}"):
            host.set_mode(file, host.files.stat(file), 0o600)


def test_a_mode_that_this_host_cannot_set_is_told(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with Here(tmp_path / "side").machine() as machine:
        for chmod, words in ((refuse, "Read-only file system"), (lambda *_: None, "it has 0640 now")):
            monkeypatch.setattr(os, "chmod", chmod)
            with pytest.raises(FileError, match=f"^{file}: its mode cannot be set to 0600: {words}"):
                machine.set_mode(file, machine.files.stat(file), 0o600)
