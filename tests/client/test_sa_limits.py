"""An SA that falls silent, dribbles or has no end: it is given up after its time or at its size."""

from __future__ import annotations

import pytest

from ibkeys.client.limits import Limits
from ibkeys.client.sa import PROGRESS_TIMEOUT, SaClient
from ibkeys.errors import TransferFailed
from ibkeys.mad.records import NodeRecord
from ibkeys.mad.sa import ACTIVE, FIRST, RmppStatus, RmppType, SaHeader
from ibkeys.umad.port import Incoming
from tests.client.sasim import Recorder, opensm_answer, recorded, with_sm


def test_an_sa_that_falls_silent_in_the_middle_is_given_up() -> None:
    net, _ = with_sm("ft648")

    class DiesAfterAWhile(Recorder):
        def recv(self, timeout: float) -> list[Incoming]:
            came = super().recv(timeout)
            return came if len(self.sent) < 3 else []

    port = DiesAfterAWhile(net, net.nodes[0])
    port.sent, port.refuse = [], []
    before = net.now
    with pytest.raises(TransferFailed, match=r"after \d+ segments this side aborted it: .*118"):
        SaClient(port).get_table(NodeRecord)
    assert PROGRESS_TIMEOUT <= net.now - before <= PROGRESS_TIMEOUT + 3
    assert [SaHeader(each.mad[:56]).rmpp_type for each in port.sent[-3:]] == [RmppType.ABORT, 0, 0]


class Begun(Recorder):
    """An SA before whose answers a first segment arrives that nothing follows, from it or forged; *forged* times."""

    forged = 1

    def recv(self, timeout: float) -> list[Incoming]:
        requests = [out.mad for out in self.sent if out.mad[25] == 0]
        if not requests or len(requests) > self.forged:
            return super().recv(timeout)
        self.subnet.advance(timeout)
        header = SaHeader(opensm_answer(b"", 56)).replace(
            transaction_id=int.from_bytes(requests[-1][8:16]),
            rmpp_version=1,
            rmpp_type=1,
            rmpp_flags=ACTIVE | FIRST,
            segment_number=1,
        )
        return [Incoming(header.raw + bytes(200), 0, 1, 1)]


@pytest.mark.parametrize("forged", [1, 2])
def test_a_query_whose_answer_stops_after_its_first_segment_is_sent_again(forged: int) -> None:
    port = begun(forged)
    before = port.now()
    records = SaClient(port).get_table(NodeRecord)
    assert port.now() - before <= forged * (PROGRESS_TIMEOUT + 2)
    assert records == SaClient(recorded(port.subnet)).get_table(NodeRecord)


def test_a_query_is_not_sent_again_for_ever() -> None:
    port = begun(100)
    with pytest.raises(TransferFailed, match=r"after 1 segments this side aborted it: .*118"):
        SaClient(port).get_table(NodeRecord)
    assert sum(out.mad[25] == 0 for out in port.sent) == 3


def begun(forged: int) -> Begun:
    net, _ = with_sm()
    port = Begun(net, net.nodes[0])
    port.sent, port.refuse, port.forged = [], [], forged
    return port


class Dribble(Recorder):
    """An SA whose table has no end: a further segment each 9 s, just before the receiver gives it up."""

    seconds = 9.0
    number = 0

    def recv(self, timeout: float) -> list[Incoming]:
        requests = [out.mad for out in self.sent if out.mad[25] == 0]
        if not requests or timeout < self.seconds:
            self.subnet.advance(timeout)
            if self.number or not requests:
                return []
        else:
            self.subnet.advance(self.seconds)
        self.number += 1
        header = SaHeader(opensm_answer(b"", 56)).replace(
            transaction_id=int.from_bytes(requests[0][8:16]),
            rmpp_version=1,
            rmpp_type=1,
            rmpp_flags=ACTIVE | (FIRST if self.number == 1 else 0),
            segment_number=self.number,
        )
        return [Incoming(header.raw + bytes(200), 0, 1, 1)]


def dribble(**settings: float) -> Dribble:
    net, _ = with_sm()
    port = Dribble(net, net.nodes[0])
    port.sent, port.refuse = [], []
    port.__dict__.update(settings)
    return port


def test_an_sa_that_sends_a_segment_each_9_s_is_given_up_after_its_time() -> None:
    port = dribble()
    before = port.now()
    words = r"after 34 segments this side gave the transfer up: it took .* 300 s, .* \(Limits\(sa_time=N\) raises it\)"
    with pytest.raises(TransferFailed, match=words) as error:
        SaClient(port).get_table(NodeRecord)
    assert error.value.rmpp_status == RmppStatus.TOTAL_TIME_TOO_LONG
    assert port.now() - before <= 300 + 2
    assert (SaHeader(port.sent[-1].mad[:56]).rmpp_type, port.sent[-1].mad[27]) == (RmppType.ABORT, 118)


def test_the_time_of_an_answer_is_the_users() -> None:
    port = dribble()
    with pytest.raises(TransferFailed, match="after 112 segments"):
        SaClient(port, limits=Limits(sa_time=1000)).get_table(NodeRecord)


def test_an_answer_without_end_is_stopped_at_its_size() -> None:
    port = dribble(seconds=0.0)
    words = r"longer than 1 million bytes, .* \(Limits\(sa_size=N\) raises it\)"
    with pytest.raises(TransferFailed, match=words) as error:
        SaClient(port, limits=Limits(sa_size=1)).get_table(NodeRecord)
    assert error.value.rmpp_status == RmppStatus.RESOURCES_EXHAUSTED
    assert SaHeader(port.sent[-1].mad[:56]).rmpp_type == RmppType.STOP
    assert port.number == 1_000_000 // 200 + 1
