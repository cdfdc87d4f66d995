"""Enforcement, counters, and what a Set(PortInfo) may touch, on the simulator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.change.counters import plan_clear
from ibkeys.change.enforce import plan_enforce
from ibkeys.change.pkeys import plan_set
from ibkeys.change.portinfo import set_image, without_key
from ibkeys.errors import Refused, UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.pkey import EMPTY
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import Method
from ibkeys.sim.agents import portinfo as sim_portinfo
from tests.change.refusing import refused
from tests.fabricsim import interlocks, subnet, tool, writer
from tests.spy import sets, spy

SWITCH = "MF0;switch-a:IS5023/U1"


@given(st.binary(min_size=64, max_size=64), st.integers(0, 3))
def test_an_image_says_no_change_wherever_a_field_would_act(raw: bytes, bits: int) -> None:
    image = set_image(PortInfo(raw), MKey(5), m_key_protect_bits=bits)
    assert image.m_key == 5
    assert image.m_key_protect_bits == bits
    for attr in ("port_state", "port_physical_state", "link_width_enabled", "operational_vls", "client_reregister"):
        assert getattr(image, attr) == 0
    for attr in ("m_key_violations", "p_key_violations", "q_key_violations"):
        assert getattr(image, attr) == 0xFFFF
    for attr in ("lid", "master_sm_lid", "lmc", "neighbor_mtu", "subnet_timeout", "gid_prefix"):
        assert getattr(image, attr) == getattr(PortInfo(raw), attr)
    assert image.raw[56] == raw[56]
    assert not any(without_key(image)[:8])


def test_enforcement_changes_its_two_bits_and_nothing_else() -> None:
    net = subnet("two-switch")
    port = net.port(SWITCH, 2)
    with tool(net) as fabric, writer(fabric) as w:
        handle = fabric.find_port(7, 2)
        before = handle.read_port_info()
        w.apply(plan_enforce(w, handle, True, True))
        after = handle.read_port_info()
        assert after == before.replace(partition_enforcement_inbound=1, partition_enforcement_outbound=1)
        w.apply(plan_enforce(w, handle, False, None))
        info = handle.read_port_info()
        assert (info.partition_enforcement_inbound, info.partition_enforcement_outbound) == (0, 1)
    assert port.info[43] & 0x0C == 0x04


def test_enforcement_belongs_to_external_ports() -> None:
    with tool(subnet("two-switch")) as fabric, writer(fabric) as w:
        for where, number in ((7, 0), (2, 1)):
            with pytest.raises(UsageError, match="external ports of switches"):
                plan_enforce(w, fabric.find_port(where, number), True, None)


@pytest.mark.parametrize(("table", "number"), [([0], 2), ([0x8001], 2), ([0xFFFF], 7)])
@pytest.mark.parametrize("where", [7, "0,1"])
def test_enforce_blind(table: list[int], number: int, where: int | str) -> None:
    net = subnet("two-switch")
    net.port(SWITCH, number).p_keys = table
    with tool(net) as fabric:
        with writer(fabric) as w:
            refused(w, plan_enforce(w, fabric.find_port(where, number), True, None), "enforce-blind")
        with writer(fabric, "enforce-blind") as w:
            w.apply(plan_enforce(w, fabric.find_port(where, number), True, None))
        with writer(fabric) as w:
            assert interlocks(plan_enforce(w, fabric.find_port(where, number), False, None)) == set()
    assert net.port(SWITCH, number).info[43] & 0x08


def test_enforce_blind_when_the_far_end_does_not_answer() -> None:
    net = subnet("two-switch")
    net.silence("node02 mlx4_0")
    with tool(net) as fabric, writer(fabric) as w:
        assert interlocks(plan_enforce(w, fabric.find_port("0,1", 2), None, True)) == {"enforce-blind"}


def test_taking_the_default_p_key_from_an_enforcing_port_is_enforce_blind_too() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric, "index-0") as w:
        w.apply(plan_enforce(w, fabric.find_port(7, 2), True, True))
        assert interlocks(plan_set(w, fabric.find_port(7, 2), {0: EMPTY})) == {"index-0", "enforce-blind"}


def test_stale_port_info() -> None:
    net = subnet("two-switch")
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_enforce(w, fabric.find_port(7, 2), True, None)
        net.port(SWITCH, 2).info[42] ^= 0x01  # HOQLife: somebody else writes this PortInfo
        with pytest.raises(Refused, match="HOQLife") as caught:
            w.apply(plan)
        assert caught.value.interlock == "stale"


def test_a_port_that_counts_or_changes_state_meanwhile_is_not_stale() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.info[46:48] = (5).to_bytes(2)
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_clear(w, [fabric.find_port(2)])
        port.info[46:48] = (6).to_bytes(2)
        w.apply(plan)
    assert port.info[46:48] == bytes(2)


def test_counters_are_cleared_where_they_count_and_the_rest_of_port_info_stays() -> None:
    net = subnet("two-switch")
    first, second = net.port("node02 mlx4_0", 1), net.port("node03 mlx4_0", 1)
    first.info[44:50] = bytes.fromhex("000100020003")
    with tool(net) as fabric, writer(fabric) as w:
        record = spy(fabric)
        before = fabric.find_port(2).read_port_info()
        plan = plan_clear(w, [fabric.find_port(2), fabric.find_port(3)])
        assert {str(change) for change in plan.changes} == {
            "m_key_violations: 1 -> 0",
            "p_key_violations: 2 -> 0",
            "q_key_violations: 3 -> 0",
        }
        w.apply(plan)
        assert fabric.find_port(2).read_port_info() == before.replace(
            m_key_violations=0, p_key_violations=0, q_key_violations=0
        )
    assert len(sets(record)) == 1
    assert second.info[44:50] == bytes(6)


def test_the_own_port_and_the_sms_port_come_last() -> None:
    net = subnet("two-switch")
    net.set_sm("node02 mlx4_0")
    for node in net.nodes:
        for port in node.end_ports:
            port.info[46:48] = (7).to_bytes(2)
    with tool(net) as fabric, writer(fabric, force=True) as w:
        ports = [fabric.handle(port) for port in fabric.sweep().end_ports()]
        plan = plan_clear(w, ports)
        order = [port.node.description for port in plan.ports()]
        assert order[-2:] == ["node02 mlx4_0", "node01 mlx4_0"]
        w.apply(plan)
    assert all(port.info[46:48] == bytes(2) for node in net.nodes for port in node.end_ports)


def test_one_port_that_fails_does_not_stop_the_others() -> None:
    net = subnet("two-switch")
    for name in ("node02 mlx4_0", "node03 mlx4_0", "node04 mlx4_0", "node05 mlx4_0"):
        net.port(name, 1).info[46:48] = (7).to_bytes(2)
    hidden = net.port("node05 mlx4_0", 1)
    hidden.m_key, hidden.protect_bits = 5, 1
    with tool(net) as fabric, writer(fabric) as w:
        plan = plan_clear(w, [fabric.find_port(lid) for lid in (2, 3, 4, 5)])
        assert [trouble.port.node.description for trouble in plan.troubles] == ["node05 mlx4_0"]
        net.faults.lose_next("request", node=net.node("node03 mlx4_0"), method=Method.SET)
        w.apply(plan)
        assert "no reply" in plan.troubles[1].error
    assert [net.port(f"node0{n} mlx4_0", 1).info[47] for n in (2, 3, 4, 5)] == [0, 7, 0, 7]


@pytest.mark.parametrize("strict", [False, True])
def test_a_port_that_no_sm_configured_yet_can_be_written(monkeypatch: pytest.MonkeyPatch, strict: bool) -> None:
    """LID and MasterSMLID are 0: an agent complains, and applies the rest or, when strict, nothing of it."""
    net = subnet("two-switch")
    port = net.port("node01 mlx4_0", 1)
    port.info[16:20] = bytes(4)
    port.info[46:48] = (7).to_bytes(2)
    if strict:
        original = sim_portinfo.apply

        def all_or_nothing(target: object, data: bytes, *rest: object) -> bool:
            before = bytes(port.info)
            valid = original(target, data, *rest)  # type: ignore[arg-type]
            if not valid:
                port.info[:] = before
            return valid

        monkeypatch.setattr(sim_portinfo, "apply", all_or_nothing)
    with tool(net) as fabric, writer(fabric) as w:
        w.apply(plan_clear(w, [fabric.find_port()]))
    assert port.info[46:48] == bytes(2)
    assert int.from_bytes(port.info[16:18]) == (0x1234 if strict else 0)


@pytest.mark.parametrize("key_now", [0, 6])
def test_the_m_key_that_a_port_has_by_now_stays_whatever_was_shown(key_now: int) -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.m_key, port.protect_bits = 5, 0
    port.info[46:48] = (7).to_bytes(2)
    with tool(net) as fabric, writer(fabric, "stale") as w:
        plan = plan_clear(w, [fabric.find_port(2)])
        port.m_key = key_now
        w.apply(plan)
    assert port.m_key == key_now
    assert not any(port.info[46:48])
