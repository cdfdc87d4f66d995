"""Files of other tools that `ibkeys import` reads, six kinds: each alone or beside a whole one of another kind."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from ibkeys.dumps.importing import TableOf, import_files
from ibkeys.errors import FileFormatError
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from tests.dumps.bringing import DUMPS, FORMS, SECRET
from tests.dumps.synthetic import db_csv, swept
from tests.fabricsim import subnet
from tests.fuzz.target import Target, folder, written

DB_CSV = "db_csv"
FILES = (
    "keyed.cache",
    "ibnetdiscover.txt",
    "opensm-subnet.lst",
    "nr.txt",
    "pir-keyed.txt",
    "pktr.txt",
    "portinfo-keyed.txt",
    "nodeinfo.txt",
    "switchinfo.txt",
    "pkeys.txt",
    DB_CSV,
)
"""Of each kind and form, those of ``tests/data/dumps``; the db_csv is made of a sweep."""
BESIDE = DUMPS / "ibnetdiscover.txt"
_SAVED_ONE_IN = 20
"""Of so many inputs one becomes a snapshot in a file: that takes ten times as long as all else."""
_BEGIN = 5
"""Bytes at the beginning of a line that say what it is about."""
WORDS = (
    b"START_NODES\n", b"END_NODES\n", b'"', b",", b"{", b"}", b"0x", b"Switch\t254 \"S-1\"\n", b"[1]\t", b"LID:",
    b"dump:", b"....", b" pkeys capacity for this port\n", b"# Port info: Lid 1 port 0\n", b"include \"x\"\n",
)  # fmt: skip


@cache
def whole(name: str) -> bytes:
    """Return one of `FILES` as it should be."""
    return db_csv(swept(subnet("two-switch"))).encode() if name == DB_CSV else (DUMPS / name).read_bytes()


def read(name: str, data: bytes, others: tuple[Path, ...] = ()) -> None:
    """Import one file. An error names a file and shows no key."""
    path = written(data, "mutant")
    tables = [TableOf("2", path)] if name == "pkeys.txt" else []
    try:
        snapshot = import_files([*([] if tables else [path]), *others], SECRET, tables)
    except FileFormatError as error:
        problem = str(error)
        assert str(folder()) in problem or str(DUMPS) in problem
        if _keys_stand_where_keys_do(name, data):
            assert not any(form.decode("latin-1") in problem for form in FORMS)
        raise
    assert snapshot.fabric.nodes
    if zlib.crc32(data) % _SAVED_ONE_IN == 0:
        save_snapshot(folder() / "snapshot", snapshot)
        assert len(load_snapshot(folder() / "snapshot").fabric.nodes) == len(snapshot.fabric.nodes)


def _keys_stand_where_keys_do(name: str, data: bytes) -> bool:
    """Whether lines with the key begin as those of the whole file do: no reader knows it in the place of a name."""
    begins = {line[:_BEGIN] for line in _lines_with_keys(whole(name))}
    return all(line[:_BEGIN] in begins for line in _lines_with_keys(data))


def _lines_with_keys(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if any(form in line for form in FORMS)]


def _run(name: str) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        read(name, data[1:], (BESIDE,) if data[:1] == b"+" else ())

    return run


def _seeds(name: str) -> Iterator[bytes]:
    yield b"-" + whole(name)
    yield b"+" + whole(name)


TARGETS = tuple(
    Target(
        f"import-{name.partition('.')[0]}",
        _run(name),
        partial(_seeds, name),
        WORDS,
        largest=24 << 10,
        operations=10_000_000,
    )
    for name in FILES
)
