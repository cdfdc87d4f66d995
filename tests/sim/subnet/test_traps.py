"""Traps, and programs that are attached to ports. Nothing here sleeps."""

from __future__ import annotations

import pytest

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import AttributeID, Method, TrapNumber
from ibkeys.mad.notice import BadMKeyDetails, Notice
from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.sim.subnet.asking import GET, NODE1, NODE2, NODE_INFO, SWITCH_A


def listen(subnet: Subnet, port: SimPort) -> list[bytes]:
    heard: list[bytes] = []
    subnet.attach(port, lambda delivery: heard.append(delivery.mad))
    return heard


def test_trap_256_reaches_the_sm_and_says_what_was_refused(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    heard = listen(subnet, subnet.port(NODE2, 1))
    victim = subnet.port(SWITCH_A, 0)
    victim.m_key, victim.protect_bits = MKey(0x1122), 2
    assert subnet.process(build_smp(GET, 0x16, 3 << 16, path=(1,), m_key=0x99), NODE1, 1) == []
    notice = Notice(heard[0][64:128])
    details = notice.details
    assert isinstance(details, BadMKeyDetails)
    assert heard[0][24:32] == bytes(8)  # a trap carries M_Key 0
    assert (notice.trap_number, notice.issuer_lid, notice.producer_type) == (TrapNumber.BAD_M_KEY, victim.lid, 2)
    assert (details.lid_addr, details.method, details.attribute_id) == (victim.lid, GET, 0x16)
    assert (details.attribute_modifier, details.m_key) == (3 << 16, 0x99)
    assert (details.dr_notice, details.dr_hop_count, details.dr_notice_return_path[:2]) == (1, 1, (1, 0))


def test_traps_are_spaced_by_subnet_timeout(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    heard = listen(subnet, subnet.port(NODE2, 1))
    victim = subnet.port(NODE1, 1)
    victim.m_key, victim.protect_bits, victim.subnet_timeout = 1, 2, 18
    for seconds in (0.0, 0.5, 0.6):  # 4.096 us * 2^18 = 1.07 s
        subnet.advance(seconds)
        subnet.process(build_smp(GET, NODE_INFO, path=()), NODE1, 1)
    assert (victim.m_key_violations, len(heard)) == (3, 2)


def test_a_port_that_is_not_active_sends_no_trap(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    heard = listen(subnet, subnet.port(NODE2, 1))
    victim = subnet.port(NODE1, 1)
    victim.m_key, victim.protect_bits, victim.state = 1, 2, 2
    subnet.process(build_smp(GET, NODE_INFO, path=()), NODE1, 1)
    assert (victim.m_key_violations, heard) == (1, [])


def test_link_changes_are_latched_and_announced(subnet: Subnet) -> None:
    subnet.set_sm(NODE1)
    heard = listen(subnet, subnet.port(NODE1, 1))
    subnet.unplug(NODE2, 1)
    assert [Notice(mad[64:128]).trap_number for mad in heard] == [TrapNumber.LINK_STATE_CHANGE]
    info = subnet.node(SWITCH_A).switch_info
    assert info is not None
    assert info[11] & 0x04


def test_a_new_master_is_known_everywhere(subnet: Subnet) -> None:
    subnet.set_sm(NODE2, priority=3)
    lid = subnet.port(NODE2, 1).lid
    assert {port.sm_lid for node in subnet.nodes for port in node.end_ports} == {lid}
    subnet.set_sm(NODE2, None)
    subnet.set_sm(SWITCH_A)
    assert subnet.port(NODE1, 1).sm_lid == subnet.port(SWITCH_A, 0).lid
    with pytest.raises(UsageError):
        subnet.set_sm(NODE2, state=4)
    with pytest.raises(UsageError):
        subnet.set_sm(SWITCH_A, port=1)


def test_an_attached_sm_gets_requests_and_its_answers_come_back(subnet: Subnet) -> None:
    asker, manager = subnet.port(NODE1, 1), subnet.port(NODE2, 1)
    heard, answers = listen(subnet, manager), listen(subnet, asker)
    request = build_smp(GET, AttributeID.SM_INFO, transaction_id=5)
    assert subnet.send(request, asker, manager.lid) == []
    assert heard == [request]
    subnet.send(request[:3] + b"\x81" + request[4:], manager, asker.lid)
    assert [mad[3] for mad in answers] == [0x81]
    directed = build_smp(GET, AttributeID.SM_INFO, path=(1, 2), transaction_id=6)
    assert subnet.send(directed, asker) == []
    back = bytearray(heard[1])
    back[3], back[4] = 0x81, 0x80
    subnet.send(bytes(back), manager)
    assert answers[1][3] == 0x81
    gmp = bytearray(request)
    gmp[1] = 0x03
    subnet.send(bytes(gmp), asker, manager.lid)
    assert heard[2] == bytes(gmp)


def test_a_trap_repress_that_passes_the_m_key_check_reaches_the_agent_and_who_is_attached(subnet: Subnet) -> None:
    sm, issuer = subnet.port(NODE2, 1), subnet.port(NODE1, 1)
    subnet.set_sm(NODE2)
    traps, heard = listen(subnet, sm), listen(subnet, issuer)
    issuer.m_key = MKey(0x1122)
    subnet.set_description(NODE1, "another name")
    (trap,) = traps
    for m_key, outcome, arrived in ((0x99, Drop.M_KEY, []), (0x1122, [], [Method.TRAP_REPRESS])):
        repress = trap[:3] + bytes([Method.TRAP_REPRESS]) + trap[4:24] + m_key.to_bytes(8) + trap[32:]
        assert subnet.send(repress, sm, issuer.lid) == outcome
        assert [mad[3] for mad in heard] == arrived
        assert (subnet.events[-1].kind == "trap-repressed") == bool(arrived)
