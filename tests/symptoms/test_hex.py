"""Traps and MADs in hex: recognized in any spelling, their LIDs and P_Keys in the commands, their keys nowhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibkeys.mad.notice import BadMKeyDetails, BadPKeyDetails, Notice
from ibkeys.symptoms.explain import explain
from tests.cli.conftest import run

KEY = 0x9C4E21D7B05A63F8
HEADER = bytes.fromhex("01010105" + "00000000" + "0000000012345678" + "00020000" + "00000000")


def notice(trap: int) -> bytes:
    """A generic Notice of type security; from LID 2 to LID 3 with P_Key 0x8010, or of an M_Key at LID 4."""
    raw = Notice.new(is_generic=1, type=2, producer_type=1, trap_number=trap, issuer_lid=3).raw
    if trap == 256:
        return Notice(raw).with_details(BadMKeyDetails(raw).replace(lid_addr=4, method=2, m_key=KEY)).raw
    return Notice(raw).with_details(BadPKeyDetails(raw).replace(lid_addr1=2, lid_addr2=3, key=0x8010)).raw


def mad(trap: int) -> bytes:
    """A trap as a whole MAD."""
    return HEADER + bytes(40) + notice(trap) + bytes(128)


def dump(raw: bytes) -> str:
    """As hexdump prints it."""
    lines = (raw[start : start + 16].hex(" ") for start in range(0, len(raw), 16))
    return "\n".join(f"{16 * number:08x}  {line}" for number, line in enumerate(lines))


SPELLINGS: list[Callable[[bytes], str]] = [
    bytes.hex,
    lambda raw: raw.hex(" "),
    lambda raw: raw.hex(":").upper(),
    lambda raw: "0x" + raw.hex(),
    lambda raw: raw.hex(" ", 4),
    dump,
    lambda raw: "\n".join(raw.hex()[start : start + 64] for start in range(0, 2 * len(raw), 64)),
]


@pytest.mark.parametrize("spelling", range(len(SPELLINGS)))
@pytest.mark.parametrize("whole", [notice, mad])
def test_a_trap_in_hex_names_sender_and_receiver(spelling: int, whole: Callable[[int], bytes]) -> None:
    (answer,) = explain(SPELLINGS[spelling](whole(257))).answers
    assert answer.symptom.name == "trap-257"
    assert answer.causes[0].command == ("why", "2", "3")
    assert "P_Key 0x8010" in run("explain", SPELLINGS[spelling](whole(257))).out


@pytest.mark.parametrize("spelling", range(len(SPELLINGS)))
@pytest.mark.parametrize("whole", [notice, mad])
def test_the_key_of_a_trap_is_named_and_not_printed(spelling: int, whole: Callable[[int], bytes]) -> None:
    text = SPELLINGS[spelling](whole(256))
    found = explain(text)
    assert found.answers[0].symptom.name == "trap-256"
    assert found.answers[0].causes[0].command == ("mkey-show", "4")
    assert found.keys == 1
    for format in ("table", "json", "csv"):
        said = run("explain", "-f", format, "-", stdin=text).out.lower()
        assert f"{KEY:x}" not in said
    assert "A KEY IS IN THE TEXT" in run("explain", "-", stdin=text).out


def test_another_mad_is_described_and_its_key_is_named() -> None:
    raw = bytes.fromhex("01010102" + "0000" * 2 + "0000000012345678" + "00150000" + "00000001") + KEY.to_bytes(8)
    found = explain((raw + bytes(256 - len(raw))).hex())
    assert found.answers[0].details == ("Set(PortInfo), class 0x01, status 0x0000 (ok)",)
    assert found.answers[0].causes[0].command == ("decode", "-")
    assert found.answers[0].leaks
    assert f"{KEY:x}" not in repr(found)


def test_zeros_and_other_lengths_are_no_trap() -> None:
    assert [each.symptom.name for each in explain(bytes(64).hex()).answers] == []
    assert explain("ab" * 65).answers == ()
