"""Damaged and hostile files: each is either a snapshot or the documented error with the file's name, never a traceback,
and memory stays bounded."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibkeys.dumps.importing import TableOf, import_files
from ibkeys.errors import FileFormatError
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from tests.dumps.bringing import DUMPS, FORMS, SECRET, write
from tests.dumps.synthetic import db_csv, swept
from tests.fabricsim import subnet

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
    "db_csv",
)
SAMPLE = 60
"""Of each file in every run; the whole row is a million over all files."""
WHOLE = 1_000_000 // len(FILES) + 1
MOST_MEMORY = 64 << 20
"""Bytes that reading one damaged file of some kilobytes may take."""
EVERY = 20
"""So many snapshots are made for each that is written and read again: that takes ten times as long as all else."""
WORDS = (
    b"START_NODES\n", b"END_NODES\n", b'"', b",", b"{", b"}", b"0x", b"ffffffffffffffff", b"-1", b"\0", b"\xff\xfe",
    b"18446744073709551616", b"\r\n", b"\n\n", b"Switch\t254 \"S-1\"\n", b"[1]\t", b"LID:", b"dump:", b"....",
    b"\xe2\x80\xae", b"0" * 5000, b"[" * 300, b" pkeys capacity for this port\n", b"# Port info: Lid 1 port 0\n",
    b"include \"x\"\n",
)  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    """The files as they should be."""
    made = {name: (DUMPS / name).read_bytes() for name in FILES if name != "db_csv"}
    return {**made, "db_csv": db_csv(swept(subnet("two-switch"))).encode()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where files are written: in memory if there is such a place."""
    shared = Path("/dev/shm")
    path = tmp_path_factory.mktemp("mutants")
    if os.access(shared, os.W_OK):
        path = shared / f"ibkeys-mutants-{os.getpid()}"
        path.mkdir(exist_ok=True)
    return path


def mutate(data: bytes, dice: random.Random) -> bytes:
    """Return *data* with a few things changed: bits, bytes, lines, numbers, words of the grammar, or its end."""
    for _ in range(dice.choice((1, 1, 2, 3, 8))):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(8):
            case 0 if data:
                at = at % len(data)
                data = data[:at] + bytes((data[at] ^ 1 << dice.randrange(8),)) + data[at + 1 :]
            case 1:
                data = data[:at] + dice.randbytes(dice.randrange(1, 9)) + data[at + dice.randrange(9) :]
            case 2:
                data = data[:at]
            case 3:
                data = data[:at] + dice.choice(WORDS) + data[at:]
            case 4:
                lines = data.split(b"\n")
                a, b = dice.randrange(len(lines)), dice.randrange(len(lines))
                lines[a], lines[b] = lines[b], lines[a]
                data = b"\n".join(lines)
            case 5:
                lines = data.split(b"\n")
                place = dice.randrange(len(lines))
                data = b"\n".join(lines[:place] + [lines[place]] * dice.choice((0, 2, 2, 50)) + lines[place + 1 :])
            case 6:
                size = dice.randrange(64)
                data = data[:at] + data[at + size :]
            case _:
                size, to = dice.randrange(200), dice.randrange(len(data) + 1)
                data = data[:to] + data[at : at + size] + data[to:]
    return data


def check(name: str, data: bytes, folder: Path, others: Sequence[Path], full: bool) -> None:
    """Import one damaged file, alone or beside others."""
    path = write(folder, data, "mutant")
    tables = [TableOf("2", path)] if name == "pkeys.txt" else []
    files = [] if tables else [path]
    snapshot, problem = None, ""
    try:
        snapshot = import_files([*files, *others], SECRET, tables)
    except FileFormatError as error:
        problem = str(error)
    if snapshot is None:
        assert str(folder) in problem or str(DUMPS) in problem
        assert not any(form.decode("latin-1") in problem for form in FORMS)
        return
    assert snapshot.fabric.nodes
    if full:
        save_snapshot(folder / "snapshot", snapshot)
        read = load_snapshot(folder / "snapshot")
        assert len(read.fabric.nodes) == len(snapshot.fabric.nodes)


def run(name: str, whole: dict[str, bytes], folder: Path, count: int, seed: int) -> None:
    dice = random.Random(f"{name} {seed}")
    beside = [DUMPS / "ibnetdiscover.txt"]
    for number in range(count):
        state = dice.getstate()
        data = mutate(whole[name], dice)
        try:
            check(name, data, folder, beside if number % 4 == 0 else [], number % EVERY == 0)
        except FileFormatError:
            raise
        except Exception as error:
            raise AssertionError(f"{name}, number {number}: {data[:2000]!r}, state {hash(state)}") from error


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_an_error_or_a_snapshot(name: str, whole: dict[str, bytes], folder: Path) -> None:
    run(name, whole, folder, SAMPLE, 1)


@pytest.mark.soak
@pytest.mark.parametrize("name", FILES)
def test_a_million_damaged_files(name: str, whole: dict[str, bytes], folder: Path) -> None:
    run(name, whole, folder, WHOLE, 2)


@pytest.mark.parametrize("name", FILES)
def test_memory_is_bounded(name: str, whole: dict[str, bytes], folder: Path) -> None:
    tracemalloc.start()
    try:
        run(name, whole, folder, 10, 3)
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


def test_very_many_switches_that_claim_all_ports_are_refused(folder: Path) -> None:
    lines = [f'switchguid=0x{number:x}\nSwitch\t254 "S-{number:x}"\t# "x"\n' for number in range(1, 4000)]
    path = write(folder, "".join(lines), "many")
    with pytest.raises(FileFormatError, match="which no fabric has"):
        import_files([path], SECRET)
