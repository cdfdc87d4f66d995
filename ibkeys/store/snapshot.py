"""The schema of a snapshot file, one SQLite database about the keys of a fabric, and reading and writing such a file.

A sweep or imported files fill it. Raw attributes are BLOBs of 64 bytes (a P_Key table has 2 bytes for each entry, a
list of GUIDs 8 bytes for each GUID). All keys in them are zero unless the snapshot was taken with its keys. The other
columns are decoded values, for people who query the file. GUIDs and P_Keys are text as the commands print them. A value
that was not read is NULL, and its ``*_reading`` column says why. ``PRAGMA user_version`` is the version of the format,
which **ibkeys-snapshot**(1) describes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from glob import escape
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.closing import closing_descriptor
from ibkeys.errors import StoreError
from ibkeys.store.columns import Column, blob, number, text
from ibkeys.store.private_files import FILE_MODE, is_there, make_directory, named_errors, os_error
from ibkeys.store.sqlite import Database, Schema

SqlRow = tuple[Any, ...]

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "about": ("name TEXT PRIMARY KEY", "value TEXT"),
    "nodes": (
        "id INTEGER PRIMARY KEY",
        "node_guid TEXT NOT NULL",
        "node_desc TEXT",
        "node_type TEXT NOT NULL",
        "num_ports INTEGER NOT NULL",
        "system_image_guid TEXT NOT NULL",
        "partition_cap INTEGER NOT NULL",
        "partition_enforcement_cap INTEGER",
        "inbound_enforcement_cap INTEGER",
        "outbound_enforcement_cap INTEGER",
        "path TEXT NOT NULL",
        "twin INTEGER NOT NULL",
        "node_info BLOB NOT NULL",
        "node_description BLOB",
        "switch_info BLOB",
    ),
    "ports": (
        "id INTEGER PRIMARY KEY",
        "node INTEGER NOT NULL REFERENCES nodes (id)",
        "port INTEGER NOT NULL",
        "port_guid TEXT",
        "lid INTEGER",
        "path TEXT",
        "peer INTEGER",  # an id of ports; no foreign key, with which each row would cost a search of the whole table
        "port_state INTEGER",
        "port_physical_state INTEGER",
        "capability_mask INTEGER",
        "master_sm_lid INTEGER",
        "m_key_state TEXT NOT NULL",
        "m_key TEXT",
        "m_key_fingerprint TEXT",
        "m_key_traits TEXT",
        "m_key_protect_bits INTEGER",
        "m_key_lease_period INTEGER",
        "m_key_violations INTEGER",
        "p_key_violations INTEGER",
        "q_key_violations INTEGER",
        "partition_enforcement_inbound INTEGER",
        "partition_enforcement_outbound INTEGER",
        "p_key_capacity INTEGER",
        "asked_m_key_fingerprint TEXT",
        "port_info_reading TEXT NOT NULL",
        "p_key_table_reading TEXT NOT NULL",
        "port_info BLOB",
        "p_key_table BLOB",
        "guid_info BLOB",
        "sm_info BLOB",
        "UNIQUE (node, port)",
    ),
    "p_keys": (
        "port INTEGER NOT NULL REFERENCES ports (id)",
        "p_key_index INTEGER NOT NULL",
        "p_key TEXT NOT NULL",
        "partition TEXT NOT NULL",
        "membership TEXT NOT NULL",
        "PRIMARY KEY (port, p_key_index)",
    ),
    "unread": (
        "port INTEGER NOT NULL REFERENCES ports (id)",
        "attribute TEXT NOT NULL",
        "reading TEXT NOT NULL",
        "error TEXT NOT NULL",
    ),
    "constraint_errors": (
        "port INTEGER PRIMARY KEY REFERENCES ports (id)",
        "port_rcv_constraint_errors INTEGER",
        "port_xmit_constraint_errors INTEGER",
        "error TEXT",
    ),
    "sa_probes": ("question TEXT PRIMARY KEY", "answer TEXT NOT NULL", "detail TEXT NOT NULL"),
    "notes": ("text TEXT NOT NULL",),
    "sa_answers": ("record TEXT PRIMARY KEY", "outcome TEXT NOT NULL", "detail TEXT NOT NULL"),
    "sa_ports": ("port INTEGER PRIMARY KEY REFERENCES ports (id)", "port_info BLOB", "p_key_table BLOB"),
    "class_keys": (
        "port INTEGER NOT NULL REFERENCES ports (id)",
        "class TEXT NOT NULL",
        "state TEXT NOT NULL",
        "class_key TEXT",
        "class_key_fingerprint TEXT",
        "protect_bit INTEGER",
        "lease_period INTEGER",
        "violations INTEGER",
        "with_key INTEGER NOT NULL",
        "known_key INTEGER",
        "detail TEXT NOT NULL",
        "key_info BLOB",
        "PRIMARY KEY (port, class)",
    ),
    "imported_files": (
        "id INTEGER PRIMARY KEY",
        "file TEXT NOT NULL",
        "kind TEXT NOT NULL",
        "written TEXT NOT NULL",
        "sm_word INTEGER NOT NULL",
        "m_keys INTEGER NOT NULL",
    ),
    "imported_values": (
        "port INTEGER NOT NULL REFERENCES ports (id)",
        "attribute TEXT NOT NULL",
        "file INTEGER NOT NULL REFERENCES imported_files (id)",
        "PRIMARY KEY (port, attribute)",
    ),
    "virtual_ports": (
        "port INTEGER PRIMARY KEY REFERENCES ports (id)",
        "state TEXT NOT NULL",
        "virtualization_info BLOB",
    ),
    "forwarding_tables": ("node INTEGER PRIMARY KEY REFERENCES nodes (id)", "blocks BLOB NOT NULL"),
}
"""The definitions of the columns by table; a definition that begins in capitals is a constraint."""
_SINCE_2: Final = ("sa_answers", "sa_ports")
"""Tables that files of version 1 do not have. Such a file is read as if the SA had not been asked."""
_SINCE_3: Final = ("class_keys", "imported_files", "imported_values", "virtual_ports")
"""Tables that files before version 3 do not have: each of these files came from a sweep that read neither keys of other
management classes nor virtual ports."""
_SINCE_4: Final = {"unread": ("common TEXT",), "class_keys": ("not_asked TEXT",)}
"""Columns that files before version 4 do not have: the part of the error that many ports share, and why a class was not
asked for its key."""
_SINCE_5: Final = ("forwarding_tables",)
"""The table that files before version 5 do not have: their sweeps read no forwarding table."""
_CONSTRAINTS: Final = ("UNIQUE", "PRIMARY")

_VIEWS: Final = (
    """CREATE VIEW links AS
       SELECT a.node_guid, x.port, b.node_guid AS peer_node_guid, y.port AS peer_port
       FROM ports x JOIN ports y ON x.peer = y.id JOIN nodes a ON x.node = a.id JOIN nodes b ON y.node = b.id
       WHERE x.id < y.id""",
    """CREATE VIEW sms AS
       SELECT n.node_guid, n.node_desc, p.port, p.port_guid, p.lid,
              hex(substr(p.sm_info, 1, 8)) AS sm_guid, hex(substr(p.sm_info, 21, 1)) AS priority_and_state
       FROM ports p JOIN nodes n ON p.node = n.id WHERE p.sm_info IS NOT NULL""",
)


def _columns_of(definitions: Sequence[str]) -> dict[str, Column]:
    allowed = {}
    for name, kind, *rest in (each.split() for each in definitions if not each.startswith(_CONSTRAINTS)):
        null = not rest
        allowed[name] = {"TEXT": text(null=null), "BLOB": blob(null=null), "INTEGER": number(null=null)}[kind]
    return allowed


def _create(name: str) -> str:
    return f"CREATE TABLE {name} ({', '.join(TABLES[name])}){' WITHOUT ROWID' if name == 'p_keys' else ''}"


SCHEMA: Final = Schema(
    what="snapshot",
    application_id=0x49424B53,  # "IBKS"
    steps=(
        (
            *(_create(name) for name in TABLES if name not in (*_SINCE_2, *_SINCE_3, *_SINCE_5)),
            "CREATE INDEX members ON p_keys (partition)",
            *_VIEWS,
        ),
        tuple(_create(name) for name in _SINCE_2),
        tuple(_create(name) for name in _SINCE_3),
        tuple(f"ALTER TABLE {name} ADD COLUMN {column}" for name, (column,) in _SINCE_4.items()),
        tuple(_create(name) for name in _SINCE_5),
    ),
    columns={name: _columns_of((*each, *_SINCE_4.get(name, ()))) for name, each in TABLES.items()},
)


def columns(table: str) -> list[str]:
    """Return the names of a table's columns, in order."""
    return list(SCHEMA.columns[table])


