"""Putting a file in place of another: what is kept of the old one, what a failure leaves, what of others stays."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.errors import FileChanged, FileError
from ibkeys.host.replacing import putting, renames
from ibkeys.host.replacing.file_to_replace import FoundFile, Metadata, SeenFile, look
from ibkeys.host.replacing.putting import put
from tests.host.replacing.helpers import NEW, OLD, THEIRS, names

ACL = "system.posix_acl_access"
NO_USER = 65534


def acl(*entries: tuple[int, int, int]) -> bytes:
    """The bytes of a POSIX ACL: (tag, rights, ID). Source: linux/posix_acl_xattr.h."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NO_ID = 0xFFFFFFFF
ACL_OF_NOBODY = acl((1, 6, NO_ID), (2, 4, NO_USER), (4, 4, NO_ID), (0x10, 4, NO_ID), (0x20, 0, NO_ID))


def found(path: Path) -> FoundFile:
    seen = look(path).found
    assert seen is not None
    return seen


def put_new(seen: SeenFile) -> None:
    put(seen, NEW, seen.found.metadata if seen.found else Metadata(0o600))


def lacking(*_: Any) -> None:
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.fixture(params=["exchange", "rename only"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without renameat2."""
    if request.param == "rename only":
        monkeypatch.setattr(renames, "renameat2", lacking)
    return str(request.param)


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("way")
def test_a_file_is_replaced_by_another_one_with_its_metadata(file: Path) -> None:
    os.chown(file, os.getuid(), os.getgid() if os.getuid() else NO_USER)
    os.setxattr(file, "user.note", b"kept")
    os.setxattr(file, ACL, ACL_OF_NOBODY)
    before = found(file)
    put_new(look(file))
    after = found(file)
    assert (after.data, after.metadata) == (NEW, before.metadata)
    assert after.metadata.attributes[ACL] == ACL_OF_NOBODY
    assert after.inode != before.inode
    assert names(file.parent) == ["policy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="labels are set by root only")
def test_the_label_is_kept(file: Path) -> None:
    os.setxattr(file, "security.selinux", b"system_u:object_r:etc_t:s0\0")
    put_new(look(file))
    assert os.getxattr(file, "security.selinux") == b"system_u:object_r:etc_t:s0\0"


def test_who_reads_the_old_file_meanwhile_reads_it_to_its_end(file: Path) -> None:
    with file.open("rb") as reader:
        put_new(look(file))
        assert reader.read() == OLD


@given(mode=st.integers(0, 0o777), data=st.binary(max_size=5000))
@settings(max_examples=25, deadline=None)
def test_any_mode_and_any_bytes(tmp_path_factory: pytest.TempPathFactory, mode: int, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(OLD)
    path.chmod(mode | 0o400)
    seen = look(path)
    assert seen.found is not None
    put(seen, data, seen.found.metadata)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (data, mode | 0o400)


@pytest.mark.parametrize("default", [False, True])
def test_an_acl_that_only_the_folder_has_is_not_given_to_the_new_file(file: Path, default: bool) -> None:
    if default:
        os.setxattr(file.parent, "system.posix_acl_default", ACL_OF_NOBODY)
    put_new(look(file))
    assert ACL not in os.listxattr(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_that_was_not_there_is_made_and_removed_again(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "new"
    put(look(path), NEW, Metadata(mode))
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode), path.stat().st_nlink) == (NEW, mode, 1)
    put(look(path), None, Metadata(mode))
    assert names(tmp_path) == []
    put(look(path), None, Metadata(mode))


@pytest.mark.parametrize(
    ("name", "value"), [(ACL, ACL_OF_NOBODY), ("security.selinux", b"label"), ("system.nfs4_acl", b"acl")]
)
def test_an_acl_or_label_that_cannot_be_kept_stops_it(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: bytes
) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "setxattr", refused)
    with pytest.raises(FileError, match=rf"cannot be given {name}.*it is unchanged") as caught:
        put(look(file), NEW, Metadata(0o640, os.getuid(), os.getgid(), {name: value}))
    assert not caught.value.is_replaced
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["policy"])


def test_an_acl_that_is_not_there_after_it_was_set_stops_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.setxattr(file, ACL, ACL_OF_NOBODY)
    monkeypatch.setattr(os, "setxattr", lambda *_: None)
    with pytest.raises(FileError, match="cannot be given"):
        put_new(look(file))
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["policy"])


def test_an_attribute_of_a_user_that_cannot_be_kept_stops_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.setxattr(file, "user.note", b"kept")
    monkeypatch.setattr(os, "setxattr", lacking)
    put_new(look(file))
    assert file.read_bytes() == NEW


def test_an_owner_that_cannot_be_kept_stops_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fchown", lacking)
    with pytest.raises(FileError, match="owner"):
        put(look(file), NEW, Metadata(0o640, os.getuid() + 1, os.getgid()))
    assert (file.read_bytes(), names(file.parent)) == (OLD, ["policy"])


# --- each call of the system fails ------------------------------------------------------------------------------------

CALLS = ("open", "write", "fsync", "fchown", "fchmod", "setxattr", "getxattr", "listxattr", "fstat", "stat", "rename",
         "link", "pread")  # fmt: skip


class Failing:
    """Lets the n-th of all calls of the system fail, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
        self.count, self.number, self.code = 0, number, code
        self.failed = ""
        for name in CALLS:
            monkeypatch.setattr(os, name, self.counted(name, getattr(os, name)))
        monkeypatch.setattr(renames, "renameat2", self.counted("renameat2", renames.renameat2))

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.number:
                self.failed = name
                raise OSError(self.code, os.strerror(self.code))
            return call(*arguments, **named)

        return counted


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EPERM])
@pytest.mark.parametrize("kind", ["replace", "create", "remove"])
def test_whichever_call_fails_the_file_is_whole_and_the_error_says_which_it_is(
    tmp_path: Path, kind: str, code: int
) -> None:
    failed: list[str] = []
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "policy"
        if kind != "create":
            path.write_bytes(OLD)
            os.setxattr(path, ACL, ACL_OF_NOBODY)
            os.chown(path, os.getuid(), os.getgid() if os.getuid() else NO_USER)
        seen = look(path)
        old, new = (None if kind == "create" else OLD), (None if kind == "remove" else NEW)
        metadata = seen.found.metadata if seen.found else Metadata(0o600)
        error: FileError | None = None
        with pytest.MonkeyPatch.context() as patched:
            failing = Failing(patched, number, code)
            try:
                put(seen, new, metadata)
            except FileError as caught:
                error = caught
        now = path.read_bytes() if path.exists() else None
        if not failing.failed:
            assert (now, error) == (new, None)
            break
        failed.append(failing.failed)
        assert now == (new if error is None or error.is_replaced else old), (number, failing.failed, error)
        if now is not None and kind != "create":
            assert found(path).metadata == metadata
        assert set(names(folder)) <= {"policy"}, (number, failing.failed)
    expected = {"open", "write", "fsync", "fchmod", "renameat2"} if kind != "remove" else {"open", "fsync", "rename"}
    if kind == "replace":
        expected |= {"setxattr"} | ({"fchown"} if os.getuid() == 0 else set())
    assert expected <= set(failed)


