"""Why a MAD gets no answer: each reason, and what is no drop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.sa import build_sa
from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.subnet import Subnet
from tests.sim.subnet.asking import GET, NODE1, NODE2, NODE_INFO, SET, SWITCH_A

PKEYS = build_sa(GET, 0x0011, sm_key=0x66)


def nothing(subnet: Subnet) -> None:
    pass


def take_the_route_back(subnet: Subnet) -> None:
    """The switch forgets the LID of node01, and so the way back to it."""
    table = bytearray(b"\xff" * 64)
    table[subnet.port(NODE2, 1).lid] = subnet.port(NODE2, 1).peer.number  # type: ignore[union-attr]
    subnet.port(SWITCH_A, 0).node.routes = table


def protect(subnet: Subnet) -> None:
    port = subnet.port(NODE2, 1)
    port.m_key, port.protect_bits = 0x5, 2


def run_an_sm(subnet: Subnet) -> None:
    subnet.set_sm(NODE2)
    subnet.sa_of(NODE2).sa_key = 0x77


def lose_it(subnet: Subnet) -> None:
    subnet.faults.lose_next("request")


@pytest.mark.parametrize(
    ("prepare", "mad", "reason"),
    [
        (nothing, b"", Drop.MALFORMED),
        (take_the_route_back, build_smp(GET, NODE_INFO), Drop.NO_ROUTE_BACK),
        (lambda subnet: subnet.silence(NODE2), build_smp(GET, NODE_INFO), Drop.SILENT),
        (lose_it, build_smp(GET, NODE_INFO), Drop.FAULT),
        (protect, build_smp(SET, AttributeID.P_KEY_TABLE, m_key=6), Drop.M_KEY),
        (run_an_sm, PKEYS, Drop.SM_KEY),
        (nothing, build_smp(Method.SEND, NODE_INFO), Drop.NOT_ANSWERED),
        (nothing, build_smp(GET, AttributeID.SM_INFO), Drop.NO_SM),
        (nothing, PKEYS, Drop.NO_PORT),
    ],
)
def test_each_reason(subnet: Subnet, prepare: Callable[[Subnet], None], mad: bytes, reason: Drop) -> None:
    asker, asked = subnet.port(NODE1, 1), subnet.port(NODE2, 1)
    prepare(subnet)
    assert subnet.send(mad, asker, asked.lid) is reason


def test_a_mad_that_a_program_has_is_not_dropped(subnet: Subnet) -> None:
    asker, asked = subnet.port(NODE1, 1), subnet.port(NODE2, 1)
    end = subnet.attach(asked, lambda delivery: None)
    assert subnet.send(PKEYS, asker, asked.lid) == []
    end()
    assert subnet.send(PKEYS, asker, asked.lid) is Drop.NO_PORT


def test_those_who_do_not_ask_why_get_a_list(subnet: Subnet) -> None:
    lid = subnet.port(NODE2, 1).lid
    assert len(subnet.process(build_smp(GET, NODE_INFO), NODE1, 1, lid)) == 1
    assert subnet.process(build_smp(GET, AttributeID.SM_INFO), NODE1, 1, lid) == []


def test_every_reason_has_words_of_its_own() -> None:
    words = [reason.value for reason in Drop]
    assert len(set(words)) == len(words)
    assert all(words)
