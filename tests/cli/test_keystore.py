"""The key store's commands: list, import, export, encrypt. No line of them shows a key or a passphrase unasked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.smkey import SMKey
from ibkeys.smkeys.begun import KEPT_KEYS, KEPT_PORTS
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sealing import Cost
from ibkeys.store.keystore.sm_keys import SmKeys
from ibkeys.store.opensm import KEY_FILES, read_key_files
from tests.cli.conftest import KEY, OTHER_KEY, Cli, Result, Terminal

NODE02, NODE03, NODE04 = "0x0002c903000a1021", "0x0002c903000a1031", "0x0002c903000a1041"
WORDS, NEW_WORDS = "correct horse battery staple", "tr0ub4dor"
COLUMNS = [
    *("node_guid", "port_guid", "port", "state", "m_key"),
    *("m_key_protect_bits", "m_key_lease_period", "since", "note"),
]


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibkeys.store.keystore.sealed.Cost", lambda *given: Cost(*(given or (4, 8, 1))))


@pytest.fixture
def said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run commands whose output must not have any key or passphrase, whatever they do."""

    def run(*args: object, stdin: str | Terminal = "") -> Result:
        result = cli(*args, stdin=stdin)
        for secret in (f"{KEY:x}", str(KEY), f"{OTHER_KEY:x}", str(OTHER_KEY), WORDS, NEW_WORDS):
            assert secret not in result.out + result.err
        return result

    return run


