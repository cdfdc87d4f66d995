"""The systemd units and the logrotate file: what systemd and logrotate say of them, and what each is allowed."""

from __future__ import annotations

import configparser
import grp
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from ibkeys.cli import COMMANDS
from tests.contrib.shipped import CONTRIB, program

UNITS = CONTRIB / "systemd"
READING = ["ibkeys-export.service", "ibkeys-watch.service", "ibkeys-audit.service"]
"""Those that open umad."""
MOST_EXPOSED = 25
"""Tenths of what `systemd-analyze security` calls the exposure of a service, of 100."""


def unit(name: str) -> configparser.SectionProxy:
    class Several(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            if isinstance(value, list) and isinstance(self.get(key), list):
                self[key].extend(value)  # type: ignore[attr-defined]
            else:
                super().__setitem__(key, value)

    parser = configparser.ConfigParser(dict_type=Several, strict=False, interpolation=None, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNITS / name)
    return parser["Service"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as they are installed, with programs that are there."""
    for path in UNITS.iterdir():
        text = path.read_text().replace("/usr/bin/ibkeys", str(Path(sys.executable).with_name("ibkeys")))
        text = text.replace("/usr/local/lib/ibkeys/", f"{CONTRIB}/")
        (tmp_path / path.name).write_text(text)
    return tmp_path


def test_systemd_has_nothing_to_say_of_them(installed: Path) -> None:
    paths = sorted(map(str, installed.iterdir()))
    assert len(paths) == 5
    command = [program("systemd-analyze", "systemd"), "verify", "--man=no", "--recursive-errors=yes", *paths]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = [line for line in checked.stderr.splitlines() if "ibkeys" in line]
    assert said == []


@pytest.mark.parametrize("name", READING)
def test_a_service_is_hardened_and_may_open_umad_alone(name: str, installed: Path) -> None:
    threshold = f"--threshold={MOST_EXPOSED}"
    command = [program("systemd-analyze", "systemd"), "security", "--offline=true", threshold, str(installed / name)]
    judged = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert judged.returncode == 0, judged.stdout.splitlines()[-1]
    text = (UNITS / name).read_text()
    assert [line for line in text.splitlines() if line.startswith("Device")] == [
        "DevicePolicy=closed",
        "DeviceAllow=char-infiniband_mad rw",
    ]
    settings = unit(name)
    assert settings["CapabilityBoundingSet"] == ""
    assert settings["ProtectSystem"] == "strict"
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["StateDirectoryMode"] == "0700"
    assert settings["LimitCORE"] == "0", "M_Keys may be in memory"
    assert "PrivateDevices" not in settings, "it would hide /dev/infiniband"
    assert "PrivateNetwork" not in settings, "it would hide a device that belongs to a network namespace"


def test_no_key_and_no_token_is_in_a_unit() -> None:
    for path in UNITS.iterdir():
        settings = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert not [line for line in settings if "KEY=" in line or "TOKEN" in line], path.name


def test_each_command_that_a_unit_starts_is_there_or_comes_with_this_version() -> None:
    started = {
        unit(name)["ExecStart"].split()[1] for name in READING if unit(name)["ExecStart"].startswith("/usr/bin/ibkeys ")
    }
    assert started - {"watch"} <= COMMANDS.keys()


def test_logrotate_takes_its_file(tmp_path: Path) -> None:
    file = tmp_path / "ibkeys"
    text = (CONTRIB / "logrotate" / "ibkeys").read_text()
    assert text.count("su root root\n") == 1
    own = f"su {pwd.getpwuid(os.getuid()).pw_name} {grp.getgrgid(os.getgid()).gr_name}\n"
    file.write_text(text.replace("su root root\n", own))
    file.chmod(0o644)
    state = tmp_path / "state"
    command = [program("logrotate", "logrotate"), "--debug", "--state", str(state), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    assert "/var/log/ibkeys/*.jsonl" in done.stderr
