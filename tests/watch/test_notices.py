"""From Reports to events: who, whom, which key; and what is not said."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.report_port import TrapReport
from ibkeys.mad.const import TrapNumber
from ibkeys.mad.notice import BadMKeyDetails, BadPKeySwitchPortDetails, LinkStateDetails, Notice
from ibkeys.watch.event import Event, EventEnd
from ibkeys.watch.names import Names
from ibkeys.watch.notices import FOLLOWED_BACK, NOT_NAMED, event_of_report
from tests.watch.watched import (
    OFFERED,
    host,
    names_of,
    reports,
    watched_subnet,
    wrong_m_key,
    wrong_p_key,
    wrong_q_key,
)

TIME = "2026-11-22T09:30:00Z"


def name(end: EventEnd | None) -> str | None:
    return None if end is None else f"{end.node_desc}:{end.port}"


def test_a_wrong_p_key_names_sender_and_receiver() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_p_key(net))
    event = event_of_report(report, names_of(net), TIME)
    assert (event.kind, event.trap, event.p_key, event.q_key) == ("bad-p_key", 257, 0x8123, None)
    assert (name(event.sender), name(event.receiver)) == ("node02 mlx4_0:1", "node03 mlx4_0:1")
    assert event.at == event.receiver
    assert event.sender is not None
    assert (event.sender.port_guid, event.sender.lid) == (host(net, 2).guid, host(net, 2).lid)
    document = event.to_json()
    assert (document["pkey"], document["partition"]) == ("0x8123", "0x0123")
    assert document["from"]["port_guid"] == f"0x{host(net, 2).guid:016x}"
    assert event.doubtful == ()


def test_a_wrong_q_key_names_sender_and_receiver() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_q_key(net))
    event = event_of_report(report, names_of(net), TIME)
    assert (event.kind, event.trap, event.p_key, event.q_key) == ("bad-q_key", 258, None, 0x11)
    assert (name(event.sender), name(event.receiver)) == ("node02 mlx4_0:1", "node03 mlx4_0:1")
    assert event.to_json()["q_key"] == "0x00000011"


def test_a_p_key_stopped_at_a_switch_names_its_port() -> None:
    net = watched_subnet()
    leaf = host(net, 2).peer
    assert leaf is not None
    leaf.p_keys, leaf.inbound_enforcement = [0xFFFF], 1
    (report,) = reports(net, lambda: wrong_p_key(net))
    event = event_of_report(report, names_of(net), TIME)
    assert (event.kind, event.trap) == ("bad-p_key-at-switch", 259)
    assert (event.at.node_guid, event.at.port) == (leaf.node.guid, leaf.number)
    assert (name(event.sender), name(event.receiver)) == ("node02 mlx4_0:1", "node03 mlx4_0:1")


@pytest.mark.parametrize(("lid", "port"), [(7, 200), (2, 9)], ids=["no-such-port", "no-switch"])
def test_a_switch_port_that_no_sweep_found_is_not_another_port(names: Names, lid: int, port: int) -> None:
    notice = Notice.new(is_generic=1, type=2, producer_type=2, trap_number=259, issuer_lid=lid)
    details = BadPKeySwitchPortDetails.new(lid_addr1=2, lid_addr2=3, p_key=0x8123, sw_lid_addr=lid, port_no=port)
    before = names.misses
    event = event_of_report(TrapReport(notice.with_details(details), 0, 1, 0.0), names, TIME)
    assert event.at == EventEnd(lid=lid, port=port)
    assert names.misses == before + 1


def test_a_wrong_m_key_by_directed_route_is_followed_back_to_its_sender() -> None:
    net = watched_subnet()
    out = host(net, 2).peer
    assert out is not None
    (report,) = reports(net, lambda: wrong_m_key(net, route=(1, out.number)))
    event = event_of_report(report, names_of(net), TIME)
    assert (event.kind, event.method, event.attribute, event.modifier) == ("bad-m_key", "Set", "PortInfo", 1)
    assert (name(event.sender), name(event.at)) == ("node01 mlx4_0:1", "node02 mlx4_0:1")
    assert event.doubtful == (FOLLOWED_BACK,)


def test_of_a_wrong_m_key_by_lid_the_sender_is_not_guessed() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_m_key(net))
    event = event_of_report(report, names_of(net), TIME)
    assert event.sender is None
    assert event.doubtful == (NOT_NAMED,)


def with_details(report: TrapReport, **values: object) -> TrapReport:
    details = report.notice.details
    assert isinstance(details, BadMKeyDetails)
    return replace(report, notice=report.notice.with_details(details.replace(**values)))


def test_the_return_path_of_the_linux_smas_lacks_its_last_hop() -> None:
    net = watched_subnet()
    out = host(net, 2).peer
    assert out is not None
    (report,) = reports(net, lambda: wrong_m_key(net, route=(1, out.number)))
    details = report.notice.details
    assert isinstance(details, BadMKeyDetails)
    path = details.dr_notice_return_path
    shifted = with_details(report, dr_notice_return_path=(0, *path[:-1]))
    event = event_of_report(shifted, names_of(net), TIME)
    assert (name(event.sender), event.doubtful) == ("node01 mlx4_0:1", (FOLLOWED_BACK,))


@pytest.mark.parametrize("path", [(9, 9), (1, 200), (0, 0), (1, 1)])
def test_a_return_path_that_leads_nowhere_names_nobody(path: tuple[int, ...]) -> None:
    net = watched_subnet()
    out = host(net, 2).peer
    assert out is not None
    (report,) = reports(net, lambda: wrong_m_key(net, route=(1, out.number)))
    bent = with_details(report, dr_notice_return_path=(*path, *[0] * 28))
    event = event_of_report(bent, names_of(net), TIME)
    if path == (1, 1):  # back from node02 by port 1, then from its switch by port 1: that is node01
        assert name(event.sender) == "node01 mlx4_0:1"
    else:
        assert (event.sender, event.doubtful) == (None, (NOT_NAMED,))


def test_the_lid_of_the_sender_counts_where_a_device_writes_it() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_m_key(net))
    event = event_of_report(with_details(report, lid_addr=host(net, 5).lid), names_of(net), TIME)
    assert (name(event.sender), event.doubtful) == ("node05 mlx4_0:1", ())


def test_an_offered_m_key_is_in_no_event() -> None:
    net = watched_subnet()
    for report in reports(net, lambda: wrong_m_key(net)):
        event = event_of_report(report, names_of(net), TIME)
        for text in (repr(event), json.dumps(event.to_json())):
            assert f"{OFFERED:x}" not in text.lower()
            assert str(OFFERED) not in text


def test_a_port_that_no_sweep_found_keeps_its_lid_and_is_missed() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_p_key(net))
    names = Names()
    event = event_of_report(report, names, TIME)
    assert names.misses > 0
    assert event.sender == EventEnd(port_guid=host(net, 2).guid, lid=host(net, 2).lid)
    assert event.sender.to_json()["node_guid"] is None


def test_a_lid_that_moved_to_another_port_is_missed() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_p_key(net))
    names = names_of(net)
    names.end(host(net, 2).lid, host(net, 5).guid)
    assert names.misses == 1
    event_of_report(report, names, TIME)
    assert names.misses == 1


def test_a_lid_that_two_ports_have_names_neither() -> None:
    net = watched_subnet()
    (report,) = reports(net, lambda: wrong_p_key(net, sender=3, receiver=2))
    lid = host(net, 3).lid
    host(net, 5).lid = lid
    names = names_of(net)
    event = event_of_report(report, names, TIME)
    assert name(event.sender) == "node03 mlx4_0:1", "its GID says who it is"
    assert names.end(lid) == EventEnd(lid=lid)
    assert names.misses


@pytest.mark.parametrize(
    ("trap", "kind", "detail"),
    [
        (TrapNumber.GID_IN_SERVICE, "port-in-service", "GID fe80::2:c903:a:1021"),
        (TrapNumber.GID_OUT_OF_SERVICE, "port-out-of-service", "GID fe80::2:c903:a:1021"),
        (TrapNumber.MULTICAST_GROUP_CREATED, "group-created", "MGID fe80::2:c903:a:1021"),
        (TrapNumber.MULTICAST_GROUP_DELETED, "group-deleted", "MGID fe80::2:c903:a:1021"),
    ],
)
def test_ports_and_groups_that_come_and_go(trap: TrapNumber, kind: str, detail: str) -> None:
    net = watched_subnet()
    gid = 0xFE80 << 112 | host(net, 2).guid
    notice = Notice.new(is_generic=1, type=4, producer_type=4, trap_number=trap, issuer_lid=1)
    notice = Notice(notice.raw[:16] + gid.to_bytes(16) + notice.raw[32:])
    event = event_of_report(TrapReport(notice, 0xFE80 << 112 | host(net, 1).guid, 1, 0.0), names_of(net), TIME)
    assert (event.kind, event.detail) == (kind, detail)
    assert name(event.at) == ("node02 mlx4_0:1" if "port" in kind else "node01 mlx4_0:1")


@pytest.fixture(scope="module")
def names() -> Names:
    return names_of(watched_subnet())


@pytest.mark.parametrize(("lid", "text"), [(7, "a link of this switch"), (2, "this is none")], ids=["switch", "ca"])
def test_a_link_state_is_said_only_of_a_switch(names: Names, lid: int, text: str) -> None:
    notice = Notice.new(is_generic=1, type=1, producer_type=2, trap_number=128, issuer_lid=lid)
    report = TrapReport(notice.with_details(LinkStateDetails.new(lid_addr=lid)), 0, 1, 0.0)
    event = event_of_report(report, names, TIME)
    assert (event.kind, event.at.lid) == ("link-state", lid)
    assert text in event.detail


@given(raw=st.binary(min_size=64, max_size=64), gid=st.integers(0, (1 << 128) - 1))
def test_any_notice_makes_an_event(raw: bytes, gid: int, names: Names) -> None:
    event = event_of_report(TrapReport(Notice(raw), gid, 1, 0.0), names, TIME)
    assert isinstance(event, Event)
    assert json.dumps(event.to_json())


@given(
    trap=st.sampled_from([64, 65, 66, 67, 128, 129, 144, 145, 256, 257, 258, 259]),
    raw=st.binary(min_size=64, max_size=64),
)
def test_any_notice_of_a_known_trap_makes_an_event(trap: int, raw: bytes, names: Names) -> None:
    notice = Notice(raw).replace(is_generic=1, trap_number=trap)
    event = event_of_report(TrapReport(notice, 0, 1, 0.0), names, TIME)
    assert event.trap == trap
    assert json.dumps(event.to_json())
