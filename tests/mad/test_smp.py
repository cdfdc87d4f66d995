"""Building and parsing whole SMPs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import EncodeError, MalformedMad, UsageError
from ibkeys.mad.attributes import ClassPortInfo, NodeInfo, PortInfo
from ibkeys.mad.const import METHOD_NAMES, AttributeID, Method, MgmtClass, describe_status, method_name
from ibkeys.mad.decode import attribute_name, attribute_of, decode, summary
from ibkeys.mad.masking import masked
from ibkeys.mad.notice import Notice
from ibkeys.mad.smp import DirectedRouteSmp, LidRoutedSmp, Mad, MadHeader, build_smp, parse


def mad_bytes(head: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(head, st.binary(min_size=256, max_size=256)).map(lambda pair: (pair[0] + pair[1])[:256])


classes = st.sampled_from([b"\1\x01\1", b"\1\x81\1", b"\1\x03\2", b"\1\x04\1"])
attributes = st.sampled_from([1, 2, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x18, 0x20, 0x35, 0x38])
likely = st.builds(
    lambda head, rest, attribute: head + rest[:13] + attribute.to_bytes(2) + rest[13:],
    classes,
    st.binary(min_size=13, max_size=40),
    attributes,
)
any_mad = st.binary(min_size=256, max_size=256) | mad_bytes(likely) | mad_bytes(classes)


@given(raw=any_mad)
def test_any_256_bytes_parse_or_are_malformed_and_all_else_is_total(raw: bytes) -> None:
    assert "\n" not in summary(raw)
    assert len(masked(raw)) == 256
    try:
        mad = parse(raw)
    except MalformedMad:
        with pytest.raises(MalformedMad):
            decode(raw)
        return
    assert mad.raw == raw
    document = decode(raw)
    assert document["mad"]["m_key"] is None
    assert decode(raw, show_keys=True)["mad"]["attribute_id"] == mad.attribute_id
    payload = attribute_of(mad)
    assert (document["fields"] is None) == (payload is None)
    repr(mad)
    repr(payload)


@given(raw=st.binary(max_size=600))
def test_any_bytes_are_masked_and_summed_up(raw: bytes) -> None:
    assert len(masked(raw)) == len(raw)
    assert masked(masked(raw)) == masked(raw)
    assert summary(raw)
    if len(raw) != 256:
        with pytest.raises(MalformedMad):
            parse(raw)
        with pytest.raises(MalformedMad):
            decode(raw)


@pytest.mark.parametrize("name", ["PortInfo", "P_KeyTable", "NodeDescription", "Notice", "MCMemberRecord"])
@given(data=st.data())
def test_any_payload_decodes(name: str, data: st.DataObject) -> None:
    size = 52 if name == "MCMemberRecord" else 64
    raw = data.draw(st.binary(min_size=size, max_size=size))
    assert decode(raw, name)["attribute"] == name
    with pytest.raises(MalformedMad, match=f"{size} bytes"):
        decode(raw + b"\0", name)


def test_attribute_that_is_not_known_is_a_usage_error() -> None:
    for raw in (bytes(64), build_smp(1, 0x11)):
        with pytest.raises(UsageError, match="choose from BKeyInfo, ClassPortInfo, "):
            decode(raw, "PortInfos")


@pytest.mark.parametrize("raw", [b"\0" + bytes(255), b"\2\1" + bytes(254), b"\x80\x81" + bytes(254)])
def test_other_base_version_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMad, match="base version"):
        parse(raw)


@pytest.mark.parametrize(("hops", "fine"), [(0, True), (63, True), (64, False), (255, False)])
def test_route_of_more_than_63_hops_is_malformed_and_not_built(hops: int, fine: bool) -> None:
    raw = bytearray(build_smp(1, 0x11, path=()))
    raw[7] = hops
    if fine:
        mad = parse(bytes(raw))
        assert isinstance(mad, DirectedRouteSmp)
        assert len(mad.initial_path) == len(mad.return_path) == hops + 1
        assert parse(build_smp(1, 0x11, path=(1,) * hops)).raw[7] == hops
    else:
        with pytest.raises(MalformedMad, match=f"{hops} hops"):
            parse(bytes(raw))
        with pytest.raises(EncodeError, match=f"{hops} hops"):
            build_smp(1, 0x11, path=(1,) * hops)


keys = st.integers(0, 2**64 - 1)


@given(
    method=st.sampled_from(Method),
    attribute=st.integers(0, 0xFFFF),
    modifier=st.integers(0, 2**32 - 1),
    path=st.none() | st.lists(st.integers(0, 255), max_size=63),
    data=st.binary(min_size=64, max_size=64),
    m_key=keys,
    tid=keys,
)
def test_what_is_built_parses_to_the_same_values(
    method: int, attribute: int, modifier: int, path: list[int] | None, data: bytes, m_key: int, tid: int
) -> None:
    raw = build_smp(method, attribute, modifier, path=path, data=data, m_key=m_key, transaction_id=tid)
    mad = parse(raw)
    assert isinstance(mad, LidRoutedSmp if path is None else DirectedRouteSmp)
    assert (mad.method, mad.attribute_id, mad.attribute_modifier) == (method, attribute, modifier)
    assert (mad.data, mad.m_key, mad.transaction_id, mad.status) == (data, m_key, tid, 0)
    header = MadHeader(raw[:24])
    assert (header.method, header.transaction_id, header.is_response) == (method, tid, mad.is_response)
    if isinstance(mad, DirectedRouteSmp):
        assert mad.initial_path == (0, *(path or ()))
        assert (mad.hop_pointer, mad.d, mad.dr_slid, mad.dr_dlid) == (0, 0, 0xFFFF, 0xFFFF)


@pytest.mark.parametrize(
    "values",
    [
        {"attribute_modifier": 2**32},
        {"attribute_modifier": -1},
        {"attribute_id": 0x10000},
        {"method": 256},
        {"m_key": 2**64},
        {"transaction_id": 2**64},
        {"path": (256,)},
        {"path": (-1,)},
        {"data": bytes(63)},
        {"data": bytes(65)},
    ],
)
def test_request_that_does_not_fit_is_an_encode_error(values: dict[str, object]) -> None:
    with pytest.raises(EncodeError):
        build_smp(**({"method": 1, "attribute_id": 0x15} | values))  # type: ignore[arg-type]


def test_d_bit_is_no_part_of_the_status() -> None:
    raw = bytearray(build_smp(0x81, 0x15, path=(1,)))
    raw[4:6] = b"\x80\x1c"
    mad = parse(bytes(raw))
    assert isinstance(mad, DirectedRouteSmp)
    assert (mad.d, mad.status) == (1, 0x1C)
    assert decode(bytes(raw))["mad"]["status"] == 0x1C


def test_attributes_have_the_numbers_of_their_class() -> None:
    assert attribute_name(0x0031) == "LedInfo"
    assert attribute_name(0x0031, MgmtClass.SUBN_ADM) == "ServiceRecord"
    assert attribute_name(0x0015, 0x0A) is None
    raw = bytearray(256)
    raw[:3], raw[16:18] = b"\1\3\2", b"\0\1"
    assert isinstance(attribute_of(parse(bytes(raw))), ClassPortInfo)
    raw[1] = 4
    assert type(parse(bytes(raw))) is Mad
    assert attribute_of(parse(bytes(raw))) is None


def test_given_attribute_name_beats_the_one_in_the_header() -> None:
    raw = build_smp(0x81, AttributeID.NODE_INFO, data=PortInfo.new(lid=7).raw)
    assert decode(raw)["attribute"] == "NodeInfo"
    assert decode(raw, "PortInfo")["fields"]["lid"] == 7


def test_unknown_trap_has_its_details_as_hex() -> None:
    notice = Notice.new(is_generic=1, trap_number=999)
    assert notice.details is None
    assert notice.to_json()["data_details"] == {"raw": "00" * 54}
    assert Notice.new(is_generic=0, trap_number=128).details is None


@pytest.mark.parametrize(
    ("status", "mgmt_class", "text"),
    [
        (0, 1, "0x0000 (ok)"),
        (0x1C, 1, "0x001c (invalid value in attribute or modifier)"),
        (0x8008, 0x81, "0x0008 (method not supported)"),
        (0x0300, 3, "0x0300 (no records)"),
        (0x0300, 1, "0x0300 (class specific code 0x03)"),
        (0x0201, 3, "0x0201 (request invalid, agent busy)"),
        (0xFF, 1, "0x00ff (reserved code)"),
    ],
)
def test_status_in_words(status: int, mgmt_class: int, text: str) -> None:
    assert describe_status(status, mgmt_class) == text


@given(status=st.integers(0, 0xFFFF), mgmt_class=st.integers(0, 255), method=st.integers(0, 255))
def test_words_are_found_for_every_number(status: int, mgmt_class: int, method: int) -> None:
    assert describe_status(status, mgmt_class).startswith("0x")
    assert method_name(method)


def test_every_method_has_a_name() -> None:
    assert set(METHOD_NAMES) == set(Method)


def test_summary_names_request_and_reply() -> None:
    request = build_smp(1, 0x15, 3, path=(1, 4), m_key=0xDEADBEEF, transaction_id=0x2A)
    assert summary(request) == "Get(PortInfo, modifier 0x3) route 0,1,4 tid 0x2a"
    reply = bytearray(build_smp(0x81, 0xFF90, transaction_id=1, data=NodeInfo().raw))
    reply[5] = 0x0C
    expected = "0x000c (method and attribute combination not supported)"
    assert summary(bytes(reply)) == f"GetResp(attribute 0xff90, modifier 0x0) status {expected} tid 0x1"
