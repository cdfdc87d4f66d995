"""New values in an opensm.conf: what was asked for is read, nothing else is, and no other byte moves."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import FileFormatError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.smkey import SMKey
from ibkeys.managers.opensm.edit import NewValue, with_options
from ibkeys.managers.opensm.option_table import OptionValue
from ibkeys.managers.opensm.options_file import MAX_LINE, read_options
from tests.integration.ibsim import tool

KEY, SM, SA = MKey(0x83F1C05E9A2D7B46), SMKey(0x1122334455667788), SMKey(0x99AABBCCDDEEFF00)

PIECES = [
    *(b"m_key", b"sm_key", b"sa_key", b"m_key_lookup", b"part_enforce", b"no_partition_enforcement", b"sm_priority"),
    *(b"0x5", b"7", b"0100", b"junk", b"TRUE", b"true", b"FALSE", b"in", b"x" * 600, b"log_file /var/log/x\n"),
    *(b" ", b" ", b"\t", b"\n", b"\n", b"\r\n", b"#", b'"', b"'", b"=", b"\0"),
]
CONFS = st.lists(st.sampled_from(PIECES) | st.binary(max_size=3), max_size=40).map(b"".join)
KEYS = st.integers(0, (1 << 64) - 1)
WANTED: st.SearchStrategy[dict[str, NewValue]] = st.fixed_dictionaries(
    {},
    optional={
        "m_key": KEYS.map(MKey),
        "sm_key": KEYS.map(SMKey),
        "sa_key": KEYS.map(SMKey),
        "m_key_lookup": st.booleans(),
        "no_partition_enforcement": st.booleans(),
        "part_enforce": st.sampled_from(["both", "in", "out", "off"]),
        "sm_priority": st.integers(0, 15),
        "m_key_lease_period": st.integers(0, 0xFFFF),
    },
)


def plain(value: NewValue | OptionValue) -> object:
    return value.reveal() if isinstance(value, MKey | SMKey) else value


@given(CONFS, WANTED)
def test_what_was_asked_for_is_read_and_all_else_as_before(data: bytes, wanted: dict[str, NewValue]) -> None:
    before = read_options(data).values
    try:
        after = with_options(data, wanted)
    except FileFormatError as error:
        shown = str(error)
        assert not any(each.hex() in shown for each in wanted.values() if isinstance(each, MKey | SMKey))
        is_held = before.get("no_partition_enforcement") is True or wanted.get("no_partition_enforcement") is True
        assert (is_held and "part_enforce" in wanted) or any(len(line) > MAX_LINE - 40 for line in data.split(b"\n"))
        return
    found = read_options(after).values
    for name, value in wanted.items():
        assert plain(found[name]) == plain(value)
        assert isinstance(found[name], bool) == isinstance(value, bool)
    for name in {*found, *before} - {*wanted}:
        follows = name == "part_enforce" and "no_partition_enforcement" in wanted
        assert found.get(name) == before.get(name) or follows
    assert with_options(after, wanted) == after


@given(CONFS, WANTED)
def test_every_byte_but_those_of_the_values_stays(data: bytes, wanted: dict[str, NewValue]) -> None:
    try:
        after = with_options(data, wanted)
    except FileFormatError:
        return
    for name in wanted:  # what is left when the changed lines are taken out is what was there before
        changed = re.compile(rb"[^\n]*" + name.encode() + rb"(?![0-9A-Za-z_])[^\n]*\n?")
        data, after = changed.sub(b"", data), changed.sub(b"", after)
    assert after.rstrip(b"\n") == data.rstrip(b"\n")


def test_the_last_line_of_an_option_is_changed_in_place_and_a_missing_one_comes_at_the_end() -> None:
    before = b'sm_key 1 # first\r\n  sm_key\t"0x2"  # last\r\nm_key_lookup true\nlog_file /x'
    after = with_options(before, {"sm_key": SM, "sa_key": SA, "m_key_lookup": True, "sm_priority": 14})
    assert after == (
        b"sm_key 1 # first\r\n  sm_key\t0x1122334455667788  # last\r\nm_key_lookup TRUE\nlog_file /x\n"
        b"sa_key 0x99aabbccddeeff00\nsm_priority 14\n"
    )


def test_a_default_that_no_line_says_is_written_out() -> None:
    wanted: dict[str, NewValue] = {"m_key_lookup": True, "sa_key": SMKey(1), "m_key": MKey(0)}
    assert with_options(b"", wanted) == b"m_key_lookup TRUE\nsa_key 0x0000000000000001\nm_key 0x0000000000000000\n"


@pytest.mark.parametrize(
    ("data", "wanted", "said"),
    [
        (b"", {"m_keys": KEY}, "no option 'm_keys'"),
        (b"", {"m_key_lookup": "yes"}, "m_key_lookup cannot be changed"),
        (b"", {"m_key_lookup": 1}, "m_key_lookup cannot be changed"),
        (b"", {"sweep_interval": True}, "sweep_interval cannot be changed"),
        (b"", {"sm_priority": 16}, "sm_priority cannot be changed"),
        (b"", {"log_file": "/x # y"}, "log_file cannot be changed"),
        (b"", {"log_file": "/x\nm_key 5"}, "log_file cannot be changed"),
        (b"no_partition_enforcement TRUE\n", {"part_enforce": "both"}, "part_enforce cannot be changed"),
        (b" " * (MAX_LINE - 9) + b"sm_key 5\n", {"sm_key": SM}, "sm_key cannot be changed"),
        (b"sm_key 5" + b"#" * (MAX_LINE - 8) + b"m_key 9", {"sm_key": SM}, "would also change how OpenSM reads m_key"),
    ],
)
def test_what_opensm_would_not_read_so_is_refused(data: bytes, wanted: dict[str, NewValue], said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        with_options(data, wanted)


@pytest.mark.integration
@pytest.mark.parametrize(
    "data", [b"", b"sm_key 5", b'sa_key "7"\r\nm_key_lookup yes\n', b"sm_key 3\nsm_key junk\nsa_key#5\n"]
)
def test_the_real_opensm_reads_what_was_written(data: bytes, tmp_path: Path) -> None:
    wanted: dict[str, NewValue] = {"sm_key": SM, "sa_key": SA, "m_key_lookup": False, "part_enforce": "in"}
    (tmp_path / "in.conf").write_bytes(with_options(data, wanted))
    command = [tool("opensm"), "-F", tmp_path / "in.conf", "-c", tmp_path / "out.conf"]
    subprocess.run(command, capture_output=True, timeout=60, check=False)
    found = read_options((tmp_path / "out.conf").read_bytes()).values
    assert {name: plain(found[name]) for name in wanted} == {name: plain(value) for name, value in wanted.items()}