_MAGIC: Final = b"SQLite format 3\0"
_NOT_REPLACED: Final = "{path}: exists and is not a snapshot, so it is not replaced; name another file"
_APPLICATION_ID: Final = slice(68, 72)  # of the database header (sqlite.org/fileformat.html)


def check_place(path: Path) -> Path:
    """Return the path at which a snapshot for *path* is written: the target if *path* is the user's own symbolic link,
    else *path*.

    Raises StoreError if the directory cannot be written, or if the file is neither a snapshot nor empty: a mistyped
    name must never destroy a configuration or a device.
    """
    try:
        target = files.check_output(path, follow=True)
        if target.exists() and files.read_head(target, 1) and not is_snapshot(target):
            raise StoreError(_NOT_REPLACED.format(path=path))
        directory = next(each for each in target.absolute().parents if each.exists())
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"no permission to write in {directory}")
    except files.NoRegularFile:
        raise StoreError(_NOT_REPLACED.format(path=path)) from None
    except OSError as error:
        raise os_error(path, SCHEMA.what, error) from error
    return target


def is_snapshot(path: Path) -> bool:
    """Return whether the header of the regular file *path* is that of a snapshot. Raises OSError."""
    header = files.read_head(path, _APPLICATION_ID.stop)
    return header.startswith(_MAGIC) and int.from_bytes(header[_APPLICATION_ID]) == SCHEMA.application_id


