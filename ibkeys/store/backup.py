"""A backup of key store and journal: saving both at one moment into one file, and restoring them. The file is a line
that names its format, a line of JSON with the sizes and the SHA-256, and then both databases as SQLite has them. A key
that is sealed in the key store is sealed in the backup.

A file with keys or operations that the new content lacks is not replaced without consent: neither the stores by a
backup, nor a backup by the stores of a host that lost its own. A file that is replaced with consent is kept beside the
new one. The key store is replaced before the journal. If that is cut off, the journal cannot lead to a wrong key,
because it refers to keys by names (`row_names`), and the same command finishes it.
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
class Held:
    """The contents of stores. ``keys`` and ``operations``: the identity of each; ``state``: a digest without key
    material that differs after each change of a key or an operation."""

    keys: RowSet = frozenset()
    operations: RowSet = frozenset()
    state: str = ""

    def lacks(self, other: Held) -> str:
        """Return, in words, the numbers of keys and operations of *other* that are missing here; "" for none."""
        missing = (len(other.keys - self.keys), "key"), (len(other.operations - self.operations), "operation")
        return " and ".join(counted(count, what) for count, what in missing if count)


@dataclass(frozen=True, slots=True)
class LastBackup:
    """The record of the last backup, beside the key store."""

    made: str
    file: str
    keys: int
    operations: int
    state: str


@dataclass(frozen=True, slots=True)
class BackupResult:
    """The result of saving or restoring. ``kept``: copies of files that were replaced although they had more."""

    made: str
    keys: int
    operations: int
    kept: tuple[Path, ...] = ()


def back_up(paths: StorePaths, file: Path, overridden: bool = False, clock: UtcClock = utc_now) -> BackupResult:
    """Write key store and journal into one *file* of mode 0600, synced.

    Raises Refused if *file* is a backup with keys or operations that the stores lack, unless *overridden*; StoreError,
    StoreLocked.
    """
    with exclusive(*_two(paths), command="keystore"):
        images = [_image(path, schema) for path, schema in zip(_two(paths), _SCHEMAS, strict=True)]
        if not any(images):
            raise StoreError(f"{paths.keystore}: there is neither a key store nor a journal to save")
        made = timestamp(clock)
        with named_errors(file, _WHAT):
            _refuse_a_store(paths, file)
            check_folders(file, _WHAT)
            now = _held_by(paths)
            kept: tuple[Path, ...] = ()
            if file.exists():
                lost = now.lacks(_held_in(_read(file)[1], file))
                if lost and not overridden:
                    raise _refused(file, f"this backup has {lost} that key store and journal lack")
                kept = (_keep(file, made),) if lost else ()
            body = b"".join(image or b"" for image in images)
            head = {
                "made": made,
                "sizes": [None if image is None else len(image) for image in images],
                "sha256": hashlib.sha256(body).hexdigest(),
            }
            replace_private_file(file, _MAGIC + json.dumps(head).encode() + b"\n" + body)
        _record(paths, file, made, now)
    return BackupResult(made, len(now.keys), len(now.operations), kept)


def restore(paths: StorePaths, file: Path, overridden: bool = False, clock: UtcClock = utc_now) -> BackupResult:
    """Put key store and journal of the backup *file* in place.

    Raises Refused, with nothing changed, if the present ones have keys or operations that the backup lacks, or cannot
    be read, unless *overridden*; StoreError, StoreLocked.
    """
    with exclusive(*_two(paths), command="keystore"), named_errors(file, _WHAT):
        made, images = _read(file)
        saved = _held_in(images, file)
        lost = _lost_by(paths, saved)
        if lost and not overridden:
            raise _refused(file, lost)
        kept: list[Path] = []
        for path, image in zip(_two(paths), images, strict=True):
            if path is not None and image is not None:
                kept += _put(Path(os.path.realpath(path)), image, timestamp(clock) if lost else "")
        _record(paths, file, made, saved)
    return BackupResult(made, len(saved.keys), len(saved.operations), tuple(kept))


def last_backup(paths: StorePaths) -> tuple[LastBackup | None, bool]:
    """Return the record of the last backup, None for none, and whether keys and operations are unchanged since.

    Raises StoreError.
    """
    now = _held_by(paths)
    try:
        found = json.loads(files.read_bytes(_record_path(paths), files.SETTINGS))
        record = LastBackup(**found)
    except (OSError, ValueError, TypeError):
        return None, not now.keys
    return record, record.state == now.state


# --- contents of the files -------------------------------------------------------------------------------------------


def _two(paths: StorePaths) -> tuple[Path | None, Path | None]:
    return paths.keystore, paths.journal


def _image(path: Path | None, schema: Schema) -> bytes | None:
    if path is None or not is_there(path, schema.what):
        return None
    with _open(path, schema) as database:
        return database.image()


def _open(path: Path | None, schema: Schema) -> closing[Database]:
    return closing(Database(path, schema, create=False, upgrade=False))


def _held_by(paths: StorePaths) -> Held:
    """Return the present contents of the stores; a store that does not exist is empty."""
    with ExitStack() as stack:
        pairs = zip(_two(paths), _SCHEMAS, strict=True)
        return _held(*[stack.enter_context(_open(path, schema)) for path, schema in pairs])


def _held(keystore: Database, journal: Database) -> Held:
    keys: set[tuple[Any, ...]] = set()
    states: list[tuple[Any, ...]] = []
    for each in KEY_TABLES:
        rows = keystore.query(f"SELECT id, since, {each.owner}, {each.column} FROM {each.table}")
        keys |= {(each.table, owner, key) for _, _, owner, key in rows if key != _ZERO}
        states += [(each.table, ref, since) for ref, since, _, _ in rows]
    operations = frozenset(journal.query("SELECT id, command, started, state, finished FROM operations"))
    states += [("operations", *row) for row in operations]
    digest = hashlib.sha256(repr(sorted(map(repr, states))).encode()).hexdigest()
    return Held(frozenset(keys), operations, digest)


def _held_in(images: tuple[bytes | None, ...], file: Path) -> Held:
    """Return the contents of a backup. A missing database is empty. Raises StoreError for a database that is not of
    ibkeys."""
    with ExitStack() as stack:
        pairs = zip(images, _SCHEMAS, strict=True)
        opened = [stack.enter_context(closing(Database(None, schema, image=image))) for image, schema in pairs]
        try:
            return _held(*opened)
        except StoreError as error:
            raise StoreError(f"{file}: {error}") from None


def _read(file: Path) -> tuple[str, tuple[bytes | None, ...]]:
    """Return the time at which a backup was made, and its two databases. Raises StoreError, OSError."""
    check_own(file, _WHAT)
    data = files.read_bytes(file, 2 * files.STATE + files.SETTINGS)
    if not data.startswith(_MAGIC):
        raise StoreError(f"{file}: is not a backup of `ibkeys keystore backup`; name another file")
    line, _, body = data[len(_MAGIC) :].partition(b"\n")
    try:
        head = json.loads(line)
        made, sizes, digest = str(head["made"]), head["sizes"], head["sha256"]
        whole = len(sizes) == len(_SCHEMAS) and sum(size or 0 for size in sizes) == len(body)
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole or hashlib.sha256(body).hexdigest() != digest:
        raise StoreError(f"{file}: the backup is damaged or cut off, and nothing was changed; use another one")
    first = sizes[0] or 0
    parts = body[:first], body[first:]
    return made, tuple(part if size is not None else None for part, size in zip(parts, sizes, strict=True))


# --- replacing -------------------------------------------------------------------------------------------------------


def _lost_by(paths: StorePaths, saved: Held) -> str:
    """Return, in words, the keys and operations that would be lost if the stores were replaced by the *saved* ones; ""
    for none."""
    try:
        lost = saved.lacks(_held_by(paths))
    except StoreError as error:
        return f"what the present stores have cannot be read ({error})"
    return f"key store and journal have {lost} that this backup lacks, or has encrypted in another way" if lost else ""


def _refused(file: Path, why: str) -> Refused:
    command = f"ibkeys keystore restore {file} --override {INTERLOCK}"
    way = f"to do it anyway: `{command}`, which keeps a copy of what is replaced"
    return Refused(f"{file}: refused by interlock {INTERLOCK}: {why}", INTERLOCK).unchanged().going_on(way)


def _put(path: Path, image: bytes, keep_at: str) -> list[Path]:
    """Replace a store; *keep_at*: the time at which a copy of the present one is kept, "" for none."""
    kept = [_keep(path, keep_at)] if keep_at and path.exists() else []
    make_directory(path.parent)
    left_over = path.with_name(path.name + "-journal")
    if left_over.exists():  # of a transaction that was cut off in the replaced file: SQLite would play it into this one
        os.replace(left_over, _free(left_over.with_name(left_over.name + ".replaced")))
        files.sync_directory(path.parent)
    replace_private_file(path, image)
    return kept


def _keep(path: Path, now: str) -> Path:
    copy = _free(path.with_name(f"{path.name}.before-{now.replace(':', '')}"))
    replace_private_file(copy, files.read_bytes(path, 2 * files.STATE + files.SETTINGS))
    return copy


def _free(path: Path) -> Path:
    """Return *path*, with a number appended if a file has that name: a kept copy is never overwritten."""
    names = chain([path], (path.with_name(f"{path.name}-{number}") for number in count(2)))
    return next(name for name in names if not os.path.lexists(name))


def _refuse_a_store(paths: StorePaths, file: Path) -> None:
    taken = {os.path.realpath(path) for path in (*_two(paths), _record_path(paths)) if path is not None}
    if os.path.realpath(file) in taken:
        raise StoreError(f"{file}: is a file of the stores themselves; name another one")


def _record_path(paths: StorePaths) -> Path:
    if paths.keystore is None or paths.journal is None:
        raise StoreError(
            "key store and journal are in memory: there is nothing to save (state= in the backend keeps it)"
        )
    real = Path(os.path.realpath(paths.keystore))
    return real.with_name(real.name + ".last-backup")


def _record(paths: StorePaths, file: Path, made: str, held: Held) -> None:
    record = LastBackup(made, os.path.abspath(file), len(held.keys), len(held.operations), held.state)
    path = _record_path(paths)
    with named_errors(path, _WHAT):
        replace_private_file(path, json.dumps(asdict(record)).encode() + b"\n")
