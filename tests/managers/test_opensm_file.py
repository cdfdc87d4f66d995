"""A file of OpenSM that is replaced: what stays, what the journal keeps, who shares it, who does not see it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ibkeys.errors import FileChanged, FileError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.files.journaled import is_proven, is_written_by_ibkeys
from ibkeys.managers.files.opensm_file import NotSeenByOpensm, OpensmFile, merge_files
from ibkeys.managers.machines.this_host import THIS
from ibkeys.managers.opensm.edit import NewValue
from ibkeys.managers.opensm.process import PROC, OpensmProcess
from ibkeys.managers.opensm.references import key_references
from ibkeys.managers.site import RunningOpensm
from ibkeys.store.journal import FileEntry, Journal, RunningOperation
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.origin import this_process

TEXT = "# ours\nsweep_interval 10\nm_key 0x1111222233334444 # old\nlog_flags 0x3\n"
WANTED: dict[str, NewValue] = {
    "m_key": MKey(0xA94F13D02E7C5B68),
    "m_key_protection_level": 2,
    "m_key_lease_period": 60,
}
SAYS = (
    "# ours\nsweep_interval 10\nm_key 0xa94f13d02e7c5b68 # old\nlog_flags 0x3\n"
    "m_key_protection_level 2\nm_key_lease_period 60\n"
)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "opensm.conf"
    path.write_text(TEXT)
    path.chmod(0o644)
    return path


@pytest.fixture
def store() -> Iterator[KeyStore]:
    with KeyStore(None) as opened:
        yield opened


@pytest.fixture
def operation(tmp_path: Path) -> Iterator[RunningOperation]:
    with Journal(tmp_path / "journal.db") as journal, journal.operation("mkey-rotate", this_process()) as begun:
        yield begun


def file_at(path: Path) -> OpensmFile:
    return OpensmFile.at(THIS, path, os.geteuid())


def write(
    file: OpensmFile, values: dict[str, NewValue], operation: RunningOperation, store: KeyStore
) -> FileEntry | None:
    return file.put(operation, file.with_options(values), key_references(store))


def test_three_lines_change_and_others_lose_their_rights(
    conf: Path, store: KeyStore, operation: RunningOperation
) -> None:
    entry = write(file_at(conf), WANTED, operation, store)
    assert conf.read_text() == SAYS
    assert conf.stat().st_mode & 0o777 == 0o600
    assert entry is not None
    kept = (entry.image.before or b"") + (entry.image.after or b"")
    assert b"1111222233334444" not in kept
    assert b"a94f13d02e7c5b68" not in kept


def test_two_that_share_one_file_both_find_it_done(conf: Path, store: KeyStore, operation: RunningOperation) -> None:
    one, other = file_at(conf), file_at(conf)
    assert write(one, WANTED, operation, store) is not None
    assert write(other, WANTED, operation, store) is None
    other.verify("")
    one.verify("")


def test_what_somebody_else_wrote_stays(conf: Path, store: KeyStore, operation: RunningOperation) -> None:
    file = file_at(conf)
    conf.write_text("# theirs\n")
    with pytest.raises(FileChanged):
        write(file, WANTED, operation, store)
    assert conf.read_text() == "# theirs\n"
    with pytest.raises(FileChanged, match="OpenSM was not signalled"):
        file.verify("OpenSM was not signalled to read it")


def test_one_that_its_opensm_does_not_see_is_restored(conf: Path, store: KeyStore, operation: RunningOperation) -> None:
    """As where its service has the old file mounted: another name leads to what that OpenSM reads."""
    file = file_at(conf)
    (held := conf.with_name("held")).write_text(TEXT)
    instance = cast(Any, SimpleNamespace(name="OpenSM (process 7)"))
    file.opensms, file.places = [RunningOpensm(instance, THIS, None)], [held]
    with pytest.raises(FileError, match=r"does not see the new file.*the former file is restored"):
        write(file, WANTED, operation, store)
    assert conf.read_text() == TEXT
    assert conf.stat().st_mode & 0o777 == 0o600
    assert operation.id is not None
    assert {each.status for each in operation.journal.files(operation.id)} == {"failed"}
    file.verify("")


@pytest.mark.parametrize(
    ("ticks", "why"), [(0, "it has its own mount namespace"), (1, "it no longer runs, or was restarted")]
)
def test_it_says_why_an_opensm_does_not_see_the_new_file(
    conf: Path, store: KeyStore, operation: RunningOperation, ticks: int, why: str
) -> None:
    """What it sees cannot be read: it has ended, or its root is not to be reached."""
    file = file_at(conf)
    here = OpensmProcess(os.getpid(), Path("/"), True, None, folder=PROC / str(os.getpid()), ticks=own_ticks() + ticks)
    instance = cast(Any, SimpleNamespace(name="OpenSM (process 7)", process=here))
    file.opensms, file.places = [RunningOpensm(instance, THIS, None)], [conf.with_name("gone")]
    with pytest.raises(NotSeenByOpensm, match=why):
        write(file, WANTED, operation, store)
    assert conf.read_text() == TEXT


def own_ticks() -> int:
    """Return when this process began, in ticks since the machine started: field 22 of proc(5) stat."""
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


def test_a_file_of_several_opensms_keeps_the_place_of_the_last_one(conf: Path) -> None:
    """That of the master is the last one that is written, and the master the last one that is signalled."""
    other = conf.with_name("other.conf")
    other.write_text(TEXT)

    def read_by(name: str, path: Path) -> OpensmFile:
        file = OpensmFile.at(THIS, path, os.geteuid())
        instance = cast(Any, SimpleNamespace(name=name))
        file.opensms, file.places = [RunningOpensm(instance, THIS, None)], [path]
        return file

    files = merge_files([read_by("a standby", conf), read_by("another", other), read_by("the master", conf)])
    readers = [[each.instance.name for each in file.opensms] for file in files]
    assert readers == [["another"], ["a standby", "the master"]]
    assert [len(file.places) for file in files] == [1, 2]


@pytest.mark.parametrize("users", [(1, 0), (0, 1)])
def test_a_file_keeps_the_rights_that_one_of_its_opensms_needs(conf: Path, users: tuple[int, int]) -> None:
    """One user reads the file as its owner or as root, the other one only because others may."""
    owner = os.geteuid()
    [file] = merge_files(OpensmFile.at(THIS, conf, owner + each) for each in users)
    assert file.rights is None


def test_who_keeps_the_rights_on_a_file_that_belongs_to_another_user_is_said(conf: Path) -> None:
    owner = os.geteuid()
    assert file_at(conf).why_others_keep_rights == ""
    other = OpensmFile.at(THIS, conf, owner + 1)
    assert other.rights is None
    assert other.why_others_keep_rights.startswith(
        f"{conf} holds keys and keeps its mode, 0644: it belongs to UID {owner}"
    )
    assert f"chown {owner + 1} and chmod 0600" in other.why_others_keep_rights
    conf.chmod(0o600)
    assert OpensmFile.at(THIS, conf, owner + 1).why_others_keep_rights == ""


def test_a_file_counts_as_read_while_it_is_as_a_proven_change_left_it(
    conf: Path, store: KeyStore, operation: RunningOperation
) -> None:
    """Its times say only that it changed since OpenSM started, for ibkeys has changed it."""
    file = file_at(conf)
    assert not is_proven(file, operation.journal, store)
    entry = write(file, WANTED, operation, store)
    assert entry is not None
    assert not is_proven(file, operation.journal, store)
    entry.done()
    assert is_proven(file, operation.journal, store)
    conf.write_text(SAYS + "sweep_interval 77\n")
    assert not is_proven(file_at(conf), operation.journal, store)
    conf.write_text(SAYS)
    again = write(file_at(conf), {**WANTED, "m_key_protection_level": 1}, operation, store)
    assert again is not None
    again.failed()
    assert not is_proven(file_at(conf), operation.journal, store)


def test_what_ibkeys_wrote_last_is_its_own_also_where_that_was_not_proven(
    conf: Path, store: KeyStore, operation: RunningOperation
) -> None:
    journal = operation.journal
    assert not is_written_by_ibkeys(file_at(conf), journal, store)
    write(file_at(conf), WANTED, operation, store)
    ours = conf.read_bytes()
    assert is_written_by_ibkeys(file_at(conf), journal, store)
    conf.write_bytes(ours + b"sweep_interval 77\n")
    assert not is_written_by_ibkeys(file_at(conf), journal, store)
    with journal.operation("other") as later:
        entry = write(file_at(conf), {**WANTED, "m_key_protection_level": 1}, later, store)
        assert entry is not None
        entry.done()
    assert is_written_by_ibkeys(file_at(conf), journal, store)
    conf.write_bytes(ours)  # the first has not ended, and is made again
    assert is_written_by_ibkeys(file_at(conf), journal, store)
    assert operation.id is not None
    journal.set_state(operation.id, "done")
    assert not is_written_by_ibkeys(file_at(conf), journal, store)
