"""SA MADs: records inside them, RMPP in words, and that a key is never among the words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError
from ibkeys.mad.attributes import NodeInfo, PortInfo
from ibkeys.mad.const import Method
from ibkeys.mad.decode import attribute_of, summary
from ibkeys.mad.masking import masked
from ibkeys.mad.records import MCMemberRecord, NodeRecord, PKeyTableRecord, PortInfoRecord, SaRecord, query_of
from ibkeys.mad.sa import ACTIVE, RmppType, SaHeader, build_sa, with_rmpp
from ibkeys.mad.smp import parse
from tests.segments import split_segments


@pytest.mark.parametrize(
    ("record", "components", "mask"),
    [
        (NodeRecord, {"lid": 5}, 1),
        (NodeRecord, {"node_type": 2, "port_guid": 7}, 1 << 4 | 1 << 8),
        (NodeRecord, {"vendor_id": 1, "node_description": "x"}, 1 << 13 | 1 << 14),
        (PortInfoRecord, {"endport_lid": 5, "port_num": 1}, 3),
        (PortInfoRecord, {"port_state": 4, "m_key_protect_bits": 1, "lmc": 1}, 1 << 15 | 1 << 18 | 1 << 20),
        (PortInfoRecord, {"partition_enforcement_inbound": 1, "operational_vls": 1}, 1 << 35 | 1 << 34),
        (PortInfoRecord, {"m_key_violations": 1, "guid_cap": 1, "capability_mask2": 1}, 1 << 39 | 1 << 42 | 1 << 53),
        (PKeyTableRecord, {"block_num": 1, "port_num": 2}, 6),
        (MCMemberRecord, {"mgid": 1, "mlid": 2, "p_key": 3, "join_state": 1}, 1 | 1 << 3 | 1 << 7 | 1 << 16),
        (MCMemberRecord, {}, 0),
    ],
)
def test_a_query_names_its_components(record: type[SaRecord], components: dict[str, int], mask: int) -> None:
    """The bits are those of OpenSM's ib_types.h."""
    got, data = query_of(record, components)
    assert got == mask
    assert {name: getattr(record(data), name) for name in components} == components


@given(raw=st.binary(min_size=108, max_size=108))
def test_a_record_shows_the_attribute_inside(raw: bytes) -> None:
    node, port = NodeRecord(raw), PortInfoRecord(raw[:68])
    assert {name: getattr(node, name) for name in NodeInfo.rows} == {
        name: getattr(node.node_info, name) for name in NodeInfo.rows
    }
    assert {name: getattr(port, name) for name in PortInfo.rows} == {
        name: getattr(port.port_info, name) for name in PortInfo.rows
    }
    assert f"{port.m_key:x}" not in repr(port) or port.m_key < 1 << 32
    assert port.to_json()["m_key"] is None


def test_segments_in_words() -> None:
    answer = build_sa(Method.GET_TABLE_RESP, 0x0011, attribute_offset=14, sm_key=0xFEED, transaction_id=7)
    first, second = split_segments(answer, bytes(300))
    assert summary(first) == "GetTableResp(NodeRecord, modifier 0x0) segment 1 status 0x0000 (ok) tid 0x7"
    assert summary(second).startswith("GetTableResp(NodeRecord, modifier 0x0) segment 2 status")
    ack = with_rmpp(second, RmppType.ACK, ACTIVE, 0, 2, 66)
    assert " RMPP ACK of 2, window to 66 " in summary(ack)
    assert " RMPP ABORT 118 (total time too long) " in summary(with_rmpp(second, RmppType.ABORT, ACTIVE, 118))
    assert " RMPP type 9 0 (normal) " in summary(with_rmpp(second, 9, ACTIVE))
    assert attribute_of(parse(first)) == NodeRecord(bytes(108))
    assert attribute_of(parse(second)) is None, "it begins inside a record"
    assert attribute_of(parse(ack)) is None
    assert SaHeader(masked(first)[:56]).sm_key == 0


def test_an_sm_key_that_does_not_fit_is_not_shown() -> None:
    with pytest.raises(EncodeError) as caught:
        build_sa(Method.GET, 0x0011, sm_key=0x1_FEED_FACE_0000_0001)
    assert "feed" not in str(caught.value).lower()
    assert caught.value.__cause__ is None
