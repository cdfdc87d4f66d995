"""The key files that a standby is given: the master's bytes, and a standby that is not root can read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.managers.machines.this_host import THIS
from ibkeys.mkeys.opensm.key_files import copy_key_files
from ibkeys.mkeys.opensm.standbys import Standby
from ibkeys.store.journal import Journal, RunningOperation

NAMES = ("guid2mkey", "neighbors")
IS_ROOT = os.geteuid() == 0
USER = 4711 if IS_ROOT else os.geteuid()
"""Whom the standby runs as: only root can make a file that belongs to somebody else."""


@pytest.fixture
def operation(tmp_path: Path) -> Iterator[RunningOperation]:
    with Journal(tmp_path / "journal.db") as journal, journal.operation("mkey-rotate") as begun:
        yield begun


@pytest.fixture
def master(tmp_path: Path) -> Path:
    return folder(tmp_path / "master", {"guid2mkey": b"0x1 0x2\n\n", "neighbors": b"0x1:1 0x2:1\n\n"})


def folder(path: Path, texts: dict[str, bytes]) -> Path:
    path.mkdir(0o700)
    for name, text in texts.items():
        (path / name).write_bytes(text)
        (path / name).chmod(0o600)
    return path


def give(master: Path, cache: Path, operation: RunningOperation, user: int = USER) -> None:
    source = cast(Any, SimpleNamespace(cache=master, machine=THIS))
    standby = Standby("", 1, "", "opensm", cache / "opensm.conf", cache, user)
    copy_key_files(source, standby, THIS, operation)


def what_is_there(cache: Path) -> dict[str, tuple[bytes, int, int]]:
    found = {path.name: path for path in cache.iterdir()}
    return {name: (path.read_bytes(), path.stat().st_uid, path.stat().st_mode & 0o777) for name, path in found.items()}


@pytest.mark.parametrize("former", [{}, {"guid2mkey": b"0x1 0x9\n\n"}, {"guid2mkey": b"0x1 0x2\n\n"}])
def test_they_belong_to_the_user_of_the_standby(
    tmp_path: Path, master: Path, operation: RunningOperation, former: dict[str, bytes]
) -> None:
    """Also where a file of root's is there, as an earlier run left it."""
    cache = folder(tmp_path / "standby", former)
    os.chown(cache, USER, -1)
    give(master, cache, operation)
    assert what_is_there(cache) == {name: ((master / name).read_bytes(), USER, 0o600) for name in NAMES}


def test_root_reads_what_belongs_to_anybody_so_that_an_owner_stays(
    tmp_path: Path, master: Path, operation: RunningOperation
) -> None:
    cache = folder(tmp_path / "standby", {"guid2mkey": b"0x1 0x9\n\n"})
    os.chown(cache / "guid2mkey", USER, -1)
    give(master, cache, operation, user=0)
    assert what_is_there(cache)["guid2mkey"] == (b"0x1 0x2\n\n", USER, 0o600)


def test_files_that_fit_stay_and_others_lose_their_rights(
    tmp_path: Path, master: Path, operation: RunningOperation
) -> None:
    cache = folder(tmp_path / "standby", {name: (master / name).read_bytes() for name in NAMES})
    for name in NAMES:
        os.chown(cache / name, USER, -1)
        (cache / name).chmod(0o644)
    places = {name: (cache / name).stat().st_ino for name in NAMES}
    give(master, cache, operation)
    assert {name: (cache / name).stat().st_ino for name in NAMES} == places
    assert {rights for _, _, rights in what_is_there(cache).values()} == {0o600}
