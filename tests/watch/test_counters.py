"""Counters between two readings: risen, cleared, stopped, told by traps already, not read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import ibkeys
from ibkeys.discovery.port_counters import ConstraintErrors
from ibkeys.fabric.probes import read_constraint_errors
from ibkeys.scripting import Fabric
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from ibkeys.watch.counters import KEPT_ROUNDS, CounterReadings
from ibkeys.watch.event import Event
from ibkeys.watch.notices import event_of_report
from tests.watch.watched import host, names_of, reports, watched_subnet, wrong_p_key

TIME = "2026-11-22T09:30:00Z"


def read(fabric: Fabric) -> tuple[Topology, Mapping[Port, ConstraintErrors]]:
    found = fabric.sweep()
    return found, read_constraint_errors(fabric, found)


def shown(event: Event) -> tuple[str, str | None, int, int | None]:
    return event.kind, event.at.node_desc, event.count, event.value


def test_only_what_rose_between_two_readings_is_told() -> None:
    net = watched_subnet()
    host(net, 3).p_key_violations = 7
    counters = CounterReadings()
    with ibkeys.open(net) as fabric:
        assert counters.compare(*read(fabric), TIME) == []
        assert counters.compare(*read(fabric), TIME) == []
        host(net, 3).p_key_violations = 9
        host(net, 2).q_key_violations = 1
        host(net, 5).m_key_violations = 3
        events = counters.compare(*read(fabric), TIME)
        assert {shown(event) for event in events} == {
            ("p_key-violations", "node03 mlx4_0", 2, 9),
            ("q_key-violations", "node02 mlx4_0", 1, 1),
            ("m_key-violations", "node05 mlx4_0", 3, 3),
        }
        assert {event.source for event in events} == {"counters"}
        assert counters.compare(*read(fabric), TIME) == []


def test_constraint_errors_of_switch_ports_that_enforce_count_too() -> None:
    net = watched_subnet()
    leaf = host(net, 2).peer
    assert leaf is not None
    leaf.p_keys, leaf.inbound_enforcement = [0xFFFF], 1
    counters = CounterReadings()
    with ibkeys.open(net) as fabric:
        counters.compare(*read(fabric), TIME)
        wrong_p_key(net)
        (event,) = counters.compare(*read(fabric), TIME)
    assert (event.kind, event.at.node_guid, event.at.port) == ("rcv-constraint-errors", leaf.node.guid, leaf.number)


def test_a_counter_that_was_cleared_is_all_new() -> None:
    net = watched_subnet()
    host(net, 3).p_key_violations = 100
    counters = CounterReadings()
    with ibkeys.open(net) as fabric:
        counters.compare(*read(fabric), TIME)
        host(net, 3).p_key_violations = 4
        (event,) = counters.compare(*read(fabric), TIME)
        assert (event.count, event.value) == (4, 4)
        assert "cleared in between, from 100" in event.detail
        host(net, 3).p_key_violations = 0
        assert counters.compare(*read(fabric), TIME) == []


def test_a_counter_that_has_stopped_is_said_once() -> None:
    net = watched_subnet()
    host(net, 3).p_key_violations = 0xFFFF
    counters = CounterReadings()
    with ibkeys.open(net) as fabric:
        (event,) = counters.compare(*read(fabric), TIME)
        assert ("at its maximum" in event.detail, event.count) == (True, 0)
        assert counters.compare(*read(fabric), TIME) == []
        host(net, 2).q_key_violations = 0xFFFE
        counters.compare(*read(fabric), TIME)
        host(net, 2).q_key_violations = 0xFFFF
        (event,) = counters.compare(*read(fabric), TIME)
        assert (event.count, "at its maximum" in event.detail) == (1, True)


def test_what_traps_told_of_is_not_told_again() -> None:
    net = watched_subnet()
    counters = CounterReadings()
    names = names_of(net)
    with ibkeys.open(net) as fabric:
        counters.compare(*read(fabric), TIME)
        (report,) = reports(net, lambda: wrong_p_key(net))
        counters.record_trap(event_of_report(report, names, TIME))
        assert counters.compare(*read(fabric), TIME) == []
        (report,) = reports(net, lambda: wrong_p_key(net))
        counters.record_trap(event_of_report(report, names, TIME))
        host(net, 3).p_key_violations += 40
        (event,) = counters.compare(*read(fabric), TIME)
    assert (event.count, event.value) == (41, 42)
    assert event.detail == "by 41 since the last reading; traps reported 1 of them"


def test_a_port_that_could_not_be_read_is_compared_when_it_can_again() -> None:
    net = watched_subnet()
    counters = CounterReadings()
    with ibkeys.open(net, timing=ibkeys.Timing(0.1, 0)) as fabric:
        counters.compare(*read(fabric), TIME)
        net.silence(host(net, 3).node, True, forwards=True)
        host(net, 3).p_key_violations = 5
        assert counters.compare(*read(fabric), TIME) == []
        net.silence(host(net, 3).node, False, forwards=True)
        (event,) = counters.compare(*read(fabric), TIME)
    assert shown(event) == ("p_key-violations", "node03 mlx4_0", 5, 5)


def test_traps_of_a_port_that_could_not_be_read_count_at_its_next_reading() -> None:
    net = watched_subnet()
    counters, names = CounterReadings(), names_of(net)
    with ibkeys.open(net, timing=ibkeys.Timing(0.1, 0)) as fabric:
        counters.compare(*read(fabric), TIME)
        (report,) = reports(net, lambda: wrong_p_key(net))
        counters.record_trap(event_of_report(report, names, TIME))
        net.silence(host(net, 3).node, True, forwards=True)
        assert counters.compare(*read(fabric), TIME) == []
        net.silence(host(net, 3).node, False, forwards=True)
        assert counters.compare(*read(fabric), TIME) == []


def test_ports_that_are_gone_for_good_are_forgotten() -> None:
    net = watched_subnet()
    counters = CounterReadings()
    with ibkeys.open(net) as fabric:
        found, errors = read(fabric)
    counters.compare(found, errors, TIME)
    assert counters.last
    for _ in range(KEPT_ROUNDS + 1):
        counters.compare(Topology(), {}, TIME)
    assert not counters.last


def test_nodes_that_are_another_one_in_each_sweep_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.watch.counters.KEPT_AT_LEAST", 20)
    net = watched_subnet()
    counters = CounterReadings()
    lasting = host(net, 2).p_key_violations
    for number in range(30):
        host(net, 3).node.guid += 1 << 32
        host(net, 3).guid += 1 << 32
        with ibkeys.open(net) as fabric:
            counters.compare(*read(fabric), TIME)
        assert len(counters.last) <= 2 * 24 + 3, number
    host(net, 2).p_key_violations = lasting + 1
    with ibkeys.open(net) as fabric:
        assert len(counters.compare(*read(fabric), TIME)) == 1