def test_a_folder_that_cannot_be_synced_says_that_the_file_is_replaced(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(FileError, match="the change was made") as caught:
        put_new(look(file))
    assert caught.value.is_replaced
    assert (file.read_bytes(), names(file.parent)) == (NEW, ["policy"])


def test_a_write_that_takes_a_part_is_gone_on_with(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:1]))
    put_new(look(file))
    assert file.read_bytes() == NEW


def test_the_new_file_is_on_disk_before_the_exchange_and_the_folder_after_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, renameat2 = os.fsync, renames.renameat2

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def renamed(*arguments: Any) -> None:
        done.append("exchange")
        renameat2(*arguments)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(renames, "renameat2", renamed)
    put_new(look(file))
    assert done == ["file", "exchange", "folder"]


def test_a_removal_is_on_disk_before_the_last_copy_goes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[list[str]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: held.append(names(file.parent)))
    put(look(file), None, Metadata(0o600))
    assert [len(each) for each in held] == [1]
    assert names(file.parent) == []


def test_sums_over_the_former_content_are_not_kept(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "setxattr", lacking)
    put(look(file), NEW, Metadata(0o640, os.getuid(), os.getgid(), {"security.ima": b"sum"}))
    assert file.read_bytes() == NEW


# --- somebody else writes ---------------------------------------------------------------------------------------------


def rename_theirs(path: Path, data: bytes = THEIRS) -> None:
    """Write a file as editors do: another one takes its place."""
    other = path.with_name("editor's")
    other.write_bytes(data)
    other.rename(path)


