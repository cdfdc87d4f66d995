"""What programs on the server wait for from other programs: whose an answer is, and when a request is given up."""

from __future__ import annotations

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.smp import build_smp
from ibkeys.sim.server import awaited
from ibkeys.sim.server import ibsim_protocol as protocol
from tests.sim.server.programs import Packet, Program, RunningOpensm, get, gmp, tid

SM_LID, ASKER_LID = 3, 2


def trap(tid: int = 0x4_0000_0077) -> bytes:
    return build_smp(Method.TRAP, AttributeID.NOTICE, data=b"\x84" + bytes(63), transaction_id=tid)


def repress(trap: bytes, **fields: bytes) -> bytes:
    """Return the TrapRepress of *trap* as libumad2sim sends it: with the agent of who sends it in bits 47 to 32."""
    mad = bytearray(trap)
    mad[3] = Method.TRAP_REPRESS
    mad[10:12] = b"\x00\x09"
    for place, value in fields.items():
        start = int(place.removeprefix("at"))
        mad[start : start + len(value)] = value
    return bytes(mad)


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


# Whose an answer is


@pytest.mark.parametrize("sent", [trap(), gmp(6, Method.TRAP, AttributeID.NOTICE, 0x4_0000_0077)], ids=["SMP", "GMP"])
def test_a_trap_repress_is_for_the_program_whose_trap_it_answers(running: RunningOpensm, sent: bytes) -> None:
    sm, idle_sm, one = running.attach("H-2", is_sm=True), running.attach("H-1", is_sm=True), running.attach("H-1")
    one.send(sent, SM_LID)
    came = sm.receive()
    assert tid(came.mad) == 0x0002_0004_0000_0077
    sm.send(repress(came.mad), ASKER_LID)
    back = one.receive()
    assert (back.mad[3], back.status, back.slid, back.dlid) == (Method.TRAP_REPRESS, 0, SM_LID, ASKER_LID)
    assert back.mad[:3] + back.mad[4:] == came.mad[:3] + came.mad[4:], "its own TransactionID, agent and all"
    assert idle_sm.hears_nothing()
    assert one.hears_nothing()


def test_an_sm_that_sends_itself_a_trap_gets_its_own_trap_repress(running: RunningOpensm) -> None:
    sm = running.attach("H-2", is_sm=True)
    sm.send(trap(), SM_LID)
    came = sm.receive()
    assert came.mad[3] == Method.TRAP
    sm.send(repress(came.mad), SM_LID)
    assert sm.receive().mad[3] == Method.TRAP_REPRESS


@pytest.mark.parametrize(
    "other",
    [{"at12": b"\x00\x00\x00\x78"}, {"at8": b"\x00\x01"}, {"at8": b"\x00\xff"}, {"at1": b"\x06"}],
    ids=["another TransactionID", "another program", "nobody's slot", "another class"],
)
def test_a_trap_repress_that_nobody_waits_for_is_dropped(running: RunningOpensm, other: dict[str, bytes]) -> None:
    sm, idle, one = running.attach("H-2", is_sm=True), running.attach("H-1"), running.attach("H-1", is_sm=True)
    sm.send(repress(trap()), ASKER_LID)  # no trap at all
    assert one.hears_nothing()
    one.send(trap(), SM_LID)
    came = sm.receive()
    sm.send(repress(came.mad, **other), ASKER_LID)
    assert one.hears_nothing()
    assert idle.hears_nothing()
    for _ in range(2):
        sm.send(repress(came.mad), ASKER_LID)
    assert one.receive().mad[3] == Method.TRAP_REPRESS
    assert one.hears_nothing(), "the second one answers nothing any more"


