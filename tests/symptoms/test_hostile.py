"""Pasted text is hostile and may hold keys: no text ends the command, and no key or control character is printed."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.symptoms.explain import LONGEST, explain
from ibkeys.symptoms.table import TABLE
from tests.cli.conftest import TWO_SWITCH, run
from tests.symptoms.texts import pasted_texts

KEY = 0x9C4E21D7B05A63F8
SPELLINGS = [f"0x{KEY:016x}", f"0x{KEY:016X}", f"{KEY:016x}", str(KEY), "9c4e:21d7:b05a:63f8"]
CONTEXTS = [
    "ERR 1A04: Non-Zero MAD SM_Key: {} != SM_Key: 0x1; SA MAD ignored for method 0x1",
    "ERR 2F18: Got SM (node02) with sm_key {} that doesn't match our local sm_key. Ignoring SMInfo",
    'Reporting Security Notice "Bad M_Key" from LID 4, GUID 0x0002c903000a1041, Method 0x2, M_Key {}',
    "Loading Cached Option:m_key = {}",
    "Loading Cached Option:sa_key = {}",
    "m_key {}",
    "smpquery -y {} portinfo 5: Connection timed out",
    "ibkeys: error: no reply after 3 attempts; --smkey {}",
    "M_Key {} GUID {}",
    "mad_rpc failed, mkey={}",
    "ERR 3120\n\t\t\t\tm_key...................{}\n\t\t\t\tdr_slid.................65535",
    "SM_Key................{}",
    "Setting PortInfo (0x15), modifier 0x1, TID 0x12, MKey {}",
    "{}",
]
OF_A_MAKER = 0x0002C9D7B05A63F8
"""A key that looks like a GUID."""
NAMES = [
    *(
        "m-key={}",
        "SMKey: {}",
        '{{"M_Key": "{}"}}',
        "M Key = {}",
        "m_key (port 1) -> {}",
        "m_key:\n  {}",
        "mkey is now {}",
    ),
    *("M_KEY\n{}", "mkey0={}", "m_key_old={}", "OldMKey={}", "key={} guid={}", "AM_Key {}", "m_key\x1b[1m {}\x1b[0m"),
]


def printed(text: str) -> str:
    """Return everything that the command prints about *text*, in all formats."""
    said = ""
    for format in ("table", "json", "csv"):
        result = run("explain", "-f", format, "-", stdin=text)
        assert result.code in (0, 1, 2)
        said += result.out + result.err
    return said


def holds_key(said: str, key: int = KEY) -> bool:
    low = re.sub(r"[:_ ]", "", said.lower())
    return f"{key:x}" in low or str(key) in low


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_key_is_never_printed(context: str, spelling: str) -> None:
    assert not holds_key(printed(context.replace("{}", spelling)))


@pytest.mark.parametrize("spelling", ["0x0002c9d7b05a63f8", "0X0002C9D7B05A63F8", "0002c9d7b05a63f8",
                                      "0002:c9d7:b05a:63f8", "00:02:c9:d7:b0:5a:63:f8"])  # fmt: skip
@pytest.mark.parametrize("name", NAMES)
def test_a_key_that_looks_like_a_guid_is_not_printed_after_any_name(name: str, spelling: str) -> None:
    text = name.format(spelling, spelling)
    assert not holds_key(repr(explain(text)), OF_A_MAKER)
    assert explain(text).keys


def test_a_key_in_base64_is_named() -> None:
    assert explain("m_key=nE4h17BaY/g=").keys == 1


@pytest.mark.parametrize(
    "text",
    [
        "P_Key 0x8010 of 0x0002c903000a1041",
        "PKeys vs keys 0x8010",
        "pkey: 0x0002c903000a1041",
        "M_KeyViolations 3",
        "M_Key of port GUID 0x0002c903000a1041",
    ],
)
def test_what_is_no_key_is_not_taken_for_one(text: str) -> None:
    assert explain(text).keys == 0


def test_bytes_that_are_no_text_and_a_line_of_ten_megabytes_are_read() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ibkeys", "explain", "-"],
        input=b"\xff\xfe ERR 1B14 \x80\x00" + b"x" * 10_000_000,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"ERR 1B14")


@pytest.mark.parametrize("name", ["$(id)", "`id`", "; id", "| id", "' id", '" id', "&& id", "{lid}", "%s", "-G"])
def test_a_name_with_what_a_shell_reads_is_in_no_command(name: str) -> None:
    found = explain(f"mad_rpc failed; node {name} lid {name} port {name} pkey {name} GUID {name} (Lid 5{name})")
    for each in found.answers[0].causes:
        assert each.command is None or "id" not in " ".join(each.command).split()
        assert each.command is None or not {*"$`;|'&{%"} & {*" ".join(each.command)}


@pytest.mark.parametrize("context", CONTEXTS[:5])
def test_a_key_in_a_text_is_named_as_leaked(context: str) -> None:
    result = run("explain", "-", stdin=context.replace("{}", SPELLINGS[0]))
    assert "A KEY IS IN THE TEXT" in result.out + result.err
    assert explain(context.replace("{}", SPELLINGS[0])).keys


def test_a_line_of_guid2mkey_is_a_key() -> None:
    said = printed(f"0x0002c903000a1041 0x{KEY:016x}\n\n0x0002c903000a1051 0x{KEY + 1:016x}\n")
    assert not holds_key(said)
    assert not holds_key(said, KEY + 1)
    assert "key" in said


ANY_TEXT = st.one_of(
    st.text(),
    st.builds(
        lambda parts, key, spelling: "".join(parts).replace("KEY", spelling.format(key)),
        st.lists(
            st.one_of(
                st.text(max_size=12),
                st.sampled_from([row.example for row in TABLE]),
                st.sampled_from([each.text for each in pasted_texts()]),
                st.sampled_from(["\n", " LID ", "0x", "GUID ", "\x1b[31m", "\u202e", ":", "ff12:401b:", " m_key KEY "]),
            ),
            max_size=6,
        ),
        st.integers(1 << 40, (1 << 64) - 1),
        st.sampled_from(["0x{:016x}", "{:x}", "{}"]),
    ),
)


@given(ANY_TEXT)
def test_no_text_ends_it_or_gets_through(text: str) -> None:
    found = explain(text)
    said = json.dumps([repr(found.answers)])
    assert said.isprintable()
    for answer in found.answers:
        for each in answer.causes:
            assert each.command is None or all(re.fullmatch(r"[a-zA-Z0-9,-]+", word) for word in each.command)
        for _, value in answer.numbers:
            assert re.fullmatch(r"0x[0-9a-f]{4}|0x[0-9a-f]{8}|0x[0-9a-f]{16}|[0-9]{1,5}|0(,[0-9]{1,3})*", value)


@given(st.text(max_size=40), st.integers(1 << 40, (1 << 64) - 1), st.sampled_from(CONTEXTS[:-1]), st.text(max_size=40))
def test_no_key_in_any_surroundings_is_returned(before: str, key: int, context: str, after: str) -> None:
    text = f"{before}\n{context.replace('{}', f'0x{key:x}')}\n{after}"
    said = repr(explain(text)).lower()
    assert f"{key:x}" not in said
    assert f"{key:016x}" not in said
    assert str(key) not in said


@given(st.text(alphabet=st.characters(categories=["C", "Z", "L", "N"]), max_size=60))
def test_no_control_character_is_printed(text: str) -> None:
    out = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        run("explain", "--", text)
    assert out.getvalue().replace("\n", "").isprintable()


def test_a_very_long_text_is_cut() -> None:
    result = run("explain", "-", stdin="x" * LONGEST + "ERR 1B14")
    assert result.code == 1
    assert f"only the first {LONGEST} characters" in result.err


@pytest.mark.parametrize("text", ["0" * 65_000, "1:" * 30_000, "lid 1 " * 10_000, "key " * 15_000, "a" * 65_000])
def test_repeated_text_takes_no_time(text: str) -> None:
    """A pattern that backtracks would take hours."""
    explain(text)


def test_blanks_before_the_text_do_not_count() -> None:
    text = " \n" * LONGEST + "ERR 1B14 "
    result = run("explain", "-", stdin=text)
    assert (result.code, result.err) == (0, "")
    assert "ERR 1B14" in result.out
    assert run("explain", "-", stdin=text + "x" * LONGEST).out == run("explain", text).out == result.out


def test_without_text_it_says_how() -> None:
    result = run("explain", "-", stdin=" \n")
    assert result.code == 2
    assert "there is no text to explain" in result.error


def test_look_runs_the_deciding_commands() -> None:
    look = ("explain", "--look", "--backend", TWO_SWITCH, "-t", "10")
    result = run(*look, "Port 3 of LID 2: Bad P_Key from LID1:2 to LID2:3")
    assert result.code == 0
    assert "$ ibkeys why 2 3\n" in result.out
    assert "can talk" in result.out
    assert run(*look, "nothing that is known").code == 1
    failed = run(*look, "_do_madrpc failed; dport (Lid 99)")
    assert failed.code == 3
    assert "LID 99" in failed.err
