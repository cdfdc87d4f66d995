"""An answer of the SA, byte by byte: it is whole records or an error, and what was cut is never taken for a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.in_flight import GRACE
from ibkeys.client.sa import SaClient
from ibkeys.client.smp import Timing
from ibkeys.errors import IbkeysError, MalformedMad, TransferFailed
from ibkeys.mad.records import NodeRecord
from ibkeys.mad.sa import ACTIVE, FIRST, LAST, RmppType, SaHeader, with_rmpp
from ibkeys.umad.port import Incoming
from tests.client.sasim import Recorder, opensm_answer, with_sm
from tests.corpus import DATA, load


class Canned(Recorder):
    """Answers whatever is sent with what the test says, a few times."""

    answer: bytes
    times = 5

    def recv(self, timeout: float) -> list[Incoming]:
        self.subnet.advance(timeout if not self.sent else 0.001)
        request = self.sent.pop() if self.sent and self.times else None
        self.times -= request is not None
        self.sent.clear()
        return [Incoming(self.answer[:8] + request.mad[8:16] + self.answer[16:], 0, 1, 1)] if request else []


class ForgedFirst(Recorder):
    """Loses the answer to the first attempt, and gets a MAD with the same header in its place."""

    kind = RmppType.ACK
    number = 0

    def recv(self, timeout: float) -> list[Incoming]:
        came = super().recv(timeout)
        if len(self.sent) != 1 or not came:
            return came
        forged = with_rmpp(came[0].mad, self.kind, ACTIVE, 0, self.number, 64)
        return [Incoming(forged, 0, came[0].lid, 1)]


def canned(answer: bytes) -> SaClient:
    net, _ = with_sm()
    port = Canned(net, net.nodes[0])
    port.sent, port.refuse, port.answer = [], [], answer
    return SaClient(port, Timing(retries=0))


def test_an_answer_that_no_kernel_segmented_is_taken_when_it_cannot_have_been_cut() -> None:
    record = NodeRecord.new(lid=7).raw.ljust(112, b"\0")
    assert [each.lid for each in canned(opensm_answer(record, 168)).get_table(NodeRecord)] == [7]
    assert canned(opensm_answer(b"", 56)).get_table(NodeRecord) == []
    for length in (225, 256):
        with pytest.raises(TransferFailed, match="is incomplete: its sender has no RMPP"):
            canned(opensm_answer(record * 2, length)).get_table(NodeRecord)


@pytest.mark.parametrize(
    ("kind", "number"), [(RmppType.ACK, 0), (RmppType.ACK, 1), (RmppType.DATA, 2), (RmppType.DATA, 65)]
)
def test_what_begins_no_answer_is_a_lost_one_and_the_query_is_repeated(kind: RmppType, number: int) -> None:
    net, fabric = with_sm()
    port = ForgedFirst(net, net.nodes[0])
    port.sent, port.refuse, port.kind, port.number = [], [], kind, number
    client = SaClient(port)
    assert client.get_table(NodeRecord) == SaClient(fabric.umad).get_table(NodeRecord)
    assert (client.statistics.strays, client.statistics.timeouts) == (1, 1)
    assert net.now <= client.timing.timeout + GRACE + 0.1


def test_a_table_that_ends_inside_a_record_is_no_table() -> None:
    with pytest.raises(MalformedMad, match="not a table of complete records"):
        canned(opensm_answer(bytes(150), 206)).get_table(NodeRecord)


def test_no_record_is_what_opensm_sends_for_it() -> None:
    """Captured: AttributeOffset 0, and 8 zero bytes in the place of records."""
    vector = load(DATA / "vectors" / "mads_ibsim.json")["vectors"][150]
    answer = bytes.fromhex(vector["response"]["hex"])
    assert (len(answer), SaHeader(answer[:56]).attribute_offset, SaHeader(answer[:56]).attribute_id) == (64, 0, 0x11)
    assert canned(answer).get_table(NodeRecord) == []


@pytest.mark.parametrize("data", [b"\0\0\0\0\0\0\0\1", NodeRecord.new(lid=7).raw, bytes(199) + b"\1"])
@pytest.mark.parametrize("flags", [0, ACTIVE | FIRST | LAST])
def test_records_without_a_distance_are_no_empty_table(data: bytes, flags: int) -> None:
    header = SaHeader(opensm_answer(b"", 56)).replace(
        attribute_offset=0,
        rmpp_flags=flags,
        rmpp_version=1,
        rmpp_type=1,
        segment_number=1 if flags else 0,
        payload_length=20 + len(data) if flags else 0,
    )
    words = f"{len(data)} bytes of records with AttributeOffset 0: the size of a record is not known"
    with pytest.raises(MalformedMad, match=words):
        canned(header.raw + data).get_table(NodeRecord)


def test_a_record_that_is_too_short_is_refused() -> None:
    with pytest.raises(MalformedMad, match="40 bytes of data, 108 are needed"):
        canned(opensm_answer(bytes(40), 96)).get(NodeRecord)


@given(
    fields=st.fixed_dictionaries(
        {
            "rmpp_version": st.sampled_from([0, 1, 1, 1, 2]),
            "rmpp_type": st.integers(0, 5),
            "rmpp_flags": st.integers(0, 7),
            "rmpp_status": st.sampled_from([0, 0, 1, 126, 255]),
            "segment_number": st.integers(0, 3),
            "payload_length": st.integers(0, 500),
            "attribute_offset": st.integers(0, 30),
            "status": st.sampled_from([0, 0, 0, 0x0200, 0xFFFF]),
        }
    ),
    data=st.binary(max_size=200),
)
def test_any_answer_is_records_or_an_error(fields: dict[str, int], data: bytes) -> None:
    raw = SaHeader(opensm_answer(b"", 56)).replace(**fields).raw + data
    for call in (lambda sa: sa.get_table(NodeRecord), lambda sa: sa.get(NodeRecord)):
        try:
            call(canned(raw))
        except IbkeysError as error:
            lines = str(error).splitlines()
        else:
            lines = ["answered"]
        assert len(lines) == 1