def test_a_trap_repress_at_another_port_is_not_for_the_program(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1", is_sm=True)
    running.attach("H-3", is_sm=True)
    one.send(trap(), SM_LID)
    came = sm.receive()
    sm.send(repress(came.mad), 4)
    assert one.hears_nothing()
    sm.send(repress(came.mad), ASKER_LID)
    assert one.receive().mad[3] == Method.TRAP_REPRESS


def test_a_trap_repress_passes_the_m_key_check_first(running: RunningOpensm) -> None:
    sm, one, port = running.attach("H-2", is_sm=True), running.attach("H-1", is_sm=True), running.subnet.port("H-1", 1)
    port.m_key = 0xABC
    one.send(trap(), SM_LID)
    came = sm.receive()
    sm.send(repress(came.mad), ASKER_LID)
    assert one.hears_nothing()
    assert port.m_key_violations == 1
    sm.send(repress(came.mad, at24=(0xABC).to_bytes(8)), ASKER_LID)
    assert one.receive().mad[3] == Method.TRAP_REPRESS


def test_who_has_the_slot_of_a_program_that_left_does_not_get_its_trap_repress(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(trap(), SM_LID)
    came = sm.receive()
    one.ask(protocol.DISCONNECT)
    heir = running.attach("H-1")
    assert heir.slot == one.slot
    sm.send(repress(came.mad), ASKER_LID)
    assert heir.hears_nothing()


def test_an_smp_that_answers_nothing_is_dropped(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(get(AttributeID.SM_INFO, path=None, tid=0x4_0000_0007), SM_LID)
    right = answer(sm.receive())
    for wrong in (right[:10] + b"\x00\x05" + right[12:], right[:15] + b"\x08" + right[16:]):
        sm.send(wrong, ASKER_LID)
    assert one.hears_nothing()
    for _ in range(2):
        sm.send(right, ASKER_LID)
    assert tid(one.receive().mad) == 0x0001_0004_0000_0007
    assert one.hears_nothing()


# Requests that a program ignores


@pytest.mark.parametrize(
    ("request_", "lid"),
    [
        (get(AttributeID.SM_INFO, path=None, tid=0x4_0000_0007), SM_LID),
        (get(AttributeID.SM_INFO, path=(1, 2), tid=0x4_0000_0007), 0xFFFF),
        (trap(), SM_LID),
    ],
    ids=["SMInfo by LID", "SMInfo by route", "trap"],
)
@pytest.mark.usefixtures("soon")
def test_what_a_program_ignores_comes_back_as_a_timeout_and_its_late_answer_is_dropped(
    running: RunningOpensm, request_: bytes, lid: int
) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(request_, lid, sqp=7)
    echo, came = one.receive(), sm.receive()
    assert (echo.status, echo.dlid, echo.sqp, echo.length) == (110, lid, 7, 256)
    assert echo.mad[:192] == came.mad[:192]
    assert echo.mad[:8] + echo.mad[10:192] == request_[:8] + request_[10:192]
    assert running.server.counts()["unanswered"] == 1
    late = repress(came.mad) if request_[3] == Method.TRAP else answer(came)
    direction = b"\x80" if lid == 0xFFFF else b"\0"
    sm.send(late[:4] + direction + late[5:], 0xFFFF if lid == 0xFFFF else ASKER_LID)
    assert one.hears_nothing()


def ignored(sm: Program, asker: Program) -> Packet:
    """Let *asker* ask what *sm* ignores, and return what *asker* hears first: earlier requests are given up earlier."""
    asker.send(get(AttributeID.SM_INFO, path=None, tid=0x1D1E), SM_LID)
    assert sm.receive().mad[16:18] == b"\0\x20"
    return asker.receive()


def test_what_was_answered_is_not_given_up(running: RunningOpensm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "TIMEOUT", 1.0)
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    for request in (get(AttributeID.SM_INFO, path=None), trap()):
        one.send(request, SM_LID)
        came = sm.receive()
        sm.send(repress(came.mad) if request[3] == Method.TRAP else answer(came), ASKER_LID)
        assert one.receive().status == 0
    echo = ignored(sm, one)
    assert (echo.status, tid(echo.mad) & 0xFFFF) == (110, 0x1D1E)


@pytest.mark.usefixtures("soon")
def test_sa_requests_are_not_given_up_for_their_askers_wait_for_all_lengths_of_time(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(gmp(3, Method.GET, 0x35), SM_LID, qpn=1, sqp=1)
    came = sm.receive()
    echo = ignored(sm, one)
    assert (echo.status, echo.mad[1]) == (110, 1)
    sm.send(answer(came), ASKER_LID, qpn=1, sqp=1)
    assert one.receive().mad[1:4:2] == b"\x03\x81"


@pytest.mark.usefixtures("soon")
def test_who_has_the_slot_of_a_program_that_left_is_not_told_of_its_timeouts(running: RunningOpensm) -> None:
    sm, one = running.attach("H-2", is_sm=True), running.attach("H-1")
    one.send(get(AttributeID.SM_INFO, path=None), SM_LID)
    sm.receive()
    one.ask(protocol.DISCONNECT)
    heir = running.attach("H-1")
    assert heir.slot == one.slot
    assert tid(ignored(sm, heir).mad) & 0xFFFF == 0x1D1E
