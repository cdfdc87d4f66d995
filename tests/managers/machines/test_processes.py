"""What an SM's host is told about its OpenSM: the process that was seen gets it, and no other one ever does."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ibkeys.errors import HostRefused
from ibkeys.managers.machines import systemd
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm.process import OpensmProcess
from tests.managers.machines.there import Here, There, heard, opensm

UNIT = r"opensm@0x1\x2d2.service"
NO_UNITS = ["-H.service", "a b.service", "*.service", "$(x).service", "a.scope"]
Running = tuple[OpensmProcess, subprocess.Popen[bytes]]


@pytest.fixture
def running() -> Iterator[Running]:
    with opensm() as both:
        yield both


def wrong_ones(right: OpensmProcess) -> list[tuple[OpensmProcess, str]]:
    """What cannot be told from another process that has the ID now, and what is said of it."""
    assert right.ticks is not None
    return [
        (replace(right, ticks=right.ticks + 1), "is no longer the OpenSM"),
        (replace(right, ticks=None), "its start time is not known"),
    ]


def died(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process is dead; its parent has not heard of it yet."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


# --- SIGHUP -----------------------------------------------------------------------------------------------------------


def test_the_process_that_was_seen_gets_the_signal_and_no_other(
    side: Here | There, machine: Machine, running: Running
) -> None:
    right, process = running
    log = side.systemctl(7)
    assert machine.may_signal(right) is None
    for wrong, words in wrong_ones(right):
        assert words in str(machine.may_signal(wrong))
        with pytest.raises(HostRefused, match=words) as caught:
            machine.signal(wrong)
        assert caught.value.host == side.name
    machine.signal(right)
    assert heard(process) == b"hup\n", "the first one that it heard"
    assert log.read_text() == ""


def test_a_process_that_ended_is_named(machine: Machine, running: Running) -> None:
    gone, process = running
    process.kill()
    process.wait()
    no_more = re.compile("is no longer the OpenSM|no longer runs")
    assert no_more.search(str(machine.may_signal(gone)))
    for tell in (machine.signal, machine.stop, machine.can_start):
        with pytest.raises(HostRefused, match=no_more):
            tell(gone)


def test_systemd_sends_the_signal_to_the_main_process_of_a_unit(
    side: Here | There, machine: Machine, running: Running
) -> None:
    right, _ = running
    log = side.systemctl(right.pid)
    machine.signal(replace(right, unit=UNIT))
    assert log.read_text().splitlines() == [
        f"--no-ask-password show --property=MainPID -- {UNIT}",
        f"--no-ask-password kill --signal=HUP --kill-who=main -- {UNIT}",
    ]


@pytest.mark.parametrize(("main", "refuses"), [("1", "nothing"), ("", "nothing"), ("own", "kill"), ("own", "show")])
def test_without_systemds_help_it_is_sent_all_the_same(
    side: Here | There, machine: Machine, running: Running, main: str, refuses: str
) -> None:
    right, process = running
    side.systemctl(right.pid if main == "own" else main, refuses)
    machine.signal(replace(right, unit="a.service"))
    assert heard(process) == b"hup\n"


@pytest.mark.parametrize("unit", NO_UNITS)
def test_what_is_no_unit_is_not_given_to_systemctl(
    side: Here | There, machine: Machine, running: Running, unit: str
) -> None:
    right, process = running
    log = side.systemctl(right.pid)
    named = replace(right, unit=unit)
    assert not machine.can_start(named)
    machine.signal(named)
    assert heard(process) == b"hup\n"
    with pytest.raises(HostRefused, match="is not a valid name of a service") as caught:
        machine.start_unit(unit)
    assert caught.value.host == side.name
    assert log.read_text() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="as root only")
def test_who_may_not_signal_it_is_told_so_before(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    right, _ = running
    monkeypatch.setattr("signal.pidfd_send_signal", refuse)
    with Here(tmp_path / "side").machine() as machine:
        assert "may not be signalled by this user" in str(machine.may_signal(right))
        for tell in (machine.signal, machine.stop):
            with pytest.raises(HostRefused, match="may not be signalled by this user"):
                tell(right)


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_it_ends_and_one_that_nobody_buried_runs_no_more(
    side: Here | There, machine: Machine, running: Running
) -> None:
    right, process = running
    side.systemctl(7)
    assert machine.is_running(right)
    machine.stop(replace(right, unit=UNIT))
    died(process)
    assert not machine.is_running(right), "it is a zombie"
    assert process.wait() == -15
    assert not machine.is_running(right)


def test_what_got_its_id_is_neither_it_nor_stopped(side: Here | There, machine: Machine, running: Running) -> None:
    right, process = running
    log = side.systemctl(right.pid)
    for wrong, words in wrong_ones(replace(right, unit=UNIT)):
        assert not machine.is_running(wrong)
        for tell in (machine.stop, machine.can_start):
            with pytest.raises(HostRefused, match=words) as caught:
                tell(wrong)
            assert caught.value.host == side.name
    assert log.read_text() == ""
    machine.signal(right)
    assert heard(process) == b"hup\n", "it lives"


def test_systemd_stops_the_main_process_of_its_unit(side: Here | There, machine: Machine, running: Running) -> None:
    right, _ = running
    log = side.systemctl(right.pid)
    machine.stop(replace(right, unit=UNIT))
    assert log.read_text().splitlines()[1:] == [f"--no-ask-password stop --no-block -- {UNIT}"]
    assert machine.is_running(right), "the made-up systemctl stopped nothing"


def test_where_systemd_does_not_stop_it_nothing_is_sent(side: Here | There, machine: Machine, running: Running) -> None:
    right, process = running
    side.systemctl(right.pid, "stop", "Access denied\nmore")
    with pytest.raises(HostRefused, match=r"systemctl stop opensm@0x1\\x2d2\.service: Access denied") as caught:
        machine.stop(replace(right, unit=UNIT))
    assert caught.value.host == side.name
    machine.signal(right)
    assert heard(process) == b"hup\n", "it lives"


# --- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("main", "unit", "answer"), [("own", UNIT, True), ("own", None, False), ("7", UNIT, False)])
def test_only_the_main_process_of_a_unit_is_started_with_it(
    side: Here | There, machine: Machine, running: Running, main: str, unit: str | None, answer: bool
) -> None:
    right, _ = running
    side.systemctl(right.pid if main == "own" else main)
    assert machine.can_start(replace(right, unit=unit)) is answer


def test_a_unit_is_started(side: Here | There, machine: Machine) -> None:
    log = side.systemctl(7)
    machine.start_unit(UNIT)
    assert log.read_text().splitlines() == [f"--no-ask-password start -- {UNIT}"]


@pytest.mark.parametrize(
    ("words", "said"), [("Unit x is masked.\nmore", "Unit x is masked."), ("", "it ended with status 3")]
)
def test_a_unit_that_fails_to_start_is_told_with_what_systemctl_says(
    side: Here | There, machine: Machine, words: str, said: str
) -> None:
    side.systemctl(7, "start", words)
    with pytest.raises(HostRefused) as caught:
        machine.start_unit("opensm.service")
    at = f"{side.name}: " if side.name else ""
    assert str(caught.value).startswith(f"{at}systemctl start opensm.service: {said}")
    assert caught.value.host == side.name


def cut_here(side: Here | There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "SYSTEMCTL_SECONDS", 0.0)
    side.tool("systemctl", "exec tail -f /dev/null")


def cut_there(side: Here | There, monkeypatch: pytest.MonkeyPatch) -> None:
    side.tool("timeout", "exit 124")


def missing_here(side: Here | There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd.subprocess, "run", _not_there)


def _not_there(*_: object, **__: object) -> None:
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("kind", "spoil", "words"),
    [(Here, cut_here, "has not ended"), (There, cut_there, "has not ended"), (Here, missing_here, "No such file")],
)
def test_a_systemctl_that_does_not_answer_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Here] | type[There],
    spoil: Callable[[Here | There, pytest.MonkeyPatch], None],
    words: str,
) -> None:
    side = kind(tmp_path / "side")
    with side.machine() as machine:
        spoil(side, monkeypatch)
        with pytest.raises(HostRefused, match=f"systemctl start opensm.service: {words}"):
            machine.start_unit("opensm.service")
