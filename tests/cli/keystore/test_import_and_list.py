"""`ibkeys keystore import` and `list`: what is read of OpenSM's files, and what is shown of the keys that are kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from ibkeys.keys.smkey import SMKey
from ibkeys.smkeys.recorded_changes import KEPT_KEYS, KEPT_PORTS
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys
from tests.cli.conftest import KEY, OTHER_KEY, Cli
from tests.cli.keystore.conftest import NODE02, NODE03, NODE04, listed, store_path

COLUMNS = [
    *("node_guid", "port_guid", "port", "state", "m_key"),
    *("m_key_protect_bits", "m_key_lease_period", "since", "note"),
]


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


def test_of_two_imported_keys_the_one_imported_last_is_tried_first(said: Cli, cli: Cli, cache: Path) -> None:
    said("keystore", "import", cache)
    file = cache / "guid2mkey"
    file.write_text(file.read_text().replace(f"{KEY:#018x}", f"{OTHER_KEY:#018x}"))
    os.utime(file, (0, 0))  # older than the key store
    assert (
        "1 port: the key store had a different key, imported earlier or proven before"
        in said("keystore", "import", cache).out
    )
    states = {row["m_key"]: row["state"] for row in listed(cli, "-K")["keys"] if row["port_guid"] == NODE02}
    assert states == {f"{KEY:#018x}": "former", f"{OTHER_KEY:#018x}": "imported"}


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
    assert "the subnets of the subnet managers' keys are not known: " in torn.err


def test_wrong_usage(said: Cli, tmp_path: Path, private: Callable[[str, str], str]) -> None:
    assert "nothing to import" in said("keystore", "import").error
    assert said("keystore", "import", tmp_path / "nowhere").code == 2
    assert said("keystore", "import", "--opensm-conf", private("conf", f"m_key {KEY:x}\n")).code == 2
    assert said("keystore", "encrypt").code == 2
    assert said("keystore", "encrypt", "--decrypt", "--new-passphrase", "-").code == 2
    assert "in memory" in said("keystore", "list", "--backend", "sim:").error
    assert said("keystore", "list", "--backend", "what").code == 2


def test_store_that_others_read_is_refused_by_every_command(said: Cli, cache: Path, tmp_path: Path) -> None:
    said("keystore", "import", cache)
    store_path(tmp_path).chmod(0o644)
    for words in (["list"], ["import", cache], ["export", tmp_path / "out"], ["encrypt"]):
        result = said("keystore", *words)
        assert (result.code, "chmod 600" in result.error) == (3, True)
    assert not (tmp_path / "out").exists()


def test_documents_are_json_alone(said: Cli, cache: Path) -> None:
    for command in (["keystore", "import", cache], ["keystore", "list"]):
        json.loads(said(*command, "-f", "json").out)
