"""Router ports: their P_Key tables are as those of channel adapters; enforcement only where they show it already."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.change.enforce import plan_enforce
from ibkeys.change.pkeys import plan_add, plan_set
from ibkeys.errors import ImpossibleValue, UsageError
from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.pkey import PKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import run
from tests.fabricsim import interlocks, set_p_key_capacity, subnet, tool, writer

ROUTER, LID = "ibrouter01", 14


@pytest.fixture
def net() -> Subnet:
    return subnet("ring-router")


@pytest.fixture
def port(net: Subnet) -> SimPort:
    """Port 1 of the router."""
    return net.port(ROUTER, 1)


def bits(port: SimPort) -> tuple[int, int]:
    info = PortInfo(bytes(port.info))
    return info.partition_enforcement_inbound, info.partition_enforcement_outbound


def test_a_table_is_written_and_read_back_as_on_a_channel_adapter(net: Subnet, port: SimPort) -> None:
    with tool(net) as fabric, writer(fabric) as w:
        handle = fabric.find_port(LID)
        w.apply(plan_add(w, handle, [PKey(0x8010)]))
        w.apply(plan_set(w, handle, {40: PKey(0x0011)}))
        assert [each for each in handle.read_p_keys() if each.is_valid] == [0xFFFF, 0x8010, 0x0011]
    assert (port.p_keys[1], port.p_keys[40]) == (0x8010, 0x0011)
    assert net.port(ROUTER, 2).p_keys[1] == 0, "each port has a table of its own"


def test_a_router_whose_capacity_is_0_says_what_cannot_be(net: Subnet, port: SimPort) -> None:
    set_p_key_capacity(port.node, partition_cap=0)
    with tool(net) as fabric, writer(fabric) as w, pytest.raises(ImpossibleValue, match="PartitionCap 0"):
        plan_add(w, fabric.find_port(LID), [PKey(0x8010)])


def test_enforcement_is_changed_where_a_port_shows_it(net: Subnet, port: SimPort) -> None:
    PortInfo.partition_enforcement_inbound.patch(port.info, 1)
    with tool(net) as fabric, writer(fabric) as w:
        handle = fabric.find_port(LID)
        w.apply(plan_enforce(w, handle, None, True))
        assert bits(port) == (1, 1)
        w.apply(plan_enforce(w, handle, False, None))
        assert bits(port) == (0, 1)
        assert plan_enforce(w, handle, False, True).changes == []


def test_a_port_that_shows_none_is_not_tried(net: Subnet, port: SimPort) -> None:
    with tool(net) as fabric, writer(fabric) as w:
        with pytest.raises(UsageError, match="no other field says whether a router can enforce"):
            plan_enforce(w, fabric.find_port(LID), True, None)
        assert bits(port) == (0, 0)


def test_a_table_without_the_default_partition_sets_off_the_interlock(net: Subnet, port: SimPort) -> None:
    PortInfo.partition_enforcement_inbound.patch(port.info, 1)
    with tool(net) as fabric, writer(fabric) as w:
        assert interlocks(plan_enforce(w, fabric.find_port(LID), None, True)) == set()
    port.p_keys = [0x8010]
    with tool(net) as fabric, writer(fabric) as w:
        assert interlocks(plan_enforce(w, fabric.find_port(LID), None, True)) == {"enforce-blind"}
        assert interlocks(plan_enforce(w, fabric.find_port(LID), False, None)) == set()


def test_enforcement_lists_a_router_port_where_it_enforces(net: Subnet, port: SimPort, tmp_path: Path) -> None:
    PortInfo.partition_enforcement_outbound.patch(port.info, 1)
    with tool(net) as fabric:
        save_snapshot(tmp_path / "s.db", take_snapshot(fabric, Fingerprints.generate()))
    shown = run("port-show", "--enforcement", "--all", "--each", "--from", tmp_path / "s.db")
    listed = [line.split() for line in shown.out.splitlines() if line.startswith(ROUTER)]
    assert [line[2:6] for line in listed] == [["1", "14", "off", "on"]]
    rows = run("port-show", "--enforcement", "--all", "--from", tmp_path / "s.db", "-f", "json").json["ports"]
    assert [
        (row["partition_enforcement_inbound"], row["partition_enforcement_outbound"])
        for row in rows
        if row["node_type"] == "router"
    ] == [(False, True), (None, None)]
