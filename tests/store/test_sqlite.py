"""The helper under journal and key store: modes, versions, one-line errors."""

from __future__ import annotations

import errno
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import traceback
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from ibkeys.errors import ClosedError, StoreError
from ibkeys.store import sqlite
from ibkeys.store.columns import blob, guid, number, text
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.sqlite import Database, Schema, guid_number, guid_text, timestamp

ONE = Schema("test store", 0x1234, (("CREATE TABLE a (x INTEGER)",),))
TWO = Schema(
    "test store", 0x1234, (*ONE.steps, ("ALTER TABLE a ADD COLUMN y TEXT DEFAULT 'new'", "CREATE TABLE b (z)"))
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def one_line(error: pytest.ExceptionInfo[StoreError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("target", ["absent.db", "absent/a.db"])
def test_a_symbolic_link_to_no_file_is_named(tmp_path: Path, target: str) -> None:
    path = tmp_path / "a.db"
    path.symlink_to(target)
    with pytest.raises(StoreError, match="symbolic link to a file that does not exist") as error:
        Database(path, ONE)
    assert one_line(error).startswith(f"{path}: ")
    assert os.listdir(tmp_path) == ["a.db"]


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_file_is_private_and_so_are_the_directories_made_for_it(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "made" / "too" / "a.db"
    before = os.umask(umask)
    try:
        Database(path, ONE).close()
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert mode(path.parent) == mode(path.parent.parent) == 0o700


def test_sqlites_own_journal_file_is_private_too(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    before = os.umask(0)
    try:
        database = Database(path, ONE)
        with database.transaction() as connection:
            connection.execute("INSERT INTO a VALUES (1)")
            others = [file for file in tmp_path.iterdir() if file != path]
            assert others, "SQLite keeps its rollback journal beside the file"
            assert [mode(file) for file in others] == [0o600] * len(others)
    finally:
        os.umask(before)
    database.close()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("bad", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666])
@pytest.mark.parametrize("store", [KeyStore, Journal])
def test_file_that_others_can_read_or_write_is_refused_with_advice(
    tmp_path: Path, store: type[KeyStore | Journal], bad: int
) -> None:
    path = tmp_path / "a.db"
    store(path).close()
    path.chmod(bad)
    for create in (True, False):
        with pytest.raises(StoreError) as error:
            store(path, create=create)
        assert "chmod 600" in one_line(error)
        assert f"{bad:04o}" in one_line(error)


def test_every_commit_is_synced_to_the_disk() -> None:
    database = Database(None, ONE)
    assert database.query("PRAGMA synchronous") == [(3,)]  # EXTRA


def test_new_file_runs_all_migrations_and_an_old_one_only_those_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    old = Database(path, ONE)
    with old.transaction() as connection:
        connection.execute("INSERT INTO a VALUES (7)")
    old.close()
    assert Database(path, TWO).query("SELECT x, y FROM a") == [(7, "new")]
    assert Database(path, TWO).query("PRAGMA user_version") == [(2,)]
    assert Database(None, TWO).query("SELECT * FROM b") == []


def test_failing_migration_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Database(path, ONE).close()
    broken = Schema("test store", 0x1234, (*ONE.steps, ("CREATE TABLE c (x)", "CREATE TABLE c (x)")))
    with pytest.raises(StoreError):
        Database(path, broken)
    tables = "SELECT name FROM sqlite_master"
    assert Database(path, ONE).query(tables) == [("a",)]


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Database(path, TWO).close()
    with pytest.raises(StoreError) as error:
        Database(path, ONE)
    assert "schema 2; this ibkeys knows up to 1" in one_line(error)


def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"guid2mkey or something else\n" * 50)
    path.chmod(0o600)
    with pytest.raises(StoreError) as error:
        KeyStore(path)
    assert "is not a database" in one_line(error)
    assert path.read_bytes().startswith(b"guid2mkey")


def test_database_of_another_program_or_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Journal(path).close()
    with pytest.raises(StoreError) as error:
        KeyStore(path)
    assert "not an ibkeys key store" in one_line(error)
    foreign = tmp_path / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    foreign.chmod(0o600)
    with pytest.raises(StoreError) as error:
        KeyStore(foreign)
    assert "not an ibkeys key store" in one_line(error)


def test_damaged_file_is_one_line_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    KeyStore(path).close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(StoreError) as error:
        KeyStore(path).rows()
    assert "damaged" in one_line(error)


def test_what_sqlite_quotes_of_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    """SQLite's own message shows the text of the table as it stands in the file: with its line feeds, and damage."""
    steps = ("CREATE TABLE a (x TEXT CHECK (x IN ('one', '\x07two')),\n  y INTEGER)",)
    path = tmp_path / "a.db"
    Database(path, Schema("test store", 0x1234, (steps,))).close()
    path.write_bytes(path.read_bytes().replace(b"'one'", b"'\x1bone"))
    with pytest.raises(StoreError) as error:
        Database(path, Schema("test store", 0x1234, (steps,)))
    assert "the test store is damaged (malformed database schema (a)" in one_line(error)
    assert str(error.value).isprintable()


def test_directory_and_device_are_no_store(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(StoreError) as error:
            KeyStore(path)
        assert "not a regular file" in one_line(error)


def test_path_below_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as error:
        KeyStore(tmp_path / "file" / "keys.db")
    assert str(tmp_path) in one_line(error)


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EACCES, "be root"), (errno.EROFS, "be root"), (errno.ENOSPC, "no space left"), (errno.EIO, "Input/output")],
)
def test_failure_to_make_the_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError) as error:
        KeyStore(tmp_path / "keys.db")
    assert words in one_line(error)


