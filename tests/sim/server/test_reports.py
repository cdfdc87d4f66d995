"""Reports between programs: to the one that subscribed, again until they are answered, and to nobody else."""

from __future__ import annotations

import errno

import pytest

from ibkeys.mad.const import Method
from ibkeys.mad.inform import ALL_TRAPS, inform_info
from ibkeys.mad.sa import build_sa
from ibkeys.sim.server import awaited
from ibkeys.sim.server import ibsim_protocol as protocol
from ibkeys.sim.server.clients import PAUSE_AT
from tests.sim.server.programs import Program, RunningOpensm, tid

SM_LID, SUBSCRIBER_LID = 3, 2
REPORT_ID = 0x4_02DA_B001


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be sent again while a test lasts."""
    monkeypatch.setattr(awaited, "REPORT_TIMEOUT", 3600.0)


def subscribe(trap: int = 257, on: bool = True, number: int = 0x9_0000_0001) -> bytes:
    return build_sa(Method.SET, 3, data=inform_info(trap, on).raw, transaction_id=number)


def report(number: int = REPORT_ID) -> bytes:
    return build_sa(Method.REPORT, 2, data=bytes(range(80)), transaction_id=number)


def answer_to(mad: bytes) -> bytes:
    return mad[:3] + bytes((Method.REPORT_RESP,)) + mad[4:]


def pair(running: RunningOpensm) -> tuple[Program, Program]:
    """An SM, and a program that has subscribed at it."""
    sm, subscriber = running.attach("H-2", is_sm=True), running.attach("H-1")
    subscriber.send(subscribe(), SM_LID)
    assert sm.receive().mad[3] == Method.SET
    return sm, subscriber


def test_a_report_goes_to_the_program_that_subscribed_which_is_no_sm(running: RunningOpensm) -> None:
    sm, subscriber = pair(running)
    other, own_sm = running.attach("H-1"), running.attach("H-1", is_sm=True)
    sm.send(report(), SUBSCRIBER_LID, qpn=1)
    came = subscriber.receive()
    assert (came.mad[3], came.slid, came.dlid, came.dqp) == (Method.REPORT, SM_LID, SUBSCRIBER_LID, 1)
    assert tid(came.mad) == 0x0000_0004_02DA_B001, "slot 0 is the SM's"
    assert other.hears_nothing()
    assert own_sm.hears_nothing()
    subscriber.send(answer_to(came.mad), SM_LID)
    back = sm.receive()
    assert (back.mad[3], tid(back.mad), back.status) == (Method.REPORT_RESP, tid(came.mad), 0)
    subscriber.send(answer_to(came.mad), SM_LID)
    assert sm.hears_nothing(), "the second answer is for no port"


def test_a_program_that_did_not_subscribe_gets_no_report(running: RunningOpensm) -> None:
    sm, other = running.attach("H-2", is_sm=True), running.attach("H-1")
    sm.send(report(), SUBSCRIBER_LID, qpn=1)
    assert sm.receive().status == errno.ETIMEDOUT
    assert other.hears_nothing()


def test_the_second_subscriber_of_a_port_is_refused_until_the_first_one_ends(running: RunningOpensm) -> None:
    sm, first = pair(running)
    second = running.attach("H-1")
    second.send(subscribe(258), SM_LID)
    refused = second.receive()
    assert (refused.status, refused.mad[3], refused.mad[12:16]) == (errno.EPERM, Method.SET, b"\0\0\0\1")
    assert sm.hears_nothing()
    first.send(subscribe(258), SM_LID)
    assert sm.receive().mad[3] == Method.SET, "the first one may have as many as it likes"
    for trap in (257, 258):
        first.send(subscribe(trap, on=False), SM_LID)
        assert sm.receive().mad[3] == Method.SET
    second.send(subscribe(ALL_TRAPS), SM_LID)
    assert sm.receive().mad[3] == Method.SET
    sm.send(report(), SUBSCRIBER_LID, qpn=1)
    assert second.receive().mad[3] == Method.REPORT
    assert first.hears_nothing()


def test_who_leaves_takes_reports_no_more(running: RunningOpensm) -> None:
    sm, first = pair(running)
    first.ask(protocol.DISCONNECT)
    second = running.attach("H-1")
    second.send(subscribe(), SM_LID)
    assert sm.receive().mad[3] == Method.SET


def test_programs_on_two_hosts_both_get_reports(running: RunningOpensm) -> None:
    sm, one = pair(running)
    two = running.attach("H-3")
    two.send(subscribe(), SM_LID)
    sm.receive()
    sm.send(report(), SUBSCRIBER_LID, qpn=1)
    sm.send(report(REPORT_ID + 1), 4)
    assert one.receive().mad[12:16] == b"\x02\xda\xb0\x01"
    assert two.receive().mad[12:16] == b"\x02\xda\xb0\x02"


def test_a_report_without_an_answer_comes_four_times_and_is_given_up(
    running: RunningOpensm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "REPORT_TIMEOUT", 0.01)
    sm, subscriber = pair(running)
    sm.send(report(), SUBSCRIBER_LID, qpn=1)
    assert len({subscriber.receive().mad for _ in range(4)}) == 1
    back = sm.receive()
    assert (back.status, back.mad[3]) == (errno.ETIMEDOUT, Method.REPORT)
    assert subscriber.hears_nothing()
    assert running.server.counts()["reports repeated"] == 3


class SoonOnce:
    """Seconds to be added to a time: few the first time, an hour then."""

    def __init__(self) -> None:
        self.seconds = iter((0.01,))

    def __radd__(self, now: float) -> float:
        return now + next(self.seconds, 3600.0)


def test_a_report_that_is_answered_late_goes_out_once_more_at_most(
    running: RunningOpensm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "REPORT_TIMEOUT", SoonOnce())
    sm, subscriber = pair(running)
    sm.send(report(), SUBSCRIBER_LID, qpn=1)
    subscriber.receive()
    again = subscriber.receive()
    subscriber.send(answer_to(again.mad), SM_LID)
    assert sm.receive().mad[3] == Method.REPORT_RESP
    assert subscriber.hears_nothing()
    assert sm.hears_nothing()


def test_nothing_is_sent_again_behind_what_a_program_has_not_read(
    running: RunningOpensm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited, "REPORT_TIMEOUT", 0.3)
    sm, subscriber = pair(running)
    count = 4 * PAUSE_AT
    for number in range(count):
        sm.send(report(REPORT_ID + number), SUBSCRIBER_LID, qpn=1)
    for _ in range(count):
        assert sm.receive().status == errno.ETIMEDOUT, "given up in time all the same"
    assert running.server.counts().get("reports repeated", 0) == 0
    assert len({subscriber.receive().mad[12:16] for _ in range(count)}) == count
    assert subscriber.hears_nothing()


def test_a_program_that_is_behind_with_its_reports_is_heard_all_the_same(running: RunningOpensm) -> None:
    sm, subscriber = pair(running)
    count = 4 * PAUSE_AT
    for number in range(count):
        sm.send(report(REPORT_ID + number), SUBSCRIBER_LID, qpn=1)
    running.wait_until(lambda: running.server.counts().get("forwarded", 0) > count)
    for number in range(count):  # more than fit into a socket that nobody reads
        subscriber.send(answer_to(report(REPORT_ID + number)), SM_LID)
        assert sm.receive().mad[3] == Method.REPORT_RESP
    assert len({subscriber.receive().mad[12:16] for _ in range(count)}) == count


def test_the_reports_of_an_sa_that_the_server_plays_itself_come_from_qp1(running: RunningOpensm) -> None:
    running.steer("sm H-2 on")
    subscriber = running.attach("H-1")
    subscriber.send(subscribe(ALL_TRAPS), SM_LID)
    assert subscriber.receive().mad[3:6] == bytes((Method.GET_RESP, 0, 0))
    running.steer("describe H-3 renamed")
    running.steer("packet H-2 H-3[2] pkey=0x8123")
    came = subscriber.receive()
    assert (came.mad[3], came.sqp, came.dqp, came.slid) == (Method.REPORT, 1, 1, SM_LID)
    subscriber.send(answer_to(came.mad), SM_LID)
