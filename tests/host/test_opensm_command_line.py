"""OpenSM's command line in all its spellings. The oracle is OpenSM: with ``-c OUT`` it writes what it understood."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.command_line import ARGUMENTS, read_command_line
from ibkeys.managers.opensm.option_table import OPTIONS, OptionValue
from ibkeys.managers.opensm.options_file import read_options
from tests.integration.ibsim import tool

KEY = "0xfeedc0dedeadbea7"
SPELLINGS: list[tuple[str, dict[str, OptionValue]]] = [
    *((words, {"partition_config_file": "/x"}) for words in ("-P /x", "-P/x", "-Pconfig /x", "--Pc /x", "-P=/x")),
    *((words, {"sweep_interval": 12}) for words in ("-s 12", "-s12", "-sweep=12", "--swe 12", "-s 12abc", "-s 014")),
    ("-s 3 -s 4", {"sweep_interval": 4}),
    ("-s 4295", {}),
    ("-s -1", {}),
    ("-g 10", {"guid": 0x10}),
    ("--guid 0x10", {"guid": 0x10}),
    ("-g -2", {"guid": (1 << 64) - 2}),
    ("-g -10000000000000001", {"guid": (1 << 64) - 1}),
    ("-guid zz", {"guid": (1 << 64) - 1}),
    ("-QP/y", {"qos": True, "partition_config_file": "/y"}),
    ("-Qs 5", {"qos": True, "sweep_interval": 5}),
    ("-dump /d", {"dump_files_dir": "/d"}),
    ("-D0x43", {"log_flags": 0x43}),
    ("-V", {"log_flags": 0xFF, "force_log_flush": True}),
    ("-k 12", {"sm_key": MKey(0x12)}),
    ("--smk=0x12", {"sm_key": MKey(0x12)}),
    ("-n 0", {"max_wire_smps": 0x7FFF_FFFF}),
    ("-q foo", {}),
    ("-console loopback", {"console": "loopback"}),
    ("word -s 3", {"sweep_interval": 3}),
    ("-- -s 3", {}),
    ("-P -s", {"partition_config_file": "-s"}),
    ("--erase", {"accum_log_file": False}),
    ("-W --part_enf in", {"allow_both_pkeys": True, "part_enforce": "in"}),
]


@pytest.mark.parametrize(("words", "options"), SPELLINGS)
def test_an_option_is_found_however_it_is_spelled(words: str, options: dict[str, OptionValue]) -> None:
    read = read_command_line(words.split())
    assert (dict(read.options), read.not_understood) == (options, 0)


@pytest.mark.integration
@pytest.mark.parametrize("words", [words for words, _ in SPELLINGS])
def test_opensm_understands_the_same(words: str) -> None:
    assert understood(words.split()) == taken(words.split())


@pytest.mark.parametrize("words", [["--con", "x"], ["-J", "x"], ["-F"], ["--nothing=1"], ["--qos=1"], ["-Q5"]])
def test_words_that_no_opensm_of_this_version_runs_with_are_counted_and_not_quoted(words: list[str]) -> None:
    read = read_command_line(words)
    assert read.not_understood >= 1
    assert not read.given or words == ["-Q5"]


def test_the_first_other_word_ends_the_options_where_the_environment_says_so() -> None:
    assert read_command_line(["-s", "3", "word", "-s", "4"], in_order=True).option("sweep_interval") == 3
    assert read_command_line(["-s", "3", "word", "-s", "4"]).option("sweep_interval") == 4


def test_no_partition_enforcement_means_that_nothing_is_enforced() -> None:
    assert read_command_line(["-Z", "in", "-N"]).option("part_enforce") == "off"


@pytest.mark.parametrize("words", [["-k", KEY], [f"-k{KEY}"], ["--smk", KEY], [f"-cc_key={KEY}"], [f"--what={KEY}"]])
def test_no_key_is_shown(words: list[str]) -> None:
    read = read_command_line(words)
    for text in (repr(read), *map(str, read.given)):
        assert KEY[2:] not in text
        assert str(int(KEY, 16)) not in text


def test_arguments_are_shown_by_their_long_names() -> None:
    read = read_command_line(["-k5", "-P", "/x", "-B"])
    assert [str(each) for each in read.given] == ["--smkey (a key, not shown)", "--Pconfig /x", "--daemon"]


_WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["-s", "-P", "/x", "-Q", "5", "-s5", "--sw", "-F/c", "-z", "--", "-QW", "--console=off", "-P=y"]
        ),
        st.builds(lambda each, cut: "--" + each.name[: max(2, cut)], st.sampled_from(ARGUMENTS), st.integers(2, 30)),
    ),
    max_size=6,
)


@given(_WORDS)
def test_any_words_are_read(words: list[str]) -> None:
    read = read_command_line(words)
    assert set(read.options) <= set(OPTIONS)


@pytest.mark.integration
@given(_WORDS)
def test_opensm_understands_the_same_of_any_words(words: list[str]) -> None:
    """OpenSM ends at a word that it does not understand, and at some values that are out of range."""
    leaves = {"help", "version", "create-config", "verbose", "once", "lmc", "priority", "lash_start_vl", "sm_sl"}
    if any(each.argument.name in leaves for each in read_command_line(words).given):
        return
    assert understood(words) == taken(words)


def understood(words: list[str]) -> dict[str, OptionValue] | None:
    """Return what OpenSM makes of *words*, but for what is as by default; None where it ends with an error."""
    with TemporaryDirectory() as folder:
        out = Path(folder, "out.conf")
        command = [tool("opensm"), "-c", out, "-F", f"{folder}/none", *words]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL, env={})
        if done.returncode or not out.exists():
            return None
        return without_defaults(read_options(out.read_bytes()).values)


def taken(words: list[str]) -> dict[str, OptionValue] | None:
    read = read_command_line(words)
    if read.not_understood:
        return None
    found = without_defaults(read.options)
    if read.option("no_partition_enforcement"):
        found["part_enforce"] = "off"
    return found


def without_defaults(values: object) -> dict[str, OptionValue]:
    assert hasattr(values, "items")
    return {name: value for name, value in values.items() if value != OPTIONS[name].default}
