"""The options of the OpenSM of a rehearsal: a row for each, and nothing that leads out of its folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.option_table import OPTIONS
from ibkeys.managers.opensm.options_file import read_options
from ibkeys.rehearse.opensm_options import TREATMENTS, rehearsal_options

FOLDER = Path("/mnt")
GUID = 0x0002C903004E1D21
OFF = {
    "console": "off",
    "daemon": False,
    "perfmgr": False,
    "event_plugin_name": None,
    "event_plugin_options": None,
    "per_module_logging_file": None,
}
KEYS = ("m_key", "sm_key", "sa_key", "cc_key")
TEXTS = [name for name, option in OPTIONS.items() if option.kind == "text"]
PATHS = [name for name, treatment in TREATMENTS.items() if treatment in ("read", "written")]


def made_up(key: MKey) -> MKey:
    return MKey(key.reveal() ^ 0xA5A5_0000_0000_0000)


def test_every_option_has_a_row_and_no_row_is_of_an_unknown_option() -> None:
    assert set(TREATMENTS) == set(OPTIONS)


def test_every_option_that_names_a_file_is_read_written_or_switched_off() -> None:
    named = {name for name in OPTIONS if "file" in name or "dir" in name or "config" in name or "plugin" in name}
    flags = {name for name in named if OPTIONS[name].kind == "flag"}
    assert {name for name in named - flags if TREATMENTS[name] == "kept"} == set()


def test_the_default_options_of_the_installed_opensm_are_accepted_and_stay(tmp_path: Path) -> None:
    opensm = shutil.which("opensm", path="/usr/sbin:/usr/bin")
    assert opensm is not None, "apt-get install opensm"
    written = tmp_path / "options"
    subprocess.run([opensm, "-c", written], capture_output=True, check=True)
    before, after = (
        read_options(data)
        for data in (written.read_bytes(), rehearsal_options(written.read_bytes(), FOLDER, GUID, made_up).text)
    )
    assert after.remarks == ()
    kept = [name for name, treatment in TREATMENTS.items() if treatment in ("kept", "key")]
    assert {name: after.values.get(name) for name in kept} == {name: before.values.get(name) for name in kept}


def test_files_that_are_read_are_copied_and_files_that_are_written_get_another_place() -> None:
    given_options = (
        b"partition_config_file sub/p.conf\nroot_guid_file /etc/roots\nlog_file /var/log/x\ncn_guid_file (null)\n"
    )
    made = rehearsal_options(given_options, FOLDER, GUID, made_up)
    options = read_options(made.text)
    copied = {name: path for name, path in made.copies.items() if name in ("root_guid_file", "cn_guid_file")}
    assert made.copies["partition_config_file"] == "sub/p.conf"
    assert copied == {"root_guid_file": "/etc/roots"}
    assert options.value("root_guid_file") == "/mnt/root_guid_file"
    assert options.value("cn_guid_file") is None
    assert options.value("log_file") == "/mnt/opensm.log"
    assert options.value("guid") == GUID


def test_without_a_policy_the_default_one_is_copied() -> None:
    made = rehearsal_options(b"partition_config_file (null)\n", FOLDER, GUID, made_up)
    assert made.copies["partition_config_file"] == "/etc/opensm/partitions.conf"
    assert read_options(made.text).value("partition_config_file") == "/mnt/partition_config_file"


def test_equal_keys_stay_equal_and_zero_and_the_default_stay() -> None:
    given_options = b"m_key 0x1234\nsm_key 0x1234\nsa_key 1\ncc_key 0\n"
    options = read_options(rehearsal_options(given_options, FOLDER, GUID, made_up).text)
    assert [options.value(name) for name in KEYS] == [made_up(MKey(0x1234)), made_up(MKey(0x1234)), MKey(1), MKey(0)]


def test_an_option_that_opensm_does_not_have_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="vendor_hook"):
        rehearsal_options(b"sm_priority 3\nvendor_hook /lib/x.so\n", FOLDER, GUID, made_up)


def test_an_option_for_each_service_level_keeps_all_its_lines() -> None:
    lines = b"cc_ca_cong_setting_ccti_timer 0 1\ncc_ca_cong_setting_ccti_timer 1 2\n"
    assert lines in rehearsal_options(lines, FOLDER, GUID, made_up).text


values = st.one_of(
    st.sampled_from(["/etc/passwd", "../../etc/x", "libevil.so", "loopback", "TRUE", "(null)", "'a b'", '"', "0x1"]),
    st.text(alphabet=st.characters(blacklist_characters="\n"), max_size=40),
    st.text(alphabet="x ", min_size=1000, max_size=1100).map(lambda text: text + " event_plugin_name evil"),
)
lines = st.builds(lambda name, value: f"{name} {value}", st.sampled_from(sorted(OPTIONS)), values)


@given(st.lists(lines, max_size=12), st.booleans())
def test_no_value_leads_out_of_the_folder_or_switches_anything_on(texts: list[str], ends: bool) -> None:
    """A value may even contain a line of its own, because one of the command line can have a newline."""
    data = "\n".join(texts).encode("utf-8", "surrogatepass") + (b"\n" if ends else b"")
    try:
        made = rehearsal_options(data, FOLDER, GUID, made_up)
    except UsageError:
        return
    options = read_options(made.text)
    assert {name: options.value(name) for name in OFF} == OFF
    assert options.value("guid") == GUID
    for name in PATHS:
        path = options.value(name)
        assert path is None or (str(path).startswith("/mnt/") or path == "/mnt"), name
        assert ".." not in str(path)
    for name in KEYS:
        before, after = read_options(data).value(name), options.value(name)
        assert isinstance(before, MKey)
        assert after == (before if before.is_zero or before == OPTIONS[name].default else made_up(before))


def test_every_text_option_was_thought_of() -> None:
    """A text may be a path. Those that are kept are words and numbers."""
    kept = {name for name in TEXTS if TREATMENTS[name] == "kept"}
    words = {name for name in kept if name.startswith("qos_")}
    assert kept - words == {"routing_engine", "part_enforce"}
