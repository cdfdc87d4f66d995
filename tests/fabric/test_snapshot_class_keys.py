"""Keys of other classes in a snapshot: as they were read, without the keys themselves, and from files without them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.classkeys.reading import ClassKeyReading
from ibkeys.errors import StoreError
from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.fabric.snapshot import Snapshot, take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.mkey import MKey
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.sim.agents.class_keys import place
from tests.fabric.older import SINCE_3, SINCE_4
from tests.fabricsim import subnet, tool

KEY = 0xA1A2A3A4A5A6A7A8
SECRET = Fingerprints(bytes(range(32)))


@pytest.fixture
def taken() -> Snapshot:
    net = subnet("two-switch")
    place(net.port("node03 mlx4_0", 1), KEY_CLASSES["cc"], key=KEY, lease_period=60, violations=3)
    place(net.port("node04 mlx4_0", 1), KEY_CLASSES["b"], key=KEY, protect_bit=1)
    with tool(net) as fabric:
        snapshot = take_snapshot(fabric, SECRET)
        questions = fabric.class_key_questions(snapshot.fabric.end_ports(), KEY_CLASSES.values(), ask_unkeyed=True)
        snapshot.class_keys = fabric.ask_class_keys(questions)
        return snapshot


def facts(snapshot: Snapshot) -> list[tuple[object, ...]]:
    return [(str(each.port), each.of, each.state, each.detail, each.with_key) for each in snapshot.class_keys or ()]


def of(snapshot: Snapshot, name: str, state: str) -> ClassKeyReading:
    (found,) = [each for each in snapshot.class_keys or () if (each.of, each.state) == (name, state)]
    return found


@pytest.mark.parametrize("with_keys", [False, True])
def test_what_was_said_comes_back(taken: Snapshot, tmp_path: Path, with_keys: bool) -> None:
    save_snapshot(tmp_path / "a.db", taken, with_keys)
    again = load_snapshot(tmp_path / "a.db")
    assert facts(again) == facts(taken)
    shown = of(again, "cc", "set").settings
    assert shown is not None
    assert (shown.lease_period, shown.violations, shown.protect_bit) == (60, 3, 0)
    assert shown.key == (KEY if with_keys else SECRET.of(ClassKey(KEY)))
    hidden = of(again, "b", "hidden").settings
    assert hidden is not None
    assert (hidden.key, hidden.protect_bit) == (0, 1)


def test_no_byte_of_a_key_is_in_the_file(taken: Snapshot, tmp_path: Path) -> None:
    save_snapshot(tmp_path / "a.db", taken)
    raw = (tmp_path / "a.db").read_bytes()
    assert KEY.to_bytes(8) not in raw
    assert f"{KEY:016x}".encode() not in raw
    assert SECRET.of(MKey(KEY)) != SECRET.of(ClassKey(KEY))
    assert f"{SECRET.of(ClassKey(KEY)):016x}".encode() in raw


def test_classkey_show_answers_from_the_file(taken: Snapshot, tmp_path: Path) -> None:
    save_snapshot(tmp_path / "a.db", taken)
    recorded = RecordedFabric(load_snapshot(tmp_path / "a.db"))
    ports = list(recorded.sweep().end_ports())
    said = recorded.ask_class_keys(recorded.class_key_questions(ports, [KEY_CLASSES["cc"]], ask_unkeyed=True))
    assert [each.state for each in said].count("set") == 1
    taken.class_keys = None
    save_snapshot(tmp_path / "b.db", taken)
    recorded = RecordedFabric(load_snapshot(tmp_path / "b.db"))
    assert recorded.snapshot.class_keys is None
    ports = list(recorded.sweep().end_ports())
    said = recorded.ask_class_keys(recorded.class_key_questions(ports, KEY_CLASSES.values()))
    assert {each.state for each in said} == {"not-asked"}
    assert "a snapshot has no more" in said[0].detail


@pytest.mark.parametrize(
    "damage", ["state = 'fine'", "class = 'am'", "key_info = x'00'", "port = 4711", "class_key_fingerprint = 'x'"]
)
def test_a_damaged_file_is_refused(taken: Snapshot, tmp_path: Path, damage: str) -> None:
    save_snapshot(tmp_path / "a.db", replace(taken))
    with closing(sqlite3.connect(tmp_path / "a.db")) as rows:
        rows.execute("PRAGMA foreign_keys = OFF")
        rows.execute(f"UPDATE class_keys SET {damage} WHERE rowid = (SELECT rowid FROM class_keys WHERE state = 'set')")
        rows.commit()
    with pytest.raises(StoreError, match="damaged"):
        load_snapshot(tmp_path / "a.db")


def test_why_a_port_was_not_asked_is_kept_as_its_kind_whatever_the_words(taken: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    asked = list(taken.class_keys or ())
    asked[0] = replace(asked[0], state="not-asked", detail="in other words", info=None, not_asked="withheld")
    save_snapshot(path, replace(taken, class_keys=asked))
    assert [each.not_asked for each in load_snapshot(path).class_keys or ()] == [each.not_asked for each in asked]


def test_a_snapshot_of_version_3_does_not_say_why_a_port_was_not_asked(taken: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    save_snapshot(path, taken)
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(f"{SINCE_4} PRAGMA user_version = 3")
    back = load_snapshot(path).class_keys or ()
    assert [each.detail for each in back] == [each.detail for each in taken.class_keys or ()]
    assert {each.not_asked for each in back} == {None}


def test_a_snapshot_of_version_2_is_read_as_if_nobody_had_been_asked(taken: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    save_snapshot(path, taken)
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(f"{SINCE_3} PRAGMA user_version = 2")
    before = path.read_bytes()
    assert load_snapshot(path).class_keys is None
    assert path.read_bytes() == before
