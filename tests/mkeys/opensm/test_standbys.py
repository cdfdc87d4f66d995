"""Starting a standby: when it counts as one, and what holds the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from ibkeys.change.clock import Clock
from ibkeys.change.course import Course
from ibkeys.change.runner import Runner
from ibkeys.errors import HostRefused
from ibkeys.managers.machines.machine import Machine
from ibkeys.managers.opensm.process import OpensmProcess
from ibkeys.mkeys.opensm import standbys
from ibkeys.mkeys.opensm.standbys import Standby, Standbys
from ibkeys.store.journal import Journal

CACHE = Path("/var/cache/opensm")
STEADY, WAIT = 60.0, 120.0
STANDBY = Standby("sm2", 0x2C903000A1051, "", "opensm --guid 0x2c903000a1051", Path("/etc/opensm.conf"), CACHE, 0)
UNIT = Standby("sm2", 0x2C903000A1051, "opensm@1.service", "opensm", Path("/etc/opensm.conf"), CACHE, 0)


@dataclass
class Host:
    """A host whose OpenSM does what the test says. ``story``: what was done; ``states``: its SMInfo state from some
    second after its start on; ``cache``: where it keeps its key files; ``early``: it runs before."""

    states: dict[float, str | None] = field(default_factory=lambda: {2.0: "standby"})
    cache: Path = CACHE
    early: bool = False
    name: str = "sm2"
    now: float = 0.0
    started: float | None = None
    story: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def begin(self, how: str) -> None:
        self.story.append(how)
        self.started = self.now

    def start_unit(self, unit: str) -> None:
        self.begin(f"unit {unit}")

    def stop(self, process: OpensmProcess) -> None:
        self.story.append("stopped")
        self.early = False

    def is_running(self, process: OpensmProcess) -> bool:
        return self.early

    def processes(self) -> list[OpensmProcess]:
        runs = self.early or (self.started is not None and self.cache == CACHE)
        return [OpensmProcess(7, CACHE, True, None)] if runs else []

    def state(self) -> str | None:
        since = -1.0 if self.started is None else self.now - self.started
        return next((state for second, state in sorted(self.states.items(), reverse=True) if since >= second), None)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setattr(standbys, "opensms_with", lambda machine, cache: host.processes())
    monkeypatch.setattr(Standbys, "state_of", lambda self, standby: host.state())
    return host


def start(host: Host, standby: Standby = STANDBY, types: bool = True) -> None:
    def hears(text: str) -> None:
        host.story.append(text)
        if types:
            host.started = host.now

    runner = Runner(Journal(None).operation("mkey-rotate"), Clock(lambda: host.now, host.sleep), WAIT)
    helper = Standbys(None, {}, runner, STEADY, lambda: None, hears, WAIT)  # type: ignore[arg-type]
    machine, early = cast(Machine, host), host.processes()
    stops = [helper.stop(machine, early, standby.name)] if early else []
    starts = helper.start(standby, machine, lambda: host.story.append("key files"), lambda: None, bool(early))
    runner.run(Course([*stops, starts]), lambda step: step)


def test_the_user_types_the_command_when_its_key_files_are_there(host: Host) -> None:
    start(host)
    assert host.story[0] == "key files"
    [told] = host.story[1:]
    assert told.endswith("type on sm2: opensm --guid 0x2c903000a1051")
    assert host.now >= 2 + STEADY


def test_systemd_starts_what_it_runs(host: Host) -> None:
    start(host, UNIT, types=False)
    assert host.story == ["key files", "unit opensm@1.service"]


def test_one_that_runs_before_is_ended_first(host: Host) -> None:
    host.early = True
    start(host)
    assert host.story[:2] == ["stopped", "key files"]
    assert "once more" in host.story[2]


def test_one_that_nobody_starts_is_given_up_with_what_to_do(host: Host) -> None:
    with pytest.raises(HostRefused, match=r"after 120 s it does not answer.*start it \(opensm --guid .*ibkeys resume"):
        start(host, types=False)


def test_one_that_becomes_master_is_no_standby(host: Host) -> None:
    host.states = {2.0: "master"}
    with pytest.raises(HostRefused, match=r"was started and is master now: .*`ibkeys resume` continues"):
        start(host)
    assert host.now < WAIT


def test_one_that_is_master_until_it_has_found_the_other_is_waited_for(host: Host) -> None:
    host.states = {2.0: "master", 8.0: "discovering", 9.0: "standby"}
    start(host)
    assert host.now >= 9 + STEADY


@pytest.mark.parametrize(("then", "words"), [("master", "is master now"), (None, "no longer answers")])
def test_one_that_does_not_stay_a_standby_holds_the_run(host: Host, then: str | None, words: str) -> None:
    host.states[STEADY - 5] = then
    with pytest.raises(HostRefused, match=words):
        start(host)


def test_one_with_other_key_files_holds_the_run(host: Host) -> None:
    host.cache = Path("/elsewhere")
    with pytest.raises(HostRefused, match="other key files than those in /var/cache/opensm"):
        start(host)


def test_one_that_is_started_while_its_key_files_are_written_holds_the_run(host: Host) -> None:
    host.started = 0.0

    def ends(process: OpensmProcess) -> None:
        host.story.append("stopped")  # and somebody starts it again at once

    host.stop = ends  # type: ignore[method-assign]
    with pytest.raises(HostRefused, match="while it was given its key files"):
        start(host)
    assert host.story == ["stopped", "key files"]