def fill(database: Database) -> None:
    with database.transaction() as connection:
        connection.executemany("INSERT INTO a VALUES (?)", [(2**60 + n,) for n in range(2000)])


def test_full_disk_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db", ONE)
    pages = database.query("PRAGMA page_count")[0][0]
    database.query(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError) as error:
        fill(database)
    assert "no space left" in one_line(error)
    assert database.query("SELECT count(*) FROM a") == [(0,)]


def test_failing_write_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = Database(path, ONE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
        with pytest.raises(StoreError) as error:
            fill(database)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "could not be read or written" in one_line(error)
    assert database.query("SELECT count(*) FROM a") == [(0,)]
    assert Database(path, ONE).query("PRAGMA integrity_check") == [("ok",)]


def test_file_held_by_another_program_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.0)
    database = Database(tmp_path / "a.db", ONE)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError) as error, database.transaction():
        pass
    assert "in use by another program" in one_line(error)
    other.close()


def test_exception_in_a_transaction_undoes_all_of_it() -> None:
    database = Database(None, ONE)

    def fail() -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO a VALUES (1)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert database.query("SELECT * FROM a") == []


@pytest.mark.parametrize("store", [KeyStore, Journal])
def test_reading_command_makes_no_file(tmp_path: Path, store: type[KeyStore | Journal]) -> None:
    path = tmp_path / "state" / "a.db"
    with store(path, create=False) as opened:
        assert opened.path == path
    assert list(tmp_path.iterdir()) == []


def test_reading_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Database(path, ONE).close()
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        assert Database(path, ONE, create=False).query("SELECT * FROM a") == []
    finally:
        tmp_path.chmod(0o700)


def test_close_twice_is_fine_and_use_afterwards_is_an_error() -> None:
    store = KeyStore(None)
    store.close()
    store.close()
    with pytest.raises(ClosedError):
        store.rows()


def test_names_with_odd_characters_are_plain_file_names(tmp_path: Path) -> None:
    path = tmp_path / "a ?mode=memory#%41 ü.db"
    KeyStore(path).close()
    assert path.stat().st_size > 0


def test_importing_the_rooms_modules_does_not_import_sqlite3() -> None:
    modules = (
        "ibkeys.store.sqlite, ibkeys.store.journal, ibkeys.store.keystore.keystore, "
        "ibkeys.store.paths, ibkeys.store.lock"
    )
    program = f"import sys, {modules}; sys.exit('sqlite3' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == 0


def test_times_are_utc_whatever_the_clock_says() -> None:
    east = timezone(timedelta(hours=2))
    assert timestamp(lambda: datetime(2026, 11, 20, 11, 30, 5, 999, east)) == "2026-11-20T09:30:05Z"
    assert sqlite.utc_now().tzinfo is UTC


@pytest.mark.parametrize("guid", [0, 1, 0x0002C90300A1B2C3, 2**63, 2**64 - 1])
def test_guids_of_all_64_bits_survive(guid: int) -> None:
    assert len(guid_text(guid)) == 18
    assert guid_number(guid_text(guid)) == guid


