"""Faults of the simulated subnet: at random under a seed, and to order."""

from __future__ import annotations

import pytest

from ibkeys.errors import UsageError
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import AttributeID
from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Delivery, Drop
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.sim.subnet.asking import GET, NODE1, NODE_INFO, SET


def replies(subnet: Subnet, count: int) -> list[list[Delivery]]:
    request = build_smp(GET, NODE_INFO, path=(1,))
    return [subnet.process(request, NODE1, 1) for _ in range(count)]


def test_faults_repeat_under_a_seed() -> None:
    def run(seed: int) -> list[list[Delivery]]:
        subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net", seed=seed)
        subnet.faults.drop = subnet.faults.duplicate = subnet.faults.delay = subnet.faults.corrupt = 0.3
        return replies(subnet, 200)

    assert run(7) == run(7) != run(8)


def test_each_fault(subnet: Subnet) -> None:
    good = replies(subnet, 1)[0]
    subnet.faults.drop = 0.3
    lost = sum(not answers for answers in replies(subnet, 1000))
    assert 250 < lost < 350
    subnet.faults.drop, subnet.faults.duplicate = 0, 1.0
    assert replies(subnet, 1) == [good * 2]
    subnet.faults.duplicate, subnet.faults.corrupt = 0, 1.0
    spoiled = replies(subnet, 1)[0][0].mad
    assert sum((a ^ b).bit_count() for a, b in zip(spoiled, good[0].mad, strict=True)) == 1
    subnet.faults.corrupt, subnet.faults.delay = 0, 1.0
    delays = [answers[0].delay for answers in replies(subnet, 50)]
    assert 0 < min(delays) < max(delays) <= subnet.faults.delay_seconds
    subnet.faults.clear()
    assert replies(subnet, 1) == [good]


def test_one_reply_is_lost_to_order_after_the_set_was_done(subnet: Subnet) -> None:
    port = subnet.port(NODE1, 1)
    port.sm_lid = 1
    subnet.faults.lose_next("reply", node=port.node, method=SET, attribute=AttributeID.PORT_INFO)
    data = PortInfo(bytes(port.info)).replace(m_key=9, port_state=0, port_physical_state=0).raw
    get = build_smp(GET, AttributeID.PORT_INFO, path=())
    assert subnet.process(get, NODE1, 1)
    assert subnet.send(build_smp(SET, AttributeID.PORT_INFO, path=(), data=data), port) is Drop.FAULT
    assert port.m_key == 9
    assert not subnet.faults.active
    subnet.faults.lose_next("request", count=2)
    assert [bool(subnet.process(get, NODE1, 1)) for _ in range(3)] == [False, False, True]
    with pytest.raises(UsageError):
        subnet.faults.lose_next(count=0)
