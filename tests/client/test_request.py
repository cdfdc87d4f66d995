"""Requests and the envelopes that they share: together they are the MAD that `build_smp` makes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.client.request import Request
from ibkeys.client.scheduler import Scheduler
from ibkeys.client.smp import SmpClient, Timing
from ibkeys.errors import EncodeError
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.mad.attributes import NodeInfo, PKeyTable
from ibkeys.mad.const import Method
from ibkeys.mad.smp import build_smp, get_template
from ibkeys.umad.port import Outgoing
from ibkeys.umad.simulated import port_on
from tests.fabricsim import subnet

CLIENT = SmpClient(port_on(subnet("two-switch")), Timing(timeout=0.25, retries=1))
paths = st.lists(st.integers(1, 254), max_size=63).map(tuple)
keys = st.integers(0, 2**64 - 1)


@given(path=paths, key=keys, modifier=st.integers(0, 2**32 - 1))
def test_a_get_along_a_route_is_that_of_build_smp(path: tuple[int, ...], key: int, modifier: int) -> None:
    request = CLIENT.gets_to(path, "node", MKey(key)).ask(PKeyTable, modifier)
    assert request.mad == build_smp(Method.GET, PKeyTable.attribute_id, modifier, path=path, m_key=key)


@given(path=paths, key=keys, tid=st.integers(0, 2**32 - 2))
def test_what_is_sent_differs_by_the_transaction_id_only(path: tuple[int, ...], key: int, tid: int) -> None:
    scheduler = Scheduler(first_tid=tid)
    scheduler.submit(CLIENT.gets_to(path, None, MKey(key)).ask(NodeInfo, 0))
    [sent] = scheduler.to_send(0.0)
    wanted = build_smp(Method.GET, NodeInfo.attribute_id, path=path, m_key=key, transaction_id=tid + 1)
    assert sent == Outgoing(wanted, 0xFFFF, 250)
    assert scheduler.statistics.keyed == (key != 0)


@given(mad=st.binary(min_size=256, max_size=256))
def test_a_request_of_a_whole_mad_keeps_every_byte_but_the_transaction_id(mad: bytes) -> None:
    request = Request.of_mad("node", mad, 7, 0.5, 3, (1, 0x80010000, 2, 5))
    assert request.mad == mad[:12] + bytes(4) + mad[16:]
    assert request.envelope.address == (7, 500, 1, 0x80010000, 2, 5)
    assert not request.envelope.is_smp
    assert request.retries == 3


def test_the_retries_of_one_request_are_its_own() -> None:
    gets = CLIENT.gets_to((1,), None, NO_MKEY)
    once = gets.ask(NodeInfo)
    once.retries = 0
    assert gets.ask(NodeInfo).retries == 1


def test_a_modifier_a_route_and_a_key_that_do_not_fit_are_refused() -> None:
    with pytest.raises(EncodeError, match="AttributeModifier 0x100000000 does not fit"):
        CLIENT.gets_to((1,), None, NO_MKEY).ask(NodeInfo, 1 << 32)
    with pytest.raises(EncodeError, match="a directed route of 64 hops; 63 is the maximum"):
        get_template((1,) * 64, 0)
    with pytest.raises(EncodeError, match="does not fit"):
        get_template((256,), 0)
    with pytest.raises(EncodeError, match="does not fit") as caught:
        get_template((1,), 1 << 64)
    assert str(1 << 64) not in str(caught.value)
    assert f"{1 << 64:x}" not in str(caught.value)
