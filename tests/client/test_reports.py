"""Subscribing to traps at the simulated SA: what comes, what is answered, and what happens when the SM goes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ibkeys
from ibkeys.client.report_port import MOST_WAITING, ReportPort
from ibkeys.client.reports import RENEW_EVERY, RETRY_EVERY, Subscriber
from ibkeys.client.smp import Timing
from ibkeys.errors import AgentRefused, MadStatusError, NoReply, Unreachable
from ibkeys.fabric.subnet_manager import OwnSmLid
from ibkeys.keys.smkey import SMKey
from ibkeys.mad.const import Method, TrapNumber
from ibkeys.mad.inform import ALL_TRAPS
from ibkeys.mad.notice import BadMKeyDetails, BadPKeyDetails
from ibkeys.mad.sa import build_sa
from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.port import Incoming, LocalPort, Outgoing, SendFailure
from ibkeys.umad.simulated import SimulatedPort
from tests.client.sasim import SA_KEY
from tests.fabricsim import subnet

KEY = SMKey(SA_KEY)
WATCHER, VICTIM = 1, 2
OFFERED = 0x5EC2_E7A1_0FF3_12ED


class Wire(SimulatedPort):
    """A port that keeps what is sent, and may drop answers to Reports."""

    sent: list[Outgoing]
    drops_answers = 0

    def send(self, batch: Sequence[Outgoing]) -> list[SendFailure]:
        self.sent += batch
        kept = [out for out in batch if out.mad[3] != Method.REPORT_RESP or not self._drops()]
        return super().send(kept)

    def _drops(self) -> bool:
        self.drops_answers -= 1
        return self.drops_answers >= 0


def wire(net: Subnet, node: int = WATCHER) -> Wire:
    port = Wire(net, net.nodes[node])
    port.sent = []
    return port


def fabric() -> Subnet:
    net = subnet("dual-home")
    start(net)
    return net


def start(net: Subnet, node: int = 0) -> None:
    net.set_sm(net.nodes[node])
    net.sa_of(net.nodes[node]).sa_key = SA_KEY


def end_port(net: Subnet, node: int) -> SimPort:
    return net.attach_port(net.nodes[node])


def send_bad_p_key(net: Subnet) -> None:
    net.advance(5)  # as far apart as security traps of one port have to be
    net.packet(Packet(end_port(net, 0), end_port(net, VICTIM), 0x0EAD))


def offer_bad_m_key(net: Subnet) -> None:
    net.advance(5)
    victim = end_port(net, VICTIM)
    victim.m_key = 0x1234
    mad = build_smp(Method.SET, 0x15, victim.number, m_key=OFFERED)
    assert net.send(mad, end_port(net, 0), victim.lid) is Drop.M_KEY


def answers(port: Wire) -> list[Outgoing]:
    return [out for out in port.sent if out.mad[3] == Method.REPORT_RESP]


def recorded(net: Subnet, kind: str) -> int:
    return sum(event.kind == kind for event in net.events)


def test_a_refused_p_key_comes_as_one_report_that_is_answered() -> None:
    net = fabric()
    port = wire(net)
    with Subscriber(port, sm_key=KEY) as subscriber:
        subscriber.subscribe()
        send_bad_p_key(net)
        (report,) = subscriber.poll(1.0)
        details = report.notice.details
        assert isinstance(details, BadPKeyDetails)
        assert (report.trap, details.p_key) == (257, 0x0EAD)
        victim = end_port(net, VICTIM)
        assert report.issuer_gid == int.from_bytes(victim.info[8:16]) << 64 | victim.guid
        assert report.lid == end_port(net, 0).lid
        assert subscriber.poll(5.0) == []
        (answer,) = answers(port)
        assert (answer.timeout_ms, answer.lid, answer.qpn, answer.qkey) == (0, report.lid, 1, 0x80010000)
        assert answer.mad[8:16] == 0x0000_0002_02DA_B001.to_bytes(8), "the upper half is the SM's agent"
        assert answer.mad[4:6] + answer.mad[24:36] == bytes(14)
        assert recorded(net, "report-acknowledged") == 1
        assert recorded(net, "report-repeated") == 0
    assert len(net.sa_of(net.nodes[0]).subscriptions) == 0
    assert subscriber.trouble is None


def test_all_security_traps_are_subscribed_to_by_number() -> None:
    net = fabric()
    port = wire(net)
    subscriber = Subscriber(port, sm_key=KEY)
    subscriber.subscribe()
    asked = [out.mad for out in port.sent]
    assert [int.from_bytes(mad[56 + 26 : 56 + 28]) for mad in asked] == [256, 257, 258, 259]
    assert {(mad[3], mad[56 + 23], int.from_bytes(mad[36:44])) for mad in asked} == {(2, 1, SA_KEY)}
    assert subscriber.close() is None
    ended = [out.mad for out in port.sent[len(asked) :]]
    assert sorted(mad[56:92].replace(b"\x01\x00", b"\x01\x01", 1) for mad in ended) == sorted(m[56:92] for m in asked)


def test_the_offered_m_key_is_nowhere_in_a_report() -> None:
    net = fabric()
    with Subscriber(wire(net), sm_key=KEY) as subscriber:
        subscriber.subscribe()
        offer_bad_m_key(net)
        (report,) = subscriber.poll(1.0)
        details = report.notice.details
        assert isinstance(details, BadMKeyDetails)
        assert (report.trap, details.method, details.attribute_id, details.m_key) == (256, 2, 0x15, 0)
        assert OFFERED.to_bytes(8) not in report.notice.raw
        for text in (repr(report), str(report), repr(details), str(report.notice.to_json(show_keys=True))):
            assert f"{OFFERED:x}" not in text
            assert str(OFFERED) not in text
        assert OFFERED.to_bytes(8) not in b"".join(b"".join(map(_bytes, key)) for key in subscriber.port.seen)


def _bytes(part: Any) -> bytes:
    return part if isinstance(part, bytes) else b""


def test_a_report_whose_answer_was_lost_comes_again_and_counts_once() -> None:
    net = fabric()
    port = wire(net)
    port.drops_answers = 2
    with Subscriber(port, sm_key=KEY) as subscriber:
        subscriber.subscribe()
        send_bad_p_key(net)
        assert len(subscriber.poll(1.0)) == 1
        assert subscriber.poll(3.0) == []
        assert subscriber.port.repeats == 2
        assert len(answers(port)) == 3
        assert recorded(net, "report-acknowledged") == 1


def test_the_sa_gives_up_a_report_that_nobody_answers() -> None:
    net = fabric()
    port = wire(net)
    port.drops_answers = 1000
    with Subscriber(port, sm_key=KEY) as subscriber:
        subscriber.subscribe()
        send_bad_p_key(net)
        assert len(subscriber.poll(1.0)) == 1
        assert subscriber.poll(5.0) == []
        assert len(answers(port)) == 4, "one, and three more"
        assert recorded(net, "report-given-up") == 1


def test_two_events_alike_are_two_reports() -> None:
    net = fabric()
    with Subscriber(wire(net), sm_key=KEY) as subscriber:
        subscriber.subscribe()
        send_bad_p_key(net)
        send_bad_p_key(net)
        assert [report.trap for report in subscriber.poll(1.0)] == [257, 257]
        assert subscriber.port.repeats == 0


def test_a_stranger_is_refused_with_advice_and_leaves_nothing_behind() -> None:
    net = fabric()
    with pytest.raises(MadStatusError, match=r"subscribe to trap 257.*sm_key=") as caught:
        Subscriber(wire(net), traps=[144, 257]).subscribe()
    assert caught.value.status == 0x0200
    assert len(net.sa_of(net.nodes[0]).subscriptions) == 0


def test_a_wrong_sm_key_is_silence_and_the_message_says_so() -> None:
    net = fabric()
    with pytest.raises(NoReply, match="a wrong SM_Key") as caught:
        Subscriber(wire(net), sm_key=SMKey(SA_KEY + 1), timing=Timing(0.1, 1)).subscribe()
    assert f"{SA_KEY + 1:x}" not in str(caught.value)


def test_a_stranger_with_a_wildcard_hears_security_traps_from_a_stock_opensm() -> None:
    net = fabric()
    with Subscriber(wire(net), traps=[ALL_TRAPS]) as subscriber:
        subscriber.subscribe()
        offer_bad_m_key(net)
        assert [report.trap for report in subscriber.poll(1.0)] == [256]


def test_without_a_subnet_manager_there_is_nobody_to_ask() -> None:
    net = subnet("dual-home")
    for node in net.nodes:
        for port in node.end_ports:
            port.info[18:20] = bytes(2)
    subscriber = Subscriber(wire(net), sm_key=KEY)
    with pytest.raises(Unreachable, match="MasterSMLID is 0"):
        subscriber.subscribe()
    assert subscriber.poll(3.0) == []
    assert isinstance(subscriber.trouble, Unreachable)
    start(net)
    assert subscriber.poll(2 * RETRY_EVERY) == []
    assert subscriber.trouble is None
    send_bad_p_key(net)
    assert len(subscriber.poll(1.0)) == 1


def test_the_second_program_on_a_port_is_refused_in_one_sentence() -> None:
    net = fabric()
    first, second = Subscriber(wire(net), sm_key=KEY), Subscriber(wire(net), sm_key=KEY)
    first.subscribe()
    with pytest.raises(AgentRefused, match="another program receives the SA's Reports on this port"):
        second.subscribe()
    elsewhere = Subscriber(wire(net, VICTIM), sm_key=KEY)
    elsewhere.subscribe()
    send_bad_p_key(net)
    assert len(first.poll(1.0)) == 1
    assert len(elsewhere.poll(1.0)) == 1
    first.close()
    first.port.close()
    second.subscribe()


def test_a_subscription_is_renewed_after_the_sm_was_started_anew() -> None:
    net = fabric()
    with Subscriber(wire(net), sm_key=KEY) as subscriber:
        subscriber.subscribe()
        send_bad_p_key(net)
        assert len(subscriber.poll(1.0)) == 1
        net.set_sm(net.nodes[0], None)
        start(net)
        send_bad_p_key(net)
        assert subscriber.poll(RENEW_EVERY) == [], "the new SM knows nothing of the subscription"
        assert len(net.sa_of(net.nodes[0]).subscriptions) == 4
        send_bad_p_key(net)
        assert len(subscriber.poll(1.0)) == 1, "the new SM's TransactionIDs are those of the old one"


def test_a_subscription_follows_the_sm_to_another_lid_at_once() -> None:
    net = fabric()
    with Subscriber(wire(net), sm_key=KEY, timing=Timing(0.1, 0)) as subscriber:
        subscriber.subscribe()
        net.set_sm(net.nodes[0], None)
        start(net, VICTIM)
        assert subscriber.poll(2 * RETRY_EVERY) == []
        assert (subscriber.trouble, subscriber.renewals) == (None, 1)
        assert subscriber.sm_lid == end_port(net, VICTIM).lid
        send_bad_p_key(net)
        assert [report.lid for report in subscriber.poll(1.0)] == [subscriber.sm_lid]


class Deaf(Wire):
    """A port of a host that never hears of another MasterSMLID, as under libumad2sim."""

    def attributes(self) -> LocalPort:
        return dataclasses.replace(super().attributes(), sm_lid=end_port(self.subnet, 0).lid)


def test_where_the_host_does_not_hear_of_a_new_master_the_port_is_asked(tmp_path: Path) -> None:
    net = fabric()
    port = Deaf(net, net.nodes[WATCHER])
    port.sent = []
    with Subscriber(port, sm_key=KEY, timing=Timing(0.1, 0)) as subscriber:
        subscriber.subscribe()
        with ibkeys.open(subscriber.port, stores=ibkeys.Stores(tmp_path / "keys", tmp_path / "journal")) as tool:
            tool.sweep()
            subscriber.ask_sm_lid = OwnSmLid(tool)
            net.set_sm(net.nodes[0], None)
            start(net, VICTIM)
            assert subscriber.poll(RENEW_EVERY + 2 * RETRY_EVERY) == []
            assert (subscriber.trouble, subscriber.sm_lid) == (None, end_port(net, VICTIM).lid)
            asked = len(port.sent)
            assert subscriber.poll(5 * RENEW_EVERY) == []
            assert (subscriber.trouble, subscriber.renewals) == (None, 1)
            assert len(port.sent) - asked == 5 * len(subscriber.traps), "renewed, and nothing else asked"
            send_bad_p_key(net)
            assert len(subscriber.poll(1.0)) == 1
            assert subscriber.close() is None


def test_an_own_port_that_has_another_key_is_asked_once_in_a_sweep(tmp_path: Path) -> None:
    net = fabric()
    port = Deaf(net, net.nodes[WATCHER])
    port.sent = []
    with ibkeys.open(port, stores=ibkeys.Stores(tmp_path / "keys", tmp_path / "journal")) as tool:
        lid = OwnSmLid(tool)
        old, new = end_port(net, 0).lid, end_port(net, VICTIM).lid
        assert lid() == old
        assert port.sent == [], "before the first sweep nobody is asked"
        tool.sweep()
        start(net, VICTIM)
        assert lid() == new
        own = end_port(net, WATCHER)
        own.m_key, own.protect_bits = 0x99, 2
        assert [lid() for _ in range(3)] == [old] * 3
        assert own.m_key_violations == 1


def test_while_no_sm_is_there_it_is_tried_again_and_again_and_said() -> None:
    net = fabric()
    with Subscriber(wire(net), sm_key=KEY, timing=Timing(0.1, 1)) as subscriber:
        subscriber.subscribe()
        net.set_sm(net.nodes[0], None)
        assert subscriber.poll(RENEW_EVERY + 5) == []
        assert isinstance(subscriber.trouble, NoReply)
        start(net)
        assert subscriber.poll(2 * RETRY_EVERY) == []
        assert (subscriber.trouble, subscriber.renewals) == (None, 1)
    assert subscriber.trouble is None


def test_the_end_of_a_subscription_that_a_new_sm_does_not_have_is_no_trouble() -> None:
    net = fabric()
    subscriber = Subscriber(wire(net), sm_key=KEY)
    subscriber.subscribe()
    net.set_sm(net.nodes[0], None)
    start(net)
    assert subscriber.close() is None
    subscriber.subscribe()
    net.set_sm(net.nodes[0], None)
    assert isinstance(subscriber.close(), NoReply)


def test_reports_that_come_during_a_sweep_are_answered_in_it() -> None:
    net = fabric()
    port = wire(net)
    subscriber = Subscriber(port, sm_key=KEY)
    subscriber.subscribe()
    with ibkeys.open(subscriber.port) as tool:
        send_bad_p_key(net)
        assert len(tool.sweep().nodes) == len(net.nodes)
        assert len(answers(port)) == 1
        assert [report.trap for report in subscriber.poll(0.0)] == [257]
        assert len(tool.sa(KEY).groups()) == 1, "the SA is asked through the same agent"
        assert subscriber.close() is None


def test_a_report_of_somebody_else_is_not_believed() -> None:
    net = fabric()
    port = wire(net)
    with Subscriber(port, sm_key=KEY) as subscriber:
        subscriber.subscribe()
        forged = build_sa(Method.REPORT, 2, data=bytes(80), transaction_id=7)
        net.send(forged, end_port(net, VICTIM), port.home.lid)
        assert subscriber.poll(0.5) == []
        assert subscriber.port.strangers == 1
        assert answers(port) == []


@pytest.mark.soak
def test_reports_that_nobody_takes_are_counted_and_do_not_fill_the_memory() -> None:
    port = ReportPort(Flood())
    port.register(3, 2)
    port.expect(Flood.SM_LID)
    for _ in range(MOST_WAITING // 64 + 2):
        assert port.recv(0.0) == []
    assert len(port.take()) == MOST_WAITING
    assert port.lost == 128
    assert port.take() == []


class Flood(SimulatedPort):
    """Each time it is asked it has 64 other Reports."""

    SM_LID = 9

    def __init__(self) -> None:
        net = subnet("dual-home")
        super().__init__(net, net.nodes[WATCHER])
        self.count = 0

    def recv(self, timeout: float) -> list[Incoming]:
        came = []
        for _ in range(64):
            self.count += 1
            mad = build_sa(Method.REPORT, 2, data=bytes(80), transaction_id=self.count)
            came.append(Incoming(mad, 0, self.SM_LID, 1))
        return came


@pytest.mark.parametrize("spoil", [lambda mad: mad[:100], lambda mad: mad[:16] + b"\0\3" + mad[18:], lambda mad: b""])
def test_what_only_looks_like_a_report_is_left_alone(spoil: Any) -> None:
    class Odd(Flood):
        def recv(self, timeout: float) -> list[Incoming]:
            return [Incoming(spoil(each.mad), 0, each.lid, 1) for each in super().recv(timeout)]

    port = ReportPort(Odd())
    port.expect(Flood.SM_LID)
    assert len(port.recv(0.0)) == 64
    assert port.take() == []


@given(head=st.binary(min_size=0, max_size=20), rest=st.binary(max_size=280), status=st.sampled_from([0, 110, 5]))
def test_no_bytes_make_a_port_that_takes_reports_raise(head: bytes, rest: bytes, status: int) -> None:
    class Odd(Flood):
        def recv(self, timeout: float) -> list[Incoming]:
            return [Incoming(b"\1\3\2\6" + head + rest, status, self.SM_LID, 1)]

    port = ReportPort(Odd())
    port.expect(Flood.SM_LID)
    assert len(port.recv(0.0)) + len(port.take()) == 1


def test_a_trap_is_known_by_its_number() -> None:
    net = fabric()
    with Subscriber(wire(net), traps=[TrapNumber.CAPABILITY_CHANGE], sm_key=KEY) as subscriber:
        subscriber.subscribe()
        net.set_description(net.nodes[VICTIM], "renamed")
        send_bad_p_key(net)
        assert {report.trap for report in subscriber.poll(1.0)} == {TrapNumber.CAPABILITY_CHANGE}
