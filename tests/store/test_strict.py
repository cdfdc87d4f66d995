"""Whose stores are used: as ssh's StrictModes has it. Other users are made up by saying that this one is another."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ibkeys.errors import StoreError
from ibkeys.store import strict
from ibkeys.store.fingerprint import load_fingerprints
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.lock import exclusive, lock_path

STORES = [KeyStore, Journal]
Store = type[KeyStore | Journal]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "stores"
    path.mkdir(0o700)
    return path


def refused(store: Store, path: Path, message: str) -> None:
    """That *store* refuses *path* whether it may make it or not; with the file there, and where it can be missing."""
    for create in (True, False):
        with pytest.raises(StoreError, match=message) as raised:
            store(path, create=create)
        assert "\n" not in str(raised.value)
        assert "a directory of your own" in str(raised.value)


def looks_owned(monkeypatch: pytest.MonkeyPatch, path: Path, user: int) -> None:
    """Let *path*, and nothing else, belong to *user*."""

    def shown(real: Callable[..., os.stat_result]) -> Callable[..., Any]:
        def status(place: Any, *args: Any, **options: Any) -> Any:
            found = real(place, *args, **options)
            if isinstance(place, int) or os.fspath(place) != str(path):
                return found
            fields = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
            return SimpleNamespace(**{**fields, "st_uid": user})

        return status

    monkeypatch.setattr("ibkeys.store.strict.os.stat", shown(os.stat))
    monkeypatch.setattr("ibkeys.store.strict.os.lstat", shown(os.lstat))


@pytest.mark.parametrize("store", STORES)
def test_a_store_in_a_folder_of_ones_own_is_used_whatever_the_sticky_directory_above(
    store: Store, folder: Path
) -> None:
    folder.parent.chmod(0o1777)
    store(folder / "made" / "a.db").close()
    store(folder / "made" / "a.db").close()


@pytest.mark.parametrize("store", STORES)
def test_a_store_with_two_names_is_refused(store: Store, folder: Path) -> None:
    store(folder / "a.db").close()
    os.link(folder / "a.db", folder / "b.db")
    refused(store, folder / "a.db", r"has 2 names \(hard links\)")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o707])
def test_a_store_right_in_a_directory_where_others_write_is_refused(
    store: Store, folder: Path, mode: int, there: bool
) -> None:
    """Also in a sticky one: SQLite reads a -journal that lies beside the file, whoever put it there."""
    path = folder / "a.db"
    if there:
        store(path).close()
    folder.chmod(mode)
    with pytest.raises(StoreError, match=f"other users may write in {folder} .mode {mode:04o}."):
        store(path)
    if there:
        refused(store, path, "other users may write in")
    else:
        assert not path.exists()
        store(path, create=False).close()  # nothing is there, and nothing is read


@pytest.mark.parametrize("store", STORES)
def test_a_directory_further_up_where_others_write_must_be_sticky(store: Store, folder: Path) -> None:
    store(folder / "in" / "a.db").close()
    folder.chmod(0o777)
    refused(store, folder / "in" / "a.db", "other users may write in")
    folder.chmod(0o1777)
    store(folder / "in" / "a.db").close()


@pytest.mark.parametrize("store", STORES)
def test_a_file_of_another_user_is_refused(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(folder / "a.db").close()
    looks_owned(monkeypatch, folder / "a.db", os.geteuid() + 1)
    refused(store, folder / "a.db", "belongs to another user")


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("up", [0, 1])
def test_a_directory_of_another_user_above_it_is_refused(
    store: Store, folder: Path, up: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(folder / "in" / "a.db").close()
    looks_owned(monkeypatch, (folder / "in", folder)[up], os.geteuid() + 1)
    refused(store, folder / "in" / "a.db", "the directory .* belongs to another user")


@pytest.mark.parametrize("store", STORES)
def test_a_link_of_another_user_on_the_way_is_refused_and_an_own_one_is_not(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(folder / "real" / "a.db").close()
    (folder / "link").symlink_to("real")
    (folder / "b.db").symlink_to(folder / "link" / "a.db")
    store(folder / "b.db").close()
    looks_owned(monkeypatch, folder / "link", os.geteuid() + 1)
    refused(store, folder / "b.db", f"the link {folder}/link belongs to another user")


def test_where_a_link_leads_counts_too(folder: Path) -> None:
    KeyStore(folder / "open" / "a.db").close()
    (folder / "open").chmod(0o777)
    (folder / "mine").mkdir(0o700)
    (folder / "mine" / "a.db").symlink_to("../open/a.db")
    refused(KeyStore, folder / "mine" / "a.db", "other users may write in .*open")


def test_links_that_go_round_are_one_line(folder: Path) -> None:
    (folder / "a.db").symlink_to("b.db")
    (folder / "b.db").symlink_to("a.db")
    with pytest.raises(StoreError, match="symbolic links"):
        KeyStore(folder / "a.db")


@pytest.mark.parametrize(
    ("others", "fine"),
    [((), True), (("stranger",), False)],
    ids=["a group of one's own", "a group with others in it"],
)
def test_a_directory_that_a_group_may_write(
    folder: Path, others: tuple[str, ...], fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.geteuid()
    users = {"me": own, "stranger": own + 1}
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_mem=["me", *others]))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid=users[name]))
    monkeypatch.setattr(pwd, "getpwall", lambda: [])
    folder.chmod(0o770)
    with nullcontext() if fine else pytest.raises(StoreError, match="other users may write in"):
        KeyStore(folder / "a.db").close()


def test_a_group_that_nobody_is_in_is_not_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_mem=[]))
    monkeypatch.setattr(pwd, "getpwall", lambda: [])
    assert not strict.is_private_group(5, frozenset({0}))


def test_under_sudo_the_callers_own_store_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KeyStore(folder / "a.db").close()
    caller = os.getuid() or 1000
    looks_owned(monkeypatch, folder, caller)
    monkeypatch.setattr("ibkeys.files.os.geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str(caller))
    KeyStore(folder / "a.db").close()
    monkeypatch.setenv("SUDO_UID", str(caller + 1))
    refused(KeyStore, folder / "a.db", "belongs to another user")


def test_a_lock_file_with_two_names_is_not_emptied(folder: Path) -> None:
    other = folder / "precious"
    other.write_text("kept")
    os.link(other, lock_path(folder / "a.db"))
    with pytest.raises(StoreError, match="names"), exclusive(folder / "a.db"):
        pass
    assert other.read_text() == "kept"


def test_no_lock_is_made_where_the_store_would_be_refused(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="other users may write in"), exclusive(folder / "a.db"):
        pass
    assert list(folder.iterdir()) == []


def test_the_secret_of_fingerprints_is_ones_own_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "a.secret"
    assert load_fingerprints(path) is not None
    monkeypatch.setattr("ibkeys.store.fingerprint.trusted_users", lambda: frozenset({os.geteuid() + 1}))
    with pytest.raises(StoreError, match="belongs to another user"):
        load_fingerprints(path)
    monkeypatch.undo()
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="other users may write in"):
        load_fingerprints(path)


@pytest.mark.parametrize("store", STORES)
def test_a_working_directory_that_is_gone_does_not_matter(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with store(folder / "store.db"):
        pass
    with pytest.raises(OSError, match="No such file or directory"):
        os.getcwd()
