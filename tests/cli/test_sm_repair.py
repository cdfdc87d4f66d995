"""``ibkeys sm-repair`` on a simulated subnet that lasts from one run to the next."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from ibkeys.cli.documents.shared import PORT
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import MKey
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import NewRunPort, RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.opensm import read_key_files
from ibkeys.umad.simulated import open_simulated
from tests.cli.conftest import KEY, OTHER_KEY, TWO_SWITCH, Result, key_argument, run

LEASE = 60
OUTLOOK = ["ports", "orders", "protected", "violations", "leases", "unknown_leases", "never"]
VALUES = ["result", "key", "m_key", "m_key_protect_bits", "m_key_lease_period", "m_key_violations", "reason"]


class Lab:
    """Two switches whose ports have KEY or, every second one, OTHER_KEY, which was not confirmed; an opensm.conf."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.conf = folder / "opensm.conf"
        self.spec = f"{TWO_SWITCH},state={folder / 'fabric'}"
        assert self.run("mkey-deploy", "--same", "--new-m-key", self.file("one", KEY), "--protect", 2).code == 0
        with KeyStore(folder / "keys.db") as store:
            for row in store.rows():
                assert row.node_guid is not None
                assert row.port is not None
                store.put_pending(
                    row.node_guid,
                    row.port_guid,
                    row.port,
                    KeySetting(MKey(OTHER_KEY), 2, LEASE),
                    KeySetting(MKey(KEY), 2, LEASE),
                )
        with open_simulated(self.spec) as port:
            self.count = 0
            for node in port.subnet.nodes:
                for end in node.end_ports:
                    if end.m_key:
                        self.give(port, end, (KEY, OTHER_KEY)[self.count % 2])
                        self.count += 1
        self.write_conf(OTHER_KEY)

    @staticmethod
    def give(port: Any, end: Any, key: int) -> None:
        end.m_key = key
        end.touch()
        port.subnet.history.changes += 1

    def file(self, name: str, key: int) -> str:
        return key_argument(self.folder / name, key)

    def write_conf(self, key: int, more: str = "") -> None:
        self.conf.write_text(f"m_key {key:#x}\nm_key_protection_level 2\nm_key_lease_period {LEASE}\n{more}")

    def run(self, *args: object) -> Result:
        stores = ("--keystore", self.folder / "keys.db", "--journal", self.folder / "journal.db")
        consent = () if args[0] == "sm-repair" else ("--lease", LEASE, "--yes")
        return run(*args, *consent, "--backend", self.spec, *stores)

    def repair(self, *args: object) -> Result:
        result = self.run("sm-repair", "--cache-dir", self.cache, "--opensm-conf", self.conf, *args)
        if "-K" not in args:
            for key in (KEY, OTHER_KEY):
                assert f"{key:x}" not in (result.out + result.err).lower()
                assert str(key) not in result.out + result.err
        return result


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_it_says_what_it_may_cost_then_what_it_did_then_how_to_start(lab: Lab) -> None:
    result = lab.repair("--yes")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{lab.count} ports to query, local port first, ")
    assert lines[1] == f"  {lab.count} ports: current, pending"
    assert f"adds at most {2 * lab.count} M_Key violations" in lines[3]
    assert lines[5] == f"  it opens after at most {LEASE} s (leases in key store and opensm.conf: {LEASE} s)"
    start = lines.index("to start OpenSM:")
    with_other = lab.count // 2
    assert f"guid2mkey with {lab.count} keys" in lines[start - 1]
    assert f"its m_key is on {with_other} of {lab.count} ports, not the local port" in lines[start + 1]
    assert "OpenSM sets it on all ports in its first sweep" in lines[start + 2]
    assert [line.split(".")[0] for line in lines[start + 3 :]] == ["  1", "  2", "  3"]
    assert lines[start + 4].endswith(f"ibkeys keystore import {lab.cache}")
    assert len(read_key_files(lab.cache).m_keys) == lab.count


def test_the_journal_shows_it_and_no_undo_brings_the_former_keys_back(lab: Lab) -> None:
    assert lab.repair("--yes").code == 0
    journal = ("--journal", lab.folder / "journal.db", "-f", "json")
    done = run("journal", *journal).json["operations"][-1]
    assert (done["command"], done["state"], done["roll_back_with"]) == ("sm-repair", "done", None)
    shown = run("journal", done["id"], *journal).json
    assert [Path(each["path"]).name for each in shown["files"]] == ["neighbors", "guid2mkey"]
    written = (lab.cache / "guid2mkey").read_bytes()
    undone = run("undo", done["id"], "--backend", lab.spec, "--keystore", lab.folder / "keys.db", *journal[:2])
    assert (undone.code, (lab.cache / "guid2mkey").read_bytes()) == (2, written)
    assert "`ibkeys sm-repair`" in undone.err


def test_json_has_a_row_for_each_port(lab: Lab) -> None:
    document = lab.repair("--yes", "-f", "json").json
    assert document["schema"] == "ibkeys.sm-repair/1"
    assert [*document] == [
        *("schema", "dry_run", "cache_dir", "ports", "keys", "links", "opensm_conf", "errors"),
    ]
    assert [list(port) for port in document["ports"]] == [[*(field.name for field in PORT), *VALUES]] * lab.count
    assert {(port["result"], port["key"], port["m_key"]) for port in document["ports"]} == {
        ("answered", "current", None),
        ("answered", "pending", None),
    }
    [conf] = document["opensm_conf"]
    assert conf.pop("file") == str(lab.conf)
    assert conf == {
        "holds": lab.count // 2,
        "ports": lab.count,
        "is_most": lab.count % 2 == 0,
        "own_has_it": False,
        "problems": [],
    }


