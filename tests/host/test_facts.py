"""What of a host guards or gives away keys: read from a made-up root, and nothing of it shows a key."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibkeys.host.file_access import FileFact, read_file_fact
from ibkeys.host.host_files import HostTime, LocalFiles
from ibkeys.keys.mkey import MKey
from ibkeys.managers.host_facts import HostFacts, read_privileged_qkey
from ibkeys.managers.opensm.process import OpensmConfig, opensm_processes, read_opensm_config
from tests.host.facts import KEY, facts, made
from tests.integration.ibsim import tool


def fact(mode: int, *parents: int, uid: int = 0, owners: Sequence[int] = ()) -> FileFact:
    read = read_file_fact(Path("/"))
    assert read is not None
    above = [(Path("/"), parent, owner) for parent, owner in zip(parents, [*owners, *[0] * len(parents)], strict=False)]
    return FileFact(Path("/x"), mode, uid, 0, read.modified, tuple(above))


@pytest.mark.parametrize(
    ("mode", "parents", "readable"),
    [
        (0o600, (0o755, 0o755), False),
        (0o640, (0o755, 0o755), True),
        (0o604, (0o755, 0o755), True),
        (0o644, (0o700, 0o755), False),
        (0o644, (0o710, 0o755), True),
        (0o604, (0o750, 0o755), True),  # the folder's group need not be the file's
        (0o604, (0o700, 0o755), False),
        (0o644, (0o755, 0o700), False),
        (0o644, (0o711, 0o711), True),
    ],
)
def test_who_can_read_a_file_depends_on_its_mode_and_every_directory_above(
    mode: int, parents: tuple[int, ...], readable: bool
) -> None:
    assert fact(mode, *parents).others_can_read is readable


@pytest.mark.parametrize(
    ("mode", "parents", "writable"),
    [(0o600, (0o755,), False), (0o620, (0o755,), True), (0o600, (0o777,), True), (0o600, (0o1777,), False)],
)
def test_who_can_replace_a_file(mode: int, parents: tuple[int, ...], writable: bool) -> None:
    assert fact(mode, *parents).others_can_write is writable


def test_a_directory_of_another_user_is_named() -> None:
    assert fact(0o600, 0o755, 0o755, uid=7, owners=(1000, 7)).strange_owners == (1000,)


def test_symbolic_links_are_followed_to_the_directories_that_count(tmp_path: Path) -> None:
    made(tmp_path / "real" / "guid2mkey")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    read = read_file_fact(tmp_path / "link" / "guid2mkey")
    assert read is not None
    assert read.parents[0][0] == tmp_path / "real"
    assert read_file_fact(tmp_path / "nothing") is None


# --- opensm.conf ------------------------------------------------------------------------------------------------------


def config(tmp_path: Path, text: str) -> OpensmConfig:
    read = read_opensm_config(made(tmp_path / "opensm.conf", text))
    assert read is not None
    return read


def test_what_the_file_does_not_say_is_opensms_default(tmp_path: Path) -> None:
    read = config(tmp_path, "# m_key 0x5\n\n")
    assert (read.m_key_set, read.m_key_protection_level, read.m_key_lease_period) == (False, 0, 0)
    assert (read.m_key_lookup, read.sm_key_default, read.sa_key_default, read.holds_key) == (True, True, True, False)
    assert read_opensm_config(tmp_path / "nothing") is None


def test_options_of_keys(tmp_path: Path) -> None:
    text = (
        f"m_key {KEY:#x}\nm_key_protection_level 2 # high\nm_key_lease_period 0x3c\nm_key_lookup FALSE\n"
        "sm_key 0x0000000000000001\nsa_key 0x77\nsweep_interval 10\nsweep_interval 20\n"
    )
    read = config(tmp_path, text)
    assert (read.m_key_set, read.m_key_all_ones, read.m_key_lookup) == (True, False, False)
    assert (read.m_key_protection_level, read.m_key_lease_period, read.sweep_interval) == (2, 60, 20)
    assert (read.sm_key_default, read.sa_key_default, read.holds_key) == (True, False, True)
    assert read.m_key == MKey(KEY)
    assert read.is_sm_or_sa_key(MKey(0x77))
    assert read.is_sm_or_sa_key(MKey(1))
    assert not read.is_sm_or_sa_key(MKey(KEY))
    assert f"{KEY:x}" not in repr(read)
    assert str(KEY) not in repr(read)


def test_all_ones_and_mistakes(tmp_path: Path) -> None:
    assert config(tmp_path, "m_key 0xffffffffffffffff\n").m_key_all_ones
    read = config(tmp_path, f"m_key {KEY:x}\nm_key_lease_period ten\n")
    assert (read.mistakes, read.m_key_set) == (("m_key", "m_key_lease_period"), False)
    assert f"{KEY:x}" not in repr(read)


@pytest.mark.integration
def test_the_configuration_that_opensm_writes_is_read(tmp_path: Path) -> None:
    """The oracle is OpenSM's own template: every option of this module is in it, with the default that it has here."""
    path = tmp_path / "written.conf"
    subprocess.run([tool("opensm"), "-c", path], capture_output=True, timeout=60, check=False)
    text = path.read_text()
    for name in ("m_key", "m_key_protection_level", "m_key_lease_period", "m_key_lookup", "sm_key", "sa_key"):
        assert f"\n{name} " in text
    written, default = read_opensm_config(path), config(tmp_path, "")
    assert written is not None
    assert {name: getattr(written, name) for name in OpensmConfig.__slots__ if name != "file"} == {
        name: getattr(default, name) for name in OpensmConfig.__slots__ if name != "file"
    }


