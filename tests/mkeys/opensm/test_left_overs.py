"""What killed runs left beside files with keys: copies that the journal knows go, what may be theirs is named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.host.replacing.conversions import NOT_KEPT
from ibkeys.keys.mkey import MKey
from ibkeys.managers.files.journaled import remove_left_overs
from ibkeys.managers.files.opensm_file import OpensmFile
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm.edit import NewValue
from ibkeys.managers.opensm.references import key_references
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.origin import this_process
from tests.managers.machines.there import Here, There

BEFORE = b"sweep_interval 10\nm_key 0x1111222233334444\n"
WANTED: dict[str, NewValue] = {"m_key": MKey(0xA94F13D02E7C5B68), "m_key_protection_level": 2, "m_key_lease_period": 60}
NAME = "ibkeys-4711-00112233aabbccdd"


class Killed:
    """An options file that a run changed, and the journal and key store of it."""

    def __init__(self, machine: Machine, folder: Path, journal: Journal, store: KeyStore) -> None:
        self.folder, self.journal, self.store = folder, journal, store
        path = folder / "opensm.conf"
        path.write_bytes(BEFORE)
        self.conf = OpensmFile.at(machine, path, os.geteuid())
        with journal.operation("mkey-rotate", this_process()) as operation:
            self.conf.put(operation, self.conf.with_options(WANTED), key_references(store))
            seen = machine.look(folder / "guid2mkey")
            machine.replace(operation, seen, b"0x1 0x1111222233334444\n", conversions=NOT_KEPT, rights=0o600)

    def left(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def said(self) -> list[str]:
        return list(remove_left_overs(self.journal, [self.conf], self.store))


@pytest.fixture(params=[Here, There])
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killed]:
    """On this host, and on another one."""
    folder = tmp_path / "opensm"
    folder.mkdir()
    side: Here | There = request.param(tmp_path / "side")
    with Journal(tmp_path / "journal.db") as journal, KeyStore(None) as store, side.machine() as machine:
        yield Killed(machine, folder, journal, store)


def test_copies_of_what_the_journal_knows_and_unfinished_ones_are_removed(killed: Killed) -> None:
    left = [
        killed.left(f".opensm.conf.{NAME}", BEFORE),
        killed.left(f".opensm.conf.{NAME[:-1]}e", killed.conf.data),
        killed.left(f".opensm.conf.{NAME}.part", b"m_key 0xa94f13"),
        killed.left(f".guid2mkey.{NAME}.part", b"0x1 0xa9"),
    ]
    assert killed.said() == []
    assert [path for path in left if path.exists()] == []
    assert killed.conf.path.read_bytes() == killed.conf.data


def test_what_may_be_somebody_elses_stays_and_is_named(killed: Killed) -> None:
    theirs = killed.left(f".opensm.conf.{NAME}", b"m_key 0x5555666677778888\n")
    keys = killed.left(f".guid2mkey.{NAME}", b"0x1 0x1111222233334444\n")
    [said] = killed.said()
    assert str(theirs) in said
    assert str(keys) in said
    assert "5555666677778888" not in said
    assert theirs.exists()
    assert keys.exists()


def test_other_files_of_the_folder_stay(killed: Killed) -> None:
    other = killed.left(f".partitions.conf.{NAME}", BEFORE)
    assert killed.said() == []
    assert other.exists()
