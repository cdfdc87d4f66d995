"""The locks that doctor names."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.doctor.host import check_locks
from ibkeys.host.host_lock import LocalLock, lock_file, take_lock
from ibkeys.host.lock_holder import LockHolder
from ibkeys.managers.report import HostReport
from tests.owners import closed

HOLDER = LockHolder("root", "a", "apply", "2026-11-26T12:01:05Z", 123, "0" * 32)
WHO = "root at a, by `apply` since 2026-11-26 12:01:05 UTC, process 123"


def host(*confs: Path) -> HostReport:
    """Return a host with an OpenSM for each options file."""

    def file(path: Path | None) -> Any:
        return SimpleNamespace(path=path, place=path, problem="is not known", fact=None)

    opensms = [SimpleNamespace(name="OpenSM", files={"options": file(each), "policy": file(None)}) for each in confs]
    return HostReport("", cast(Any, tuple(opensms)))


def test_no_lock_is_no_check(tmp_path: Path) -> None:
    assert list(check_locks(host(tmp_path / "opensm.conf", tmp_path / "no" / "opensm.conf"))) == []


def test_one_that_is_held_is_a_note_and_a_stale_one_a_problem(tmp_path: Path) -> None:
    conf = tmp_path / "opensm.conf"
    lock = take_lock(conf, HOLDER.line())
    assert isinstance(lock, LocalLock)
    [check] = check_locks(host(conf, conf))
    assert (check.ok, check.detail) == (None, f"{lock_file(conf)}: {WHO}, is changing something")
    lock.release()
    lock_file(conf).write_bytes(HOLDER.line())
    [check] = check_locks(host(conf))
    assert (check.ok, check.detail) == (False, f"{lock_file(conf)}: {WHO}, was cut off")
    assert "override the interlock stale-lock" in check.advice


def test_one_that_this_user_may_not_read_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "opensm.conf"
    lock_file(conf).write_bytes(HOLDER.line())
    monkeypatch.setattr("ibkeys.doctor.host.os.access", lambda path, mode: False)  # root may read everything
    [check] = check_locks(host(conf))
    said = f"{lock_file(conf)}: a command is changing something there"
    assert (check.ok, check.detail.startswith(said)) == (None, True)


def test_a_folder_that_this_user_may_not_search_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    with closed(folder):
        [check] = check_locks(host(folder / "opensm.conf"))
    said = f"{lock_file(folder / 'opensm.conf')}: this user may not see whether there is a lock; root may"
    assert (check.ok, check.detail) == (None, said)


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_file_is_a_problem(tmp_path: Path, make: Any) -> None:
    conf = tmp_path / "opensm.conf"
    make(lock_file(conf))
    [check] = check_locks(host(conf))
    assert check.ok is False
    assert check.detail.startswith(f"{lock_file(conf)}: is a ")
