"""OpenSM's log: lines of 3.3.23 as observed, in any order, cut, forged and buffered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.const import TrapNumber
from ibkeys.watch.log_events import event_of_log
from ibkeys.watch.names import Names
from ibkeys.watch.opensm_log import ALREADY_TOLD, FROM_BUFFER, NO_SENDER, LogNotice, LogReader, time_of
from tests.watch.loglines import AT_SWITCH, M_KEY, Q_KEY
from tests.watch.watched import names_of, watched_subnet

P_KEY = [line.replace("Q_Key", "P_Key").replace("num:258", "num:257").replace("0x11", "0x8123") for line in Q_KEY]
OLDER = (
    "Jun 17 17:21:28 923315 [4E8006C0] 0x02 -> log_notice: Reporting Generic Notice type:2 num:256 (Bad M_Key) from "
    "LID:2 GID:fe80::2:c903:a:1021"
)
OLDEST = (
    "Sep 10 13:16:22 580386 [4000] -> osm_report_notice: Reporting Generic Notice type:2 num:257 from LID:0x0002 "
    "GID:0xfe80000000000000,0x0002c903000a1021"
)


def read(*lines: str) -> list[LogNotice]:
    """Take lines, and then whatever still waits."""
    reader = LogReader()
    told = [notice for line in lines for notice in reader.take(line, 0.0)]
    return told + reader.overdue(0.0)


@pytest.mark.parametrize("lines", [AT_SWITCH, Q_KEY, M_KEY, P_KEY])
def test_each_trap_is_told_once_although_several_lines_tell_of_it(lines: list[str]) -> None:
    assert len(read(*lines)) == 1
    assert len(read(*lines, *lines)) == 2


def test_what_each_line_says() -> None:
    names = names_of(watched_subnet())
    now = datetime(2026, 11, 22, 16, tzinfo=UTC)
    stopped, p_key, q_key, m_key = (
        event_of_log(notice, names, now) for lines in (AT_SWITCH, P_KEY, Q_KEY, M_KEY) for notice in read(*lines)
    )
    assert (stopped.kind, stopped.p_key, stopped.at.node_type, stopped.at.port) == (
        *("bad-p_key-at-switch", 0x8123, "switch", 2),
    )
    assert (p_key.kind, p_key.p_key, p_key.trap) == ("bad-p_key", 0x8123, 257)
    assert (q_key.kind, q_key.q_key, q_key.p_key) == ("bad-q_key", 0x11, None)
    for event in (stopped, p_key, q_key):
        assert event.sender is not None
        assert event.receiver is not None
        assert (event.sender.node_desc, event.receiver.node_desc) == ("node02 mlx4_0", "node03 mlx4_0")
        assert event.doubtful == ()
    assert (m_key.kind, m_key.method, m_key.attribute, m_key.modifier) == ("bad-m_key", "Set", "PortInfo", 1)
    assert (m_key.at.node_desc, m_key.sender, m_key.doubtful) == ("node02 mlx4_0", None, (NO_SENDER,))


def test_the_offered_m_key_is_read_by_nothing() -> None:
    (notice,) = read(*M_KEY)
    event = event_of_log(notice, Names(), datetime(2026, 11, 22, 16, tzinfo=UTC))
    assert "deadbeef" not in repr(notice) + repr(event) + str(event.to_json())


def test_the_error_lines_alone_are_enough_for_both_ends_of_257_and_258() -> None:
    (notice,) = read(*Q_KEY[:2])
    assert (notice.lid1, notice.lid2, notice.key, notice.doubts) == (2, 3, 0x11, ())


@pytest.mark.parametrize("lines", [AT_SWITCH, M_KEY])
def test_a_reporter_whose_rest_is_in_opensm_s_buffer_is_told_as_doubtful(lines: list[str]) -> None:
    reader = LogReader()
    assert reader.take(lines[0], 10.0) == []
    assert reader.overdue(9.0) == []
    (notice,) = reader.overdue(10.0)
    assert notice.doubts[-1] == FROM_BUFFER
    (rest,) = reader.take(lines[1], 90.0)
    assert rest.doubts[-1] == ALREADY_TOLD
    assert rest.key is not None or rest.method


def test_a_line_from_the_buffer_that_says_nothing_new_is_not_told_again() -> None:
    reader = LogReader()
    reader.take(Q_KEY[0], 0.0)
    reader.take(Q_KEY[1], 0.0)
    assert len(reader.overdue(1.0)) == 1
    assert reader.take(Q_KEY[2], 60.0) == []
    assert len(reader.take(Q_KEY[2], 61.0)) == 1


def test_lines_of_two_threads_are_not_mixed() -> None:
    other = [line.replace("6CB116C0", "AAAAAAAA").replace("LID1:2", "LID1:5") for line in Q_KEY[:2]]
    first, second = read(Q_KEY[0], other[0], other[1], Q_KEY[1])
    assert {(first.thread, first.lid1), (second.thread, second.lid1)} == {("6CB116C0", 2), ("AAAAAAAA", 5)}


@pytest.mark.parametrize(("line", "trap"), [(OLDER, 256), (OLDEST, 257)])
def test_older_versions_name_the_reporter_only(line: str, trap: int) -> None:
    (notice,) = read(line)
    assert (notice.trap, notice.lid, notice.lid1, notice.key) == (trap, 2, 0, None)
    assert notice.doubts == ("this OpenSM's log names the reporter only",)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "SUBNET UP",
        AT_SWITCH[1] + " ",
        " " + AT_SWITCH[1],
        AT_SWITCH[1].replace("LID1 2", "LID1 99999"),
        AT_SWITCH[1].replace("port 2", "port 999"),
        AT_SWITCH[1].replace("0x8123", "0x18123"),
        Q_KEY[2].replace("LID 3,", "LID -3,"),
        'Nov 22 15:48:57 377979 [6CB116C0] 0x02 -> node "x\nNov 22": ' + M_KEY[1],
        "osm: NodeDescription " + AT_SWITCH[1],
        AT_SWITCH[0].replace("type:2 num:259", "type:2 num:260"),
        AT_SWITCH[0].replace("type:2 num:259", "type:1 num:128"),
    ],
)
def test_other_lines_tell_nothing(line: str) -> None:
    assert read(line) == []


def test_what_waits_has_a_bound() -> None:
    reader = LogReader()
    told = sum(len(reader.take(Q_KEY[0].replace("6CB116C0", f"{thread:08X}"), 0.0)) for thread in range(1000))
    assert told + len(reader.overdue(0.0)) == 1000
    for lid in range(5000):
        reader.take(M_KEY[0].replace("LID:2", f"LID:{lid}"), 0.0)
        reader.overdue(0.0)
    assert len(reader.told) <= 1024


LINES = [*AT_SWITCH, *Q_KEY, *M_KEY, *P_KEY, OLDER, OLDEST]


@given(
    st.lists(st.sampled_from(LINES) | st.text(max_size=80) | st.binary(max_size=80).map(lambda b: b.decode("latin1")))
)
def test_any_lines_are_read(lines: list[str]) -> None:
    for notice in read(*lines):
        assert notice.trap in (256, 257, 258, 259)
        assert event_of_log(notice, Names(), datetime(2026, 11, 22, tzinfo=UTC)).to_json()


@given(line=st.sampled_from(LINES), place=st.integers(0, 400), char=st.characters())
def test_a_line_with_one_wrong_character_is_read_or_left_out(line: str, place: int, char: str) -> None:
    bent = line[: place % len(line)] + char + line[place % len(line) + 1 :]
    for notice in read(bent):
        assert max(notice.lid, notice.lid1, notice.lid2) <= 0xFFFF
        assert notice.trap in set(TrapNumber)


def test_the_year_is_the_last_one_that_fits() -> None:
    notice = read(*Q_KEY)[0]
    local = datetime(2026, 11, 22, 15, 48, 57).astimezone()
    assert time_of(notice, local) == local
    assert time_of(notice, local + timedelta(days=40)) == local
    assert time_of(notice, local - timedelta(days=40)).year == 2025
    assert time_of(notice, datetime(2026, 12, 1, tzinfo=timezone(timedelta(hours=5)))).tzinfo is UTC


def test_a_time_that_is_none_is_now() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    assert time_of(LogNotice("Feb 31 10:00:00", "A", 256, 1), now) == now
