"""watch on a simulated subnet: lines for people and programs, what is refused, and what hostile names do."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.change.interrupts import Interrupts
from ibkeys.cli.options import Where
from ibkeys.cli.streams import OutlastingFile, reader_is_gone
from ibkeys.cli.watch import watch as command
from ibkeys.cli.watch.event_writer import EventWriter, ReaderGone
from ibkeys.scripting import Fabric
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import Incoming, UmadPort
from ibkeys.umad.simulated import SimulatedPort
from ibkeys.watch.event import Event, EventEnd
from ibkeys.watch.systemd import Notifier
from ibkeys.watch.watching import Summary
from tests.cli.conftest import TWO_SWITCH, Result, run
from tests.cli.hostile import HOSTILE
from tests.watch.watched import (
    OFFERED,
    host,
    watched_subnet,
    wrong_m_key,
    wrong_p_key,
    wrong_q_key,
)


@dataclass
class Played:
    """A subnet on which things happen at the turns of the watch: one at each receipt after *pause* others."""

    net: Subnet
    acts: list[Callable[[], object]] = field(default_factory=list)


class Stage(SimulatedPort):
    """A port that lets the next thing happen when somebody waits for half a second, as only the loop does."""

    played: Played

    def recv(self, timeout: float) -> list[Incoming]:
        if timeout == 0.5 and self.played.acts:
            self.played.acts.pop(0)()
        return super().recv(timeout)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    played = Played(watched_subnet())

    @contextmanager
    def opened(where: Where, around: Callable[[UmadPort], UmadPort]) -> Iterator[Fabric]:
        port = Stage(played.net, played.net.node("node04 mlx4_0"))
        port.played = played
        with ibkeys.open(around(port)) as fabric:
            yield fabric

    monkeypatch.setattr(command, "open_fabric", opened)
    return played


def watch(*options: object) -> Result:
    return run("watch", "--for", 60, *options)


def documents(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.out.splitlines()]


def test_json_lines_where_there_is_no_terminal(played: Played, sa_key: str) -> None:
    net = played.net
    played.acts += [lambda: wrong_p_key(net), lambda: wrong_q_key(net), lambda: wrong_m_key(net)]
    result = watch("--smkey", sa_key, "--interval", 0)
    assert result.code == 0, result.err
    *events, summary = documents(result)
    assert {document["schema"] for document in (*events, summary)} == {"ibkeys.watch/2"}
    p_key, q_key, m_key = events
    assert (p_key["kind"], p_key["trap"], p_key["pkey"], p_key["q_key"]) == ("bad-p_key", 257, "0x8123", None)
    assert (p_key["from"]["node_desc"], p_key["to"]["node_desc"]) == ("node02 mlx4_0", "node03 mlx4_0")
    assert p_key["at"] == p_key["to"]
    assert set(p_key["at"]) == {"node_guid", "port_guid", "node_desc", "node_type", "port", "lid"}
    assert (q_key["kind"], q_key["q_key"], q_key["count"]) == ("bad-q_key", "0x00000011", 1)
    assert (m_key["kind"], m_key["method"], m_key["attribute"], m_key["from"]) == ("bad-m_key", "Set", "PortInfo", None)
    assert summary["summary"]["told"] == 3
    assert set(events[0]) == set(events[1]) == set(events[2])
    assert "watching 4 traps of the SA at LID 1" in result.err
    assert f"{OFFERED:x}" not in result.out + result.err


def test_one_line_for_people(played: Played, sa_key: str, tmp_path: Path) -> None:
    net = played.net
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff : ALL=full ;\nBlue=0x123 : ALL_CAS=full ;\n")
    played.acts += [lambda: wrong_p_key(net), lambda: wrong_p_key(net), lambda: wrong_p_key(net, 0x8456)]
    result = watch("--smkey", sa_key, "-f", "table", "--policy", policy)
    assert result.code == 0, result.err
    day, first, other, again = result.out.splitlines()
    assert day.endswith(" (times in UTC)")
    assert first[10:] == "wrong P_Key 0x8123: node02 mlx4_0[1] > node03 mlx4_0[1] [Blue, line 2]"
    assert other[10:] == "wrong P_Key 0x8456: node02 mlx4_0[1] > node03 mlx4_0[1] [not in policy]"
    counted, _, rest = again[10:].partition(" (2 times")
    assert counted == "wrong P_Key 0x8123: node02 mlx4_0[1] > node03 mlx4_0[1]"
    assert rest.endswith(") [Blue, line 2]")
    assert len(first) <= 80


def test_guids_and_doubts_with_v(played: Played, sa_key: str) -> None:
    net = played.net
    played.acts += [lambda: wrong_m_key(net)]
    result = watch("--smkey", sa_key, "-f", "table", "-v", "--interval", 0)
    _, line, ends, doubt = result.out.splitlines()
    victim = host(net, 2)
    assert line[10:] == "wrong M_Key: ? > node02 mlx4_0[1], Set(PortInfo) (?)"
    assert ends.strip() == f"to 0x{victim.guid:016x} LID {victim.lid}, at 0x{victim.guid:016x} LID {victim.lid}"
    assert doubt.strip() == "the trap does not say who sent it"


def test_counters_of_devices_that_send_no_trap(played: Played, sa_key: str) -> None:
    played.acts += [lambda: setattr(host(played.net, 3), "p_key_violations", 2)]
    result = watch("--smkey", sa_key, "-f", "table", "--interval", 10)
    assert result.out.splitlines()[1][10:] == "P_KeyViolations +2, now 2, at node03 mlx4_0[1]"


def test_a_counter_that_has_stopped_does_not_seem_to_rise(played: Played, sa_key: str) -> None:
    host(played.net, 3).p_key_violations = 0xFFFF
    result = watch("--smkey", sa_key, "-f", "table", "--interval", 10)
    _, line = result.out.splitlines()
    assert line[10:].startswith("P_KeyViolations, now 65535, at node03 mlx4_0[1]; it is at its maximum: it")


def test_without_an_sm_key_there_are_the_counters(played: Played) -> None:
    played.acts += [lambda: wrong_p_key(played.net)]
    result = watch("--interval", 10)
    assert result.code == 0, result.err
    assert "no traps are received, only the counters are read" in result.err
    assert "--smkey" in result.err
    assert [document.get("kind") for document in documents(result)] == ["p_key-violations", None]


def test_without_an_sa_there_are_the_counters() -> None:
    result = run("watch", "--for", 1, "-f", "json", "--backend", TWO_SWITCH)
    assert result.code == 0, result.err
    assert result.err.count("no traps are received, only the counters are read") == 1
    assert "no SA there" in result.err
    assert documents(result)[-1]["summary"]["sweeps"] >= 1
    assert run("watch", "--for", 1, "--interval", 0, "--backend", TWO_SWITCH).code == 3


def test_without_an_sm_key_and_counters_there_is_nothing(played: Played) -> None:
    result = watch("--interval", 0)
    assert result.code == 3
    assert "SubnAdmSet(InformInfo: subscribe to trap 256)" in result.err
    assert result.out == ""


def test_a_wrong_sm_key_is_no_watch_at_all(played: Played, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("0x77")
    (tmp_path / "wrong").chmod(0o600)
    result = watch("--smkey", f"@{tmp_path / 'wrong'}")
    assert result.code == 3
    assert "a wrong SM_Key" in result.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--opensm-log", "LOG", "--smkey", "KEY"), "--opensm-log replaces Reports"),
        (("--opensm-log", "LOG", "--all-traps"), "--opensm-log replaces Reports"),
        (("--opensm-log", "."), "--opensm-log: .: is a directory"),
        (("--exec", ""), "event command: no command is given"),
        (("--exec", "a 'b"), "event command: No closing quotation"),
        (("--policy", "not-there"), "not-there"),
        (("--interval", "-1"), "--interval"),
        (("--count", "0"), "--count"),
    ],
)
def test_wrong_usage(played: Played, sa_key: str, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    (tmp_path / "log").touch()
    given = [{"KEY": sa_key, "LOG": str(tmp_path / "log")}.get(word, word) for word in options]
    result = watch(*given)
    assert result.code == 2
    assert words in result.err
    assert result.out == ""


def test_the_command_has_each_event_on_its_standard_input(played: Played, sa_key: str, tmp_path: Path) -> None:
    net = played.net
    played.acts += [lambda: wrong_p_key(net), lambda: wrong_q_key(net)]
    out = tmp_path / "out"
    script = tmp_path / "append.py"
    script.write_text("import sys; open(sys.argv[1], 'a').write(sys.stdin.read())")
    result = watch("--smkey", sa_key, "--interval", 0, "--exec", f"{sys.executable} '{script}' '{out}'")
    assert result.code == 0, result.err
    heard = sorted(out.read_text().splitlines())
    assert heard == sorted(result.out.splitlines()[:-1])
    assert len(heard) == 2


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", ["json", "table"])
def test_a_hostile_name_spoils_no_line(played: Played, sa_key: str, name: str, form: str) -> None:
    net = played.net
    raw = name.encode("utf-8", "surrogateescape")[:64]
    host(net, 2).node.description_bytes = raw.ljust(64, b"\0")
    played.acts += [lambda: wrong_p_key(net)]
    result = watch("--smkey", sa_key, "--interval", 0, "-f", form, "-v")
    assert result.code == 0, result.err
    if form == "json":
        event, _ = documents(result)
        assert event["from"]["lid"] == host(net, 2).lid
    else:
        day, line, ends = result.out.splitlines()
        assert all(text.isprintable() for text in (day, line, ends))
        assert line.count(" > ") == 1 or "'" in line or '"' in line
        assert f"from 0x{host(net, 2).guid:016x} LID 2" in ends


@pytest.mark.parametrize("name", ["LID 7", "0x0002c903000a1030", "?", " node03 mlx4_0"])
def test_a_name_that_looks_like_another_port_stands_in_quotes(played: Played, sa_key: str, name: str) -> None:
    net = played.net
    host(net, 2).node.description_bytes = name.encode().ljust(64, b"\0")
    played.acts += [lambda: wrong_p_key(net)]
    result = watch("--smkey", sa_key, "--interval", 0, "-f", "table")
    assert f"wrong P_Key 0x8123: '{name}'[1] > node03 mlx4_0[1]" in result.out


def test_opensm_s_log_needs_no_sm_key(played: Played, tmp_path: Path) -> None:
    from tests.watch.loglines import AT_SWITCH

    log = tmp_path / "opensm.log"
    log.write_text("earlier\n")

    def write() -> None:
        with log.open("a") as file:
            file.write("\n".join(AT_SWITCH) + "\n")

    played.acts += [write]
    result = watch("--opensm-log", log, "--interval", 0)
    event, _ = documents(result)
    assert (event["source"], event["kind"], event["pkey"]) == ("opensm-log", "bad-p_key-at-switch", "0x8123")


def test_it_ends_after_so_many_lines(played: Played, sa_key: str) -> None:
    net = played.net
    played.acts += [lambda: wrong_p_key(net), lambda: wrong_q_key(net), lambda: wrong_m_key(net)]
    result = watch("--smkey", sa_key, "--count", 2, "--interval", 0)
    assert [document.get("kind") for document in documents(result)] == ["bad-p_key", "bad-q_key", None]


def test_the_subscriptions_end_with_the_watch(played: Played, sa_key: str) -> None:
    watch("--smkey", sa_key, "--all-traps")
    net = played.net
    sent = len([event for event in net.events if event.kind == "report"])
    wrong_p_key(net)
    assert len([event for event in net.events if event.kind == "report"]) == sent


def test_on_a_simulated_subnet_it_waits_in_real_time_unless_it_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert run("watch", "--backend", TWO_SWITCH).code == 0
    assert waited == [0.5, 0.5, 0.5]
    assert watch("--backend", TWO_SWITCH).code == 0
    assert len(waited) == 3


def test_a_reader_that_goes_ends_it_before_the_next_event(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    stdout = io.TextIOWrapper(io.BufferedWriter(OutlastingFile(writer)))
    monkeypatch.setattr("sys.stdout", stdout)
    outlet = EventWriter("json", False, None, Interrupts(), Notifier({}, lambda: 0.0))
    try:
        outlet.turn()
        os.close(reader)
        with pytest.raises(ReaderGone):
            outlet.turn()
        assert reader_is_gone(stdout)
    finally:
        monkeypatch.undo()
        os.close(writer)
        stdout.detach()


def test_a_reader_that_hangs_does_not_keep_a_signal_from_ending_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    stdout = io.TextIOWrapper(io.BufferedWriter(OutlastingFile(writer)))
    monkeypatch.setattr("sys.stdout", stdout)
    monkeypatch.setattr("ibkeys.cli.watch.event_writer.TURN", 0.0)
    turns = []

    class Sigterm(Interrupts):
        def check(self) -> None:
            turns.append(True)
            if len(turns) == 3:
                raise KeyboardInterrupt

    event = Event("2026-11-22T09:30:00Z", "counters", "p_key-violations", None, EventEnd(), value=1)
    outlet = EventWriter("json", False, None, Sigterm(), Notifier({}, lambda: 0.0))
    try:
        with pytest.raises(KeyboardInterrupt):
            outlet.tell(event)
        outlet.stopping()
        outlet.tell(event)
        outlet.end(Summary())
        assert len(turns) == 3
        assert "standard output has no reader: 2 lines not written" in capfd.readouterr().err
        os.read(reader, 1 << 20)
        outlet.tell(event)
        assert json.loads(os.read(reader, 4096))["kind"] == "p_key-violations"
    finally:
        monkeypatch.undo()
        os.close(reader)
        os.close(writer)
        stdout.detach()
