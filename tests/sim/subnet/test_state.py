"""The state that lasts, the clock, and keys that are not shown."""

from __future__ import annotations

import json

import pytest

from ibkeys.errors import StoreError, UsageError
from ibkeys.mad.const import PortPhysicalState
from ibkeys.mad.smp import build_smp
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.fabricsim import set_p_key_capacity
from tests.sim.subnet.asking import GET, NODE1, NODE2, NODE_INFO, SET, SWITCH_A


def test_state_survives_in_json(subnet: Subnet) -> None:
    port, switch = subnet.port(NODE1, 1), subnet.node(SWITCH_A)
    subnet.set_sm(NODE2)
    port.m_key, port.protect_bits, port.lease_period = 0xABC, 1, 30
    port.p_keys = [0xFFFF, 0x8001]
    set_p_key_capacity(switch, enforcement_cap=100)
    switch.ports[3].p_keys = [0x8002] * 100
    subnet.process(build_smp(SET, 0x19, 1, path=(1,), data=bytes([3] * 64)), NODE1, 1)
    subnet.process(build_smp(SET, 0x14, path=(), data=bytes([4] * 64), m_key=0xABC), NODE1, 1)
    subnet.process(build_smp(SET, 0x16, path=()), NODE1, 1)  # refused: starts the lease
    subnet.unplug(NODE2, 1)
    subnet.silence("node03 mlx4_0")
    subnet.advance(12.5)
    document = json.loads(json.dumps(dump_state(subnet)))

    again = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(again, document)
    copy = again.port(NODE1, 1)
    assert (copy.m_key, copy.protect_bits, copy.p_keys[:3]) == (0xABC, 1, [0xFFFF, 0x8001, 0])
    assert (again.now, copy.lease_deadline) == (12.5, 30.0)
    assert again.node(SWITCH_A).ports[3].p_keys == [0x8002] * 100
    assert again.port(NODE2, 1).peer is None
    assert again.node("node03 mlx4_0").silent == 1
    assert dump_state(again) == document
    again.advance(17.5)
    assert again.process(build_smp(GET, 0x15, path=()), NODE1, 1)
    assert copy.protect_bits == 0


def test_a_cable_at_a_disabled_port_survives_at_both_ends(subnet: Subnet) -> None:
    subnet.unplug(NODE2, 1)
    subnet.port(NODE2, 1).physical_state = PortPhysicalState.DISABLED
    free = next(port for port in subnet.node(SWITCH_A).ports[1:] if port.peer is None and port.first_peer is None)
    subnet.plug(NODE2, 1, SWITCH_A, free.number)
    again = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(again, json.loads(json.dumps(dump_state(subnet))))
    assert again.port(NODE2, 1).peer is again.port(SWITCH_A, free.number)
    assert again.port(SWITCH_A, free.number).peer is again.port(NODE2, 1)


def test_a_state_that_does_not_fit_is_refused(subnet: Subnet) -> None:
    document = dump_state(subnet)
    other = Subnet.from_file(DATA / "fabrics" / "dual-home.net")
    with pytest.raises(StoreError, match="another net file"):
        load_state(other, document)
    for damage in ({"version": 9}, {"ports": [{"at": [99, 1], "info": ""}]}, {"ports": [{}]}, {"nodes": None}):
        with pytest.raises(StoreError):
            load_state(subnet, {**document, **damage})
    with pytest.raises(StoreError):
        load_state(subnet, {})


def test_the_clock_follows_another_where_that_is_ahead(subnet: Subnet) -> None:
    real = [5.0]
    subnet.advance(1)
    subnet.history.follow_clock(lambda: real[0])
    assert subnet.now == 5.0
    subnet.advance(10)
    real[0] = 7.0
    assert subnet.now == 15.0
    with pytest.raises(UsageError):
        subnet.advance(-1)


def test_no_key_is_seen_in_events_or_repr(subnet: Subnet) -> None:
    port = subnet.port(NODE1, 1)
    port.m_key, port.protect_bits, port.lease_period = 0xA1B2C3D4E5F60718, 2, 9
    subnet.process(build_smp(GET, NODE_INFO, path=(), m_key=0xA1B2C3D4E5F60719), NODE1, 1)
    shown = repr((subnet.events, port, port.node, subnet))
    assert subnet.events
    assert "a1b2c3d4" not in shown.lower()
    assert str(0xA1B2C3D4E5F60718) not in shown