# --- running OpenSM ---------------------------------------------------------------------------------------------------


@pytest.fixture
def proc(tmp_path: Path) -> Callable[..., Path]:
    def process(pid: int, *arguments: str, environment: Sequence[str] = (), root: str = "/") -> Path:
        folder = tmp_path / "proc" / str(pid)
        made(folder / "cmdline", "".join(f"{word}\0" for word in arguments))
        made(folder / "environ", "".join(f"{word}\0" for word in environment))
        (folder / "root").symlink_to(root)
        (folder / "cwd").symlink_to(tmp_path / "work")
        return folder

    return process


def test_running_opensm_is_found_with_its_directory_and_configuration(
    tmp_path: Path, proc: Callable[..., Path]
) -> None:
    proc(10, "/usr/sbin/opensm", "-F", "/etc/x.conf", environment=["A=1", "OSM_CACHE_DIR=/var/osm"])
    proc(11, "opensm", "--config=conf", environment=["OSM_CACHE_DIR="])
    proc(12, "vi", "/etc/opensm/opensm.conf")
    (proc(13, "opensm") / "environ").unlink()
    (tmp_path / "proc" / "kernel").mkdir()
    found = opensm_processes(tmp_path / "proc", Path("/default"))
    assert [(each.pid, each.cache, each.cache_known, each.config) for each in found] == [
        (10, Path("/var/osm"), True, Path("/etc/x.conf")),
        (11, Path("/default"), True, tmp_path / "work" / "conf"),
        (13, Path("/default"), False, None),
    ]


@pytest.mark.parametrize(
    "words",
    [
        *(["-F", "/x.conf"], ["-F/x.conf"], ["--config", "/x.conf"], ["--config=/x.conf"], ["--conf=/x.conf"]),
        *(["-conf", "/x.conf"], ["-config=/x.conf"], ["-B", "-F", "/old", "-g", "0x1", "-F", "/x.conf"]),
    ],
)
def test_the_configuration_is_found_however_it_is_spelled(
    words: list[str], tmp_path: Path, proc: Callable[..., Path]
) -> None:
    proc(10, "opensm", *words)
    assert [each.config for each in opensm_processes(tmp_path / "proc")] == [Path("/x.conf")]


