"""Where a file really is, what is seen of it, and why it cannot be replaced: told before anything is written."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged, FileError
from ibkeys.host.replacing import mounts
from ibkeys.host.replacing.file_to_replace import look, real_path
from tests.host.replacing.helpers import OLD, names, run_python, what_hinders

CHECK = "import sys, pathlib; from tests.host.replacing.helpers import what_hinders; "
PRINT = "print(what_hinders(pathlib.Path(sys.argv[1])))"
MOUNT = "import subprocess; run = lambda *words: subprocess.run(words, check=True); "
NO_USER = 65534


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="as root only")
needs_mounts = pytest.mark.soak
"""In a container nothing can be mounted or marked as immutable, and `make test` must pass there."""


def test_a_plain_file_can_be_replaced_and_one_that_is_not_there_made(file: Path) -> None:
    assert what_hinders(file) is None
    assert what_hinders(file.with_name("new")) is None
    assert look(file.with_name("new")).found is None
    assert names(file.parent) == ["policy"]


def test_all_of_a_file_is_seen(file: Path) -> None:
    os.setxattr(file, "user.note", b"a\0b")
    found = look(file).found
    assert found is not None
    assert (found.data, found.metadata.mode, found.metadata.uid) == (OLD, 0o640, os.geteuid())
    assert found.metadata.attributes == {"user.note": b"a\0b"}
    assert (found.inode, found.modified_ns) == (file.stat().st_ino, file.stat().st_mtime_ns)


def test_what_is_seen_does_not_show_the_bytes(file: Path) -> None:
    file.write_bytes(b"secret")
    assert "secret" not in repr(look(file))


def test_a_chain_of_links_is_followed_to_the_real_file(tmp_path: Path, file: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").symlink_to("../two")
    (tmp_path / "two").symlink_to(file)
    (tmp_path / "short").symlink_to("deep")
    assert look(tmp_path / "short" / "one").path == file
    assert real_path(tmp_path / "short" / ".." / "policy") == file


def test_a_relative_name_is_one_of_the_current_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert real_path(Path("policy")) == file


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("gone")
    assert what_hinders(tmp_path / "link") == (
        f"{tmp_path}/link: a symbolic link to {tmp_path}/gone, which does not exist"
    )
    (tmp_path / "far").symlink_to("no/folder")
    assert "which does not exist" in str(what_hinders(tmp_path / "far"))


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "a loop of symbolic links" in str(what_hinders(tmp_path / "a"))


def test_a_file_without_a_folder_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path}/no, which does not exist" in str(what_hinders(tmp_path / "no" / "file"))


@pytest.mark.parametrize("kind", ["folder", "fifo", "root"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "place" if kind != "root" else Path("/")
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    assert "not a regular file" in str(what_hinders(path))
    with pytest.raises(FileError, match="not a regular file"):
        look(path)


def test_a_name_with_nul_or_without_utf8_or_too_long_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in str(what_hinders(tmp_path / "a\0b"))
    assert "not UTF-8" in str(what_hinders(tmp_path / os.fsdecode(b"\xff")))
    assert "too long" in str(what_hinders(tmp_path / ("n" * 240)))


def test_a_file_larger_than_the_limit_is_refused(file: Path) -> None:
    assert "more than 3 bytes" in str(what_hinders(file, limit=3))


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        if offset:  # after its first part
            os.utime(file, ns=(1, 1))
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(FileChanged, match="is writing it right now"):
        look(file)


def test_a_file_with_two_names_is_refused(file: Path) -> None:
    os.link(file, file.with_name("other"))
    assert "2 names" in str(what_hinders(file))


@needs_mounts
def test_a_bind_mount_is_refused_though_its_device_is_that_of_its_folder(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(b"other")
    code = CHECK + MOUNT + "run('mount', '--bind', sys.argv[2], sys.argv[1]); " + PRINT
    assert "is a mount point itself" in run_python(code, file, other, unshare=True)


@needs_mounts
def test_a_bind_mount_is_refused_without_proc_when_it_has_another_device(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "PROC", tmp_path / "none")
    assert what_hinders(file) is None
    code = CHECK + MOUNT + (
        "from ibkeys.host.replacing import mounts; mounts.PROC = pathlib.Path('/none'); "
        "run('mount', '-t', 'tmpfs', 'none', '/mnt'); pathlib.Path('/mnt/a').write_bytes(b'a'); "
        "run('mount', '--bind', '/mnt/a', sys.argv[1]); "
    ) + PRINT  # fmt: skip
    assert "is a mount point itself" in run_python(code, file, unshare=True)


@needs_mounts
def test_a_read_only_file_system_is_refused(tmp_path: Path) -> None:
    code = CHECK + MOUNT + (
        "run('mount', '-t', 'tmpfs', 'none', sys.argv[2]); pathlib.Path(sys.argv[1]).write_bytes(b'a'); "
        "run('mount', '-o', 'remount,bind,ro', sys.argv[2]); "
    ) + PRINT  # fmt: skip
    assert "read-only file system" in run_python(code, tmp_path / "file", tmp_path, unshare=True)


@pytest.mark.parametrize(("kind", "answer"), [("overlay", True), ("tmpfs", False), ("ext4", False), (None, False)])
def test_the_layer_of_a_container_is_told_by_the_type_of_its_mount(
    file: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None, answer: bool
) -> None:
    monkeypatch.setattr(mounts, "kind_of_mount", lambda number: kind)
    for path in (file, file.with_name("new")):
        assert mounts.is_in_layer(look(path)) is answer
        assert what_hinders(path) is None


def test_without_proc_no_folder_passes_for_the_layer_of_a_container(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "PROC", tmp_path / "none")
    assert not mounts.is_in_layer(look(file))
    assert mounts.kind_of_mount("1") is None


def test_the_type_of_a_mount_is_found_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "PROC", tmp_path)
    (tmp_path / "mountinfo").write_text(
        "22 1 0:21 / / rw - overlay overlay rw,lowerdir=/l\n"
        "221 22 0:22 / /etc/opensm rw shared:2 master:1 - ext4 /dev/vda rw\n"
        "23 22 0:23 / /tmp/with\\040- rw - tmpfs tmpfs rw\n"
    )
    found = [mounts.kind_of_mount(number) for number in ("22", "221", "23", "2", "")]
    assert found == ["overlay", "ext4", "tmpfs", None, None]


@needs_mounts
def test_a_real_layer_is_told_from_a_volume_in_it(tmp_path: Path) -> None:
    code = CHECK + MOUNT + (
        "import os; run('mount', '-t', 'tmpfs', 'none', sys.argv[2]); os.chdir(sys.argv[2]); "
        "[os.mkdir(name) for name in ('lower', 'upper', 'work', 'all')]; "
        "pathlib.Path('lower/file').write_bytes(b'a'); "
        "run('mount', '-t', 'overlay', 'o', '-o', 'lowerdir=lower,upperdir=upper,workdir=work', 'all'); "
        "os.mkdir('all/volume'); run('mount', '-t', 'tmpfs', 'none', 'all/volume'); "
        "from ibkeys.host.replacing.mounts import is_in_layer; from ibkeys.host.replacing.file_to_replace import look; "
        "places = [pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[1]).parent / 'volume' / 'file']; "
        "print([is_in_layer(look(place)) for place in places]); "
    ) + PRINT  # fmt: skip
    answer = run_python(code, tmp_path / "all" / "file", tmp_path, unshare=True)
    assert answer.splitlines() == ["[True, False]", "None"]


@pytest.fixture
def open_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that another user can reach."""
    closed = [above for above in [tmp_path, *tmp_path.parents] if not above.stat().st_mode & 0o001]
    modes = [above.stat().st_mode for above in closed]
    for above in closed:
        above.chmod(0o711)
    yield tmp_path
    for above, mode in zip(closed, modes, strict=True):
        above.chmod(mode)


