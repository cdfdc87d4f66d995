"""The RMPP receiver: whatever happens to segments, the whole table comes out or one error does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.rmpp import WINDOW, RmppReceiver
from ibkeys.errors import TransferFailed
from ibkeys.mad.const import Method
from ibkeys.mad.sa import ACTIVE, FIRST, LAST, RmppStatus, RmppType, SaHeader, build_sa, with_rmpp
from tests.segments import split_segments

ANSWER = build_sa(Method.GET_TABLE_RESP, 0x0011, attribute_offset=14, transaction_id=0x1234_5678_9ABC)


def table(size: int) -> bytes:
    return bytes(number * 7 + number // 251 & 0xFF for number in range(size))


def header(mad: bytes | None) -> SaHeader:
    assert mad is not None
    assert len(mad) == 256
    return SaHeader(mad[:56])


def changed(segment: bytes, **fields: int) -> bytes:
    return SaHeader(segment[:56]).replace(**fields).raw + segment[56:]


def test_lengths_of_two_segments_are_those_of_the_example() -> None:
    """Three NodeRecords of 112 bytes: 376 in the first segment, 156 in the last (facts of RMPP, from the kernel)."""
    first, last = split_segments(ANSWER, bytes(336))
    assert (header(first).payload_length, header(first).rmpp_flags) == (376, ACTIVE | FIRST)
    assert (header(last).payload_length, header(last).rmpp_flags) == (156, ACTIVE | LAST)
    (only,) = split_segments(ANSWER, bytes(112))
    assert (header(only).payload_length, header(only).rmpp_flags) == (132, 7)


def test_acknowledgements_come_after_the_first_at_the_window_and_after_the_last() -> None:
    data = table(200 * (2 * WINDOW + 10) - 30)
    receiver = RmppReceiver()
    acknowledged = []
    for segment in split_segments(ANSWER, data):
        answer = receiver.take(segment)
        if answer is not None:
            acknowledged.append((header(answer).segment_number, header(answer).payload_length))
    assert acknowledged == [(1, 65), (65, 129), (129, 193), (138, 202)]
    assert receiver.answer == data


def test_an_acknowledgement_is_the_header_turned_round() -> None:
    first = split_segments(ANSWER, bytes(336))[0]
    ack = header(RmppReceiver().take(changed(first, r_resp_time=19, status=0)))
    assert (ack.method, ack.rmpp_type, ack.rmpp_flags, ack.rmpp_status) == (Method.GET_TABLE, RmppType.ACK, ACTIVE, 0)
    assert (ack.transaction_id, ack.attribute_id, ack.r_resp_time) == (0x1234_5678_9ABC, 0x0011, 19)


@pytest.mark.parametrize("size", [0, 1, 112, 199, 200, 201, 400, 401])
def test_the_answer_has_the_length_that_the_sender_gave(size: int) -> None:
    receiver = RmppReceiver()
    for segment in split_segments(ANSWER, table(size)):
        receiver.take(segment)
    assert receiver.answer == table(size)


def test_a_total_of_zero_is_unknown_and_no_error() -> None:
    first, last = split_segments(ANSWER, table(336))
    receiver = RmppReceiver()
    receiver.take(changed(first, payload_length=0))
    receiver.take(last)
    assert receiver.answer == table(336)


def test_a_repeated_segment_gets_the_last_acknowledgement_again() -> None:
    segments = split_segments(ANSWER, table(900))
    receiver = RmppReceiver()
    first = receiver.take(segments[0])
    assert receiver.take(segments[0]) == first
    assert receiver.take(segments[1]) is None
    assert receiver.take(segments[1]) is None, "received, but not yet acknowledged"
    for segment in segments[2:]:
        last = receiver.take(segment)
    assert receiver.take(segments[-1]) == last
    assert receiver.take(segments[0]) is not None, "a finished transfer acknowledges whatever is repeated"


def test_a_gap_is_not_acknowledged_beyond() -> None:
    segments = split_segments(ANSWER, table(200 * 70))
    receiver = RmppReceiver()
    receiver.take(segments[0])
    assert [receiver.take(segment) for segment in segments[2:]] == [None] * 68
    assert receiver.take(segments[1]) is not None
    assert not receiver.is_complete, "65 to 70 lay beyond the window"
    for segment in segments[65:]:
        receiver.take(segment)
    assert receiver.answer == table(200 * 70)


def segment_of(number: int, **fields: int) -> bytes:
    return changed(split_segments(ANSWER, table(900))[number - 1], **fields)


@pytest.mark.parametrize(
    ("mads", "status"),
    [
        pytest.param([segment_of(1, rmpp_version=2)], RmppStatus.UNSUPPORTED_VERSION, id="version"),
        pytest.param([segment_of(1, rmpp_type=0)], RmppStatus.BAD_TYPE, id="type-0"),
        pytest.param([segment_of(1, rmpp_type=5)], RmppStatus.BAD_TYPE, id="type-5"),
        pytest.param([segment_of(1, rmpp_status=3)], RmppStatus.BAD_STATUS, id="status"),
        pytest.param([segment_of(1, rmpp_flags=ACTIVE)], RmppStatus.BAD_SEGMENT_NUMBER, id="first-without-first"),
        pytest.param([segment_of(1, segment_number=0)], RmppStatus.BAD_SEGMENT_NUMBER, id="number-0"),
        pytest.param([segment_of(2, rmpp_flags=ACTIVE | FIRST)], RmppStatus.BAD_SEGMENT_NUMBER, id="second-with-first"),
        pytest.param([segment_of(1, payload_length=19)], RmppStatus.INCONSISTENT_LENGTH, id="total-too-small"),
        pytest.param(
            [segment_of(1), segment_of(2, rmpp_flags=ACTIVE | LAST)], RmppStatus.INCONSISTENT_LENGTH, id="cut"
        ),
        pytest.param(
            [segment_of(1, payload_length=0), segment_of(2, rmpp_flags=ACTIVE | LAST, payload_length=221)],
            RmppStatus.INCONSISTENT_LENGTH,
            id="last-too-long",
        ),
        pytest.param(
            [*(segment_of(number) for number in range(1, 5)), segment_of(5, payload_length=119)],
            RmppStatus.INCONSISTENT_LENGTH,
            id="last-not-as-promised",
        ),
        pytest.param(
            [*(segment_of(number) for number in range(1, 5)), segment_of(5, rmpp_flags=ACTIVE)],
            RmppStatus.INCONSISTENT_LENGTH,
            id="no-last-where-promised",
        ),
        pytest.param([segment_of(1), segment_of(2)[:255]], RmppStatus.INCONSISTENT_LENGTH, id="short-mad"),
    ],
)
def test_what_is_no_honest_transfer_is_aborted(mads: list[bytes], status: int) -> None:
    receiver = RmppReceiver()
    answers = [receiver.take(mad) for mad in mads]
    abort = header(answers[-1])
    assert (abort.rmpp_type, abort.rmpp_status, abort.segment_number) == (RmppType.ABORT, status, 0)
    with pytest.raises(TransferFailed) as caught:
        _ = receiver.answer
    assert caught.value.rmpp_status == status
    assert receiver.take(mads[0]) is None, "it is over"


@pytest.mark.parametrize(("kind", "word"), [(RmppType.STOP, "stopped"), (RmppType.ABORT, "aborted")])
def test_the_sender_may_end_it(kind: RmppType, word: str) -> None:
    receiver = RmppReceiver()
    receiver.take(segment_of(1))
    assert receiver.take(with_rmpp(segment_of(2), kind, ACTIVE, 126)) is None
    with pytest.raises(TransferFailed, match=rf"after 1 segments the sender {word} it: .*126 \(too many retries\)"):
        _ = receiver.answer


def test_giving_up_says_so_to_the_sender() -> None:
    receiver = RmppReceiver()
    receiver.take(segment_of(1))
    abort = header(receiver.give_up(segment_of(1)))
    assert (abort.rmpp_type, abort.rmpp_status) == (RmppType.ABORT, RmppStatus.TOTAL_TIME_TOO_LONG)
    assert receiver.failure is not None


def test_an_acknowledgement_from_the_sender_changes_nothing() -> None:
    receiver = RmppReceiver()
    assert receiver.take(with_rmpp(segment_of(1), RmppType.ACK, ACTIVE)) is None
    for number in range(1, 6):
        receiver.take(segment_of(number))
    assert receiver.answer == table(900)


class HonestSender:
    """The kernel's sender in few words: a window, acknowledgements, everything from the first gap again."""

    def __init__(self, data: bytes) -> None:
        self.segments = split_segments(ANSWER, data)
        self.acknowledged, self.window_last = 0, 1

    def to_send(self) -> list[bytes]:
        return self.segments[self.acknowledged : self.window_last]

    def take(self, answer: bytes) -> None:
        ack = header(answer)
        assert ack.rmpp_type == RmppType.ACK
        assert ack.segment_number <= ack.payload_length
        if ack.segment_number >= self.acknowledged:
            self.acknowledged, self.window_last = ack.segment_number, max(self.window_last, ack.payload_length)


