"""pkey-check, pkey-explain, qkey-explain, keystore generate."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import run


@pytest.mark.parametrize(
    ("a", "b", "code"),
    [
        ("0x8001", "0x1", 0),
        ("0x1:full", "0x8001", 0),
        ("0x1", "0x1", 1),
        ("0x8001", "0x8002", 1),
        ("0x8000", "0x8000", 1),
    ],
)
def test_pkey_check(a: str, b: str, code: int) -> None:
    result = run("pkey-check", a, b)
    assert result.code == code
    assert result.out.startswith("yes: " if code == 0 else "no: ")


def test_pkey_check_exit_code_is_the_same_in_every_format() -> None:
    for format in ("table", "json", "csv"):
        assert run("pkey-check", "0x1", "0x1", "-f", format).code == 1


def test_pkey_check_json() -> None:
    assert run("pkey-check", "0x8001", "0x1", "-f", "json").json == {
        "schema": "ibkeys.pkey-check/1",
        "a": "0x8001",
        "b": "0x0001",
        "can_talk": True,
        "reason": "yes: same partition 0x0001, and 0x8001 is a full member",
    }


def test_pkey_explain_json() -> None:
    document = run("pkey-explain", "0x7fff", "-f", "json").json
    meaning = document.pop("meaning")
    assert meaning == (
        "default partition 0x7fff, limited member: may talk to full members only; it reaches the SA only if the SM's "
        "port is a full member"
    )
    assert document.pop("qp0").startswith("not checked: ")
    assert "any entry of the table" in document.pop("qp1")
    assert "one index" in document.pop("queue_pairs")
    assert "FilterRawInbound" in document.pop("raw_packets")
    assert "an EE context holds the port and one index" in document.pop("reliable_datagram")
    assert document == {
        "schema": "ibkeys.pkey-explain/1",
        "pkey": "0x7fff",
        "partition": "0x7fff",
        "membership": "limited",
        "valid": True,
        "default": True,
    }


def test_pkey_explain_says_for_which_packets_it_counts() -> None:
    first, *lines = run("pkey-explain", "0x8001").out.splitlines()
    assert first.startswith("0x8001: partition 0x0001, full member: ")
    assert [line.split(":")[0] for line in lines] == [
        "  SMPs (QP0)",
        "  GMPs (QP1), SA queries too",
        "  UD, RC and UC queue pairs",
        "  raw packets",
        "  RD (reliable datagram)",
    ]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("0x80010000", "management"),
        ("0xb1b", "unprivileged"),
        ("2147483648", "general use"),
        ("0x90000000", "privileged"),
    ],
)
def test_qkey_explain(value: str, kind: str) -> None:
    assert run("qkey-explain", value).out.startswith(f"0x{int(value, 0):08x}: {kind}: ")
    assert run("qkey-explain", value, "-f", "json").json["kind"] == kind


def test_qkey_explain_says_what_holds_for_every_q_key() -> None:
    _, *lines = run("qkey-explain", "0xb1b").out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["  when received", "  who sets it", "  unlike a P_Key"]
    document = run("qkey-explain", "0xb1b", "-f", "json").json
    assert "without an error to the sender" in document["receiver"]
    assert "No SMP reads or writes a Q_Key" in document["set_by"]
    assert "checked after the P_Key" in document["difference"]


def test_csv_of_an_explanation() -> None:
    header, row = run("qkey-explain", "0x80010000", "-f", "csv").out.splitlines()
    assert header == "q_key,kind,privileged,meaning,receiver,set_by,difference"
    assert row.startswith("0x80010000,management,1,")


def test_mkey_gen_prints_distinct_keys() -> None:
    keys = run("keystore", "generate", "-n", 50).out.splitlines()
    assert len(set(keys)) == 50
    assert all(re.fullmatch("0x[0-9a-f]{16}", key) and int(key, 16) for key in keys)


def test_mkey_gen_json() -> None:
    document = run("keystore", "generate", "-n", 2, "-f", "json").json
    assert document["schema"] == "ibkeys.keystore-generate/1"
    assert len(document["m_keys"]) == 2


def test_mkey_gen_zero_keys_is_wrong_usage() -> None:
    assert run("keystore", "generate", "-n", 0).code == 2
