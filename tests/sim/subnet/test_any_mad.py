"""Whatever is sent is answered or dropped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.smp import build_smp
from ibkeys.sim.deliveries import Drop
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.subnet import Subnet
from tests.corpus import DATA
from tests.sim.subnet.asking import NODE1


@given(mad=st.binary(min_size=256, max_size=256), dlid=st.integers(0, 0xFFFF))
def test_any_256_bytes_are_answered_or_dropped(mad: bytes, dlid: int) -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    for delivery in subnet.process(mad, NODE1, 1, dlid):
        assert len(delivery.mad) == 256


@given(
    mgmt_class=st.sampled_from([0x01, 0x81]),
    method=st.sampled_from([1, 2, 5, 7, 0x81]),
    attribute=st.sampled_from([0x02, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1B, 0x20, 0x33]),
    modifier=st.one_of(
        st.integers(0, 0xFFFF_FFFF), st.integers(0, 10), st.integers(0, 10).map(lambda port: port << 16)
    ),
    path=st.lists(st.integers(0, 9), max_size=4),
    data=st.binary(min_size=64, max_size=64),
    dlid=st.integers(0, 12),
)
def test_any_smp_is_answered_or_dropped(
    mgmt_class: int, method: int, attribute: int, modifier: int, path: list[int], data: bytes, dlid: int
) -> None:
    subnet = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    subnet.set_sm(NODE1)
    smp = build_smp(method, attribute, modifier, path=[1, *path] if mgmt_class == 0x81 else None, data=data)
    for _ in range(2):
        for delivery in subnet.process(smp, NODE1, 1, dlid if mgmt_class == 1 else 0xFFFF):
            assert len(delivery.mad) == 256
    document = json.loads(json.dumps(dump_state(subnet)))
    again = Subnet.from_file(DATA / "fabrics" / "two-switch.net")
    load_state(again, document)
    assert dump_state(again) == document


@pytest.mark.parametrize(
    "mad", [b"", bytes(255), bytes(256), bytes(257), b"\1\x81\1\1" + bytes(3) + b"\xff" + bytes(248)]
)
def test_what_is_no_mad_is_dropped(subnet: Subnet, mad: bytes) -> None:
    assert subnet.send(mad, subnet.port(NODE1, 1)) is Drop.MALFORMED
