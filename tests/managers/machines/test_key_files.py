"""Files with keys on an SM's host: no key is in the journal or a command's arguments, and nobody gets to read more."""

from __future__ import annotations

import base64
import os
import shutil
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import FileError
from ibkeys.host.replacing import new_file, putting
from ibkeys.host.replacing.conversions import NO_BYTES, NOT_KEPT, WITHOUT_KEYS, FileConversions
from ibkeys.managers.machines.machine import Machine
from ibkeys.store.journal import Journal
from tests.host.replacing.helpers import KEY, REFERENCE, WITH_KEYS
from tests.managers.machines.there import NEW, OLD, Here, There, names
from tests.owners import give_away, needs_root
from tests.store.journaled import recorded

BEFORE, AFTER = b"m_key 0xfeed\nlog 1\n", b"m_key 0xfeed\nlog 2\n"
COMMANDS = ("base64", "chmod", "cp", "cut", "head", "ln", "ls", "mv", "rm", "sha256sum", "stat", "sync", "touch", "tr")
_ACL = "system.posix_acl_access"


def rights_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- the journal ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conversions", "kept"),
    [(WITH_KEYS, (BEFORE.replace(KEY, REFERENCE), AFTER.replace(KEY, REFERENCE))), (NOT_KEPT, (NO_BYTES, NO_BYTES))],
)
def test_no_key_is_in_the_journal(
    machine: Machine, tmp_path: Path, file: Path, conversions: FileConversions, kept: tuple[bytes, bytes]
) -> None:
    file.write_bytes(BEFORE)
    folder = tmp_path / "store"
    folder.mkdir(0o700)
    with Journal(folder / "journal.db") as journal, journal.operation("apply") as operation:
        entry = machine.replace(operation, machine.look(file), AFTER, conversions=conversions)
        assert (entry.image.before, entry.image.after, entry.image.host) == (*kept, machine.name)
        assert file.read_bytes() == AFTER
        written = b"".join(each.read_bytes() for each in folder.iterdir())
    assert kept[1] in written
    assert KEY not in written
    assert KEY.hex().encode() not in written


def test_a_file_whose_keys_the_journal_could_not_give_back_stays(
    machine: Machine, journal: Journal, file: Path
) -> None:
    file.write_bytes(BEFORE + b"# " + REFERENCE)
    with journal.operation("apply") as operation:
        with pytest.raises(FileError, match="could not restore it") as caught:
            machine.replace(operation, machine.look(file), AFTER, conversions=WITH_KEYS)
        assert operation.id is None
    assert str(caught.value).startswith(machine.name or str(file))
    assert (file.read_bytes(), names(file.parent)) == (BEFORE + b"# " + REFERENCE, [file.name])


@pytest.mark.parametrize(("conversions", "goes"), [(WITH_KEYS, True), (NOT_KEPT, False), (WITHOUT_KEYS, False)])
def test_a_copy_with_keys_is_cleared_away_where_it_is_known(
    machine: Machine, journal: Journal, file: Path, conversions: FileConversions, goes: bool
) -> None:
    file.write_bytes(BEFORE)
    kept = WITH_KEYS if conversions is WITHOUT_KEYS else conversions
    with journal.operation("apply") as operation:
        entry = machine.replace(operation, machine.look(file), AFTER, conversions=kept)
    whole = file.with_name(f".{file.name}.ibkeys-99999999-{'a' * 16}")
    part = whole.with_name(f"{whole.name}.part")
    for path in (whole, part):
        path.write_bytes(BEFORE)
    left = machine.clean_up(recorded([entry]), conversions)
    assert set(left.removed) == {part, whole} if goes else {part}
    assert left.foreign == (() if goes else (whole,))
    assert whole.exists() is not goes


# --- arguments --------------------------------------------------------------------------------------------------------


