"""What programs on the server wait for from other programs: whose an answer is, and when a request is given up."""

from __future__ import annotations

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.sim.server import awaited
from ibkeys.sim.server import ibsim_protocol as protocol
from tests.sim.programs import Packet, Program, Running, get, gmp, tid

SM_LID, ASKER_LID = 3, 2


def answer(request: Packet) -> bytes:
    return request.mad[:3] + b"\x81" + request.mad[4:]


@pytest.fixture(autouse=True)
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be given up while a test lasts."""
    monkeypatch.setattr(awaited, "TIMEOUT", 3600.0)


@pytest.fixture
def soon(never: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is ignored be given up at once."""
    monkeypatch.setattr(awaited, "TIMEOUT", 0.02)


# Requests that a program ignores


@pytest.mark.parametrize(
    ("request_", "lid"),
    [
        (get(AttributeID.SM_INFO, path=None, tid=0x4_0000_0007), SM_LID),
        (get(AttributeID.SM_INFO, path=(1, 2), tid=0x4_0000_0007), 0xFFFF),
    ],
    ids=["SMInfo by LID", "SMInfo by route"],
)
@pytest.mark.usefixtures("soon")
def test_what_a_program_ignores_comes_back_as_a_timeout_and_its_late_answer_is_dropped(
    running: Running, request_: bytes, lid: int
) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(request_, lid, sqp=7)
    echo, came = one.receive(), sm.receive()
    assert (echo.status, echo.dlid, echo.sqp, echo.length) == (110, lid, 7, 256)
    assert echo.mad[:192] == came.mad[:192]
    assert echo.mad[:8] + echo.mad[10:192] == request_[:8] + request_[10:192]
    assert running.server.counts()["unanswered"] == 1
    late = answer(came)
    direction = b"\x80" if lid == 0xFFFF else b"\0"
    sm.send(late[:4] + direction + late[5:], 0xFFFF if lid == 0xFFFF else ASKER_LID)
    assert one.hears_nothing()


def ignored(sm: Program, asker: Program) -> Packet:
    """Let *asker* ask what *sm* ignores, and return what *asker* hears first: earlier requests are given up earlier."""
    asker.send(get(AttributeID.SM_INFO, path=None, tid=0x1D1E), SM_LID)
    assert sm.receive().mad[16:18] == b"\0\x20"
    return asker.receive()


def test_what_was_answered_is_not_given_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "TIMEOUT", 1.0)
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(get(AttributeID.SM_INFO, path=None), SM_LID)
    sm.send(answer(sm.receive()), ASKER_LID)
    assert one.receive().status == 0
    echo = ignored(sm, one)
    assert (echo.status, tid(echo.mad) & 0xFFFF) == (110, 0x1D1E)


@pytest.mark.usefixtures("soon")
def test_sa_requests_are_not_given_up_for_their_askers_wait_for_all_lengths_of_time(running: Running) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(gmp(3, Method.GET, 0x35), SM_LID, qpn=1, sqp=1)
    came = sm.receive()
    echo = ignored(sm, one)
    assert (echo.status, echo.mad[1]) == (110, 1)
    sm.send(answer(came), ASKER_LID, qpn=1, sqp=1)
    assert one.receive().mad[1:4:2] == b"\x03\x81"


@pytest.mark.usefixtures("soon")
def test_who_has_the_slot_of_a_program_that_left_is_not_told_of_its_timeouts(running: Running) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(get(AttributeID.SM_INFO, path=None), SM_LID)
    sm.receive()
    one.ask(protocol.DISCONNECT)
    heir = running.attach("H-1")
    assert heir.slot == one.slot
    assert tid(ignored(sm, heir).mad) & 0xFFFF == 0x1D1E
