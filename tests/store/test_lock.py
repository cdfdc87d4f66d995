"""The lock of changing commands, against a real second process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibkeys.errors import StoreError, StoreLocked
from ibkeys.store.lock import exclusive, holder_of, lock_path

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from ibkeys.store.lock import exclusive
with exclusive(*map(Path, sys.argv[1:]), command="mkey-set"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process_holding(*paths: Path) -> Iterator[subprocess.Popen[str]]:
    """Run until the other process says that it has the lock; it ends when its standard input closes."""
    command = [sys.executable, "-c", HOLD, *map(str, paths)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_second_command_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with another_process_holding(path) as process:
        with pytest.raises(StoreLocked) as error, exclusive(path):
            pass
        assert f"mkey-set, pid {process.pid}" in str(error.value)
        assert "\n" not in str(error.value)


def test_lock_goes_with_the_process_that_held_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with another_process_holding(path) as process:
        process.kill()
        process.wait()
        with exclusive(path):
            pass


def test_any_one_of_the_files_is_enough_to_be_refused_and_none_stays_locked(tmp_path: Path) -> None:
    keys, journal = tmp_path / "keys.db", tmp_path / "journal.db"
    with another_process_holding(journal):
        with pytest.raises(StoreLocked), exclusive(keys, journal):
            pass
        with exclusive(keys):
            pass


def test_the_same_process_is_refused_too_and_may_lock_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    refused = pytest.raises(StoreLocked, match=f"pkey-set, pid {os.getpid()}")
    with exclusive(path, command="pkey-set"), refused, exclusive(path):
        pass
    with exclusive(path):
        pass


def test_the_same_file_given_twice_is_locked_once(tmp_path: Path) -> None:
    with exclusive(tmp_path / "one.db", tmp_path / "." / "one.db", tmp_path / "sub" / ".." / "one.db"):
        pass


def test_symbolic_link_to_a_store_shares_its_lock(tmp_path: Path) -> None:
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to("real.db")
    with exclusive(tmp_path / "link.db"), pytest.raises(StoreLocked), exclusive(tmp_path / "real.db"):
        pass


def test_store_in_memory_needs_no_lock() -> None:
    with exclusive(None, None), exclusive(None):
        pass


def test_lock_is_released_when_the_command_fails(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    with pytest.raises(KeyError), exclusive(path):
        raise KeyError
    with exclusive(path):
        pass


def test_lock_file_is_private_and_names_nobody_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "made" / "keys.db"
    with exclusive(path):
        assert lock_path(path).read_text() == f"{os.getpid()} ibkeys"
    assert lock_path(path).read_text() == ""
    assert lock_path(path).stat().st_mode & 0o777 == 0o600


def test_lock_file_that_is_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    lock_path(tmp_path / "keys.db").symlink_to("elsewhere")
    with pytest.raises(StoreError), exclusive(tmp_path / "keys.db"):
        pass
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as error, exclusive(tmp_path / "file" / "keys.db"):
        pass
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_a_name_that_no_file_can_have_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError), exclusive(tmp_path / name):
        pass


def test_who_only_reads_sees_who_holds_the_lock_and_is_in_nobodys_way(tmp_path: Path) -> None:
    journal, keys = tmp_path / "journal.db", tmp_path / "keys.db"
    assert holder_of(journal, keys, None) == ""
    assert list(tmp_path.iterdir()) == [], "looking makes no file"
    assert holder_of(tmp_path, tmp_path / "no" / "folder" / "keys.db") == "", "who only reads is not stopped by it"
    with another_process_holding(keys) as process:
        assert holder_of(journal, keys) == f"mkey-set, pid {process.pid}"
        assert holder_of(journal) == ""
    assert lock_path(keys).stat().st_size > 0, "it was killed, so its name stands there still"
    assert holder_of(journal, keys) == ""
    with exclusive(keys):
        pass


def test_a_lock_that_has_no_name_in_it_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys.db"
    with exclusive(keys):
        pass
    monkeypatch.setattr("fcntl.flock", lambda *_: pytest.fail("another command could miss the lock for it"))
    assert holder_of(keys) == ""