def test_no_key_is_in_the_arguments_of_a_command(there: There, journal: Journal, file: Path) -> None:
    log = there.tools / "arguments"
    for command in COMMANDS:
        real = shutil.which(command, path="/usr/bin:/bin")
        there.tool(command, f'printf "%s\\n" "{command} $*" >>{log}; exec {real} "$@"')
    secret = b"0xfeedc0dedeadbeef"
    with there.machine() as host, journal.operation("apply") as operation:
        host.replace(operation, host.look(file), secret, conversions=NOT_KEPT, rights=0o600)
        seen = host.files.stat(file)
        host.set_mode(file, seen, 0o400)
        host.replace(operation, host.look(file), None, conversions=NOT_KEPT)
    said = log.read_bytes()
    assert {line.split()[0].decode() for line in said.splitlines()} >= {"base64", "chmod", "cp", "mv", "rm"}
    for form in (secret, secret.removeprefix(b"0x"), base64.b64encode(secret), secret.hex().encode()):
        assert form not in said


# --- rights -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("former", "rights"), [(0o664, 0o640), (0o644, 0o600), (0o640, 0o640), (0o440, 0o400)])
def test_the_new_file_has_just_these_rights_and_the_former_owner(
    machine: Machine, journal: Journal, file: Path, former: int, rights: int
) -> None:
    give_away(file)
    os.setxattr(file, "user.note", b"a\0b")
    file.chmod(former)
    before = file.stat()
    with journal.operation("apply") as operation:
        entry = machine.replace(operation, machine.look(file), NEW, 0o666, rights=rights)
    after = file.stat()
    assert (file.read_bytes(), rights_of(file), names(file.parent)) == (NEW, rights, [file.name])
    assert (after.st_uid, after.st_gid, os.getxattr(file, "user.note")) == (before.st_uid, before.st_gid, b"a\0b")
    assert entry.image.mode == former


def test_a_file_that_was_not_there_gets_these_rights(machine: Machine, journal: Journal, file: Path) -> None:
    path = file.with_name("guid2mkey")
    with journal.operation("apply") as operation:
        machine.replace(operation, machine.look(path), NEW, 0o644, conversions=NOT_KEPT, rights=0o600)
    assert (path.read_bytes(), rights_of(path)) == (NEW, 0o600)


def test_a_file_that_was_not_there_belongs_to_whom_it_is_for(machine: Machine, journal: Journal, file: Path) -> None:
    """An OpenSM that is not root could not read a file of root's with mode 0600."""
    root = os.geteuid() == 0
    owner = 4711 if root else os.geteuid()
    if root:
        os.chown(file.parent, owner, 4712)
    path = file.with_name("guid2mkey")
    with journal.operation("apply") as operation:
        machine.replace(operation, machine.look(path), NEW, conversions=NOT_KEPT, rights=0o600, owner=owner)
    found = path.stat()
    assert (path.read_bytes(), rights_of(path), names(file.parent)) == (NEW, 0o600, [path.name, file.name])
    assert (found.st_uid, found.st_gid) == (owner, 4712 if root else os.getegid())


def test_a_file_that_was_there_keeps_its_owner(machine: Machine, journal: Journal, file: Path) -> None:
    before = file.stat()
    with journal.operation("apply") as operation:
        machine.replace(operation, machine.look(file), NEW, conversions=NOT_KEPT, rights=0o600, owner=4711)
    assert (file.stat().st_uid, file.stat().st_gid, rights_of(file)) == (before.st_uid, before.st_gid, 0o600)


def with_acl(file: Path) -> None:
    """Let user 5 read a file by its ACL: version 2, then tag, rights and ID of each entry (linux/posix_acl_xattr.h)."""
    nobody = 0xFFFFFFFF
    entries = [(0x01, 6, nobody), (0x02, 4, 5), (0x04, 4, nobody), (0x10, 4, nobody), (0x20, 0, nobody)]
    os.setxattr(file, _ACL, struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))


@pytest.mark.parametrize(
    ("spoil", "rights", "words"),
    [
        (lambda file: file.chmod(0o640), 0o644, "has mode 0640, and 0644 would give more rights"),
        (lambda file: file.chmod(0o400), 0o600, "has mode 0400, and 0600 would give more rights"),
        (with_acl, 0o600, "has an ACL"),
    ],
)
def test_no_rights_are_given_and_an_acl_is_not_guessed_at(
    machine: Machine, journal: Journal, file: Path, spoil: Callable[[Path], None], rights: int, words: str
) -> None:
    spoil(file)
    seen = machine.look(file)
    assert words in str(machine.hindrance(seen, rights))
    assert machine.hindrance(seen) is None
    with journal.operation("apply") as operation:
        with pytest.raises(FileError, match=words):
            machine.replace(operation, seen, NEW, rights=rights)
        assert operation.id is None
        machine.replace(operation, seen, NEW)
    assert file.read_bytes() == NEW