def test_no_configuration_is_found_where_none_is_named(tmp_path: Path, proc: Callable[..., Path]) -> None:
    for pid, words in enumerate((["-P", "/p.conf"], ["--console", "off"], ["-F"], ["--connect_roots"])):
        proc(10 + pid, "opensm", *words)
    assert {each.config for each in opensm_processes(tmp_path / "proc")} == {None}


def test_opensm_in_a_container_is_reached_through_its_root(tmp_path: Path, proc: Callable[..., Path]) -> None:
    made(tmp_path / "inner" / "var" / "osm" / "guid2mkey", "0x1 0x2\n\n")
    folder = proc(10, "opensm", environment=["OSM_CACHE_DIR=/var/osm"], root=str(tmp_path / "inner"))
    [found] = opensm_processes(tmp_path / "proc")
    assert found.cache == folder / "root" / "var" / "osm"
    assert (found.cache / "guid2mkey").exists()


def test_a_process_that_ends_at_any_read_of_it_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder in a made-up /proc goes before one call of the system after another."""
    inner, folder = tmp_path / "inner", tmp_path / "proc" / "10"
    made(inner / "var" / "osm" / "guid2mkey", "0x1 0x2\n\n")
    made(inner / "o.conf", "m_key 0x3\n")
    calls, ends_at = 0, 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == ends_at:
                shutil.rmtree(folder)
            return call(*args, **named)

        return wrapped

    while calls >= ends_at:
        made(folder / "cmdline", "opensm\0-F\0/o.conf\0")
        made(folder / "environ", "OSM_CACHE_DIR=/var/osm\0")
        if not (folder / "root").exists():
            (folder / "root").symlink_to(inner)
        calls, ends_at = 0, ends_at + 1
        with monkeypatch.context() as patch:
            for name in ("open", "stat", "lstat", "readlink", "listdir"):
                patch.setattr(os, name, counted(getattr(os, name)))
            found = facts(tmp_path)
    assert ends_at > 100
    assert [each.config for each in found.opensm_processes] == [folder / "root" / "o.conf"]


def test_a_process_of_another_user_is_not_taken_for_opensm(
    tmp_path: Path, proc: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that runs as root for whoever started it: any of its user IDs counts."""
    other = os.geteuid() + 7
    made(proc(10, "opensm", "-F", "/trap") / "status", f"Name:\topensm\nUid:\t{other}\t0\t0\t0\nGid:\t0\t0\t0\t0\n")
    made(proc(11, "opensm", "-F", "/good") / "status", "Name:\topensm\nUid:\t0\t0\t0\t0\n")
    found = opensm_processes(tmp_path / "proc", devices=tmp_path / "dev")
    assert [each.pid for each in found] == [11]
    made(tmp_path / "dev" / "umad0")  # lets the owner of the made-up folders in, who need not be root
    monkeypatch.setattr("ibkeys.managers.opensm.process.os.geteuid", lambda: other)
    assert 10 in [each.pid for each in opensm_processes(tmp_path / "proc", devices=tmp_path / "dev")], "one's own"


def test_a_process_of_the_owner_of_a_umad_device_is_opensm(tmp_path: Path, proc: Callable[..., Path]) -> None:
    """Made up the other way round: here the devices and the folders of the processes belong to whoever runs this."""
    other = os.geteuid() + 7
    made(proc(10, "opensm") / "status", f"Uid:\t{other}\t{other}\t{other}\t{other}\n")
    assert opensm_processes(tmp_path / "proc", devices=tmp_path / "dev") == []
    made(tmp_path / "dev" / "umad0")
    with pytest.MonkeyPatch.context() as patch:
        stat = LocalFiles.stat

        def owned(self: LocalFiles, path: Path) -> FileFact:
            found = stat(self, path)
            return replace(found, uid=other) if path.name == "umad0" else found

        patch.setattr(LocalFiles, "stat", owned)
        assert [each.pid for each in opensm_processes(tmp_path / "proc", devices=tmp_path / "dev")] == [10]


