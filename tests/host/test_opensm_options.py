"""An options file as OpenSM reads it. The oracle is OpenSM: ``opensm -F FILE -c OUT`` writes what it took."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.option_table import OPTIONS, OptionValue
from ibkeys.managers.opensm.options_file import OptionsFile, assignments, read_options
from tests.integration.ibsim import tool

KEY = 0xFEEDC0DEDEADBEA7


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("sweep_interval 0x10\n", "sweep_interval", 16),
        ("sweep_interval 010\n", "sweep_interval", 8),
        ("sweep_interval 7 # seconds\n", "sweep_interval", 7),
        ("sweep_interval 7\nsweep_interval ten\n", "sweep_interval", 7),
        ("sweep_interval 7\nsweep_interval 9\n", "sweep_interval", 9),
        (" \tsm_priority\t 3 \n", "sm_priority", 3),
        ("sm_priority 17\n", "sm_priority", 0),
        ("lmc = 3\n", "lmc", 0),
        ("log_flags 300\n", "log_flags", 3),
        ("m_key -1\n", "m_key", MKey((1 << 64) - 1)),
        ("m_key_protection_level 7\n", "m_key_protection_level", 2),
        ('daemon "TRUE"\n', "daemon", True),
        ("qos TRUE really\n", "qos", False),
        ("m_key_lookup true\n", "m_key_lookup", False),
        ("log_file '/tmp/a b'\n", "log_file", "/tmp/a b"),
        ("log_file (null)\n", "log_file", None),
        ("dump_files_dir\n", "dump_files_dir", ""),
        ("part_enforce in\n", "part_enforce", "in"),
        ("part_enforce IN\n", "part_enforce", "both"),
        ("part_enforce in\nno_partition_enforcement TRUE\n", "part_enforce", "off"),
        ("qos_ca_high_limit -1\n", "qos_ca_high_limit", -1),
        ("", "sa_key", MKey(1)),
    ],
)
def test_what_opensm_takes_from_a_line(text: str, name: str, value: OptionValue) -> None:
    assert read_options(text.encode()).value(name) == value


@pytest.mark.parametrize(
    ("text", "remarks"),
    [
        ("m_key 0x5\n", []),
        ("\nm_kee 0x5\n", [(2, "", "unknown")]),
        ("m_key=5\n", [(1, "", "unknown")]),
        ("m_key = 5\n", [(1, "m_key", "no-number")]),
        ("m_key_lookup true\n# x\nqos yes\n", [(1, "m_key_lookup", "not-true"), (3, "qos", "not-true")]),
        ("m_key_lookup FALSE\nqos no\n", []),
        ("lmc 9\n", [(1, "lmc", "replaced")]),
        ("lmc 9\nlmc 1\n", []),
        ("sweep_interval 10", [(1, "", "no-newline")]),
        ("sweep_interval 10\n# end", []),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_number(text: str, remarks: list[tuple[int, str, str]]) -> None:
    read = read_options(text.encode())
    assert [(each.line, each.option, each.complaint) for each in read.remarks] == remarks


def test_no_key_is_shown(tmp_path: Path) -> None:
    read = read_options(f"m_key {KEY:#x}\nsm_key {KEY}\nsa_key {KEY:#x}g\nm_kee {KEY:#x}\n{KEY:#x} m_key\n".encode())
    assert read.value("m_key") == MKey(KEY)
    for text in (repr(read), str(read)):
        assert f"{KEY:x}" not in text
        assert str(KEY) not in text


@given(st.binary(max_size=3000))
def test_any_bytes_are_a_file(data: bytes) -> None:
    read = read_options(data)
    assert set(read.values) <= set(OPTIONS)
    for each in assignments(data):
        assert data[each.start :].startswith(each.text)


_LINES = st.lists(
    st.tuples(
        st.sampled_from(
            ["sweep_interval", "lmc", "sm_priority", "qos", "log_file", "console", "part_enforce", "m_kee"]
        ),
        st.sampled_from(
            [
                "1",
                "017",
                "0x9",
                "-1",
                "4294967296",
                "TRUE",
                "true",
                '"TRUE"',
                "loopback",
                "off",
                "in",
                "'out'",
                "a b",
                "",
            ]
        ),
        st.sampled_from(["", "# x", " # x", "\t"]),
    ),
    max_size=6,
)


@pytest.mark.integration
@given(_LINES)
def test_opensm_takes_the_same_from_any_lines(lines: list[tuple[str, str, str]]) -> None:
    text = "".join(f"{name} {value}{end}\n" for name, value, end in lines)
    taken, ours = dumped(text), read_options(text.encode())
    for name in ("sweep_interval", "lmc", "sm_priority", "qos", "log_file", "console", "part_enforce"):
        assert taken.value(name) == ours.value(name), (name, text)


@pytest.mark.integration
def test_every_option_that_opensm_writes_is_in_the_table_with_its_default() -> None:
    written = dumped("")
    assert not [each for each in written.remarks if each.complaint == "unknown"]
    for name, value in written.values.items():
        if name != "dump_files_dir":  # the environment of the tests may name another
            assert value == OPTIONS[name].default, name
    assert {name for name, option in OPTIONS.items() if option.kind == "key"} <= set(written.values)


def dumped(text: str) -> OptionsFile:
    """Return what OpenSM takes from an options file."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        source, target = Path(folder, "opensm.conf"), Path(folder, "out.conf")
        source.write_text(text)
        command = [tool("opensm"), "-F", source, "-c", target]
        subprocess.run(command, capture_output=True, timeout=60, check=False, env={"PATH": "/usr/sbin:/usr/bin"})
        return read_options(target.read_bytes())