def test_keys_are_shown_when_asked_for(lab: Lab) -> None:
    document = lab.repair("--yes", "-f", "json", "-K").json
    assert {port["m_key"] for port in document["ports"]} == {f"0x{KEY:016x}", f"0x{OTHER_KEY:016x}"}


def test_csv(lab: Lab) -> None:
    rows = list(csv.DictReader(io.StringIO(lab.repair("--yes", "-f", "csv").out)))
    assert list(rows[0]) == [*(field.name for field in PORT), *VALUES]
    assert len(rows) == lab.count


def test_a_dry_run_asks_no_port_and_writes_nothing(lab: Lab) -> None:
    document = lab.repair("--dry-run", "-f", "json")
    assert document.code == 1
    assert [*document.json] == ["schema", "dry_run", *OUTLOOK, "cache_dir", "interlocks"]
    assert document.json["orders"] == [{"keys": ["current", "pending"], "ports": lab.count}]
    assert lab.repair("--dry-run").out.endswith(f"nothing was written in {lab.cache}\n")
    assert lab.repair("--dry-run", "-f", "csv").out.startswith("ports,protected,violations,leases,")
    assert not lab.cache.exists()
    with open_simulated(lab.spec) as port:
        assert not any(end.m_key_violations for node in port.subnet.nodes for end in node.end_ports)


def test_without_yes_and_without_a_terminal_nothing_is_asked(lab: Lab) -> None:
    assert lab.repair().code == 4
    assert not lab.cache.exists()


def test_a_port_that_does_not_answer_is_named_and_the_exit_code_is_3(lab: Lab) -> None:
    with open_simulated(lab.spec) as port:
        lab.give(port, port.subnet.port("node03 mlx4_0", 1), 0x1234_5678_9ABC_DEF0)
    result = lab.repair("--yes", "-f", "json")
    assert result.code == 3
    [kept] = [port for port in result.json["ports"] if port["result"] == "kept"]
    assert kept["reason"] == "it answered to none of its keys (2), each sent once"
    assert "ibkeys: not answered: " in result.err
    assert "ibkeys: error: 1 port did not answer, 0 other places could not be read" in result.err


def test_ports_that_do_not_answer_for_one_reason_are_one_line(lab: Lab) -> None:
    with open_simulated(lab.spec) as port:
        for number in (3, 4):
            lab.give(port, port.subnet.port(f"node0{number} mlx4_0", 1), 0x1234_5678_9ABC_DEF0)
    result = lab.repair("--yes")
    assert result.code == 3
    said = [line for line in result.err.splitlines() if line.startswith("ibkeys: not answered: ")]
    assert len(said) == 1
    why = "it answered to none of its keys (2), each sent once; their keys in guid2mkey are the store's: "
    assert said[0].startswith(f"ibkeys: not answered: 2 ports: {why}")


@pytest.mark.parametrize(
    ("key", "more", "problem"),
    [
        (0, "", "m_key is not set: an OpenSM that starts with it removes every M_Key"),
        (0x1357_9BDF_0246_8ACE, "", "its m_key is not in the key store"),
        (KEY, "m_key_lookup FALSE\n", "m_key_lookup is not TRUE"),
    ],
)
def test_an_opensm_conf_that_would_cost_keys_is_named(lab: Lab, key: int, more: str, problem: str) -> None:
    lab.write_conf(key, more)
    result = lab.repair("--yes")
    assert result.code == 1
    assert f"ibkeys: keys would be lost: {lab.conf}: {problem}" in result.err
    assert f"  {lab.conf}: not yet: see below" in result.out
    assert len(read_key_files(lab.cache).m_keys) == lab.count


@pytest.mark.parametrize("is_here", [True, False])
def test_no_m_key_is_a_problem_unless_a_removal_is_open_on_this_subnet(lab: Lab, is_here: bool) -> None:
    lab.write_conf(0)
    with KeyStore(lab.folder / "keys.db") as store, Journal(lab.folder / "journal.db") as journal:
        guids = [row.port_guid for row in store.rows()] if is_here else [0x77]
        store.promote(store.put_pending(1, 0x77, 1, KeySetting(MKey(KEY), 1, LEASE), None))  # of another subnet
        number = journal.operation("mkey-remove").put_on_disk()
        ports = [NewRunPort(guid, guid, 1) for guid in dict.fromkeys(guids)]
        Runs(journal).begin(number, RunOptions(), ports, {"goes_back": False})
    result = lab.repair("--yes")
    problem = f"ibkeys: keys would be lost: {lab.conf}: m_key is not set"
    assert (problem in result.err) == (not is_here), result.err
    assert (lab.conf.name + ": not yet" in result.out) == (not is_here)


def test_an_opensm_conf_that_is_not_there_is_named(lab: Lab) -> None:
    lab.conf.unlink()
    result = lab.repair("--yes")
    assert result.code == 2
    assert str(lab.conf) in result.error
    assert not lab.cache.exists()


@pytest.mark.parametrize("words", [("-y", "@key"), ("--security-keys", "cache")])
def test_keys_from_elsewhere_do_not_go_with_it(lab: Lab, words: tuple[str, str]) -> None:
    given = [words[0], lab.file("one", KEY) if words[1] == "@key" else words[1]]
    result = lab.repair("--yes", *given)
    assert result.code == 2
    assert "omit -y and --security-keys" in result.error


def test_a_simulated_subnet_never_touches_the_cache_of_this_host(lab: Lab) -> None:
    result = lab.run("sm-repair", "--yes")
    assert result.code == 2
    assert "--cache-dir" in result.error


def test_without_a_key_store_there_is_nothing_to_ask_with(lab: Lab) -> None:
    (lab.folder / "keys.db").unlink()
    result = lab.repair("--yes")
    assert result.code == 2
    assert "no key store, so no key" in result.error
