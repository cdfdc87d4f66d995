"""Files that ibkeys itself keeps: snapshots, journals, key stores, the state of a simulated subnet. An input damages a
whole file: bytes of it, or values in its tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from ibkeys.audit.engine import audit
from ibkeys.audit.inputs import AuditInput
from ibkeys.fabric.compare import compare
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.sim.state.document import dump_state
from ibkeys.sim.state.file import StateFile
from ibkeys.sim.steering.commands import execute
from ibkeys.store.journal.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.keystore import KeyStore
from tests.corpus import DATA
from tests.fabricsim import subnet, tool
from tests.fuzz.target import Choices, Target, folder, written

_STORES = DATA / "stores" / "70c34ae"
_SMALL = "dual-home"
_BYTES, _VALUE = 0, 1
_REFUSED = (sqlite3.Error, UnicodeDecodeError)
"""The latter comes of SQLite's message about bytes that are no text."""


@cache
def _snapshot() -> bytes:
    path = folder() / "whole.db"
    with tool(subnet(_SMALL)) as fabric:
        save_snapshot(path, fabric.take_snapshot(make_secret=False))
    return path.read_bytes()


@cache
def _upgraded(name: str) -> bytes:
    """Return a store of an earlier version as the current one has it."""
    path = written((_STORES / name).read_bytes(), "upgraded.db")
    with Journal(path) if name.endswith("journal.db") else KeyStore(path):
        pass
    return path.read_bytes()


@cache
def _columns(whole: Callable[[], bytes]) -> list[tuple[str, str]]:
    """Return table and column of all values in a database."""
    with closing(sqlite3.connect(written(whole(), "columns.db"))) as connection:
        named = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1").fetchall()
        return [
            (table, row[1])
            for (table,) in named
            if not table.startswith("sqlite_")
            for row in connection.execute(f"PRAGMA table_info({table})")
        ]


def damaged(whole: Callable[[], bytes], data: bytes) -> Path:
    """Return a copy of a database with the damage that *data* says: kind (bytes or a value), place, content of each."""
    choices = Choices(data)
    values: list[tuple[str, str, int, object]] = []
    content = bytearray(whole())
    while choices:
        if choices.number() % 2 == _BYTES:
            at, size = choices.number(3) % len(content), choices.number() % 32
            patch = choices.take(size)
            content[at : at + len(patch)] = patch
        else:
            columns = _columns(whole)
            table, column = columns[choices.number() % len(columns)]
            values.append((table, column, choices.number() % 16, _value(choices)))
    path = written(bytes(content), "damaged.db")
    if values:
        _put(path, values)
    return path


def _value(choices: Choices) -> object:
    kind, size = choices.number(), choices.number() % 80
    content = choices.take(size)
    match kind % 5:
        case 0:
            return None
        case 1:
            return int.from_bytes(content[:8], signed=True)
        case 2:
            return content.decode("utf-8", "replace")
        case 3:
            return content
    return int.from_bytes(content[:8]) / 7


def _put(path: Path, values: list[tuple[str, str, int, object]]) -> None:
    """Write values into rows by their order; what the tables do not let in stays as it is."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for table, column, row, value in values:
            place = f"SELECT rowid FROM {table} LIMIT 1 OFFSET {row}"
            try:
                connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid IN ({place})', (value,))
            except _REFUSED:
                continue  # damaged already, or a constraint: the other values count
        try:
            connection.commit()
        except _REFUSED:
            connection.rollback()


def _read_snapshot(data: bytes) -> None:
    """Load a snapshot, compare it with the whole one, audit it."""
    snapshot = load_snapshot(damaged(_snapshot, data))
    compare(load_snapshot(written(_snapshot(), "baseline.db")), snapshot)
    audit(AuditInput(snapshot))


def _read_journal(data: bytes) -> None:
    """List a journal, and read all that belongs to each operation."""
    with Journal.read(damaged(_kept_of("undo-cut-off/journal.db"), data)) as journal:
        journal.nodes()
        for operation in journal.list_operations():
            journal.find(operation.id)
            journal.relatives(operation.id)
            journal.plan_of(operation.id)
            journal.entries(operation.id)
            journal.files(operation.id)
        runs = Runs(journal)
        run = runs.last()
        if run is not None:
            runs.ports(run.id)


def _use_key_store(data: bytes) -> None:
    """Open a key store as a run does, and read all of it."""
    with KeyStore(damaged(_kept_of("rotate-cut-off/keys.db"), data)) as store:
        store.outline()
        store.subnet_key_outline()
        store.all_keys()
        store.levels()
        store.current()
        store.subnet_keys()


@cache
def _kept_of(name: str) -> Callable[[], bytes]:
    """Return what returns the store *name*: one object, by which its columns are kept."""
    return partial(_upgraded, name)


def _load_state(data: bytes) -> None:
    """A state file of the simulator: loaded, and saved when it is closed."""
    StateFile(written(data, "state"), subnet(_SMALL)).close()


@cache
def _state() -> bytes:
    net = subnet(_SMALL)
    for node in net.nodes[:3]:
        port = node.end_ports[0]
        port.p_keys, port.m_key, port.protect_bits = [0xFFFF, 0x8010], 0x1122334455667788, 2
    for line in ('classkey "%s" cc on key=0x5', 'vports "%s" on possible=3', 'silent "%s" on'):
        execute(net, line % net.nodes[0].description)
    return json.dumps({"wall": 0.0, "subnet": dump_state(net)}, separators=(",", ":")).encode()


def _damages() -> Iterator[bytes]:
    yield b""
    for column in range(60):
        yield bytes((_VALUE, column, column % 3, 1, 1, 7))
        yield bytes((_VALUE, column, 0, 2 + column % 2, 4)) + b"0x1f"
    for at in (16, 18, 20, 28, 40, 44, 60, 68, 96, 100, 105, 4096, 8192):
        yield bytes((_BYTES,)) + at.to_bytes(3) + b"\2\0\xff"


TARGETS = (
    Target("snapshot", _read_snapshot, _damages, sample=6, largest=200, operations=10_000_000),
    Target("journal", _read_journal, _damages, sample=10, largest=200),
    Target("key-store", _use_key_store, _damages, sample=10, largest=200),
    Target(
        "sim-state",
        _load_state,
        lambda: (_state(),),
        (b'"nodes"', b'"ports"', b"null", b'"00"', b"-1", b"1e308", b"NaN", b"[]", b"{}", b'"peer"', b"99999"),
        sample=10,
        largest=2048,
        operations=10_000_000,
    ),
)