class OneClock(LocalFiles):
    def clock(self) -> HostTime:
        return HostTime(now=1000.0, uptime=600.0, precision=0.01)


def test_when_a_process_started_its_unit_its_umask_and_where_it_speaks(
    tmp_path: Path, proc: Callable[..., Path]
) -> None:
    folder = proc(10, "opensm", "-B", environment=["OSM_TMP_DIR=/d", "PASSWORD=x", "OSM_CACHE_DIR=/c"])
    made(folder / "stat", "10 (open) sm) S " + " ".join(str(number) for number in range(4, 60)))
    made(folder / "status", "Name:\topensm\nUmask:\t0077\nUid:\t0\t0\t0\t0\n")
    made(folder / "cgroup", "0::/system.slice/system-opensm.slice/opensm@0x0002c903.service\n")
    (folder / "fd").mkdir()
    (folder / "fd" / "1").symlink_to("/dev/null")
    [found] = opensm_processes(tmp_path / "proc", host=OneClock())
    assert (found.started, found.start_precision) == (400.0 + 22 / 100, 0.01), (
        "field 22 of stat, in ticks since the host booted"
    )
    assert found.ticks == 22
    assert (found.unit, found.umask, found.output) == ("opensm@0x0002c903.service", 0o077, "/dev/null")
    assert found.environment == {"OSM_CACHE_DIR": "/c", "OSM_TMP_DIR": "/d"}
    assert (found.cwd, found.command.option("daemon")) == (tmp_path / "work", True)


def test_what_proc_does_not_say_is_not_known(tmp_path: Path, proc: Callable[..., Path]) -> None:
    folder = proc(10, "opensm")
    for name in ("environ", "cwd"):
        (folder / name).unlink()
    [found] = opensm_processes(tmp_path / "proc", host=OneClock())
    unknown = (found.environment, found.cwd, found.started, found.unit, found.umask, found.output, found.ticks)
    assert unknown == (None,) * 7


