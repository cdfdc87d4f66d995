"""What is written through several OpenSMs: all of it, or nothing where one of them does not see its new file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.change.opensm_files import OpensmFiles
from ibkeys.errors import Refused
from ibkeys.managers.files.opensm_file import NotSeenByOpensm, OpensmFile
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.site import RunningOpensm
from ibkeys.store.journal import Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.origin import this_process

BEFORE, AFTER = b"sweep_interval 10\n", b"sweep_interval 10\nm_key_lease_period 60\n"


@pytest.fixture
def operation(tmp_path: Path) -> Iterator[RunningOperation]:
    with Journal(tmp_path / "journal.db") as journal, journal.operation("mkey-rotate", this_process()) as begun:
        yield begun


def options_file(path: Path, place: Path) -> OpensmFile:
    path.write_bytes(BEFORE)
    file = OpensmFile.at(THIS, path, os.geteuid())
    instance = cast(Any, SimpleNamespace(name=f"OpenSM of {path.name}", process=None))
    file.opensms, file.places = [RunningOpensm(instance, THIS, None)], [place]
    return file


def opensms(files: list[OpensmFile], machine: Any = THIS) -> OpensmFiles:
    writer = cast(Any, SimpleNamespace(keystore=KeyStore(None)))
    instance = cast(Any, SimpleNamespace(name="OpenSM", process=None))
    master = RunningOpensm(instance, machine, None)
    return OpensmFiles(writer, cast(Any, None), master, [], files, lambda: None, lambda: None, "type sm-repair")


def test_where_one_opensm_does_not_see_its_new_file_all_are_restored(
    tmp_path: Path, operation: RunningOperation
) -> None:
    held = tmp_path / "held"
    held.write_bytes(BEFORE)
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    files = [options_file(first, first), options_file(second, held)]
    with pytest.raises(NotSeenByOpensm, match=r"b\.conf: .*OpenSM of b\.conf does not see the new file"):
        opensms(files).write([(file, AFTER) for file in files], operation)
    assert [first.read_bytes(), second.read_bytes()] == [BEFORE, BEFORE]
    assert operation.id is not None
    assert {each.status for each in operation.journal.files(operation.id)} == {"failed"}
    for file in files:
        file.verify("")


def test_each_file_is_made_from_what_it_holds(tmp_path: Path, operation: RunningOperation) -> None:
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    files = [options_file(first, first), options_file(second, second)]
    second.write_bytes(BEFORE + b"# theirs\n")
    files[1] = OpensmFile.at(THIS, second, os.geteuid())
    contents = [(file, file.with_options({"m_key_lease_period": 60})) for file in files]
    entries = opensms(files).write(contents, operation)
    assert len(entries) == 2
    assert first.read_bytes() == AFTER
    assert b"# theirs\n" in second.read_bytes()


def test_a_master_that_died_is_said_with_what_to_do() -> None:
    dead = SimpleNamespace(is_running=lambda process: False)
    with pytest.raises(Refused, match="no longer runs, or was restarted; type sm-repair; nothing more was done"):
        opensms([], dead).check()
