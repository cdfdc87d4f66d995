"""A masked MAD holds no byte of a key, and nothing else of it has changed."""

from __future__ import annotations

import pytest

from ibkeys.mad.attributes import NodeInfo, PortInfo, SMInfo
from ibkeys.mad.decode import decode, masked, summary
from ibkeys.mad.notice import BadMKeyDetails, Notice
from ibkeys.mad.smp import build_smp

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
        sa(0x18, SM_INFO_RECORD * 6, stride=4),
        sa(0x31, SERVICE_RECORD, stride=22),
        sa(0x02, TRAP_256.raw),
        sa(0x35, bytes(64), sm_key=KEY),
    ],
)
def test_sa_answer(raw: bytes) -> None:
    assert leaks(raw)
    hidden = masked(raw)
    assert leaks(hidden) == []
    assert sum(before != after for before, after in zip(raw, hidden, strict=True)) == len(leaks(raw))


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