@given(data=st.data(), size=st.integers(0, 30_000), window=st.integers(1, 70))
def test_lost_repeated_and_disordered_segments_give_the_whole_table(data: Any, size: int, window: int) -> None:
    sender, receiver = HonestSender(table(size)), RmppReceiver(window)
    for _ in range(data.draw(st.integers(0, 6))):
        wire = list(sender.to_send())
        wire = data.draw(st.permutations(wire)) if len(wire) < 12 else wire
        faults = data.draw(st.lists(st.tuples(st.integers(0, 200), st.sampled_from(["lose", "twice"])), max_size=4))
        for place, what in faults:
            if wire:
                place %= len(wire)
                wire[place : place + 1] = [] if what == "lose" else [wire[place]] * 2
        lose_acks = data.draw(st.booleans())
        for segment in wire:
            answer = receiver.take(segment)
            if answer is not None and not lose_acks:
                sender.take(answer)
    while not receiver.is_complete:  # the storm is over
        answers = [receiver.take(segment) for segment in sender.to_send()]
        assert receiver.failure is None
        assert receiver.is_complete or any(answers), "no acknowledgement, no progress: a deadlock"
        for answer in filter(None, answers):
            sender.take(answer)
    assert receiver.answer == table(size)


FIELDS = ["rmpp_version", "rmpp_type", "rmpp_flags", "rmpp_status"]


