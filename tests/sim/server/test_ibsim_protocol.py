"""The datagrams of ibsim's client protocol, byte by byte."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import UsageError
from ibkeys.sim.server import ibsim_protocol as protocol


def test_names_end_in_a_nul_that_counts() -> None:
    assert protocol.socket_name("sim", "ctl") == b"\0sim:ctl\0"
    assert protocol.socket_name("sim", "out12") == b"\0sim:out12\0"


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 81, "é" * 41])
def test_names_that_no_socket_can_have(name: str) -> None:
    with pytest.raises(UsageError):
        protocol.check_name(name)


def test_a_control_request_of_the_client_library() -> None:
    info = struct.pack("=III32s", 4711, 0, 1, b"H-1")
    raw = struct.pack("=IIII64s", 0xDEADBEEF, 0, 1, 44, info)
    request = protocol.parse_control(raw)
    assert request is not None
    assert request[:3] == (0, protocol.CONNECT, 44)
    assert protocol.parse_client_info(request.data) == (4711, True, "H-1")
    reply = protocol.control(request, data=protocol.client_info(3, True, "H-1"))
    assert reply == struct.pack("=IIII64s", 0xDEADBEEF, 0, 1, 44, struct.pack("=III32s", 3, 0, 1, b"H-1"))
    assert protocol.control(request, protocol.ERROR) == raw[:8] + bytes(4) + raw[12:]


@pytest.mark.parametrize("raw", [b"", bytes(80), struct.pack("=I", 0xDEADBEEF) + bytes(75), bytes(81)])
def test_what_is_no_control_request(raw: bytes) -> None:
    assert protocol.parse_control(raw) is None


@given(st.binary(min_size=76, max_size=76))
def test_a_reply_is_the_request_modified_in_place(rest: bytes) -> None:
    raw = struct.pack("=I", protocol.MAGIC) + rest
    request = protocol.parse_control(raw)
    assert request is not None
    assert protocol.control(request) == raw
    assert protocol.control(request, data=b"ab") == raw[:16] + b"ab" + raw[18:]
    assert len(protocol.client_info(1, True, protocol.parse_client_info(request.data).node)) == 44


def test_a_node_id_is_cut_to_what_fits() -> None:
    assert protocol.client_info(0, False, "n" * 64) == struct.pack("=III32s", 0, 0, 0, b"n" * 31)


def test_lids_are_of_network_order_in_the_low_bytes() -> None:
    assert protocol.packet_lid(0x1234) == struct.pack("=I", struct.unpack("=H", b"\x12\x34")[0])
    assert protocol.packet_lid(0xFFFF) == struct.pack("=I", 0xFFFF)


def test_the_header_of_a_packet() -> None:
    raw = protocol.header(b"abcd", b"efgh", b"ijkl", b"mnop", 110, 92)
    assert raw == b"abcdefghijklmnop" + struct.pack(">IIQ", 110, 0, 92)
    assert len(raw) == protocol.HEADER_SIZE


def test_small_replies() -> None:
    assert protocol.vendor(0x2C9, 0x1003, 0xA1) == struct.pack("=IIIIQ", 0x2C9, 0x1003, 0xA1, 0, 1)
    assert protocol.port(7, 4) == struct.pack("=HB", 7, 4)
    assert protocol.guid(0x0002C90300AA0010) == struct.pack("=Q", 0x0002C90300AA0010)
    assert protocol.number(struct.pack("=i", 1) + bytes(60)) == 1
