"""Looking at a file of an SM's host: where it is, what it holds, and what stands in the way of replacing it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import FileError
from ibkeys.host.replacing.file_to_replace import look
from ibkeys.managers.machines import other_host
from ibkeys.managers.machines.folder_facts import FolderFacts, folder_hindrance
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.machines.other_root import refuse_other_root
from ibkeys.managers.machines.this_host import THIS
from ibkeys.store.journal import Journal
from tests.managers.hosts import MadeUpHost
from tests.managers.machines.there import NEW, OLD, names, put

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="as root only")


def test_what_is_seen_is_what_this_host_would_see(host: OtherHost, file: Path) -> None:
    os.utime(file, ns=(1_600_000_000_000_000_007,) * 2)
    (file.parent / "link").symlink_to("partitions.conf")
    ours = look(file)
    assert ours.found is not None
    for path in (file, file.parent / "link", file.parent / ".." / "etc" / "link"):
        assert host.look(path) == replace(ours, found=replace(ours.found, metadata=host.look(file).found.metadata))  # type: ignore[union-attr]
    assert host.look(file.parent / "none").found is None


@pytest.mark.parametrize(
    "name", ["with blank", "-dash", "quo'te\"$(x)`y`", "back\\slash", "*", "a|b", "ü", "trailing "]
)
def test_any_name_is_a_name_and_nothing_else(host: OtherHost, journal: Journal, file: Path, name: str) -> None:
    path = file.parent / name / name
    path.parent.mkdir()
    path.write_bytes(OLD)
    put(host, journal, path, NEW)
    assert path.read_bytes() == NEW
    assert names(path.parent) == [name]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda file: file.symlink_to("none"), "a symbolic link to .*none, which does not exist"),
        (lambda file: file.symlink_to(file.name), "a loop of symbolic links"),
        (lambda file: file.mkdir(), "not a regular file"),
        (os.mkfifo, "not a regular file"),
    ],
)
def test_what_cannot_be_a_policy_is_refused(
    host: OtherHost, file: Path, make: Callable[[Path], None], words: str
) -> None:
    file.unlink()
    make(file)
    with pytest.raises(FileError, match=words):
        host.look(file)


def test_names_that_cannot_be_asked_for(host: OtherHost, file: Path) -> None:
    for path, words in (
        (Path("relative"), "is a relative path"),
        (file.parent / "no" / "file", "is not there"),
        (file.parent / "new\nline", "cannot be asked for"),
    ):
        with pytest.raises(FileError, match=words):
            host.look(path)


@needs_root
def test_a_link_of_another_user_is_refused(host: OtherHost, file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    os.lchown(link, 65534, 65534)
    with pytest.raises(FileError, match=r"symbolic link of another user \(UID 65534\)"):
        host.look(link)


@needs_root
@pytest.mark.soak
@pytest.mark.parametrize("where", ["here", "there"])
def test_a_file_on_mounts_of_a_process_is_not_taken_for_one_of_the_host(
    host: OtherHost, file: Path, tmp_path: Path, where: str
) -> None:
    """/proc/PID/root reads like a link to /: the name leads to a file of the host, with the same path or none."""
    machine: Machine = THIS if where == "here" else host
    plain = Path(f"/proc/{os.getpid()}/root") / str(file)[1:]
    assert machine.look(plain).path == file
    assert machine.look(plain.with_name("none")).path == file.with_name("none")
    script = f"mount -t tmpfs none {file.parent} && echo theirs >{file} && echo ready && exec cat"
    with subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        inside = Path(f"/proc/{process.pid}/root") / str(file)[1:]
        for path in (inside, inside.with_name("none")):
            with pytest.raises(FileError, match="mount namespace"):
                machine.look(path)
        assert process.stdin is not None
        process.stdin.close()
    assert file.read_bytes() == OLD


@pytest.mark.parametrize(("inside", "outside"), [("/etc/p", "/etc/p"), ("/etc/p", None), (None, None)])
def test_what_a_name_means_and_where_it_leads_are_compared(inside: str | None, outside: str | None) -> None:
    made_up, of_process = MadeUpHost("sm2"), Path("/proc/7") / "root" / "etc"
    for folder, path in ((str(of_process), inside), ("/etc", outside)):
        made_up.folder(folder)
        if path is not None:
            made_up.file(f"{folder}/p")
    with pytest.raises(FileError, match=rf"^sm2: {of_process}/p: is in another root directory"):
        refuse_other_root(made_up, of_process / "p", Path("/etc/p"))
    refuse_other_root(made_up, Path("/etc/p"), Path("/etc/p"))


# --- what hinders -----------------------------------------------------------------------------------------------------


def test_a_plain_file_can_be_replaced_and_nothing_is_written_to_find_that_out(host: OtherHost, file: Path) -> None:
    before = file.parent.stat()
    assert host.hindrance(host.look(file)) is None
    assert host.hindrance(host.look(file.with_name("new"))) is None
    assert file.parent.stat().st_mtime_ns == before.st_mtime_ns
    os.link(file, file.with_name("other"))
    assert "2 names (hard links)" in str(host.hindrance(host.look(file)))
    assert "too long" in str(host.hindrance(host.look(file.with_name("n" * 230))))
    assert "not UTF-8" in str(host.hindrance(host.look(file.with_name(os.fsdecode(b"\xff")))))


GOOD = FolderFacts(
    0o40755, 0, 1, True, False, "27", "27", "1 254:0 / / rw,relatime - ext4 /dev/vda rw", "----e---", "----e---"
)


@pytest.mark.parametrize(
    ("ground", "user", "reason"),
    [
        (GOOD, 0, None),
        (replace(GOOD, own_mount="28"), 0, "is a mount point itself"),
        (replace(GOOD, own_mount="", device=2), 0, "is a mount point itself"),
        (replace(GOOD, own_mount=""), 0, None),
        (replace(GOOD, own_mount="", device=2, system="1 0:9 / / rw - overlay overlay rw"), 0, None),
        (replace(GOOD, system="1 0:9 / / rw - overlay overlay rw"), 0, None),
        (replace(GOOD, system="1 0:9 / / ro - ext4 x rw"), 0, "read-only file system"),
        (replace(GOOD, system="1 0:9 / / rw shared:1 - ext4 x ro,discard"), 0, "read-only file system"),
        (replace(GOOD, folder_flags="----i---"), 0, "no file can be replaced in /etc"),
        (replace(GOOD, flags="-----a--"), 0, "is marked as immutable or append-only"),
        (replace(GOOD, may_write=False), 5, "no file can be created in /etc by this user"),
        (GOOD, 5, "only root can make a file that belongs to another user"),
        (replace(GOOD, mode=0o41777), 5, "lets only that user replace it"),
    ],
)
def test_what_hinders(file: Path, ground: FolderFacts, user: int, reason: str | None) -> None:
    seen = look(file)
    assert seen.found is not None
    metadata = replace(seen.found.metadata, uid=7 if user else 0)
    seen = replace(seen, path=Path("/etc/p"), found=replace(seen.found, device=1, metadata=metadata))
    answer = folder_hindrance(seen, ground, user)
    assert (answer is None) if reason is None else (reason in str(answer))


@pytest.mark.parametrize(
    ("system", "answer"),
    [
        ("1 0:9 / / rw - overlay overlay rw,lowerdir=/l", True),
        ("1 0:9 / / rw shared:1 - overlay overlay rw", True),
        ("1 254:0 / / rw,relatime - ext4 overlay rw", False),
        ("1 0:9 / /overlay rw - tmpfs none rw", False),
        ("", False),
    ],
)
def test_the_layer_of_a_container_there_is_told_by_the_type_of_its_mount(
    host: OtherHost, file: Path, monkeypatch: pytest.MonkeyPatch, system: str, answer: bool
) -> None:
    real = other_host.read_folder_facts
    monkeypatch.setattr(other_host, "read_folder_facts", lambda *words: replace(real(*words), system=system))
    seen = host.look(file)
    assert host.is_in_layer(seen) is answer
    assert host.hindrance(seen) is None


@needs_root
@pytest.mark.soak
@pytest.mark.parametrize("marked", ["partitions.conf", "."])
def test_what_is_marked_as_immutable_is_refused(host: OtherHost, file: Path, marked: str) -> None:
    subprocess.run(["chattr", "+i", file.parent / marked], check=True)
    try:
        assert "immutable" in str(host.hindrance(host.look(file)))
    finally:
        subprocess.run(["chattr", "-i", file.parent / marked], check=True)
