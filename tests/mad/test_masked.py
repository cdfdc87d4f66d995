"""A masked MAD holds no byte of a key; its known fields have not changed, and all else of it is zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.mad.attributes import ClassPortInfo, NodeDescription, NodeInfo, PortInfo, SMInfo
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.mad.classes.key_info import NeighborRecord, NeighborsInfo
from ibkeys.mad.const import Method, MgmtClass
from ibkeys.mad.decode import SA_ATTRIBUTES, SMP_ATTRIBUTES, decode, summary
from ibkeys.mad.fields import Layout
from ibkeys.mad.masking import masked
from ibkeys.mad.notice import BadMKeyDetails, Notice
from ibkeys.mad.performance import PortCounters, PortCountersExtended
from ibkeys.mad.records import MCMemberRecord, PathRecord, PortInfoRecord
from ibkeys.mad.sa import SaHeader
from ibkeys.mad.smp import CommonHeader, DirectedRouteSmp, LidRoutedSmp, build_smp

KEY = 0xA1A2A3A4A5A6A7A8
KEY_BYTES = KEY.to_bytes(8)
TRAP_256 = Notice.new(is_generic=1, trap_number=256, issuer_lid=5).with_details(BadMKeyDetails.new(m_key=KEY, method=2))


def sa(attribute_id: int, data: bytes, *, stride: int = 0, segment: int = 0, sm_key: int = 0) -> bytes:
    """An SA answer: 56 bytes of headers, then *data*, of any length."""
    raw = bytearray(56)
    raw[:4] = b"\1\3\2\x92"
    raw[16:18] = attribute_id.to_bytes(2)
    if segment:
        raw[24:27] = b"\1\1\1"
        raw[28:32] = segment.to_bytes(4)
    raw[36:44] = sm_key.to_bytes(8)
    raw[44:46] = stride.to_bytes(2)
    return bytes(raw) + data


def leaks(raw: bytes) -> list[int]:
    """Where bytes of the key stand. All its bytes are unlike any other in these MADs."""
    return [at for at, byte in enumerate(raw) if byte in KEY_BYTES]


PORT_INFO = PortInfo.new(m_key=KEY, lid=5, m_key_lease_period=60).raw
PORT_INFO_RECORD = bytes([0, 5, 1, 0]) + PORT_INFO + bytes(4)  # 72 bytes: AttributeOffset 9
SM_INFO_RECORD = bytes(4) + SMInfo.new(sm_key=KEY, guid=1).raw[:28]
SERVICE_RECORD = bytes(32) + KEY_BYTES + KEY_BYTES + bytes(128)


@pytest.mark.parametrize("path", [None, (), (1, 2, 3)])
@pytest.mark.parametrize(
    ("attribute_id", "data"),
    [
        (0x15, PORT_INFO),
        (0x20, SMInfo.new(sm_key=KEY).raw),
        (0x02, TRAP_256.raw),
        (0x11, NodeInfo.new(num_ports=2).raw),
        (0xFF90, bytes(64)),
    ],
)
def test_smp(attribute_id: int, data: bytes, path: tuple[int, ...] | None) -> None:
    raw = build_smp(2, attribute_id, 1, path=path, data=data, m_key=KEY)
    hidden = masked(raw)
    assert leaks(raw)
    assert leaks(hidden) == []
    assert all(after in (before, 0) for before, after in zip(raw, hidden, strict=True))
    assert sum(before != after for before, after in zip(raw, hidden, strict=True)) == len(leaks(raw))
    assert "a1a2" not in str(decode(raw)).lower() + summary(raw)
    assert f"{KEY:016x}" in str(decode(raw, show_keys=True))


@pytest.mark.parametrize("size", range(256, 23, -8))
def test_mad_that_was_cut_short(size: int) -> None:
    assert leaks(masked(build_smp(2, 0x15, data=PORT_INFO, m_key=KEY)[:size])) == []
    assert leaks(masked(sa(0x12, PORT_INFO_RECORD * 2, stride=9, sm_key=KEY)[:size])) == []


@pytest.mark.parametrize("version", [0, 2, 0x80])
def test_mad_of_another_version(version: int) -> None:
    raw = bytes([version]) + build_smp(2, 0x15, data=PORT_INFO, m_key=KEY)[1:]
    assert leaks(masked(raw)) == []


@pytest.mark.parametrize(
    "raw",
    [
        sa(0x12, PORT_INFO_RECORD.ljust(200, b"\0")),
        sa(0x12, PORT_INFO_RECORD, stride=9),
        sa(0x12, (PORT_INFO_RECORD * 3)[:200], stride=9, sm_key=KEY),
        sa(0x12, PORT_INFO_RECORD * 40, stride=9, segment=1),
        sa(0x02, TRAP_256.raw),
        sa(0x35, bytes(64), sm_key=KEY),
    ],
)
def test_sa_answer(raw: bytes) -> None:
    assert leaks(raw)
    hidden = masked(raw)
    assert leaks(hidden) == []
    assert sum(before != after for before, after in zip(raw, hidden, strict=True)) == len(leaks(raw))


@pytest.mark.parametrize("raw", [sa(0x18, SM_INFO_RECORD * 6, stride=4), sa(0x31, SERVICE_RECORD, stride=22)])
def test_a_record_without_a_table_is_zeroed(raw: bytes) -> None:
    assert masked(raw) == raw[:56].ljust(len(raw), b"\0")


def test_each_segment_of_an_sa_answer_by_itself() -> None:
    records = PORT_INFO_RECORD * 40
    for segment in range(1, len(records) // 200 + 1):
        data = records[(segment - 1) * 200 : segment * 200]
        raw = sa(0x12, data, stride=9, segment=segment)
        hidden = masked(raw)
        assert leaks(hidden) == [], segment
        assert sum(before != after for before, after in zip(raw, hidden, strict=True)) == len(leaks(raw))


def test_kernels_24_byte_timeout_is_unchanged() -> None:
    head = build_smp(1, 0x15, m_key=KEY)[:24]
    assert masked(head) == head
    assert masked(b"") == b""


def test_notice_of_another_trap_is_unchanged() -> None:
    raw = build_smp(5, 2, data=Notice.new(is_generic=1, trap_number=257).raw)
    assert masked(raw) == raw


# --- hostile answers: a key in every byte that nothing defines -------------------------------------------------------

_ORDINARY = st.binary(min_size=256, max_size=256).map(lambda raw: bytes(byte & 0x7F for byte in raw))
"""Bytes for what is defined: none of them, nor any of their bits, is a byte of the key."""


def planted(raw: bytes, defined: set[int]) -> bytes:
    """Return *raw* with the key in every byte that is not defined."""
    return bytes(byte if at in defined else KEY_BYTES[at % 8] for at, byte in enumerate(raw))


def of_rows(layout: type[Layout], offset: int = 0) -> set[int]:
    """Return the bytes of the fields of *layout*, those of a key too, but for the data and the paths of an SMP."""
    rows = [row for row in layout.rows.values() if row.attr not in ("data", "initial_path_bytes", "return_path_bytes")]
    newer = {PortInfo: {56}, PortInfoRecord: {60}, PathRecord: {*range(8), *range(44, 58)}, MCMemberRecord: {42, 43}}
    return {offset + at for row in rows for at in range(row.byte, row.stop)} | {
        offset + at for at in newer.get(layout, ())
    }


def check(raw: bytes, layout: type[Layout], offset: int) -> None:
    """The masked MAD has no byte of the key, and each field that is not one as it was."""
    hidden = masked(raw)
    assert leaks(raw)
    assert leaks(hidden) == []
    before, after = (layout(each[offset : offset + layout.size]) for each in (raw, hidden))
    fields = [row for row in layout.rows.values() if not row.secret]
    assert [row.decode(after.raw) for row in fields] == [row.decode(before.raw) for row in fields]
    assert masked(hidden) == hidden


@given(
    body=_ORDINARY,
    number=st.sampled_from([each for each in SMP_ATTRIBUTES if each not in (0x02, 0x10)]),
    directed=st.booleans(),
    hops=st.integers(0, 63),
    method=st.sampled_from([Method.GET_RESP, Method.SET]),
    status=st.sampled_from([0, 4, 0x1C]),
)
def test_no_smp_shows_what_no_field_defines(
    body: bytes, number: int, directed: bool, hops: int, method: int, status: int
) -> None:
    layout = SMP_ATTRIBUTES[number]
    head = DirectedRouteSmp if directed else LidRoutedSmp
    mad = bytearray(body)
    mad[:8] = bytes((1, 0x81 if directed else 1, 1, method, 0x80 if directed else 0, status, 0, hops))
    mad[16:18] = number.to_bytes(2)
    defined = of_rows(head) - {6, 7} | {4, 5} | of_rows(layout, 64)
    if directed:
        defined |= {6, 7, *range(129, 129 + hops), *range(193, 193 + hops)}
    raw = planted(bytes(mad), defined)
    check(raw, layout, 64)
    if directed:
        hidden = DirectedRouteSmp(masked(raw))
        assert hidden.initial_path[1:] == DirectedRouteSmp(raw).initial_path[1:]
        assert hidden.return_path[1:] == DirectedRouteSmp(raw).return_path[1:]


@given(hops=st.integers(64, 255))
def test_a_path_of_more_hops_than_there_are_is_not_kept(hops: int) -> None:
    raw = bytearray(build_smp(Method.GET_RESP, 0x11, path=(1,)))
    raw[7], raw[128:] = hops, KEY_BYTES * 16
    assert not any(masked(bytes(raw))[128:])


def test_the_data_of_a_get_and_a_return_path_not_yet_walked_are_not_kept() -> None:
    raw = build_smp(Method.GET, 0x11, path=(1, 4), data=KEY_BYTES * 8)[:192] + KEY_BYTES * 8
    assert leaks(masked(raw)) == []


@given(body=_ORDINARY, number=st.sampled_from([n for n in SA_ATTRIBUTES if n != 2]), end=st.integers(0, 64))
def test_no_record_shows_what_no_field_defines(body: bytes, number: int, end: int) -> None:
    layout = SA_ATTRIBUTES[number]
    mad = bytearray(body)
    mad[:4], mad[16:18], mad[24:28] = b"\1\3\2\x81", number.to_bytes(2), bytes(4)
    at = getattr(layout, "node_description", None)
    if at is not None:  # a text of `end` bytes
        mad[56 + at.byte : 56 + at.stop] = (b"n" * end + b"\0" + KEY_BYTES * 8)[:64]
    raw = planted(bytes(mad), (of_rows(SaHeader) - {6, 7}) | of_rows(layout, 56))
    check(raw, layout, 56)


@given(end=st.integers(0, 63))
def test_what_lies_behind_the_nul_of_a_node_description_is_zeroed(end: int) -> None:
    data = (b"n" * end + b"\0" + KEY_BYTES * 8)[:64]
    check(build_smp(Method.GET_RESP, 0x10, data=data, m_key=KEY), NodeDescription, 64)


@given(pad=st.integers(1, 199))
def test_nothing_is_kept_behind_the_end_of_the_last_segment(pad: int) -> None:
    data = (PORT_INFO_RECORD * 6)[200 : 400 - pad]
    raw = bytearray(sa(0x12, data + (KEY_BYTES * 25)[:pad], stride=9, segment=2))
    raw[26] |= 4
    raw[32:36] = (20 + len(data)).to_bytes(4)
    assert leaks(masked(bytes(raw))[56:]) == []


@pytest.mark.parametrize("mgmt_class", [0x04, 0x07, 0x09, 0x21, 0x05, 0x0A, 0x0C, 0x32])
@pytest.mark.parametrize("number", [0x01, 0x12, 0x1D, 0x0F, 0x10, 0xFF00])
@given(body=_ORDINARY)
def test_no_other_class_shows_what_no_field_defines(mgmt_class: int, number: int, body: bytes) -> None:
    of = next((each for each in KEY_CLASSES.values() if each.mgmt_class == mgmt_class), None)
    known = (
        {0x01: ClassPortInfo, 0x12: PortCounters, 0x1D: PortCountersExtended}.get(number)
        if mgmt_class == MgmtClass.PERF_MGMT
        else None
    )
    defined = of_rows(CommonHeader) | {4, 5}
    if known is not None:
        defined |= of_rows(known, 64)
    elif of is not None and of.attributes.get(number) is NeighborsInfo:
        defined |= {at for first in range(32, 256, 16) for at in of_rows(NeighborRecord, first)}
    elif of is not None and number in of.attributes:
        defined |= of_rows(of.attributes[number], of.data_offset)
    mad = bytearray(body)
    mad[:4], mad[16:18] = bytes((1, mgmt_class, 1, 0x81)), number.to_bytes(2)
    assert leaks(masked(planted(bytes(mad), defined))) == []


@given(details=st.binary(min_size=54, max_size=54), trap=st.integers(0, 0xFFFF), generic=st.integers(0, 1))
def test_the_details_of_an_unknown_trap_are_zeroed(details: bytes, trap: int, generic: int) -> None:
    notice = Notice(Notice.new(is_generic=generic, trap_number=trap).raw[:10] + details)
    hidden = masked(build_smp(Method.TRAP, 2, data=notice.raw))[64:128]
    assert hidden[:10] == notice.raw[:10]
    assert notice.details is not None or not any(hidden[10:])


@given(hops=st.integers(0, 28))
def test_the_return_path_of_trap_256_ends_with_its_hops(hops: int) -> None:
    trap = BadMKeyDetails.new(m_key=KEY, dr_notice=1, dr_hop_count=hops).raw
    notice = TRAP_256.raw[:10] + trap[10 : 34 + hops + 1] + (KEY_BYTES * 8)[: 29 - hops]
    assert leaks(masked(build_smp(Method.TRAP, 2, data=notice))) == []
