"""Which numbers of a text come into the command, and in which order."""

from __future__ import annotations

import pytest

from ibkeys.symptoms.explain import explain
from ibkeys.symptoms.numbers import NumberKind, read_numbers

LOG = """Nov 29 09:10:29 621554 [26] 0x02 -> osm_vendor_bind: Binding to port 0x2c903000a1011
Nov 29 09:12:29 000101 [26] 0x01 -> mcmr_rcv_join_mgrp: ERR 1B14: Cannot join port 0x0002c903000a1041 to MGID \
ff12:401b:8010::ffff:ffff - Port is not in partition of this MC group
Nov 29 09:12:31 000101 [26] 0x02 -> port 0x2c903000a1051 is new
"""


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (LOG, "pkey-show -G 0x0002c903000a1041"),
        ("Ports src 0x2c903000a1021 (n port 1) and dst 0x2c903000a1031 (m port 1) do not have any shared PKeys",
         "why -G 0x0002c903000a1021 0x0002c903000a1031"),
        ("trap 257: LID1 0x2, LID2 0x3, P_Key 0x10", "why 2 3"),
        ("Bad P_Key:0x8010 on SL:0 from LID1:12 QP1:0x1 to LID2:13 QP2:0x1", "why 12 13"),
        ("_do_madrpc failed; dport (Lid 5)\n_do_madrpc failed; dport (Lid 6)", "mkey-show 5"),
        ("_do_madrpc failed; dport (DR path slid 65535; dlid 65535; 0,1,7,2)", "mkey-show -D 0,1,7,2"),
        ("umad (DR path slid 0; dlid 0; 0,1,7,2 Attr 0x11:0) bad status 110; timed out", "mkey-show -D 0,1,7,2"),
        ("mad_rpc failed: lid 0x0011 timed out", "mkey-show 17"),
        ("mad_rpc failed: MLID 0xc001 LID 65535", "mkey-show --all"),
        ("mad_rpc failed for fe80::2:c903:a:1021", "mkey-show -G 0x0002c903000a1021"),
        ("mad_rpc failed, node 0002:c903:000a:1021", "mkey-show -G 0x0002c903000a1021"),
        ("mad_rpc failed, TID 0x0002c903000a1021", "mkey-show --all"),
        ("mad_rpc failed; lid `reboot`; lid $(id)", "mkey-show --all"),
        ("ERR 1F1C: No partition found for PKey 0x0010", "pkey-show --all --partition 0x0010"),
        ("ib0.8010: multicast join failed for ff12:401b:8010::1, status -22 ", "compare --ipoib --policy opensm"),
    ],
)  # fmt: skip
def test_the_numbers_of_the_line_fill_the_command(text: str, command: str) -> None:
    assert explain(text.replace("\\\n", "")).answers[0].causes[0].command == tuple(command.split())


@pytest.mark.parametrize(
    "text",
    [
        "guid 0x0002c903000a1021\nsecret of two users: alice, 0x1234567890abcdef",
        "guid 0x0002c903000a1021 said hello to 0x1234567890abcdef",
        "0x1234567890abcdef and guid 0x0002c903000a1021",
    ],
)
def test_a_long_number_that_no_word_names_is_no_guid(text: str) -> None:
    assert [each.value for each in read_numbers(text).numbers] == [0x0002C903000A1021]


@pytest.mark.parametrize(
    "text", ["guid 0x1234567890abcde1 and 0x1234567890abcdef", "0x0002c903000a1021 -> 0x1234567890abcdef"]
)
def test_the_second_of_two_guids_needs_no_word(text: str) -> None:
    last = read_numbers(text).numbers[-1]
    assert (last.kind, last.value) == (NumberKind.GUID, 0x1234567890ABCDEF)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("m_key 0x5f3aa10c955ac6aa m_key 0x0 m_key 0x5f3aa10c955ac6aa", 1),
        ("m_key 0x5f3aa10c955ac6aa sm_key 0x1a2b3c4d5e6f7081", 2),
        ("m_key 0x0000000000000000", 0),
        ("nothing", 0),
    ],
)
def test_each_key_is_counted_once_and_zero_is_none(text: str, keys: int) -> None:
    assert read_numbers(text).keys == keys