def write_theirs(path: Path) -> None:
    """Write a file in place, with the former size and time."""
    status = path.stat()
    path.write_bytes(b"OLD\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


EDITS: list[Callable[[Path], object]] = [
    rename_theirs,
    write_theirs,
    Path.unlink,
    lambda path: path.chmod(0o600),
    lambda path: os.utime(path, ns=(1, 1)),
    lambda path: os.setxattr(path, "user.note", b"x"),
    lambda path: (path.unlink(), path.mkdir()),
    lambda path: (path.rename(path.with_name("moved")), path.symlink_to("moved")),
]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("data", [NEW, None])
def test_what_changed_since_the_look_is_not_replaced(
    file: Path, edit: Callable[[Path], object], data: bytes | None
) -> None:
    seen = look(file)
    edit(file)
    theirs = listing(file.parent)
    with pytest.raises(FileError) as caught:
        put(seen, data, Metadata(0o640, os.getuid(), os.getgid()))
    assert not caught.value.is_replaced
    assert listing(file.parent) == theirs


def listing(folder: Path) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes() if path.is_file() else b"") for path in sorted(folder.iterdir())]


@pytest.mark.usefixtures("way")
def test_a_file_that_somebody_made_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new"
    seen = look(path)
    real = putting.Replacement.refuse_changed

    def after_the_look(replacement: putting.Replacement) -> None:
        real(replacement)
        path.write_bytes(THEIRS)

    monkeypatch.setattr(putting.Replacement, "refuse_changed", after_the_look)
    with pytest.raises(FileChanged, match="the newer version is in place"):
        put_new(seen)
    assert listing(tmp_path) == [("new", THEIRS)]


def between(monkeypatch: pytest.MonkeyPatch, *edits: Callable[[], object]) -> None:
    """Let somebody else act right before each of the next exchanges."""
    real, waiting = renames.renameat2, list(edits)

    def renameat2(*arguments: Any) -> None:
        if waiting:
            waiting.pop(0)()
        real(*arguments)

    monkeypatch.setattr(renames, "renameat2", renameat2)


@pytest.mark.parametrize("edit", [edit for edit in EDITS if edit is not Path.unlink])
def test_what_changes_between_the_last_look_and_the_exchange_comes_back(
    file: Path, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Path], object]
) -> None:
    seen = look(file)
    between(monkeypatch, lambda: edit(file))
    with pytest.raises(FileChanged, match="the newer version is in place") as caught:
        put_new(seen)
    assert not caught.value.is_replaced
    monkeypatch.undo()
    assert NEW not in [data for _, data in listing(file.parent)]
    if edit is rename_theirs:
        assert listing(file.parent) == [("policy", THEIRS)]


def test_a_file_that_goes_away_right_before_the_exchange_is_not_made_anew(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = look(file)
    between(monkeypatch, file.unlink)
    with pytest.raises(FileError, match="No such file"):
        put_new(seen)
    assert names(file.parent) == []


def test_who_writes_twice_in_that_moment_has_the_later_in_place_and_loses_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = look(file)
    between(monkeypatch, lambda: rename_theirs(file), lambda: rename_theirs(file, b"later\n"))
    with pytest.raises(FileChanged, match=r"an earlier version of theirs is in .*\.policy\.ibkeys-"):
        put_new(seen)
    [beside, place] = listing(file.parent)
    assert (place, beside[1]) == (("policy", b"later\n"), THEIRS)


def test_what_cannot_be_put_in_place_again_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = look(file)

    def failing() -> None:
        raise OSError(errno.EIO, "Input/output error")

    between(monkeypatch, lambda: rename_theirs(file), failing)
    with pytest.raises(FileError, match=r"it is in .*\.policy\.ibkeys-") as caught:
        put_new(seen)
    assert caught.value.is_replaced
    assert [data for _, data in listing(file.parent)] == [THEIRS, NEW]


def test_a_file_that_changes_right_before_it_is_removed_comes_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, real = look(file), os.rename

    def rename(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(os, "rename", real)
        rename_theirs(file)
        real(*arguments, **named)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(FileChanged):
        put(seen, None, Metadata(0o600))
    assert listing(file.parent) == [("policy", THEIRS)]


@pytest.mark.parametrize("data", [NEW, None])
def test_a_file_that_somebody_has_open_for_writing_is_left_alone(file: Path, data: bytes | None) -> None:
    seen = look(file)
    with file.open("r+b") as writer:
        with pytest.raises(FileChanged):
            put(seen, data, Metadata(0o640, os.getuid(), os.getgid()))
        writer.write(b"mine")
    assert listing(file.parent) == [("policy", b"mine" + OLD[4:])]


def test_who_opens_the_file_for_writing_right_before_the_exchange_writes_what_is_in_place(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, opened = look(file), []
    between(monkeypatch, lambda: opened.append(file.open("r+b")))
    with pytest.raises(FileChanged):
        put_new(seen)
    with opened[0] as writer:
        writer.write(b"mine")
    assert listing(file.parent) == [("policy", b"mine" + OLD[4:])]