@given(
    size=st.integers(0, 3000),
    mangled=st.lists(
        st.tuples(
            st.integers(0, 15),
            st.dictionaries(st.sampled_from(FIELDS), st.integers(0, 7), max_size=2),
            st.one_of(st.none(), st.integers(0, 4000)),
        ),
        max_size=30,
    ),
)
def test_mangled_segments_give_the_whole_table_or_the_one_error(size: int, mangled: list[Any]) -> None:
    """As long as the first one's PayloadLength is right, no other lie makes a short table look whole."""
    segments, receiver = split_segments(ANSWER, table(size)), RmppReceiver()
    for place, fields, length in mangled:
        segment = changed(segments[place % len(segments)], **fields)
        if length is not None and place % len(segments):
            segment = changed(segment, payload_length=length)
        receiver.take(segment)
    try:
        answer = receiver.answer
    except TransferFailed:
        return
    assert answer == table(size)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_are_taken(mads: list[bytes]) -> None:
    receiver = RmppReceiver()
    for mad in mads:
        answer = receiver.take(mad)
        assert answer is None or len(answer) == 256


def test_a_first_segment_that_promises_too_much_is_stopped_at_once() -> None:
    first = split_segments(ANSWER, table(900))[0]
    receiver = RmppReceiver(max_segments=4, too_long="too long for a test")
    stop = header(receiver.take(first))
    assert (stop.rmpp_type, stop.rmpp_status) == (RmppType.STOP, RmppStatus.RESOURCES_EXHAUSTED)
    with pytest.raises(TransferFailed, match="too long for a test"):
        _ = receiver.answer
    receiver = RmppReceiver(max_segments=5)
    for segment in split_segments(ANSWER, table(900)):
        receiver.take(segment)
    assert receiver.is_complete
