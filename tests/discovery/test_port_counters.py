"""PortCounters of many ports at a time."""

from __future__ import annotations

import pytest

from ibkeys.errors import MadStatusError, NoReply, Unreachable
from ibkeys.mad.performance import PortCounters
from ibkeys.topology.nodes import Port
from tests.fabricsim import subnet, tool


def test_constraint_errors_of_every_port() -> None:
    net = subnet("ft648")
    switch = next(node for node in net.nodes if node.is_switch)
    net.port(switch, 3).count("port_rcv_constraint_errors", 7)
    net.port(switch, 4).count("port_xmit_constraint_errors", 300)
    with tool(net) as fabric:
        ports = list(fabric.sweep().ports())
        before = net.now
        readings = fabric.read_port_counters(ports)
        assert [port for port, _ in readings] == ports
        assert net.now == before, "nobody waited"
    counted = {
        (port.node.guid, port.num): (reading.port_rcv_constraint_errors, reading.port_xmit_constraint_errors)
        for port, reading in readings
        if isinstance(reading, PortCounters)
    }
    assert len(counted) == len(ports) > 1300
    assert {place: each for place, each in counted.items() if any(each)} == {
        (switch.guid, 3): (7, 0),
        (switch.guid, 4): (0, 255),
    }


def test_one_silent_node_does_not_hide_the_others() -> None:
    net = subnet("ft648")
    with tool(net) as fabric:
        ports = list(fabric.sweep().ports())
        net.silence(net.nodes[5])
        silent = {port for port in ports if port.node.guid == net.nodes[5].guid}
        before = net.now
        readings = dict(fabric.read_port_counters(ports))
        assert net.now - before < 5, "one timeout budget, whatever the number of ports"
    assert silent
    for port, reading in readings.items():
        assert isinstance(reading, NoReply if port in silent else PortCounters), port
    message = str(next(readings[port] for port in silent))
    assert message.startswith("PerformanceGet(PortCounters, port 1) to LID ")
    assert "no P_Key in common" in message


def test_a_status_and_a_port_without_a_lid_are_told_for_that_port() -> None:
    net = subnet("dual-home")
    with tool(net) as fabric:
        swept = fabric.sweep()
        good = next(port for port in swept.ports() if port.is_end_port and port.lid)
        beyond = Port(good.node, 200)
        beyond.info = good.info
        lost = Port(good.node, 1)
        (_, first), (_, second), (_, third) = fabric.read_port_counters([good, beyond, lost])
    assert isinstance(first, PortCounters)
    assert isinstance(second, MadStatusError)
    assert "invalid value" in str(second)
    assert isinstance(third, Unreachable)


def test_the_partition_to_ask_with_must_be_there() -> None:
    net = subnet("dual-home")
    home = net.attach_port(net.nodes[0])
    home.p_keys = [0x8001]
    with tool(net) as fabric:
        with pytest.raises(Unreachable, match="pkey_index="):
            fabric.read_port_counters([])
        assert fabric.read_port_counters([], pkey_index=0) == []