@pytest.fixture
def private(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(0o600)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def cache(tmp_path: Path, private: Callable[[str, str], str]) -> Path:
    """OpenSM's files."""
    private("cache/guid2mkey", f"{NODE02} {KEY:#018x}\n\n{NODE03} {OTHER_KEY:#018x}\n\n")
    private("cache/neighbors", f"{NODE02}:1 0x0002c90200401000:2\n\n0x0002c90200401000:2 {NODE02}:1\n\n")
    private("cache/guid2lid", f"{NODE02} 0x0002 0x0002\n\n")
    return tmp_path / "cache"


def store_path(tmp_path: Path) -> Path:
    return tmp_path / "fabric.keys"


def listed(cli: Cli, *args: object) -> Any:
    result = cli("keystore", "list", "-f", "json", *args)
    assert result.code == 0, result.err
    return result.json


def test_empty_store(said: Cli) -> None:
    result = said("keystore", "list")
    assert (result.code, result.out) == (0, "0 keys of 0 ports, 0 links, 0 LIDs\n")
    assert "there is no such file" in result.err


def test_import_then_list(said: Cli, cli: Cli, cache: Path) -> None:
    result = said("keystore", "import", cache)
    assert (result.code, result.err) == (0, "")
    assert result.out == "2 ports: no key was known before\n2 keys, 1 link, 1 LID read\n"
    document = listed(said)
    assert list(document) == [
        *("schema", "keys", "subnet_keys", "sm_keys", "class_keys", "encrypted", "links", "links_seen", "lids")
    ]
    assert document["schema"] == "ibkeys.keystore-list/1"
    assert [list(row) for row in document["keys"]] == [COLUMNS] * 2
    row = document["keys"][0]
    assert {name: row[name] for name in COLUMNS if name != "since"} == {
        "node_guid": None,
        "port_guid": NODE02,
        "port": None,
        "state": "imported",
        "m_key": None,
        "m_key_protect_bits": None,
        "m_key_lease_period": None,
        "note": "from guid2mkey",
    }
    assert [row["m_key"] for row in listed(cli, "-K")["keys"]] == [f"{KEY:#018x}", f"{OTHER_KEY:#018x}"]
    assert said("keystore", "list", "-f", "csv").out.splitlines()[0] == ",".join(COLUMNS)
    assert f"{KEY:#018x}" in cli("keystore", "list", "-K").out
    assert "imported" in said("keystore", "list").out


def test_key_that_was_set_is_current_with_its_level_and_lease(said: Cli, key_file: Path) -> None:
    said("mkey-set", 2, "--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    [row] = listed(said)["keys"]
    assert (row["port_guid"], row["port"], row["state"]) == (NODE02, 1, "current")
    assert (row["m_key_protect_bits"], row["m_key_lease_period"]) == (2, 60)
    document = listed(said)
    assert (document["links"], document["lids"]) == (8, 8)  # of the sweep that mkey-set made


def test_import_json_and_csv_say_what_each_key_was(said: Cli, cache: Path) -> None:
    said("keystore", "import", cache)
    document = said("keystore", "import", cache, "-f", "json").json
    assert document["ports"] == [{"port_guid": guid, "result": "known"} for guid in (NODE02, NODE03)]
    assert (document["one_key_for_changed"], document["subnet_key"], document["warnings"]) == (False, None, [])
    assert said("keystore", "import", cache, "-f", "csv").out == f"port_guid,result\n{NODE02},known\n{NODE03},known\n"


def test_m_key_of_opensm_conf(said: Cli, private: Callable[[str, str], str]) -> None:
    conf = private("opensm.conf", f"m_key {KEY:#x}\n")
    assert said("keystore", "import", "--opensm-conf", conf).out == (
        "m_key of opensm.conf: kept for ports without a key of their own\n"
    )
    document = listed(said)
    assert [(each["m_key"], each["note"]) for each in document["subnet_keys"]] == [(None, "from opensm.conf")]
    assert "key of the whole subnet: from opensm.conf" in said("keystore", "list").out


def test_keys_of_subnet_managers(said: Cli, cli: Cli, tmp_path: Path) -> None:
    with KeyStore(store_path(tmp_path)) as store:
        keys = SmKeys(store)
        keys.promote(keys.put_pending("sa_key", SMKey(KEY)))
        keys.put_imported("other", SMKey(OTHER_KEY), "found in an opensm.conf")
    rows = listed(said)["sm_keys"]
    assert [(row["kind"], row["key"], row["state"], row["note"]) for row in rows] == [
        ("sa_key", None, "current", None),
        ("other", None, "imported", "found in an opensm.conf"),
    ]
    assert [row["key"] for row in listed(cli, "-K")["sm_keys"]] == [f"{KEY:#018x}", f"{OTHER_KEY:#018x}"]
    hidden, shown = said("keystore", "list").out, cli("keystore", "list", "-K").out
    assert f"sa_key: current, {rows[0]['since']}\n" in hidden
    assert f"sa_key: {KEY:#018x} current, {rows[0]['since']}\n" in shown
    assert f"another key from an opensm.conf: {OTHER_KEY:#018x} imported, found in an opensm.conf, " in shown


def test_the_subnet_of_a_key_of_subnet_managers_is_that_of_the_first_change_that_names_it(
    said: Cli, tmp_path: Path
) -> None:
    with KeyStore(store_path(tmp_path)) as store:
        keys = SmKeys(store)
        refs = [keys.put_imported("sm_key", SMKey(KEY + number)) for number in range(4)]
        first, second, early, damaged = (keys.names()[ref] for ref in refs)
    begun = [  # the last ones: an earlier version kept no ports, and the journal is damaged there
        {KEPT_KEYS: [first], KEPT_PORTS: [NODE03, NODE02]},
        {KEPT_KEYS: [first, second], KEPT_PORTS: [NODE04]},
        {KEPT_KEYS: [early]},
        {KEPT_KEYS: 5, KEPT_PORTS: None},
    ]
    with Journal(tmp_path / "fabric.journal") as journal:
        for kept in begun:
            with journal.operation("smkey-rotate", kept=kept) as operation:
                operation.put_on_disk()
        with journal.operation("another", kept={KEPT_KEYS: [damaged], KEPT_PORTS: [NODE04]}) as other:
            other.put_on_disk()
    assert [row["subnet"] for row in listed(said)["sm_keys"]] == [[NODE02, NODE03], [NODE04], None, None]
    lines = [line.partition(", of the ")[2] for line in said("keystore", "list").out.splitlines() if "sm_key:" in line]
    assert lines == [f"subnet with port GUID {NODE02}, {NODE03}", f"subnet with port GUID {NODE04}", "", ""]
    (tmp_path / "fabric.journal").write_text("torn")
    torn = said("keystore", "list", "-f", "json")
    assert (torn.code, [row["subnet"] for row in torn.json["sm_keys"]]) == (0, [None] * 4)
    assert "of which subnet the keys of subnet managers are is not known: " in torn.err


def test_wrong_usage(said: Cli, tmp_path: Path, private: Callable[[str, str], str]) -> None:
    assert "nothing to import" in said("keystore", "import").error
    assert said("keystore", "import", tmp_path / "nowhere").code == 2
    assert said("keystore", "import", "--opensm-conf", private("conf", f"m_key {KEY:x}\n")).code == 2
    assert said("keystore", "encrypt").code == 2
    assert said("keystore", "encrypt", "--decrypt", "--new-passphrase", "-").code == 2
    assert "in memory" in said("keystore", "list", "--backend", "sim:").error
    assert said("keystore", "list", "--backend", "what").code == 2


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


def test_export_over_keys_that_would_be_lost_is_refused(said: Cli, cache: Path) -> None:
    result = said("keystore", "export", cache)
    assert result.code == 4
    assert f"keystore import {cache}` first" in result.err


# --- encryption -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sealed(said: Cli, cache: Path, private: Callable[[str, str], str]) -> str:
    """Encrypt the imported keys; return the option's value that opens them."""
    said("keystore", "import", cache)
    words = f"@{private('words', f'{WORDS}{chr(10)}')}"
    result = said("keystore", "encrypt", "--new-passphrase", words)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("fabric.keys: 2 keys, encrypted\n")
    return words


def test_list_of_an_encrypted_store_needs_no_passphrase(said: Cli, cli: Cli, sealed: str) -> None:
    document = listed(said)
    assert document["encrypted"]
    assert [row["m_key"] for row in document["keys"]] == [None, None]
    without = said("keystore", "list", "-K", "-f", "json")
    assert (without.code, [row["m_key"] for row in without.json["keys"]]) == (0, [None, None])
    assert "keys are not shown" in without.err
    shown = listed(cli, "-K", "--keystore-passphrase", sealed)
    assert [row["m_key"] for row in shown["keys"]] == [f"{KEY:#018x}", f"{OTHER_KEY:#018x}"]


def test_wrong_passphrase_is_one_line(said: Cli, sealed: str, private: Callable[[str, str], str]) -> None:
    wrong = f"@{private('wrong', NEW_WORDS)}"
    for command in (("keystore", "list", "-K"), ("mkey-show", 2), ("keystore", "encrypt", "--decrypt")):
        result = said(*command, "--keystore-passphrase", wrong)
        assert (result.code, "not the passphrase" in result.error) == (3, True)


def test_commands_on_a_fabric_use_it_or_end(said: Cli, sealed: str, key_file: Path, tmp_path: Path) -> None:
    # the store has keys of ports without their places, and no SM is there to say where they are
    set_key = ("mkey-set", 3, "--new-m-key", f"@{key_file}", "--protect", 2, "--yes", "--override", "lease-0")
    new = (*set_key, "--ask-unproven")
    result = said(*new)
    assert result.code == 3
    assert "--keystore-passphrase @FILE" in result.err
    assert said(*new, "--keystore-passphrase", sealed).code == 0
    assert said("mkey-show", 3, "--keystore-passphrase", sealed).code == 0
    assert KEY.to_bytes(8) not in store_path(tmp_path).read_bytes()
    with KeyStore(store_path(tmp_path)) as store:
        assert store.is_encrypted
        assert {row.state for row in store.outline() if row.port_guid == int(NODE03, 16)} >= {"current"}


def test_passphrase_from_standard_input_or_the_environments_file(
    cli: Cli, sealed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = cli("keystore", "list", "-K", "-f", "json", "--keystore-passphrase", "-", stdin=f"{WORDS}\n")
    assert shown.json["keys"][0]["m_key"] == f"{KEY:#018x}"
    monkeypatch.setenv("IBKEYS_KEYSTORE_PASSPHRASE", sealed)
    assert listed(cli, "-K")["keys"][0]["m_key"] == f"{KEY:#018x}"


@pytest.mark.parametrize("value", [WORDS, "-"])
def test_environment_takes_only_a_file(said: Cli, sealed: str, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("IBKEYS_KEYSTORE_PASSPHRASE", value)
    for command in (("keystore", "list"), ("mkey-show", 2)):
        result = said(*command)
        assert (result.code, "must be @FILE" in result.error) == (2, True)


@pytest.mark.parametrize("option", ["--keystore-passphrase", "--new-passphrase"])
def test_passphrase_in_clear_on_the_command_line_is_refused(said: Cli, sealed: str, option: str) -> None:
    result = said("keystore", "encrypt", option, WORDS)
    assert (result.code, "must be @FILE, or -" in result.error) == (2, True)


def test_terminal_is_asked_twice_for_a_new_passphrase_and_once_for_the_old(
    monkeypatch: pytest.MonkeyPatch, said: Cli, cache: Path, tmp_path: Path
) -> None:
    said("keystore", "import", cache)
    answers: list[str] = []
    monkeypatch.setattr("getpass.getpass", lambda *_: answers.pop(0))

    def asked(*args: object, answer: list[str]) -> Result:
        answers[:] = answer
        result = said(*args, stdin=Terminal())
        assert answers == []
        return result

    assert "the two differ" in asked("keystore", "encrypt", answer=[WORDS, NEW_WORDS]).error
    assert asked("keystore", "encrypt", answer=[WORDS, WORDS]).code == 0
    assert asked("mkey-show", 2, "--ask-unproven", answer=[WORDS]).code == 0
    assert asked("keystore", "list", answer=[]).code == 0
    assert asked("keystore", "encrypt", answer=[WORDS, NEW_WORDS, NEW_WORDS]).code == 0
    assert asked("keystore", "encrypt", "--decrypt", answer=[NEW_WORDS]).out.endswith("2 keys, in clear\n")
    with KeyStore(store_path(tmp_path)) as store:
        assert len(store.rows()) == 2


def test_empty_passphrase_is_refused(said: Cli, cache: Path) -> None:
    said("keystore", "import", cache)
    assert "empty" in said("keystore", "encrypt", "--new-passphrase", "-", stdin="\n").error


def test_store_that_others_read_is_refused_by_every_command(said: Cli, cache: Path, tmp_path: Path) -> None:
    said("keystore", "import", cache)
    store_path(tmp_path).chmod(0o644)
    for words in (["list"], ["import", cache], ["export", tmp_path / "out"], ["encrypt"]):
        result = said("keystore", *words)
        assert (result.code, "chmod 600" in result.error) == (3, True)
    assert not (tmp_path / "out").exists()


def test_doctor_of_an_encrypted_store(said: Cli, sealed: str) -> None:
    assert "2 keys of 2 ports, encrypted" in said("doctor", "--keystore-passphrase", sealed).out
    without = said("doctor")
    assert without.code == 1
    assert "--keystore-passphrase" in without.out


def test_documents_are_json_alone(said: Cli, cache: Path) -> None:
    for command in (["keystore", "import", cache], ["keystore", "list"]):
        json.loads(said(*command, "-f", "json").out)
