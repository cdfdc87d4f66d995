"""`ibkeys keystore export`: OpenSM's key files, and the lines of an opensm.conf with which the keys are kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.store.opensm import KEY_FILES, read_key_files
from tests.cli.conftest import KEY, Cli
from tests.cli.keystore.conftest import NODE03


def test_export_writes_files_that_no_one_else_reads(said: Cli, cache: Path, tmp_path: Path) -> None:
    said("keystore", "import", cache)
    result = said("keystore", "export", tmp_path / "out", "-f", "json")
    assert result.code == 0
    assert result.json == {
        "schema": "ibkeys.keystore-export/1",
        "keys": 2,
        "links": 1,
        "lids": None,
        "directory": str(tmp_path / "out"),
        "opensm_conf": None,
        "errors": [],
    }
    assert (tmp_path / "out" / "guid2mkey").read_bytes() == (cache / "guid2mkey").read_bytes()
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "out").iterdir()} == {0o600}


def test_export_with_lids_of_the_fabric_as_it_is(said: Cli, cache: Path, tmp_path: Path) -> None:
    said("keystore", "import", cache)
    result = said("keystore", "export", tmp_path / "out", "--guid2lid", "--ask-unproven")
    assert (result.code, result.out) == (0, f"{tmp_path / 'out'}: 2 keys, 8 links, 8 LIDs\n")
    read = read_key_files(tmp_path / "out", KEY_FILES)
    assert read.lids[int(NODE03, 16)] == (3, 3)
    assert len(read.neighbors) == 16


def test_export_over_keys_that_would_be_lost_is_refused(said: Cli, cache: Path) -> None:
    result = said("keystore", "export", cache)
    assert result.code == 4
    assert f"keystore import {cache}` first" in result.err


# --- opensm.conf ------------------------------------------------------------------------------------------------------

LINES = f"m_key {KEY:#018x}\nm_key_protection_level 2\nm_key_lease_period 60\n"


@pytest.fixture
def same(said: Cli, key_file: Path) -> Cli:
    """A fabric on which all ports have one key."""
    given = ("--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    assert said("mkey-deploy", "--same", *given).code == 0
    return said


def test_export_says_what_an_opensm_conf_lacks(same: Cli, tmp_path: Path, private: Callable[[str, str], str]) -> None:
    conf = private("opensm.conf", "m_key_lease_period 30\n")
    result = same("keystore", "export", tmp_path / "out", "--opensm-conf", conf)
    assert result.code == 1
    assert result.out == f"{tmp_path / 'out'}: 8 keys, 8 links\n"
    assert [line for line in result.err.splitlines() if "note" not in line] == [
        f"ibkeys: keys would be lost: {conf}: m_key is not set: an OpenSM that starts with it removes every M_Key",
        f"ibkeys: keys would be lost: {conf}: m_key_protection_level is not set, which means 0; the ports have 2",
        f"ibkeys: keys would be lost: {conf}: m_key_lease_period is 30; the ports have 60",
        f"ibkeys: error: {conf} would lose the keys: do not start OpenSM with it (--write-opensm-conf corrects it)",
    ]
    document = same("keystore", "export", tmp_path / "out", "--opensm-conf", conf, "-f", "json").json["opensm_conf"]
    assert (document["file"], document["written"], len(document["problems"])) == (conf, False, 3)
    assert Path(conf).read_text() == "m_key_lease_period 30\n"


def test_export_writes_the_lines_and_they_are_right(
    same: Cli, tmp_path: Path, private: Callable[[str, str], str]
) -> None:
    conf = private("opensm.conf", "sm_key 0x7 # mine\n")
    result = same("keystore", "export", tmp_path / "out", "--write-opensm-conf", conf)
    assert (result.code, result.out.splitlines()[-1]) == (0, f"{conf}: written")
    assert Path(conf).read_text() == f"sm_key 0x7 # mine\n{LINES}"
    assert f"{KEY:x}" not in result.out + result.err
    again = same("keystore", "export", tmp_path / "out", "--write-opensm-conf", conf)
    assert (again.code, again.out.splitlines()[-1]) == (0, f"{conf}: has the lines that keep the keys")
    checked = same("keystore", "export", tmp_path / "out", "--opensm-conf", conf, "-f", "json").json
    assert checked["opensm_conf"] == {"file": conf, "written": False, "problems": []}
    new = same("keystore", "export", tmp_path / "out", "--write-opensm-conf", tmp_path / "new.conf", "--lease", 90)
    assert new.code == 0
    assert (tmp_path / "new.conf").read_text() == LINES.replace("60", "90")


def test_keys_of_their_own_are_in_no_opensm_conf(said: Cli, tmp_path: Path, private: Callable[[str, str], str]) -> None:
    assert said("mkey-deploy", "--per-port", "--protect", 2, "--lease", 60, "--yes").code == 0
    conf = private("opensm.conf", LINES)
    result = said("keystore", "export", tmp_path / "out", "--opensm-conf", conf)
    assert result.code == 1
    assert "each port has its own key, which no m_key can express" in result.err
    result = said("keystore", "export", tmp_path / "other", "--write-opensm-conf", conf)
    assert result.code == 4
    assert "one m_key cannot express them; nothing was written: `ibkeys mkey-rotate --same`" in result.err
    assert Path(conf).read_text() == LINES
    assert not (tmp_path / "other").exists()


def test_level_and_lease_of_imported_keys_come_from_the_user_or_the_file(
    said: Cli, tmp_path: Path, private: Callable[[str, str], str]
) -> None:
    (tmp_path / "cache").mkdir()
    made = tmp_path / "cache" / "guid2mkey"
    made.touch(0o600)
    made.write_text(f"{NODE03} {KEY:#018x}\n\n")
    assert said("keystore", "import", tmp_path / "cache").code == 0
    conf = private("opensm.conf", "")
    out = tmp_path / "out"
    result = said("keystore", "export", out, "--write-opensm-conf", conf)
    assert (result.code, "give --protect and --lease" in result.err, Path(conf).read_text()) == (2, True, "")
    assert not out.exists()
    assert said("keystore", "export", out, "--write-opensm-conf", conf, "--protect", 2, "--lease", 60).code == 0
    assert Path(conf).read_text() == LINES
    assert said("keystore", "export", out, "--write-opensm-conf", conf).code == 0


def test_options_of_an_opensm_conf_that_make_no_sense(said: Cli, tmp_path: Path) -> None:
    conf = tmp_path / "opensm.conf"
    conf.touch()
    for options in (
        ("--opensm-conf", conf, "--write-opensm-conf", conf),
        ("--protect", 2),
        ("--opensm-conf", conf),  # the store has no key
        ("--opensm-conf", "/dev/null"),
    ):
        assert said("keystore", "export", tmp_path / "out", *options).code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["link", "dangling link", "second name", "long line"])
def test_nothing_is_written_where_the_opensm_conf_is_refused(same: Cli, tmp_path: Path, kind: str) -> None:
    conf, other = tmp_path / "opensm.conf", tmp_path / "other.conf"
    other.write_text("m_key 0x1\n" if kind != "long line" else "m_key " + " " * 1200)
    if kind == "dangling link":
        other.unlink()
    if kind.endswith("link"):
        conf.symlink_to(other)
    elif kind == "second name":
        os.link(other, conf)
    else:
        other.rename(conf)
    result = same("keystore", "export", tmp_path / "out", "--write-opensm-conf", conf)
    assert (result.code, f"{conf}: " in result.error) == (2, True)
    assert not (tmp_path / "out").exists()


def test_an_opensm_conf_that_a_running_opensm_reads_is_not_written(
    same: Cli, tmp_path: Path, private: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = private("opensm.conf", "")
    process = tmp_path / "proc" / "10"
    process.mkdir(parents=True)
    (process / "cmdline").write_text(f"/usr/sbin/opensm\0-F\0{conf}\0")
    (process / "environ").write_text("")
    monkeypatch.setattr("ibkeys.managers.opensm.process.PROC", tmp_path / "proc")
    result = same("keystore", "export", tmp_path / "out", "--write-opensm-conf", conf)
    assert result.code == 4
    assert "the running OpenSM (process 10) reads at each heavy sweep; nothing was written: stop" in result.err
    assert Path(conf).read_text() == ""
    assert not (tmp_path / "out").exists()
