"""Access to SQLite databases, for all persistent files: file mode, syncing, schema version and error messages.

A database is created with mode 0600 in a directory of mode 0700, and a file that others may read or replace is refused
(`ibkeys.store.strict`). File contents are not trusted: a file must define exactly the objects of its schema, no SQL
from the file runs, the work of each query is limited, and each value is checked against its column.

A commit returns only when the data and the directory are on disk (``synchronous=EXTRA``; with FULL, a power cut may
undo the last transaction in rollback-journal mode). SQLite gives its ``-journal`` file the mode of the database.

Python's sqlite3 is imported on the first use, so that ``import ibkeys`` stays cheap.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from ibkeys.closing import Closing
from ibkeys.errors import ClosedError, StoreError
from ibkeys.files import MIB, STATE, NoRegularFile, refuse_what_is_no_file
from ibkeys.printable import clean
from ibkeys.store.columns import first_wrong
from ibkeys.store.private_files import create_private_file, os_error
from ibkeys.store.schema import Schema as Schema
from ibkeys.store.schema import objects_after, objects_of
from ibkeys.store.strict import check_own

if TYPE_CHECKING:
    import sqlite3

UtcClock = Callable[[], datetime]
"""A function that returns the time; tests and the simulator have their own."""

BUSY_SECONDS: Final = 10.0
_OPS_AT_ONCE: Final = 1_000_000
"""Instructions of SQLite's virtual machine between two checks of the limit: a few milliseconds."""
_OPS_OF_ANY_FILE: Final = 20_000_000
_OPS_OF_A_BYTE: Final = 4
"""Instructions that one query may run: a fixed number and a number for each byte of the file, together twenty times as
many as reading the whole file takes."""


def utc_now() -> datetime:
    """Return the time of day, in UTC: the default `UtcClock`."""
    return datetime.now(UTC)


