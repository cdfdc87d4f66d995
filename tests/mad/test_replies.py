"""Replies as an agent makes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.const import AttributeID, Method
from ibkeys.mad.replies import directed_route_reply, lid_routed_reply, with_return_path
from ibkeys.mad.smp import DirectedRouteSmp, LidRoutedSmp, Mad, build_smp

DATA = bytes(range(64))


@given(st.integers(0, 2**64 - 1), st.integers(0, 0x7FFF), st.integers(0, 2**64 - 1))
def test_a_lid_routed_reply_differs_in_method_status_and_data(tid: int, status: int, key: int) -> None:
    request = build_smp(Method.GET, AttributeID.PORT_INFO, 7, m_key=key, transaction_id=tid)
    reply = LidRoutedSmp(lid_routed_reply(request, status, DATA))
    assert (reply.method, reply.status, reply.data) == (Method.GET_RESP, status, DATA)
    assert reply.replace(method=Method.GET, data=bytes(64)).raw == request[:4] + status.to_bytes(2) + request[6:]


def test_a_reply_of_a_gmp_has_192_bytes_of_data() -> None:
    data = bytes(range(192))
    reply = Mad(lid_routed_reply(bytes([1, 4, 1, 1]) + bytes(252), 0, data))
    assert (reply.method, reply.raw[64:]) == (Method.GET_RESP, data)


@pytest.mark.parametrize("path", [(), (3,), (1, 2, 3), (1,) * 63])
@pytest.mark.parametrize("status", [0, 0x1C])
def test_a_directed_route_reply_is_that_which_arrives_at_the_asker(path: tuple[int, ...], status: int) -> None:
    request = build_smp(Method.SET, AttributeID.P_KEY_TABLE, 1, path=path, m_key=5, transaction_id=9)
    back = bytes([0, *reversed(path)])
    reply = DirectedRouteSmp(directed_route_reply(with_return_path(request, back), status, DATA))
    assert (reply.d, reply.method, reply.status, reply.hop_pointer) == (1, Method.GET_RESP, status, 0)
    assert (reply.hop_count, reply.initial_path, reply.return_path) == (len(path), (0, *path), tuple(back))
    assert (reply.data, reply.m_key, reply.transaction_id, reply.attribute_modifier) == (DATA, 5, 9, 1)
    assert len(reply.raw) == 256
