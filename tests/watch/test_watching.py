"""The loop: Reports and counters become lines, names are looked up again, failures are said, and it ends."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import ibkeys
from ibkeys.client.report_port import TrapReport
from ibkeys.errors import NoReply, StoreError
from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.const import Method
from ibkeys.mad.notice import BadPKeyDetails, Notice
from ibkeys.mad.sa import build_sa
from ibkeys.sim.deliveries import Delivery
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.watch.following import FollowedFile
from ibkeys.watch.own_messages import LIMITED
from ibkeys.watch.watching import NAMES_AGAIN, Watch, WatchSettings
from tests.watch.loglines import M_KEY, Q_KEY
from tests.watch.watched import (
    OFFERED,
    START,
    Told,
    host,
    subscribed,
    watch,
    watched_subnet,
    wrong_m_key,
    wrong_p_key,
    wrong_q_key,
)


def script(net: Subnet, *acts: Callable[[], object]) -> dict[int, Callable[[], object]]:
    """Do one thing every second turn."""
    return {2 * place: act for place, act in enumerate(acts, 1)}


def test_one_event_for_each_wrong_key_with_both_ends() -> None:
    net = watched_subnet()
    out = host(net, 2).peer
    assert out is not None
    route = (1, out.number)
    told = Told(script(net, lambda: wrong_p_key(net), lambda: wrong_q_key(net), lambda: wrong_m_key(net, route=route)))
    watching = watch(net, told, WatchSettings(interval=0, seconds=60))
    assert [(event.kind, event.sender and event.sender.node_desc, event.at.node_desc) for event in told.events] == [
        ("bad-p_key", "node02 mlx4_0", "node03 mlx4_0"),
        ("bad-q_key", "node02 mlx4_0", "node03 mlx4_0"),
        ("bad-m_key", "node01 mlx4_0", "node02 mlx4_0"),
    ]
    assert {event.time for event in told.events} == {START.strftime("%Y-%m-%dT%H:%M:%SZ")}
    assert (watching.summary.told, watching.summary.reports, watching.summary.sweeps) == (3, 3, 1)
    assert told.said == []


def test_a_violation_that_a_trap_told_of_is_not_told_by_its_counter() -> None:
    net = watched_subnet()
    told = Told(script(net, lambda: wrong_p_key(net)))
    watching = watch(net, told, WatchSettings(interval=10, seconds=60))
    assert [event.source for event in told.events] == ["report"]
    assert watching.summary.sweeps > 3


def test_a_device_that_sends_no_trap_is_seen_by_its_counter() -> None:
    net = watched_subnet()
    told = Told({3: lambda: setattr(host(net, 3), "p_key_violations", 2)})
    watch(net, told, WatchSettings(interval=10, seconds=60))
    ((kind, count),) = [(event.kind, event.count) for event in told.events]
    assert (kind, count) == ("p_key-violations", 2)


def test_repeats_are_a_count_and_the_rest_is_told_at_the_end() -> None:
    net = watched_subnet()
    told = Told({turn: lambda: wrong_p_key(net) for turn in range(2, 12)})
    watching = watch(net, told, WatchSettings(interval=0, again=1e6, seconds=120))
    assert [event.count for event in told.events] == [1, 10]
    assert watching.summary.folded == 9


def test_names_are_looked_up_again_where_a_lid_is_not_known_but_not_all_the_time() -> None:
    net = watched_subnet()
    with subscribed(net) as (fabric, subscriber):
        told = Told()
        watching = Watch(fabric, told, WatchSettings(interval=0, seconds=400), subscriber)
        watching.start()
        watching.names.learn(Topology())
        watching.take_reports([_report(net, 3)])
        assert watching.summary.sweeps == 1, "the last sweep is too new"
        net.advance(NAMES_AGAIN)
        watching.take_reports([_report(net, 5)])
        assert watching.summary.sweeps == 2
    assert [event.at.node_desc for event in told.events] == [None, "node05 mlx4_0"]


@pytest.mark.parametrize("interval", [0, 30])
def test_unknown_lids_cause_no_sweep_after_the_other_where_one_takes_long(
    monkeypatch: pytest.MonkeyPatch, interval: float
) -> None:
    net, real = watched_subnet(), LiveFabric.sweep

    def sweep(self: LiveFabric, **values: Any) -> Topology:
        net.advance(100)
        return real(self, **values)

    monkeypatch.setattr(LiveFabric, "sweep", sweep)
    with subscribed(net) as (fabric, subscriber):
        watching = Watch(fabric, Told(), WatchSettings(interval=interval, seconds=400), subscriber)
        watching.start()
        watching.names.learn(Topology())
        net.advance(90)
        watching.take_reports([_report(net, 3)])
        assert watching.summary.sweeps == 1, "the fabric is left alone as long as the sweep took"
        net.advance(20)
        watching.take_reports([_report(net, 3)])
        assert watching.summary.sweeps == 2


def _report(net: Subnet, receiver: int, p_key: int = 0x8123, sender: int = 2) -> TrapReport:
    at, by = host(net, receiver), host(net, sender)
    notice = Notice.new(is_generic=1, type=2, producer_type=1, trap_number=257, issuer_lid=at.lid)
    details = BadPKeyDetails.new(lid_addr1=by.lid, lid_addr2=at.lid, key=p_key)
    return TrapReport(notice.with_details(details), 0xFE80 << 112 | at.guid, 1, 0.0)


def test_a_sweep_that_fails_is_said_once_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net = watched_subnet()
    real, failing = LiveFabric.sweep, [False]

    def sweep(self: LiveFabric, **values: object) -> object:
        if failing[0]:
            raise NoReply("SubnGet(NodeInfo) to route 0: no reply", 3, 1.0)
        return real(self, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveFabric, "sweep", sweep)
    told = Told(
        {3: lambda: failing.append(failing.pop() or True), 40: lambda: (failing.clear(), failing.append(False))}
    )
    told.script[90] = lambda: wrong_p_key(net)
    watching = watch(net, told, WatchSettings(interval=5, seconds=120))
    assert watching.summary.failed_sweeps > 1
    assert [text.partition(";")[0] for text in told.said] == ["the sweep failed", "the last sweep read everything"]
    assert [event.kind for event in told.events] == ["bad-p_key"]


def test_while_the_key_store_cannot_be_read_it_waits_between_two_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    net, tries = watched_subnet(), []

    def holder_of(*stores: Path) -> None:
        tries.append(net.now)
        assert len(tries) < 100, "it never waits"
        raise StoreError("the lock cannot be read")

    monkeypatch.setattr("ibkeys.watch.watching.holder_of", holder_of)
    told = Told()
    watch(net, told, WatchSettings(interval=5, seconds=60))
    assert 2 < len(tries) < 13
    assert all(later - earlier >= 5 for earlier, later in pairwise(tries))
    assert told.said == ["the sweep failed; names and counters stay as they were: the lock cannot be read"]


def test_keys_are_read_again_before_each_sweep_but_the_first() -> None:
    net = watched_subnet()
    read = []
    with subscribed(net) as (fabric, subscriber):
        fabric.reload_keys = lambda: read.append(watching.summary.sweeps)
        watching = Watch(fabric, Told(), WatchSettings(interval=10, seconds=35), subscriber)
        watching.start()
        watching.run()
    assert read == [1, 2, 3]


def test_what_happens_during_a_sweep_is_told_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    net = watched_subnet()
    real, told_in_sweep = LiveFabric.sweep, []
    told = Told()

    def sweep(self: LiveFabric, **values: Any) -> object:
        if told.turns:
            wrong_p_key(net)
            self.umad.recv(0.1)
            values["progress"](1, 64)
            told_in_sweep.append(len(told.events))
        return real(self, **values)

    monkeypatch.setattr(LiveFabric, "sweep", sweep)
    watch(net, told, WatchSettings(interval=10, seconds=15))
    assert told_in_sweep == [1]
    assert told.events[0].sender is not None
    assert told.events[0].sender.node_desc == "node02 mlx4_0"


def test_a_sweep_that_takes_long_is_not_followed_by_the_next_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    net = watched_subnet()
    real, began = LiveFabric.sweep, []

    def sweep(self: LiveFabric, **values: object) -> object:
        began.append(self.umad.now())
        net.advance(30)
        return real(self, **values)  # type: ignore[arg-type]

    monkeypatch.setattr(LiveFabric, "sweep", sweep)
    watch(net, Told(), WatchSettings(interval=10, seconds=300))
    assert all(later - earlier >= 60 for earlier, later in pairwise(began))
    assert len(began) > 3


def test_while_another_command_changes_keys_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    net = watched_subnet()
    held = ["mkey-rotate, pid 4711"]
    monkeypatch.setattr("ibkeys.watch.watching.holder_of", lambda *_: held[0])
    asked = []
    monkeypatch.setattr(LiveFabric, "reload_keys", lambda _: asked.append(net.now), raising=False)

    def ends() -> None:
        asked.append(net.now)
        held[0] = ""

    told = Told({4: lambda: wrong_p_key(net), 100: ends})
    watching = watch(net, told, WatchSettings(interval=10, seconds=120))
    assert [event.kind for event in told.events] == ["bad-p_key"], "traps are told meanwhile"
    assert told.said == [
        "no names and no counters are read while another command may change keys (mkey-rotate, pid 4711)",
        "no other command changes keys any more: names and counters are read again",
    ]
    assert 2 < watching.summary.sweeps < 9


def test_a_port_that_is_no_full_member_is_told_what_it_does_not_hear() -> None:
    net = watched_subnet()
    host(net, 4).p_keys = [0x7FFF]
    told = Told({4: lambda: wrong_p_key(net)})
    watch(net, told, WatchSettings(interval=0, seconds=10))
    assert told.said == [LIMITED]


def test_a_report_of_somebody_else_than_the_sa_is_said_once_and_not_told() -> None:
    net = watched_subnet()
    forged = build_sa(Method.REPORT, 0x0002, data=_report(net, 3).notice.raw)

    def forge() -> None:
        net.receivers.deliver(net.attach_port(net.node("node04 mlx4_0")), Delivery(0.0, forged, 5))

    told = Told({3: forge, 5: forge})
    watch(net, told, WatchSettings(interval=0, seconds=20))
    assert told.events == []
    assert told.said == ["Reports arrive from a port that is not the SA's: they are ignored"]


def test_an_sm_that_goes_and_comes_back_is_said_and_still_heard() -> None:
    net = watched_subnet()
    key = net.sa_of(net.nodes[0]).sa_key

    def back() -> None:
        net.set_sm(net.nodes[0])
        net.sa_of(net.nodes[0]).sa_key = key

    told = Told({3: lambda: net.set_sm(net.nodes[0], None), 80: back, 160: lambda: wrong_p_key(net)})
    watch(net, told, WatchSettings(interval=0, seconds=200))
    assert [event.kind for event in told.events] == ["bad-p_key"]
    assert [text.partition(":")[0] for text in told.said] == [
        "traps may be missed",
        "the SA has the subscriptions again",
    ]


def test_it_ends_after_so_many_lines() -> None:
    net = watched_subnet()
    told = Told({turn: lambda turn=turn: wrong_p_key(net, 0x8100 + turn) for turn in range(2, 30)})  # type: ignore[misc]
    watching = watch(net, told, WatchSettings(interval=0, most_events=3, seconds=1000))
    assert len(told.events) == 3
    assert watching.summary.told == 3


def test_opensm_s_log_needs_no_sm_key(tmp_path: Path) -> None:
    net = watched_subnet()
    path = tmp_path / "opensm.log"
    path.write_text("\n".join(Q_KEY) + "\n")

    def write() -> None:
        with path.open("a") as file:
            file.write("\n".join([*M_KEY, *Q_KEY[:2]]) + "\n")

    told = Told({3: write})
    with ibkeys.open(net) as fabric, FollowedFile(path) as log:
        watching = Watch(fabric, told, WatchSettings(interval=0, seconds=20), log=log, clock=lambda: START)
        watching.start()
        watching.run()
        watching.finish()
    assert [(event.source, event.kind) for event in told.events] == [
        ("opensm-log", "bad-m_key"),
        ("opensm-log", "bad-q_key"),
    ]


def test_a_log_that_goes_away_is_said(tmp_path: Path) -> None:
    net = watched_subnet()
    path = tmp_path / "opensm.log"
    told = Told({5: lambda: path.write_text("x\n")})
    with ibkeys.open(net) as fabric, FollowedFile(path) as log:
        watching = Watch(fabric, told, WatchSettings(interval=0, seconds=20), log=log)
        watching.start()
        watching.run()
    assert [text.replace(str(path), "LOG") for text in told.said] == [
        "LOG: does not exist (waiting for it)",
        "OpenSM's log can be read again",
    ]


def test_the_offered_m_key_stays_in_no_object(tmp_path: Path) -> None:
    net = watched_subnet()
    told = Told({2: lambda: wrong_m_key(net)})
    watching = watch(net, told, WatchSettings(interval=10, seconds=30))
    assert [event.kind for event in told.events] == ["bad-m_key"]
    everything = repr(told.events) + repr(vars(watching)) + repr(vars(watching.folder)) + repr(vars(watching.counters))
    assert f"{OFFERED:x}" not in everything
    assert str(OFFERED) not in everything


@pytest.mark.parametrize("number", [5_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_burst_is_folded_and_memory_stays_flat(number: int) -> None:
    net = watched_subnet()
    told = Told()
    with subscribed(net) as (fabric, subscriber):
        watching = Watch(fabric, told, WatchSettings(interval=0), subscriber)
        watching.start()
        hosts = [2, 3, 5, 6]

        def burst(first: int, last: int) -> None:
            for place in range(first, last, 100):
                watching.take_reports(
                    [
                        _report(net, hosts[at % 4], 0x8000 | at % 0x7FFF, hosts[(at + 1) % 4])
                        for at in range(place, place + 100)
                    ]
                )

        burst(0, number // 10)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            burst(number // 10, number)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        watching.finish()
    assert grown < 300_000  # what is kept has a bound: 100,000 reports that were kept would be many MB
    assert len(told.events) < 200
    counts = {(event.at, event.sender, event.p_key): event.count for event in told.events}
    assert sum(counts.values()) == number