class Database:
    """An open database of one `Schema`; with *path* None a database in memory.

    *create*: create a missing file; if false, the database is then an empty one in memory, for a command that only
    reads. *upgrade*: migrate a file of an earlier schema; if false, the file stays as it is, and a copy in memory is
    read, because the caller may not be allowed to write; ``is_copy`` is then true, and writing fails. *read_only*: for
    files that users give to each other: others may read them, they are never changed, and one of an earlier schema is
    read as with *upgrade* false. *image*: the bytes of `image`, to be opened in memory. Every failure is a StoreError
    of one line; use after `close` raises ClosedError.

    Synchronization: use in the thread that made it.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        create: bool = True,
        read_only: bool = False,
        upgrade: bool = True,
        image: bytes | None = None,
    ) -> None:
        self.path = path
        self._schema = schema
        self._what = schema.what
        self._connection: sqlite3.Connection | None = None
        self._ops_left: int | None = None
        self._image_size = len(image or b"")
        self.is_copy = False
        try:
            if path is not None and not path.exists():
                if create:
                    check_own(path, self._what)
                    if path.is_symlink():
                        raise StoreError(
                            f"{path}: is a symbolic link to a file that does not exist: remove the link, or name the "
                            f"file that is to be the {self._what}"
                        )
                    create_private_file(path)
                else:
                    path = None
            if path is not None and not read_only:
                check_own(path, self._what)
            elif path is not None:
                refuse_what_is_no_file(path)
                if path.stat().st_size > STATE:
                    raise StoreError(f"{path}: is larger than any {self._what}: more than {STATE // MIB} MiB")
        except NoRegularFile as error:
            raise StoreError(f"{path}: {error.strerror}, so it cannot be a {self._what}") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise os_error(path, self._what, error) from error
        with self._errors_as_store_errors():
            self._connection = self._new_connection(path, read_only)
            if image is not None:
                self._connection.deserialize(image)
            try:
                with self._limited_work():
                    self._check_kind()
                    if read_only:
                        self._refuse_damage()
                if (
                    (path is not None or image is not None)
                    and (read_only or not upgrade)
                    and self._version() < schema.version
                ):
                    self._continue_in_memory()
                self._migrate()
                if self.is_copy:
                    self._open_connection().execute("PRAGMA query_only = ON")
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the database. May be called twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def query(self, sql: str, parameters: Sequence[Any] = (), of: str = "") -> list[tuple[Any, ...]]:
        """Return all rows of a SELECT. *of*: names of tables, separated by blanks. The values are checked against the
        columns of these tables that have the same names. Raises StoreError, also for an invalid value."""
        with self._errors_as_store_errors(), self._limited_work():
            cursor = self._open_connection().execute(sql, parameters)
            rows = cursor.fetchall()
        if of:
            columns = {name: column for table in of.split() for name, column in self._schema.columns[table].items()}
            wrong = first_wrong([each[0] for each in cursor.description], rows, columns)
            if wrong is not None:
                raise self.damage(f"{wrong} has an impossible value")
        return rows

    def damage(self, why: str) -> StoreError:
        """Return the StoreError for a file whose content is impossible for the reason *why*."""
        return StoreError(f"{self.path or 'memory'}: {_DAMAGED.format(what=self._what, error=why)}")

    def copy_to(self, path: Path, name: Path) -> None:
        """Write the whole database into the empty file *path*, without syncing. *name*: the path to name in errors."""
        # The name is given as bytes: Python's sqlite3 passes only UTF-8 text, and not every file name is UTF-8.
        with self._errors_as_store_errors(name):
            self._open_connection().execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(path),))

    def image(self) -> bytes:
        """Return the bytes of a file with the whole database, without removed data in free space."""
        with self._errors_as_store_errors(), closing(connect(None, False)) as copy:
            self._open_connection().backup(copy)
            copy.execute("VACUUM")
            return copy.serialize()

    def rewrite(self) -> None:
        """Rewrite the whole file, so that its free space has no changed or removed data."""
        with self._errors_as_store_errors():
            self._open_connection().execute("VACUUM")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a write transaction. When the block ends, all its changes are on disk, or, after an
        exception, none. A transaction inside another one becomes part of it, and is on disk when the outer one ends.
        """
        with self._errors_as_store_errors():
            connection = self._open_connection()
            joins = connection.in_transaction
            if joins:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Execute one statement that changes the database, in a `transaction`, and return its cursor."""
        with self.transaction() as connection:
            return connection.execute(sql, parameters)

    def execute_all(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute one statement that changes the database once for each of *rows*, its parameters, in one
        `transaction`."""
        with self.transaction() as connection:
            connection.executemany(sql, rows)

    def insert(self, table: str, **values: object) -> int:
        """Insert a row with *values*, by column, and return its rowid."""
        marks = ", ".join("?" * len(values))
        cursor = self.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))
        return cursor.lastrowid or 0

    def insert_all(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """Insert *rows* in one `transaction`. *columns*: the names of their columns, separated by commas."""
        marks = ", ".join("?" * len(columns.split(",")))
        self.execute_all(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

    def _new_connection(self, path: Path | None, read_only: bool) -> sqlite3.Connection:
        connection = connect(path, read_only)
        connection.set_progress_handler(self._is_too_long, _OPS_AT_ONCE)
        return connection

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ClosedError(f"the {self._what} was used after it was closed")
        return self._connection

    def _check_kind(self) -> None:
        """Raise StoreError for a database of another schema or of a newer version, or with objects that are not those
        of its version."""
        connection, schema = self._open_connection(), self._schema
        joins = connection.in_transaction
        if not joins:
            connection.execute(
                "BEGIN"
            )  # version and tables are read at one moment, because another process may be migrating the file
        try:
            application_id = connection.execute("PRAGMA application_id").fetchone()[0]
            version = self._version()
            objects = objects_of(connection)
        finally:
            if not joins:
                connection.execute("COMMIT")
        if application_id != schema.application_id and (application_id or objects):
            raise StoreError(f"{self.path}: is a database, but not an ibkeys {self._what}; name another file")
        if not 0 <= version <= schema.version:
            known = f"this ibkeys knows up to {schema.version}; use a newer ibkeys"
            raise StoreError(f"{self.path}: {self._what} of schema {version}; {known}")
        strange = objects ^ objects_after(tuple(map(tuple, schema.steps[:version])))
        if strange:
            kind, name, *_ = min(strange)
            raise StoreError(
                f"{self.path}: {kind} {name!r} does not belong to this kind of {self._what}: the file is "
                "damaged, or another program changed it; use another one, or restore it from a backup"
            )

    def _migrate(self) -> None:
        schema = self._schema
        if self._version() == schema.version:
            return
        with self.transaction() as connection:
            self._check_kind()
            for step in schema.steps[self._version() :]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
            connection.execute(f"PRAGMA user_version = {schema.version}")

    def _continue_in_memory(self) -> None:
        with closing(self._open_connection()) as file:
            self._connection = self._new_connection(None, False)
            file.backup(self._connection)
        self.is_copy = True

    def _refuse_damage(self) -> None:
        """Raise StoreError for a file that is not of this schema, has no version, or is damaged. For files that are
        only read, which are not migrated."""
        connection = self._open_connection()
        if connection.execute("PRAGMA application_id").fetchall() != [(self._schema.application_id,)]:
            raise StoreError(f"{self.path}: is not an ibkeys {self._what}; name another file")
        if not self._version():
            raise StoreError(f"{self.path}: is not a complete ibkeys {self._what}; use another one")
        if connection.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise StoreError(f"{self.path}: the {self._what} is damaged; use another one, or restore it from a backup")

    def _version(self) -> int:
        return int(self._open_connection().execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _limited_work(self) -> Iterator[None]:
        """Limit the instructions of the queries in this block by the size of the file or image; no limit for another
        database in memory."""
        before = self._ops_left
        try:
            is_there = self.path is not None and self.path.exists()
            size = self.path.stat().st_size if self.path is not None and is_there else self._image_size
            if is_there or size:
                self._ops_left = _OPS_OF_ANY_FILE + _OPS_OF_A_BYTE * size
            yield
        finally:
            self._ops_left = before

    def _is_too_long(self) -> bool:
        if self._ops_left is None:  # writes of this program itself, and databases in memory, have no limit
            return False
        self._ops_left -= _OPS_AT_ONCE
        return self._ops_left < 0

    @contextmanager
    def _errors_as_store_errors(self, name: Path | None = None) -> Iterator[None]:
        import sqlite3

        where = name or self.path or "memory"
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # Python itself raises an OperationalError without a code for a text that is not UTF-8. Its message quotes
            # that text, which may be a key whose type was damaged. SQLite's message about such a text cannot be decoded
            # either.
            is_of_python = isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")
            if is_of_python or isinstance(error, UnicodeDecodeError):
                raise StoreError(f"{where}: the {self._what} is damaged (text that is not UTF-8)") from None
            raise StoreError(f"{where}: {self._explain(error)}") from error

    def _explain(self, error: sqlite3.Error) -> str:
        code = getattr(error, "sqlite_errorcode", 0)
        reason = clean(str(error).partition("\n")[0])  # the message may quote a damaged table, which has many lines
        advice = _SQLITE_ADVICE.get(code) or _SQLITE_ADVICE.get(code & 0xFF, "{what}: {error}")
        return advice.format(what=self._what, error=reason)


class Store(Closing):
    """The common base class of journal and key store: an open file of one `Schema`, and a clock.

    *path* None keeps the store in memory. *create* false: a missing file is read as an empty store. *upgrade* false: a
    file of an earlier version is read as it is, and cannot be written. ``database`` is for other classes whose rows are
    in the same file, such as `ibkeys.store.journal.runs.Runs`.
    """

    schema: ClassVar[Schema]

    def __init__(
        self, path: Path | None, *, create: bool = True, upgrade: bool = True, clock: UtcClock = utc_now
    ) -> None:
        self.database = Database(path, self.schema, create, upgrade=upgrade)
        self._clock = clock

    @property
    def path(self) -> Path | None:
        """The file, or None for a store in memory."""
        return self.database.path

    def now(self) -> str:
        """Return the present time as stores record it: see `timestamp`."""
        return timestamp(self._clock)

    @contextmanager
    def in_one_transaction(self) -> Iterator[None]:
        """Write all changes of the block in one transaction with one sync at its end, or none after an exception."""
        with self.database.transaction():
            yield

    def close(self) -> None:
        """Close the file. May be called twice."""
        self.database.close()


# By the result codes of SQLite (sqlite3.h), of which an extended code counts before its primary code. They are numbers
# here, because the constants of the module sqlite3 would need its import.
_DAMAGED: Final = "the {what} is damaged ({error}); restore it from a backup, and keep the damaged file"
_SQLITE_ADVICE: Final = {
    5: "the {what} is in use by another program; try again when it has finished",
    8: "the {what} cannot be written: file, directory or file system is read-only",
    10: "the {what} could not be read or written ({error}); no change that depends on it was made",
    9: "the {what} is damaged: reading it never ends; restore it from a backup, and keep the damaged file",
    11: _DAMAGED,
    13: "no space left for the {what}; no change that depends on it was made",
    14: "the {what} cannot be opened: check the permissions of file and directory",
    1032: "the {what} was moved or removed while it was in use: put it back; `ibkeys journal` then lists what is open",
    26: "is not a database, so it cannot be a {what}; name another file",
}


def connect(path: Path | None, read_only: bool) -> sqlite3.Connection:
    """Open a file with the settings of all stores: each transaction is synced, and deleted rows are overwritten.

    *path* None: a database in memory. *read_only*: the file is never changed, nor locked. Raises sqlite3.Error.
    """
    import sqlite3

    # With mode=rw SQLite never creates the file, so its mode is always 0600.
    mode = "ro&immutable=1" if read_only else "rw"
    name = ":memory:" if path is None else f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(name, timeout=BUSY_SECONDS, isolation_level=None, uri=path is not None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
    except BaseException:  # SQLite finds only here that the file is no database
        connection.close()
        raise
    return connection


def timestamp(clock: UtcClock) -> str:
    """Return the time of *clock* as ISO 8601 in UTC, to the second: ``2026-11-20T09:30:00Z``."""
    return clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def guid_text(guid: int) -> str:
    """Return a GUID as text for a database, ``0x`` and 16 hexadecimal digits: SQLite's integers are signed."""
    return f"0x{guid:016x}"


def guid_number(text: str) -> int:
    """Return the GUID in a *text* that `guid_text` wrote."""
    return int(text, 16)
