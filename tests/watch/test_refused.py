"""A refused packet is read from a trap in hex, a log, an event, or two LIDs and a P_Key."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.keys.pkey import PKey
from ibkeys.mad.const import TrapNumber
from ibkeys.mad.notice import BadPKeyDetails, BadPKeySwitchPortDetails, BadQKeyDetails, DataDetails, Notice
from ibkeys.watch.refused_packet import RefusedPacket, read_refused

LIDS = st.integers(1, 0xBFFF)
HEAD = "Nov 29 10:00:00 123456 [ABCDEF] 0x02 -> "
AT_SWITCH = (
    HEAD + 'log_notice: Reporting Security Notice "Bad P_Key (switch external port)" from switch LID 7, GUID '
    "0x0002c90200401000 port 7 : data_valid 0x0000, LID1 1, LID2 4, PKey 0x8021, SL 0, QP1 0x1, QP2 0x1, "
    "GID1 fe80::2:c903:a:1010, GID2 fe80::2:c903:a:1040"
)
RECEIVED = (
    HEAD + "log_trap_info: Received Generic Notice type:2 num:257 (Bad P_Key) Producer:1 (Channel Adapter) from LID:4 "
    "TID:0x0000000000000001"
)
BAD_KEY = HEAD + "log_trap_info: Bad P_Key:0x8021 on SL:0 from LID1:1 QP1:0x1 to LID2:4 QP2:0x1"


def notice(trap: int, details: DataDetails) -> bytes:
    return Notice.new(is_generic=1, type=2, trap_number=trap, issuer_lid=4).with_details(details).raw


@given(LIDS, LIDS, st.integers(0, 0xFFFF), st.integers(1, 254), st.sampled_from(["", " ", ":"]))
def test_a_trap_in_hex(one: int, other: int, key: int, port: int, between: str) -> None:
    ends = {"lid_addr1": one, "lid_addr2": other}
    at_switch = BadPKeySwitchPortDetails.new(**ends, p_key=key, sw_lid_addr=9, port_no=port)
    traps = {
        RefusedPacket(257, one, other, key): notice(257, BadPKeyDetails.new(**ends, p_key=key)),
        RefusedPacket(258, one, other, q_key=key): notice(258, BadQKeyDetails.new(**ends, key=key)),
        RefusedPacket(259, one, other, key, at_lid=9, at_port=port): notice(259, at_switch),
    }
    for packet, raw in traps.items():
        assert read_refused(between.join(f"{byte:02x}" for byte in raw)) == packet


@given(LIDS, LIDS, st.integers(0, 0xFFFF))
def test_two_lids_and_a_p_key(one: int, other: int, key: int) -> None:
    assert read_refused(f" {one} {other} {PKey(key)}\n") == RefusedPacket(None, one, other, key)


@pytest.mark.parametrize(
    ("text", "packet"),
    [
        (AT_SWITCH, RefusedPacket(TrapNumber.BAD_P_KEY_SWITCH_PORT, 1, 4, 0x8021, at_lid=7, at_port=7)),
        (f"{RECEIVED}\n{BAD_KEY}", RefusedPacket(TrapNumber.BAD_P_KEY, 1, 4, 0x8021)),
        (f"noise\n{RECEIVED}\n{BAD_KEY}\nnoise", RefusedPacket(TrapNumber.BAD_P_KEY, 1, 4, 0x8021)),
        (RECEIVED, None),
        ("", None),
        ("1 4", None),
        ("0 4 0x8021", None),
        ("1 49152 0x8021", None),
        ("1 4 0x18021", None),
        ("00" * 64, None),
        ("ff" * 256, None),
        ("{", None),
        ("[]", None),
        ('{"trap": 257}', None),
        ('{"trap": 257, "from": {"lid": "1"}, "to": {"lid": 4}, "pkey": "0x8021"}', None),
    ],
)
def test_a_text(text: str, packet: RefusedPacket | None) -> None:
    assert read_refused(text) == packet


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    read_refused(text)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda each: (
            st.lists(each, max_size=3)
            | st.dictionaries(st.sampled_from(["trap", "from", "to", "at", "lid", "pkey", "q_key", "port"]), each)
        ),
        max_leaves=12,
    ),
    st.sampled_from([257, 258, 259]),
)
def test_any_event_is_read(event: object, trap: int) -> None:
    read_refused(json.dumps(event))
    if isinstance(event, dict):
        read_refused(json.dumps({**event, "trap": trap}))
