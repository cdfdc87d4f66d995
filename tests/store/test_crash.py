"""A crash at any step leaves a store that opens and has every key, or before-image, that was promised."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ibkeys.errors import StoreSealed
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Passphrase
from ibkeys.store.keystore.sm_keys import SmKeys
from ibkeys.store.moving_runs import has_run_to_move, move_run_between
from ibkeys.store.opensm import KEY_FILES, read_key_files
from ibkeys.store.snapshot import read_snapshot, write_snapshot
from tests.sample import in_soak, one_in

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("crash_driver.py")
KEYS = {name: MKey(0x1111111111111111 * number) for number, name in enumerate("ABCD", 1)}
PORT_GUID = 0x0002C90300A1B2C3


def crash_points(kind: str, directory: Path) -> list[Path]:
    """Let the driver crash at every step; return the directories it left, the last one of a run to the end."""
    command = [sys.executable, str(DRIVER), kind, str(directory)]
    subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, check=True)
    last = int((directory / "end").read_text())
    return [directory / str(number) for number in range(last + 1)]


def promised(place: Path) -> str:
    file = place / "promised"
    return file.read_text() if file.exists() else ""


def test_every_promised_key_is_found_after_a_crash_at_any_step(tmp_path: Path) -> None:
    places = crash_points("keys", tmp_path)
    assert len(places) > 40
    assert promised(places[0]) == ""
    assert promised(places[-1]) == "ABCD"
    for place in places:
        with KeyStore(place / "made" / "keys.db") as store:
            found = set(store.all_keys().get(PORT_GUID, []))
            assert {KEYS[name] for name in promised(place)} <= found <= set(KEYS.values())
            store.promote(store.put_pending(1, PORT_GUID, 1, KeySetting(MKey(5), 2, 60), None))
            assert store.all_keys().get(PORT_GUID, [])[0] == MKey(5)
            assert store.database.query("PRAGMA integrity_check") == [("ok",)]


def test_every_promised_key_of_a_subnet_manager_is_found_after_a_crash_at_any_step(tmp_path: Path) -> None:
    places = crash_points("sm_keys", tmp_path)
    assert len(places) > 40
    assert promised(places[-1]) == "ABCD"
    for place in places:
        with KeyStore(place / "keys.db") as store:
            rows = SmKeys(store).rows()
            found = {MKey(row.sm_key.reveal()) for row in rows}
            assert {KEYS[name] for name in promised(place)} <= found <= set(KEYS.values())
            states = [row.state for row in rows]
            assert states.count("current") <= 1
            assert states.count("pending") <= 1


def keys_of(store_path: Path) -> set[MKey]:
    """Return the keys of the port, opened with the one of all passphrases that fits."""
    for text in ("", "first", "second"):
        with KeyStore(store_path, passphrase=Passphrase(lambda text=text: text)) as store:  # type: ignore[misc]
            try:
                return set(store.all_keys().get(PORT_GUID, []))
            except StoreSealed:
                continue
    raise AssertionError(f"{store_path} opens with no passphrase")


def test_every_key_is_found_with_one_passphrase_or_none_after_a_crash_while_encrypting(tmp_path: Path) -> None:
    places = crash_points("encryption", tmp_path)
    assert len(places) > 40
    assert promised(places[-1]) == "A1B20"
    for place in one_in(6, places):
        done = promised(place)
        found = keys_of(place / "keys.db")
        assert {KEYS[name] for name in done if name in KEYS} <= found
        if done.endswith(("1", "2")):
            data = b"".join(file.read_bytes() for file in place.glob("keys.db*"))
            assert KEYS["B"].reveal().to_bytes(8) not in data or done.endswith("2")  # decrypting may have begun
            with KeyStore(place / "keys.db") as store:
                assert store.is_encrypted or done.endswith("2")


def test_a_crash_while_writing_key_files_leaves_the_old_ones_or_the_new_ones(tmp_path: Path) -> None:
    places = crash_points("files", tmp_path)
    assert len(places) > 20
    for place in places:
        made, done = place / "made", promised(place)
        for name in KEY_FILES:
            if done:
                assert len(read_key_files(made, [name]).warnings) == 0
        if done:
            read = read_key_files(made)
            assert read.m_keys[PORT_GUID] in ((KEYS["B"],) if done == "AB" else (KEYS["A"], KEYS["B"]))
            assert (read.neighbors, read.lids) == ({(1, 1): (2, 2)}, {PORT_GUID: (1, 1)})
        for file in made.glob("*") if made.exists() else ():
            assert file.stat().st_mode & 0o077 == 0


def test_every_promised_before_image_is_found_after_a_crash_at_any_step(tmp_path: Path) -> None:
    places = crash_points("journal", tmp_path)
    assert len(places) > 20
    for place in places:
        with Journal(place / "journal.db") as journal:
            operations = journal.list_operations()
            entries = journal.entries(operations[0].id) if operations else []
            modifiers = [entry.image.attribute_modifier for entry in entries]
            assert modifiers == list(range(len(modifiers)))
            assert len(promised(place)) <= len(modifiers) <= len(promised(place)) + 1
            if place is not places[-1]:
                assert all(operation.state in ("open", "done") for operation in operations)
    [operation] = Journal(places[-1] / "journal.db").list_operations()
    assert operation.state == "done"


@pytest.mark.parametrize("version", [in_soak("70c34ae"), "3eed0cee"])
def test_the_run_of_an_earlier_version_moves_once_after_a_crash_at_any_step(tmp_path: Path, version: str) -> None:
    places = crash_points(version, tmp_path)
    assert len(places) > 40
    places = [*one_in(4, places)]
    seen, runs = set[tuple[bool, bool]](), list[tuple[list[object], list[str]]]()
    for place in places:
        keys, path = place / "keys.db", place / "journal.db"
        with KeyStore(keys, upgrade=False) as store, Journal.read(path) as journal:
            seen.add((has_run_to_move(store), bool(Runs(journal).operations())))
        move_run_between(keys, path, dry_run=False)
        with KeyStore(keys) as store, Journal(path) as journal:
            assert not has_run_to_move(store)
            [number] = Runs(journal).operations()
            ports = [
                (
                    port.port_guid,
                    port.state,
                    *(name and store.named(name).m_key for name in (port.key_name, port.old_name)),
                )
                for port in Runs(journal).ports(number)
            ]
            runs.append(([*ports], [f"{each.command} {each.state}" for each in journal.list_operations()]))
    assert [each for each in runs if each != runs[-1]] == []
    assert seen == {(True, False), (True, True), (False, True)}, "in one of the two at every moment"


def test_a_snapshot_is_the_former_file_or_the_whole_new_one_after_a_crash_at_any_step(tmp_path: Path) -> None:
    places = crash_points("snapshot", tmp_path)
    assert len(places) > 20
    seen = set()
    for place in places:
        notes = [text for (text,) in read_snapshot(place / "fabric.db")["notes"]]
        seen.add(tuple(notes))
        assert notes == ["note", "another"] if promised(place) else notes in (["note"], ["note", "another"])
    assert seen == {("note",), ("note", "another")}
    assert [file.name for file in places[-1].iterdir() if "unfinished" in file.name] == []


def test_what_a_killed_run_left_beside_a_snapshot_goes_with_the_next_one(tmp_path: Path) -> None:
    left = [place for place in crash_points("snapshot", tmp_path) if [*place.glob(".fabric.db.*.unfinished")]]
    assert left
    for place in left:
        write_snapshot(place / "fabric.db", {"notes": [("third",)]})
        assert not [*place.glob(".fabric.db.*.unfinished")]
        assert read_snapshot(place / "fabric.db")["notes"] == [("third",)]
