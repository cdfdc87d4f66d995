"""Files by name: what is read and how much of it, what is never opened, and what writing leaves alone."""

from __future__ import annotations

import os
import pty
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys import files
from ibkeys.errors import FileError
from tests.owners import GROUP, OWNER, give_away


@pytest.fixture(params=["fifo", "socket", "device", "folder", "link to a fifo"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Something else than a regular file; the device is the end of a terminal that is made for it."""
    path = tmp_path / "place"
    if request.param == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
            yield path
    elif request.param == "device":
        ours, theirs = pty.openpty()
        yield Path(os.ttyname(theirs))
        os.close(ours)
        os.close(theirs)
    else:
        if request.param == "folder":
            path.mkdir()
        else:
            os.mkfifo(tmp_path / "pipe")
            path.symlink_to("pipe")
        yield path


def test_what_is_no_regular_file_is_not_read(no_file: Path) -> None:
    with pytest.raises(files.NoRegularFile, match="not a regular file"):
        files.read_bytes(no_file, 100)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert files.read_bytes(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        files.read_bytes(path, 4)


def test_gigabytes_are_refused_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.touch()
    os.truncate(path, 1 << 40)
    monkeypatch.setattr("ibkeys.files.os.pread", None)
    with pytest.raises(OSError, match="more than 1024 MiB"):
        files.read_bytes(path, files.STATE)


def test_a_file_that_shows_no_size_is_bounded_too() -> None:
    """As those below /proc."""
    assert files.read_bytes(f"/proc/{os.getpid()}/cmdline", files.MIB)
    with pytest.raises(OSError, match="more than 3 bytes"):
        files.read_bytes(f"/proc/{os.getpid()}/cmdline", 3)


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/{pid}/fd/{}", "/dev//fd/./{}"])
def test_an_inherited_pipe_is_read_to_its_end_and_bounded(form: str) -> None:
    for content, limit in ((b"secret\n", 7), (b"secret\n", 6)):
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        path = form.format(reader, pid=os.getpid())
        if len(content) <= limit:
            assert files.read_with_mode(path, limit) == (content, None)
        else:
            with pytest.raises(OSError, match="more than 6 bytes"):
                files.read_bytes(path, limit)
        os.close(reader)


def test_an_inherited_file_is_read_from_its_start(tmp_path: Path) -> None:
    descriptor = os.memfd_create("key")
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, b"whole")
    assert files.read_with_mode(f"/proc/self/fd/{descriptor}", 100) == (b"whole", 0o600)
    os.close(descriptor)


def test_standard_input_is_inherited_and_another_process_is_not() -> None:
    assert [files.inherited(f"/dev/{name}") for name in ("stdin", "stdout", "stderr")] == [0, 1, 2]
    assert files.inherited(f"/proc/{os.getppid()}/fd/0") is None
    assert files.inherited("/dev/fd") is None
    assert files.inherited("x/dev/fd/1") is None


@pytest.mark.parametrize("path", ["/dev/fd/999999", "/nothing/there", "a\0b", ""])
def test_what_is_not_there_is_an_error_in_words(path: str) -> None:
    with pytest.raises(OSError, match=r"\w") as raised:
        files.read_bytes(path, 100)
    assert raised.value.strerror


# --- writing ----------------------------------------------------------------------------------------------------------


def test_what_is_no_regular_file_is_not_written_to(no_file: Path) -> None:
    before = os.lstat(no_file)
    with pytest.raises(files.NoRegularFile):
        files.create_output(no_file)
    after = os.lstat(no_file)
    assert (before.st_ino, before.st_mode) == (after.st_ino, after.st_mode)


@pytest.mark.parametrize("follow", [False, True])
def test_a_link_is_no_place_for_output_unless_it_leads_to_a_file(tmp_path: Path, follow: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to("target")
    with pytest.raises(OSError, match="symbolic link"):
        files.check_output(link, follow)
    assert not target.exists()
    target.write_text("kept")
    if follow:
        assert files.check_output(link, follow) == target
    else:
        with pytest.raises(files.NoRegularFile):
            files.check_output(link, follow)


def test_a_link_of_another_user_is_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    monkeypatch.setattr(files, "trusted_users", lambda: frozenset({os.geteuid() + 1}))
    with pytest.raises(OSError, match="of another user"):
        files.check_output(tmp_path / "link", follow=True)


def test_output_takes_the_place_of_a_file_whose_other_names_and_readers_keep_the_old_one(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("old")
    path.chmod(0o666)
    os.link(path, other)
    with path.open() as reader:
        with files.create_output(path) as output:
            output.write(b"new")
        assert reader.read() == "old"
    assert (path.read_text(), other.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", "old", 0o600)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b"]


def test_output_into_an_inherited_pipe_is_as_it_comes() -> None:
    reader, writer = os.pipe()
    with files.create_output(Path(f"/dev/fd/{writer}")) as output:
        output.write(b"here")
    os.close(writer)
    assert os.read(reader, 100) == b"here"
    os.close(reader)


def test_what_is_replaced_as_it_was_read_keeps_its_owner_and_the_rights_that_it_may(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    give_away(path)
    data, status = files.read_to_replace(path, 100)
    files.replace_as_read(path, data + b"er", status, stat.S_IRWXU)
    after = path.stat()
    assert (path.read_text(), after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == ("older", OWNER, GROUP, 0o600)


@pytest.mark.parametrize("was", ["old", None])
@pytest.mark.parametrize("now", ["other", None])
def test_what_somebody_else_changed_meanwhile_is_not_replaced(tmp_path: Path, was: str | None, now: str | None) -> None:
    path = tmp_path / "a"
    status = None
    if was is not None:
        path.write_text(was)
        status = files.read_to_replace(path, 100)[1]
        path.unlink()
    if now is not None:
        path.write_text(now)
    if (was, now) == (None, None):
        files.replace_as_read(path, b"mine", status, stat.S_IRWXU)
        assert path.read_text() == "mine"
        return
    with pytest.raises(files.ChangedMeanwhile, match="nothing was written"):
        files.replace_as_read(path, b"mine", status, stat.S_IRWXU)
    assert [each.read_text() for each in tmp_path.iterdir()] == ([now] if now else [])


@pytest.mark.parametrize(
    ("own", "caller", "users"),
    [(0, "1000", {0, 1000}), (0, "", {0}), (0, "x", {0}), (5, "1000", {0, 5})],
)
def test_whose_files_are_trusted(own: int, caller: str, users: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.files.os.geteuid", lambda: own)
    monkeypatch.setenv("SUDO_UID", caller)
    assert files.trusted_users() == users


@pytest.mark.parametrize(
    ("failure", "why"), [(OSError(2, "no such file"), "no such file"), (OSError("no number"), "no number")]
)
def test_what_the_system_refuses_is_told_as_the_error_of_the_caller(failure: OSError, why: str) -> None:
    with pytest.raises(FileError) as caught, files.os_errors_as(FileError, "a: cannot be read"):
        raise failure
    assert (str(caught.value), caught.value.__cause__) == (f"a: cannot be read: {why}", failure)