def test_files_that_a_process_names_are_read_only_if_they_are_files(tmp_path: Path, proc: Callable[..., Path]) -> None:
    """A FIFO would hold up whoever reads it until somebody writes; a large file would fill the memory."""
    for name in ("config", "cache/guid2mkey"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    large = made(tmp_path / "large")
    os.truncate(large, 1 << 40)
    cache = f"OSM_CACHE_DIR={tmp_path / 'cache'}"
    proc(10, "opensm", "-F", str(tmp_path / "config"), environment=[cache])
    proc(11, "opensm", "-F", str(large))
    found = facts(tmp_path)
    assert [(each.kind, each.file.path.name, each.holds_key) for each in found.key_files] == [
        ("guid2mkey", "guid2mkey", None),
        ("opensm.conf", "config", None),
        ("opensm.conf", "large", None),
    ]
    assert found.opensm_configs == ()


def test_a_process_that_hides_its_arguments_behind_gigabytes_is_passed_over(
    tmp_path: Path, proc: Callable[..., Path]
) -> None:
    os.truncate(proc(10, "opensm") / "cmdline", 1 << 40)
    assert opensm_processes(tmp_path / "proc") == []


# --- all of it --------------------------------------------------------------------------------------------------------


def test_a_host_with_nothing_of_it(tmp_path: Path) -> None:
    assert facts(tmp_path) == HostFacts((), (), (), (), None)


def test_an_opensm_of_another_simulated_subnet_is_none_of_this_fabrics(
    tmp_path: Path, proc: Callable[..., Path]
) -> None:
    proc(10, "opensm", environment=["IBSIM_SOCKNAME=mine"])
    proc(11, "opensm", environment=["IBSIM_SOCKNAME=other"])
    proc(12, "opensm", environment=["A=1"])

    def seen(socket: str | None) -> list[int]:
        return [process.pid for process in facts(tmp_path, socket=socket).opensm_processes]

    assert (seen("mine"), seen(""), seen(None)) == ([10], [12], [10, 11, 12])


def test_key_files_devices_and_the_kernels_switch(tmp_path: Path) -> None:
    made(tmp_path / "cache" / "guid2mkey", f"0x1 {KEY:#x}\n\n", 0o644)
    made(tmp_path / "other" / "guid2mkey", "0x1 0x0\n\n")
    made(tmp_path / "etc" / "opensm.conf", f"m_key {KEY:#x}\n", 0o640)
    made(tmp_path / "etc" / "ibdiag.conf", "#m_key=0x5\nm_key=0x00\nsa_key=\n", 0o644)
    made(tmp_path / "keys.db")
    made(tmp_path / "dev" / "umad0", mode=0o666)
    made(tmp_path / "dev" / "issm0")
    made(tmp_path / "dev" / "uverbs0", mode=0o666)
    found = facts(
        tmp_path,
        keystore=tmp_path / "keys.db",
        security_keys=[tmp_path / "other", tmp_path / "cache"],
        run=lambda command: "netns shared privileged-qkey on copy-on-fork on\n",
    )
    assert [
        (each.kind, each.file.path.parent.name, each.holds_key, each.file.is_private) for each in found.key_files
    ] == [
        ("guid2mkey", "other", False, True),
        ("guid2mkey", "cache", True, False),
        ("opensm.conf", "etc", True, False),
        ("ibdiag.conf", "etc", False, False),
        ("key store", tmp_path.name, True, True),
    ]
    assert [(each.path.name, each.others_can_open) for each in found.devices] == [("umad0", True), ("issm0", False)]
    assert found.privileged_qkey is True
    assert len(found.opensm_configs) == 1
    assert f"{KEY:x}" not in repr(found)


@pytest.mark.parametrize("text", ["m_key=0x5\n", "  sa_key = 7\n", "m_key=what\n"])
def test_a_key_in_ibdiag_conf(tmp_path: Path, text: str) -> None:
    made(tmp_path / "etc" / "ibdiag.conf", text)
    [file] = facts(tmp_path).key_files
    assert file.holds_key is True


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    made(tmp_path / "cache" / "guid2mkey", " 0x1 0x2\n")  # no record
    (tmp_path / "etc" / "opensm.conf").mkdir(parents=True)  # root may read any file, but no directory
    assert [(each.kind, each.holds_key) for each in facts(tmp_path).key_files] == [
        ("guid2mkey", None),
        ("opensm.conf", None),
    ]


@pytest.mark.parametrize(
    ("said", "on"),
    [
        ("netns shared privileged-qkey off copy-on-fork on", False),
        ("netns exclusive privileged-qkey on ", True),
        ('[{"netns":"shared","privileged-qkey":"on"}]', True),
        ("netns shared copy-on-fork on", None),
        ("", None),
        (None, None),
    ],
)
def test_the_kernels_switch_for_controlled_q_keys(said: str | None, on: bool | None) -> None:
    asked: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> str | None:
        asked.append(command)
        return said

    assert read_privileged_qkey(run) is on
    assert asked == [("rdma", "system", "show")]


def test_a_program_that_is_not_there_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    assert facts(tmp_path, run=None).privileged_qkey is None


class EndsWhileLookedAt(LocalFiles):
    """The process is gone once its environment was asked for."""

    def read(self, path: Path, limit: int) -> bytes:
        if path.name == "environ":
            (path.parent / "cmdline").write_bytes(b"")
            raise ProcessLookupError(path)
        return super().read(path, limit)


def test_a_process_that_ends_while_it_is_looked_at_is_none(tmp_path: Path, proc: Callable[..., Path]) -> None:
    """Else it would count as one of which nothing is known: perhaps an OpenSM of this very subnet."""
    proc(10, "opensm")
    assert opensm_processes(tmp_path / "proc", host=EndsWhileLookedAt()) == []