@needs_root
@pytest.mark.parametrize(
    ("mode", "owner", "reason"),
    [
        (0o755, NO_USER, "no file can be created in"),
        (0o777, 0, "only root can make a file that belongs to another user"),
        (0o1777, 0, "lets only that user replace it"),
        (0o777, NO_USER, "None"),
    ],
)
def test_what_another_user_than_root_may_not_do_is_refused(
    open_folder: Path, mode: int, owner: int, reason: str
) -> None:
    place = open_folder / "place"
    place.mkdir()
    place.chmod(mode)
    (place / "file").write_bytes(b"a")
    os.chown(place / "file", owner, owner)
    code = CHECK + f"import os; os.setgroups([]); os.setgid({NO_USER}); os.setuid({NO_USER}); " + PRINT
    answer = run_python(code, place / "file")
    assert reason in answer


@needs_root
def test_a_link_of_another_user_is_refused(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    os.lchown(link, NO_USER, NO_USER)
    assert f"symbolic link of another user (UID {NO_USER})" in str(what_hinders(link))


@pytest.mark.parametrize("call", ["fcntl.ioctl", "os.fstatvfs"])
def test_a_file_that_cannot_be_examined_is_an_error_of_a_file(
    file: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(f"ibkeys.host.replacing.hindrances.{call}", fail)
    assert what_hinders(file) == f"{file}: cannot be examined: Input/output error"


@needs_mounts
@needs_root
@pytest.mark.parametrize("marked", ["policy", "."])
def test_what_is_marked_as_immutable_is_refused(file: Path, marked: str) -> None:
    subprocess.run(["chattr", "+i", file.parent / marked], check=True)
    try:
        assert "immutable" in str(what_hinders(file))
    finally:
        subprocess.run(["chattr", "-i", file.parent / marked], check=True)