def write_snapshot(path: Path, contents: Mapping[str, Iterable[SqlRow]]) -> None:
    """Write a snapshot file of mode 0600 to *path*, atomically. *contents*: the rows by table.

    Readers of *path* see the old file or the complete new one, even if this process is killed: the new file is written
    beside it, synced, and renamed. If *path* is the user's own symbolic link, its target is replaced. Raises
    StoreError, also for the reasons of `check_place`.
    """
    target = check_place(path)
    with closing(_filled(contents)) as database:
        _replace(path, target, database)


def image_of(contents: Mapping[str, Iterable[SqlRow]]) -> bytes:
    """Return the bytes of a snapshot file. *contents*: the rows by table. Raises StoreError."""
    with closing(_filled(contents)) as database:
        return database.image()


def _filled(contents: Mapping[str, Iterable[SqlRow]]) -> Database:
    database = Database(None, SCHEMA)
    with database.transaction() as connection:
        for table, rows in contents.items():
            marks = ", ".join("?" * len(columns(table)))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
    return database


def _replace(path: Path, target: Path, database: Database) -> None:
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    with named_errors(path, SCHEMA.what):
        make_directory(target.parent)
        _remove_leftovers(target)
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
        try:
            database.copy_to(unfinished, path)
            _sync(unfinished)
            os.replace(unfinished, target)
            files.sync_directory(target.parent)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def _remove_leftovers(path: Path) -> None:
    """Remove unfinished files beside *path* that killed processes left there; those of a running process stay."""
    for leftover in path.parent.glob(
        f".{escape(path.name)}.*.unfinished*"
    ):  # the "*" at the end: SQLite may leave its -journal too
        pid = leftover.name.split(".")[-2]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                leftover.unlink()


def _sync(path: Path) -> None:
    with closing_descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def read_snapshot(path: Path) -> dict[str, Sequence[SqlRow]]:
    """Return the rows of a snapshot file by table, in the order in which they were written. Never changes the file.

    The table ``p_keys`` is left out, because ``ports`` has its values too. Raises StoreError if the file does not
    exist, is not a snapshot, is damaged, or has a newer schema.
    """
    if not is_there(path, SCHEMA.what):
        raise StoreError(f"{path}: there is no such snapshot; `ibkeys snapshot {path}` takes one")
    with closing(Database(path, SCHEMA, read_only=True)) as database:
        return _rows_of(database)


def read_snapshot_image(image: bytes) -> dict[str, Sequence[SqlRow]]:
    """Return what `read_snapshot` returns, for the bytes of a snapshot file."""
    with closing(Database(None, SCHEMA, read_only=True, image=image)) as database:
        return _rows_of(database)


def _rows_of(database: Database) -> dict[str, Sequence[SqlRow]]:
    tables = [table for table in TABLES if table != "p_keys"]
    return {table: database.query(f"SELECT * FROM {table} ORDER BY rowid", of=table) for table in tables}