def test_without_rights_an_acl_stays(machine: Machine, journal: Journal, file: Path) -> None:
    with_acl(file)
    acl = os.getxattr(file, _ACL)
    with journal.operation("apply") as operation:
        machine.replace(operation, machine.look(file), NEW)
    assert (file.read_bytes(), os.getxattr(file, _ACL)) == (NEW, acl)


class Watched:
    """The modes that a new file had, as a folder showed it whenever it was looked at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[str, int, int]] = []

    def look(self) -> None:
        for each in os.scandir(self.folder):
            status = each.stat(follow_symlinks=False)
            self.seen.append((each.name, status.st_ino, stat.S_IMODE(status.st_mode)))

    def modes(self) -> set[int]:
        new = {inode for name, inode, _ in self.seen if name.endswith(".part")}
        assert new, "it was looked at while the new file was written"
        return {mode for _, inode, mode in self.seen if inode in new}


def watch_here(side: Here | There, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def looking(real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*words: Any, **named: Any) -> Any:
            result = real(*words, **named)
            watched.look()
            return result

        return called

    for name in ("write", "fchown", "setxattr", "removexattr", "fchmod", "fsync", "rename"):
        monkeypatch.setattr(new_file.os, name, looking(getattr(os, name)))
    for name in ("exchange", "take_free_name"):
        monkeypatch.setattr(putting.renames, name, looking(getattr(putting.renames, name)))


def watch_there(side: Here | There, watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    log = side.tools / "modes"
    log.touch()
    for command in COMMANDS:
        real = shutil.which(command, path="/usr/bin:/bin")
        side.tool(
            command,
            f'{real} "$@"; how=$?; for each in {watched.folder}/.*.ibkeys-* {watched.folder}/*; do '
            f"/usr/bin/stat -c '%n %i %a' \"$each\" 2>/dev/null >>{log}; done; exit $how",
        )

    def read() -> None:
        for line in log.read_text().splitlines():
            name, inode, mode = line.rsplit(" ", 2)
            watched.seen.append((name, int(inode), int(mode, 8)))

    monkeypatch.setattr(watched, "look", read)


@pytest.fixture
def watched(side: Here | There, file: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    watched = Watched(file.parent)
    (watch_here if isinstance(side, Here) else watch_there)(side, watched, monkeypatch)
    return watched


@pytest.mark.parametrize(
    ("former", "rights"), [(0o664, 0o640), (0o644, 0o600), (0o600, 0o600), (None, 0o600), (None, 0o640)]
)
def test_at_no_moment_the_new_file_has_more_rights_than_it_shall_have(
    watched: Watched, machine: Machine, journal: Journal, file: Path, former: int | None, rights: int
) -> None:
    if former is None:
        file.unlink()
    else:
        file.chmod(former)
        give_away(file)
    with journal.operation("apply") as operation:
        machine.replace(operation, machine.look(file), NEW, 0o666, conversions=NOT_KEPT, rights=rights)
    watched.look()
    assert watched.modes() == {0o600, rights}
    assert rights_of(file) == rights


@pytest.mark.parametrize("command", ["chmod", pytest.param("cp", marks=needs_root)])
def test_a_file_that_cannot_be_given_its_rights_does_not_get_into_place(
    there: There, journal: Journal, file: Path, command: str
) -> None:
    with there.machine() as host, journal.operation("apply") as operation:
        seen = host.look(file)
        there.tool(command, "exit 0")
        if command == "cp":
            give_away(file)  # a file of this user has the right owner without it
            seen = host.look(file)
        with pytest.raises(FileError, match="cannot be given owner, mode"):
            host.replace(operation, seen, NEW, rights=0o400)
    assert (file.read_bytes(), names(file.parent)) == (OLD, [file.name])
