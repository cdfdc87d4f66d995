"""decode: the golden vectors through the command line, every spelling of hex, errors."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli, run
from tests.corpus import DATA

VECTORS = DATA / "vectors"
SET_PORT_INFO_KEY = 0x1A2B3C4D5E6F7081


def port_info(m_key: int = 0) -> str:
    return m_key.to_bytes(8).hex() + "00" * 56


def mad(m_key: int = 0, data_key: int = 0) -> str:
    """SubnSet(PortInfo) to a LID."""
    header = bytes.fromhex("01010102" + "00000000" + "0000000012345678" + "00150000" + "00000001")
    return (header + m_key.to_bytes(8) + bytes(32)).hex() + port_info(data_key) + "00" * 128


def test_json_of_a_mad() -> None:
    document = run("decode", mad(), "-f", "json").json
    assert document["schema"] == "ibkeys.decode/1"
    assert document["attribute"] == "PortInfo"
    assert document["mad"] == {
        "base_version": 1,
        "mgmt_class": 1,
        "class_version": 1,
        "method": 2,
        "status": 0,
        "d": None,
        "hop_pointer": None,
        "hop_count": None,
        "transaction_id": "0x0000000012345678",
        "attribute_id": 0x15,
        "attribute_modifier": 1,
        "m_key": None,
        "m_key_masked": True,
        "dr_slid": None,
        "dr_dlid": None,
        "initial_path": None,
        "return_path": None,
    }
    assert (document["fields"]["m_key"], document["fields"]["m_key_masked"]) == (None, True)


def test_keys_are_shown_only_when_asked() -> None:
    text = mad(SET_PORT_INFO_KEY, SET_PORT_INFO_KEY)
    for format in ("table", "json", "csv"):
        assert "5e6f7081" not in run("decode", text, "-f", format).out
        assert run("decode", text, "-f", format, "-K").out.count("0x1a2b3c4d5e6f7081") == 2


def test_fields_of_bare_payloads_equal_the_vectors() -> None:
    entries = json.loads((VECTORS / "fields_pkeytable.json").read_text())["vectors"]
    for entry in entries:
        document = run("decode", "--attribute", "P_KeyTable", entry["hex"], "-f", "json").json
        assert (document["mad"], document["attribute"]) == (None, "P_KeyTable")
        assert document["fields"]["p_keys"] == entry["pkeys"]


@pytest.mark.parametrize("name", ["PortInfo", "portinfo", "PORT_INFO", "port_info"])
def test_attribute_names_are_forgiving(name: str) -> None:
    assert run("decode", "--attribute", name, port_info(), "-f", "json").json["attribute"] == "PortInfo"


def spellings() -> list[list[str]]:
    plain = "ffff8001" + "00" * 60
    pairs = [plain[at : at + 2] for at in range(0, len(plain), 2)]
    return [
        [plain],
        [plain.upper()],
        ["0x" + plain],
        [" ".join(pairs)],
        [":".join(pairs)],
        [" ".join("0x" + pair for pair in pairs)],
        pairs,
        [f"  {plain}\n"],
    ]


@pytest.mark.parametrize("words", spellings())
def test_spellings_of_hex(words: list[str]) -> None:
    document = run("decode", "-f", "json", "--attribute", "P_KeyTable", *words).json
    assert document["fields"]["p_keys"][:3] == ["0xffff", "0x8001", "0x0000"]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["00" * 255], "255 bytes"),
        (["00" * 257], "257 bytes"),
        (["--attribute", "PortInfo", "00" * 63], "63 were given"),
        (["--attribute", "P_KeyTabel", "00" * 64], "P_KeyTable"),
        (["0g"], "'g'"),
        (["123"], "whole number of bytes"),
        (["0x1", "0x2"], "whole number of bytes"),
        ([""], "no hex digit"),
        (["0x"], "no hex digit"),
    ],
)
def test_what_cannot_be_decoded(args: list[str], hint: str) -> None:
    result = run("decode", *args)
    assert (result.code, result.out) == (2, "")
    assert hint in result.error


def test_lines_of_standard_input_are_documents() -> None:
    result = run("decode", "-", stdin=f"{mad()}\n\n0x{mad()}\n")
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 0
    assert [document["attribute"] for document in documents] == ["PortInfo", "PortInfo"]


def test_bad_line_does_not_stop_the_others() -> None:
    result = run("decode", "-", stdin=f"{mad()}\nzz\n00\n{mad()}")
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 2
    assert result.error == "2 lines could not be decoded"
    assert ["error" in document for document in documents] == [False, True, True, False]
    assert documents[1]["error"].startswith("line 2: ")
    assert all(document["schema"] == "ibkeys.decode/1" for document in documents)


def test_unknown_attribute_is_null() -> None:
    unknown = mad()[:32] + "ff31" + mad()[36:]
    document = run("decode", unknown, "-f", "json").json
    assert (document["attribute"], document["fields"]) == (None, None)
    assert "ibkeys does not know its layout" in run("decode", unknown).out


def test_each_neighbor_has_lines_of_its_own_and_no_key(cli: Cli) -> None:
    payload = "20000005" + "00000000" + "a1a2a3a4a5a6a7a8"
    result = cli("decode", "--attribute", "neighbors_info", payload * 14)
    assert "  neighbors[13].lid:       5\n" in result.out
    assert "  neighbors[0].n2n_key:    masked (-K shows it)\n" in result.out
    assert "a1a2" not in result.out
    assert (
        "neighbors[13].n2n_key,0xa1a2a3a4a5a6a7a8"
        in cli("decode", "--attribute", "NeighborsInfo", payload * 14, "-K", "-f", "csv").out
    )


def test_a_congestion_mad_shows_its_attribute_and_hides_both_keys(cli: Cli) -> None:
    mad = "01210281" + "00" * 12 + "0012" + "00" * 6 + "a1a2a3a4a5a6a7a8" + "00" * 32 + "b1b2b3b4b5b6b7b88000003c0007"
    result = cli("decode", mad.ljust(512, "0"))
    assert "  class_key:          masked (-K shows it)\n" in result.out
    assert "  cc_key_lease_period: 60\n" in result.out
    assert "a1a2" not in result.out + result.err
    assert "b1b2" not in result.out + result.err