def test_a_transaction_inside_another_comes_on_disk_with_it_or_not_at_all(tmp_path: Path) -> None:
    database = Database(tmp_path / "a.db", ONE)

    def add(number: int) -> None:
        with database.transaction() as connection:
            connection.execute("INSERT INTO a VALUES (?)", (number,))

    with database.transaction():
        add(1)
        add(2)
        assert Database(tmp_path / "a.db", ONE).query("SELECT * FROM a") == []
    assert Database(tmp_path / "a.db", ONE).query("SELECT * FROM a") == [(1,), (2,)]

    def fail() -> None:
        with database.transaction():
            add(3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert database.query("SELECT * FROM a") == [(1,), (2,)]


def test_a_query_that_does_not_end_is_ended(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE endless(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM endless) SELECT max(x) FROM endless"
    database = Database(tmp_path / "a.db", ONE)
    with pytest.raises(StoreError, match="reading it never ends"):
        database.query(endless)
    assert database.query("SELECT count(*) FROM a") == [(0,)]
    database.close()


def test_nothing_of_a_file_runs_when_it_is_opened_for_reading(tmp_path: Path) -> None:
    Database(tmp_path / "a.db", ONE).close()
    database = Database(tmp_path / "a.db", ONE, read_only=True)
    assert [database.query(f"PRAGMA {name}") for name in ("trusted_schema", "query_only")] == [[(0,)], [(1,)]]
    database.close()


COLUMNS = Schema(
    "test store",
    0x1234,
    (("CREATE TABLE a (n, g, t, b)",),),
    {"a": {"n": number(9, null=True), "g": guid(), "t": text(("x", "y")), "b": blob(2)}},
)
GOOD = (5, "0x0000000000000001", "x", b"ab")


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 10),
        (0, -1),
        (0, 5.0),
        (0, "5"),
        (1, None),
        (1, "0x1"),
        (1, "0x000000000000000G"),
        (2, "z"),
        (2, 1),
        (3, b"a"),
    ],
)
def test_a_value_that_its_column_cannot_have_is_damage(at: int, value: object) -> None:
    database = Database(None, COLUMNS)
    rows = [GOOD, (None, *GOOD[1:]), tuple(value if place == at else good for place, good in enumerate(GOOD))]
    with database.transaction() as connection:
        connection.executemany("INSERT INTO a VALUES (?, ?, ?, ?)", rows)
    assert len(database.query("SELECT * FROM a LIMIT 2", of="a")) == 2
    assert len(database.query("SELECT * FROM a")) == 3
    with pytest.raises(StoreError, match=f"damaged .{'ngtb'[at]} has an impossible value"):
        database.query("SELECT * FROM a", of="a")


def test_a_name_that_is_no_utf_8_is_a_name(tmp_path: Path) -> None:
    path, copy = (Path(os.fsdecode(os.fsencode(tmp_path) + name)) for name in (b"/a\xff?", b"/b\xff#"))
    database = Database(path, ONE)
    with database.transaction() as connection:
        connection.execute("INSERT INTO a VALUES (7)")
    copy.touch(0o600)
    database.copy_to(copy, copy)
    database.close()
    copied = Database(copy, ONE)
    assert copied.query("SELECT x FROM a") == [(7,)]
    copied.close()
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"a\xff?", b"b\xff#"]


def test_what_was_damaged_into_text_that_is_none_is_not_quoted(tmp_path: Path) -> None:
    """One bit makes text of a blob: Python's own error about it shows its content, which may be a key."""
    database = Database(tmp_path / "a.db", COLUMNS)
    with database.transaction() as connection:
        connection.execute("INSERT INTO a VALUES (1, 'g', 't', CAST(x'4b45590aff' AS TEXT))")
    with pytest.raises(StoreError) as caught:
        database.query("SELECT * FROM a")
    assert one_line(caught).endswith("the test store is damaged (text that is not UTF-8)")
    assert "KEY" not in "".join(traceback.format_exception(caught.value))
    database.close()


def test_a_file_that_is_no_database_is_not_left_open(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    path.touch(0o600)
    path.write_bytes(b"damaged " * 1000)
    with pytest.raises(StoreError) as kept:  # the error keeps the frames, and all that is in them
        Database(path, ONE)
    opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert str(path) not in opened
    assert kept.traceback
