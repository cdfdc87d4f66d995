"""Files looked up inside of another process' root directory, and nothing of one's own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ibkeys.files import SETTINGS, NoRegularFile
from ibkeys.host.host_files import LocalFiles
from ibkeys.host.inside_root import NameOfDescriptor
from ibkeys.managers.opensm.process import read_opensm_config


@pytest.fixture
def jail(tmp_path: Path) -> Path:
    """The root directory of process 7 in a /proc of the test's own, with one file; the same name is outside too."""
    root = tmp_path / "jail"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "p.conf").write_text("inside")
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "root").symlink_to(root)
    return root


def read(jail: Path, name: str) -> bytes:
    proc = jail.parent / "proc"
    return LocalFiles(proc=proc).read(proc / "7" / "root" / name, SETTINGS)


def test_an_absolute_link_begins_at_that_root_and_dots_never_leave_it(jail: Path) -> None:
    (jail / "absolute").symlink_to("/etc/p.conf")
    (jail / "dots").symlink_to("../../../../etc/p.conf")
    (jail / "folder").symlink_to("/etc")
    for name in ("etc/p.conf", "absolute", "dots", "folder/p.conf", "folder/../../etc/p.conf"):
        assert read(jail, name) == b"inside", name
    (jail / "out").symlink_to(jail.parent / "outside")
    with pytest.raises(FileNotFoundError):
        read(jail, "out")
    with pytest.raises(FileNotFoundError):
        read(jail, "../outside")


def test_the_directories_above_are_those_of_the_jail(jail: Path) -> None:
    (jail / "etc").chmod(0o777)
    (jail / "absolute").symlink_to("/etc/p.conf")
    proc = jail.parent / "proc"
    fact = LocalFiles(proc=proc).stat(proc / "7" / "root" / "absolute")
    root = proc / "7" / "root"
    assert [(path, mode) for path, mode, _ in fact.parents] == [
        (root / "etc", 0o777),
        (root, jail.stat().st_mode & 0o7777),
    ]
    assert fact.others_can_write


def test_links_in_a_circle_end(jail: Path) -> None:
    (jail / "one").symlink_to("two")
    (jail / "two").symlink_to("one")
    with pytest.raises(OSError, match="symbolic links") as caught:
        read(jail, "one")
    assert caught.value.errno == errno.ELOOP


def test_nothing_that_this_process_has_open_is_read(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("m_key 0x1\n")
    with own.open() as file:
        names = [
            f"/dev/fd/{file.fileno()}",
            f"/proc/self/fd/{file.fileno()}",
            f"/proc/{os.getpid()}/fd/{file.fileno()}",
        ]
        (tmp_path / "link").symlink_to(names[1])
        for name in (*names, str(tmp_path / "link"), "/dev/stdin"):
            with pytest.raises(NameOfDescriptor):
                LocalFiles().read(Path(name), SETTINGS)
            assert read_opensm_config(Path(name)) is None, name
    assert LocalFiles().read(own, SETTINGS) == b"m_key 0x1\n"


def test_only_regular_files_are_read_and_a_fifo_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "fifo", tmp_path, Path("/dev/null")):
        with pytest.raises(NoRegularFile):
            LocalFiles().read(name, SETTINGS)
