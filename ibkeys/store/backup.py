"""Backing up key store and journal into one file, and restoring them from it.

Both stores are saved as they are at one moment. The file has a line that names its format, a line of JSON with the
time, both sizes and the SHA-256, and then both databases as SQLite stores them. A key that is encrypted in the key
store is encrypted in the backup.

A file with keys or operations that its replacement lacks is replaced only if the user overrides the interlock. This
holds for the stores, and for an older backup, which may have keys that this host lost. A copy of a file that is
replaced in this way is kept beside the new one. The key store is replaced before the journal. If the command is killed
in between, the journal cannot lead to a wrong key, because it refers to keys by random names (`KeyTable.ref_of`);
running the command again completes the restore.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.errors import Refused, StoreError
from ibkeys.printable import counted
from ibkeys.store.journal.schema import JOURNAL_SCHEMA
from ibkeys.store.keystore.schema import KEYSTORE_SCHEMA
from ibkeys.store.keystore.sealed import KEY_TABLES
from ibkeys.store.lock import exclusive
from ibkeys.store.paths import StorePaths
from ibkeys.store.private_files import is_there, make_directory, named_errors, replace_private_file
from ibkeys.store.sqlite import Database, Schema, UtcClock, timestamp, utc_now
from ibkeys.store.strict import check_folders, check_own

INTERLOCK: Final = "lost-keys"
_MAGIC: Final = b"ibkeys backup 1\n"
_SCHEMAS: Final = (KEYSTORE_SCHEMA, JOURNAL_SCHEMA)
_WHAT: Final = "backup"
_ZERO: Final = bytes(8)

RowSet = frozenset[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class StoreContents:
    """The contents of key store and journal, for comparing.

    ``keys`` and ``operations``: one row for each, which identifies it; a key 0 in plain text is left out. ``state``: a
    digest that differs after each change of a key or an operation, and from which no key can be found.
    """

    keys: RowSet = frozenset()
    operations: RowSet = frozenset()
    state: str = ""

    def lacks(self, other: StoreContents) -> str:
        """Return the numbers of keys and operations that only *other* has, as text ("2 keys and 1 operation"); "" for
        none."""
        missing = (len(other.keys - self.keys), "key"), (len(other.operations - self.operations), "operation")
        return " and ".join(counted(count, what) for count, what in missing if count)


@dataclass(frozen=True, slots=True)
class LastBackup:
    """The record of the last backup, in the file ``KEYSTORE.last-backup`` beside the key store.

    ``made``: the time as `timestamp` writes it; ``file``: the absolute path of the backup; ``keys`` and ``operations``:
    their numbers; ``state``: that of `StoreContents`.
    """

    made: str
    file: str
    keys: int
    operations: int
    state: str


@dataclass(frozen=True, slots=True)
class BackupResult:
    """The result of saving or restoring: the time of the backup, and the numbers of keys and operations in it.

    ``kept``: the copies of replaced files that had keys or operations which the new ones lack.
    """

    made: str
    keys: int
    operations: int
    kept: tuple[Path, ...] = ()


def back_up(paths: StorePaths, file: Path, overridden: bool = False, clock: UtcClock = utc_now) -> BackupResult:
    """Write key store and journal into one *file* of mode 0600, synced, and record the backup beside the key store.

    Raises Refused if *file* is a backup with keys or operations that the stores lack, unless *overridden*; StoreError;
    StoreLocked if another command is changing a store.
    """
    with exclusive(*_store_files(paths), command="keystore"):
        images = [_image(path, schema) for path, schema in zip(_store_files(paths), _SCHEMAS, strict=True)]
        if not any(images):
            raise StoreError(f"{paths.keystore}: there is neither a key store nor a journal to save")
        made = timestamp(clock)
        with named_errors(file, _WHAT):
            _refuse_a_store(paths, file)
            check_folders(file, _WHAT)
            present = _present_contents(paths)
            copies: tuple[Path, ...] = ()
            if file.exists():
                lost = present.lacks(_backup_contents(_read(file)[1], file))
                if lost and not overridden:
                    raise _refusal(
                        f"`ibkeys keystore backup {file} --override {INTERLOCK}`",
                        file,
                        f"this backup has {lost} that key store and journal lack",
                    )
                copies = (_copy_beside(file, made),) if lost else ()
            body = b"".join(image or b"" for image in images)
            head = {
                "made": made,
                "sizes": [None if image is None else len(image) for image in images],
                "sha256": hashlib.sha256(body).hexdigest(),
            }
            replace_private_file(file, _MAGIC + json.dumps(head).encode() + b"\n" + body)
        _write_record(paths, file, made, present)
    return BackupResult(made, len(present.keys), len(present.operations), copies)


def restore(paths: StorePaths, file: Path, overridden: bool = False, clock: UtcClock = utc_now) -> BackupResult:
    """Replace key store and journal by those of the backup *file*; a store that the backup lacks is left as it is.

    Raises Refused, with nothing changed, if the present stores have keys or operations that the backup lacks, or if the
    present stores cannot be read, unless *overridden*; StoreError; StoreLocked if another command is changing a store.
    """
    with exclusive(*_store_files(paths), command="keystore"), named_errors(file, _WHAT):
        made, images = _read(file)
        saved = _backup_contents(images, file)
        lost = _reason_of_loss(paths, saved)
        if lost and not overridden:
            raise _refusal(f"`ibkeys keystore restore {file} --override {INTERLOCK}`", file, lost)
        copies: list[Path] = []
        for path, image in zip(_store_files(paths), images, strict=True):
            if path is not None and image is not None:
                copies += _replace_store(Path(os.path.realpath(path)), image, timestamp(clock) if lost else "")
        _write_record(paths, file, made, saved)
    return BackupResult(made, len(saved.keys), len(saved.operations), tuple(copies))


def last_backup(paths: StorePaths) -> tuple[LastBackup | None, bool]:
    """Return the record of the last backup, and whether keys and operations have not changed since.

    Without a readable record: None, and whether there is no key to save. Raises StoreError if a store cannot be read or
    is in memory.
    """
    present = _present_contents(paths)
    try:
        record = LastBackup(**json.loads(files.read_bytes(_record_path(paths), files.SETTINGS)))
    except (OSError, ValueError, TypeError):
        return None, not present.keys
    return record, record.state == present.state


# --- contents of the files -------------------------------------------------------------------------------------------


def _store_files(paths: StorePaths) -> tuple[Path | None, Path | None]:
    return paths.keystore, paths.journal


def _image(path: Path | None, schema: Schema) -> bytes | None:
    if path is None or not is_there(path, schema.what):
        return None
    with _open(path, schema) as database:
        return database.image()


def _open(path: Path | None, schema: Schema) -> closing[Database]:
    return closing(Database(path, schema, create=False, upgrade=False))


def _present_contents(paths: StorePaths) -> StoreContents:
    """Return the present contents of the stores; a store whose file is missing counts as empty."""
    with ExitStack() as stack:
        pairs = zip(_store_files(paths), _SCHEMAS, strict=True)
        return _contents(*[stack.enter_context(_open(path, schema)) for path, schema in pairs])


def _contents(keystore: Database, journal: Database) -> StoreContents:
    keys: set[tuple[Any, ...]] = set()
    states: list[tuple[Any, ...]] = []
    for each in KEY_TABLES:
        rows = keystore.query(f"SELECT id, since, {each.owner}, {each.column} FROM {each.table}")
        keys |= {(each.table, owner, key) for _, _, owner, key in rows if key != _ZERO}
        states += [(each.table, ref, since) for ref, since, _, _ in rows]
    operations = frozenset(journal.query("SELECT id, command, started, state, finished FROM operations"))
    states += [("operations", *row) for row in operations]
    digest = hashlib.sha256(repr(sorted(map(repr, states))).encode()).hexdigest()
    return StoreContents(frozenset(keys), operations, digest)


def _backup_contents(images: tuple[bytes | None, ...], file: Path) -> StoreContents:
    """Return the contents of the databases of a backup, None being an empty one. Raises StoreError for a database that
    ibkeys did not write."""
    with ExitStack() as stack:
        pairs = zip(images, _SCHEMAS, strict=True)
        databases = [stack.enter_context(closing(Database(None, schema, image=image))) for image, schema in pairs]
        try:
            return _contents(*databases)
        except StoreError as error:
            raise StoreError(f"{file}: {error}") from None


def _read(file: Path) -> tuple[str, tuple[bytes | None, ...]]:
    """Return the time at which a backup was made, and its databases: key store and journal, None for one that did not
    exist. Raises StoreError, OSError.
    """
    check_own(file, _WHAT)
    data = files.read_bytes(file, 2 * files.STATE + files.SETTINGS)
    if not data.startswith(_MAGIC):
        raise StoreError(f"{file}: is not a backup of `ibkeys keystore backup`; name another file")
    line, _, body = data[len(_MAGIC) :].partition(b"\n")
    try:
        head = json.loads(line)
        made, sizes, digest = str(head["made"]), head["sizes"], head["sha256"]
        is_complete = len(sizes) == len(_SCHEMAS) and sum(size or 0 for size in sizes) == len(body)
    except (ValueError, KeyError, TypeError):
        is_complete = False
    if not is_complete or hashlib.sha256(body).hexdigest() != digest:
        raise StoreError(f"{file}: the backup is damaged or cut off, and nothing was changed; use another one")
    keystore_size = sizes[0] or 0
    parts = body[:keystore_size], body[keystore_size:]
    return made, tuple(part if size is not None else None for part, size in zip(parts, sizes, strict=True))


# --- replacing -------------------------------------------------------------------------------------------------------


def _reason_of_loss(paths: StorePaths, saved: StoreContents) -> str:
    """Return, as part of a message, what would be lost if the *saved* stores replaced the present ones, or that the
    present ones cannot be read; "" if nothing would be lost."""
    try:
        lost = saved.lacks(_present_contents(paths))
    except StoreError as error:
        return f"the present stores cannot be read, so what would be lost is unknown ({error})"
    return f"key store and journal have {lost} that this backup lacks, or has encrypted in another way" if lost else ""


def _refusal(command: str, file: Path, why: str) -> Refused:
    advice = f"to do it anyway: {command}, which keeps a copy of what is replaced"
    return Refused(f"{file}: refused by interlock {INTERLOCK}: {why}", INTERLOCK).unchanged().going_on(advice)


def _replace_store(path: Path, image: bytes, copy_time: str) -> list[Path]:
    """Replace a store by *image*, and return the copy of the former one. *copy_time*: the time in the name of that
    copy; "" to make none.
    """
    copies = [_copy_beside(path, copy_time)] if copy_time and path.exists() else []
    make_directory(path.parent)
    old_journal = path.with_name(path.name + "-journal")
    if old_journal.exists():  # of an unfinished transaction in the replaced file: SQLite would apply it to the new one
        os.replace(old_journal, _unused_name(old_journal.with_name(old_journal.name + ".replaced")))
        files.sync_directory(path.parent)
    replace_private_file(path, image)
    return copies


def _copy_beside(path: Path, copy_time: str) -> Path:
    copy = _unused_name(path.with_name(f"{path.name}.before-{copy_time.replace(':', '')}"))
    replace_private_file(copy, files.read_bytes(path, 2 * files.STATE + files.SETTINGS))
    return copy


def _unused_name(path: Path) -> Path:
    """Return *path*, or *path* with a number appended if that name is taken, so that no file is overwritten."""
    names = chain([path], (path.with_name(f"{path.name}-{number}") for number in count(2)))
    return next(name for name in names if not os.path.lexists(name))


def _refuse_a_store(paths: StorePaths, file: Path) -> None:
    taken = {os.path.realpath(path) for path in (*_store_files(paths), _record_path(paths)) if path is not None}
    if os.path.realpath(file) in taken:
        raise StoreError(f"{file}: is the key store, the journal or a file of theirs; name another file")


def _record_path(paths: StorePaths) -> Path:
    if paths.keystore is None or paths.journal is None:
        raise StoreError(
            "key store and journal are in memory, so there is no backup of them; state=FILE in the backend keeps them "
            "in files"
        )
    real = Path(os.path.realpath(paths.keystore))
    return real.with_name(real.name + ".last-backup")


def _write_record(paths: StorePaths, file: Path, made: str, contents: StoreContents) -> None:
    record = LastBackup(made, os.path.abspath(file), len(contents.keys), len(contents.operations), contents.state)
    path = _record_path(paths)
    with named_errors(path, _WHAT):
        replace_private_file(path, json.dumps(asdict(record)).encode() + b"\n")
