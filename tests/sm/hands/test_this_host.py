"""The hands on this host: which process gets the signal, and that no other one ever does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import FileChanged, HostRefused
from ibkeys.host.opensm_process import OpensmProcess, started_at
from ibkeys.sm.hands.opening import open_hands
from ibkeys.sm.hands.this_host import ThisHost
from ibkeys.sm.hosts import SmHost
from ibkeys.store.journal import FileImage, Journal
from tests.sm.hands.there import heard, opensm


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    with opensm() as (_, process):
        yield process


def seen(process: subprocess.Popen[bytes], unit: str | None = None) -> OpensmProcess:
    ticks = started_at(Path(f"/proc/{process.pid}/stat").read_text())
    return OpensmProcess(process.pid, Path("/x"), True, None, ticks=ticks, unit=unit)


def hands(tmp_path: Path, main: int | str = "", says: int = 0) -> tuple[ThisHost, Path]:
    """This host with a systemctl that notes how it was called, and knows *main* as a unit's process."""
    log = tmp_path / "calls"
    stub = tmp_path / "systemctl"
    stub.write_text(
        f'#!/bin/sh\necho "$*" >>{log}\n[ "$2" = show ] && echo "MainPID={main}"\n[ "$2" = show ] || exit {says}\n'
    )
    stub.chmod(0o755)
    return ThisHost({"PATH": f"{tmp_path}:/usr/bin:/bin"}), log


def test_the_process_that_was_seen_gets_the_signal(running: subprocess.Popen[bytes], tmp_path: Path) -> None:
    host, log = hands(tmp_path)
    assert host.may_signal(seen(running)) is None
    host.signal(seen(running))
    assert heard(running) == b"hup\n"
    assert not log.exists()


def test_another_process_with_its_id_gets_none(running: subprocess.Popen[bytes], tmp_path: Path) -> None:
    host, _ = hands(tmp_path)
    right = seen(running)
    assert right.ticks is not None
    for wrong, words in (
        (replace(right, ticks=right.ticks + 1), "is not the OpenSM any more"),
        (replace(right, ticks=None), "nobody knows when it started"),
    ):
        assert words in str(host.may_signal(wrong))
        with pytest.raises(HostRefused, match=words) as caught:
            host.signal(wrong)
        assert caught.value.host == ""
    host.signal(right)
    assert heard(running) == b"hup\n", "the first one that it heard"


def test_a_process_that_ended_is_named(running: subprocess.Popen[bytes], tmp_path: Path) -> None:
    host, _ = hands(tmp_path)
    gone = seen(running)
    running.kill()
    running.wait()
    assert "runs no more" in str(host.may_signal(gone))
    with pytest.raises(HostRefused, match="runs no more"):
        host.signal(gone)


def test_systemd_sends_the_signal_to_the_main_process_of_a_unit(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    host, log = hands(tmp_path, running.pid)
    unit = r"opensm@0x1\x2d2.service"
    host.signal(seen(running, unit))
    assert log.read_text().splitlines() == [
        rf"--no-ask-password show --property=MainPID -- {unit}",
        rf"--no-ask-password kill --signal=HUP --kill-who=main -- {unit}",
    ]


@pytest.mark.parametrize(("unit", "main", "says"), [("a.service", 1, 0), ("a.service", "", 0), ("a.service", "own", 1)])
def test_without_systemds_help_it_is_sent_all_the_same(
    running: subprocess.Popen[bytes], tmp_path: Path, unit: str, main: int | str, says: int
) -> None:
    host, _ = hands(tmp_path, running.pid if main == "own" else main, says)
    host.signal(seen(running, unit))
    assert heard(running) == b"hup\n"


@pytest.mark.parametrize("unit", ["-H.service", "a b.service", "*.service", "a.scope"])
def test_what_is_no_unit_is_not_given_to_systemctl(running: subprocess.Popen[bytes], tmp_path: Path, unit: str) -> None:
    host, log = hands(tmp_path, running.pid)
    host.signal(seen(running, unit))
    assert heard(running) == b"hup\n"
    assert not log.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="as root only")
def test_who_may_not_signal_it_is_told_so_before(
    running: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    host, _ = hands(tmp_path)
    monkeypatch.setattr("signal.pidfd_send_signal", refuse)
    assert "may not be signalled by this user" in str(host.may_signal(seen(running)))
    with pytest.raises(HostRefused, match="may not be signalled by this user"):
        host.signal(seen(running))


def test_a_file_is_replaced_as_ibkeys_replaces_files(tmp_path: Path) -> None:
    file = tmp_path / "partitions.conf"
    file.write_bytes(b"old\n")
    with open_hands(SmHost()) as host, Journal(None) as journal, journal.operation("apply") as operation:
        assert (host.name, host.guard(1.0), host.confirm_guard("x")) == ("", None, False)
        seen = host.look(file)
        assert host.hindrance(seen) is None
        entry = host.replace(operation, seen, b"new\n")
        assert (file.read_bytes(), entry.image.before, entry.image.host) == (b"new\n", b"old\n", "")
        with pytest.raises(FileChanged):
            host.replace(operation, seen, b"newer\n")
        left = file.with_name(f".{file.name}.ibkeys-1-{'a' * 16}.part")
        left.touch()
        elsewhere = operation.record_file(FileImage("/x", None, None, host="sm2"))
        assert host.clean_up([entry, elsewhere]).removed == (left,)
        entry.done()
