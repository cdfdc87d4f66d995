"""``ibkeys mkey-recover`` on a simulated subnet that lasts from one run to the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.recovery import recover
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.simulated import open_simulated
from tests.cli.conftest import KEY, Result, run
from tests.fattree import fat_tree

LEASE = 15
PORTS = 20


class Lab:
    """A small fat tree all of whose ports are locked, a snapshot from before, and an empty key store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        net = folder / "tree.net"
        net.write_text(fat_tree(2, 2, 2, pods=2, cores=1))
        self.spec = f"sim:{net},state={folder / 'state'}"
        self.snapshot = folder / "before"
        self.keystore = folder / "keys.db"
        self.run("snapshot", self.snapshot)
        with open_simulated(self.spec) as port:
            for number, end in enumerate(self.end_ports(port)):
                end.m_key, end.protect_bits, end.lease_period = KEY + number, 2, LEASE
                end.touch()
                port.subnet.history.changes += 1

    @staticmethod
    def end_ports(port: Any) -> list[Any]:
        return [end for node in port.subnet.nodes for end in node.end_ports]

    def run(self, *args: object) -> Result:
        stores = ("--keystore", self.folder / "keys.db", "--journal", self.folder / "journal.db")
        return run(*args, "--backend", self.spec, *stores)

    def recover(self, *args: object) -> Result:
        return self.run("mkey-recover", *args)

    def look(self) -> list[tuple[int, int, int]]:
        with open_simulated(self.spec) as port:
            return [(end.m_key, end.protect_bits, end.lease_period) for end in self.end_ports(port)]

    def stored(self) -> set[MKey]:
        with KeyStore(self.keystore, create=False) as store:
            return set(store.current().values())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def no_key_in(result: Result) -> None:
    text = (result.out + result.err).lower()
    for number in range(PORTS):
        assert f"{KEY + number:x}" not in text
        assert str(KEY + number) not in text


def test_each_port_is_a_line_and_the_summary_the_last(lab: Lab) -> None:
    result = lab.recover("--topology", lab.snapshot, "--yes", "-f", "json")
    assert result.code == 0, result.err
    *ports, last = map(json.loads, result.out.splitlines())
    count = len(lab.look())
    assert len(ports) == count
    assert all(set(port) >= {"node_guid", "port_guid", "node_desc", "node_type", "port", "lid"} for port in ports)
    assert {port["result"] for port in ports} == {"done"}
    assert last["schema"] == "ibkeys.mkey-recover/1"
    assert last["summary"].pop("seconds") <= 1.2 * LEASE
    assert last["summary"].pop("smps") > count
    assert last["summary"].pop("violations") >= count
    assert last["summary"] == {"done": count, "skipped": 0, "failed": 0, "interrupted": False}
    assert lab.stored() == {MKey(key) for key, _, _ in lab.look()}
    no_key_in(result)


def test_the_table_says_first_what_it_costs_and_last_what_it_cost(lab: Lab) -> None:
    result = lab.recover("--topology", lab.snapshot, "--yes")
    lines = result.out.splitlines()
    assert result.code == 0
    assert "without an answer" in lines[0]
    (cost,) = [line for line in lines if line.startswith("probing adds at most ")]
    assert cost.endswith("; if a longer lease or another port becomes known: at most 66 at each port")
    assert lines[-1].startswith(f"{len(lab.look())} recovered, 0 without a key, 0 not recovered; ")
    assert sum(line.startswith("done: ") for line in lines) == len(lab.look())
    no_key_in(result)


def test_csv_has_a_row_for_each_port(lab: Lab) -> None:
    result = lab.recover("--topology", lab.snapshot, "--yes", "-f", "csv")
    header, *rows = result.out.splitlines()
    assert header == "node_guid,port_guid,node_desc,node_type,port,lid,result,reason"
    assert len(rows) == len(lab.look())


def test_a_dry_run_says_what_it_would_cost_and_opens_nothing(lab: Lab) -> None:
    result = lab.recover("--topology", lab.snapshot, "--dry-run", "-f", "json")
    assert result.code == 1
    document = result.json
    assert document["dry_run"] is True
    assert document["silent"] == len(lab.look())
    assert document["violations"] >= 2 * document["silent"]
    assert document["seconds"] == 3600
    assert document["has_links"] is True
    assert document["interlocks"] == []
    assert {level for _, level, _ in lab.look()} == {2}
    assert not lab.keystore.exists()


def test_without_yes_and_without_a_terminal_nothing_is_done(lab: Lab) -> None:
    result = lab.recover("--topology", lab.snapshot)
    assert result.code == 4
    assert "--yes" in result.err
    assert {level for _, level, _ in lab.look()} == {2}


def test_new_keys_with_protection_for_all_that_came_back(lab: Lab) -> None:
    before = {key for key, _, _ in lab.look()}
    result = lab.recover("--topology", lab.snapshot, "--yes", "--set-new", "--protect", 2, "--lease", 60)
    assert result.code == 0, result.err
    after = lab.look()
    assert {(level, lease) for _, level, lease in after} == {(2, 60)}
    assert not before & {key for key, _, _ in after}
    assert lab.stored() == {MKey(key) for key, _, _ in after}
    shown = lab.run("mkey-show", "--all", "-f", "json")
    assert {port["m_key_state"] for port in shown.json["ports"]} == {"set"}
    no_key_in(result)


def test_keys_of_a_file_are_tried(lab: Lab, tmp_path: Path) -> None:
    keys = tmp_path / "old-keys"
    keys.touch(0o600)
    keys.write_text("# kept since spring\n" + "".join(f"{key:#x}\n" for key, _, _ in lab.look()))
    result = lab.recover("--try-keys", keys, "--tries", 100, "--yes")
    assert result.code == 0, result.err
    assert {key for key, _, _ in lab.look()} == {key.reveal() for key in lab.stored()}
    assert "answered to one of the keys that were tried" in result.out
    no_key_in(result)


def test_what_never_opens_is_named_and_the_exit_code_says_so(lab: Lab) -> None:
    with open_simulated(lab.spec) as port:
        dead = port.subnet.port("leaf 2-2", 0)
        dead.lease_period = 0
        dead.touch()
        port.subnet.history.changes += 1
    result = lab.recover("--topology", lab.snapshot, "--yes", "-f", "json")
    assert result.code == 3
    [failed] = [row for row in map(json.loads, result.out.splitlines()) if row.get("result") == "failed"]
    assert (failed["node_desc"], failed["node_type"], failed["port"], failed["lid"]) == ("leaf 2-2", "switch", 0, None)
    assert "'node00007 mlx5_0'" in failed["reason"]
    assert "'node00008 mlx5_0'" in failed["reason"]
    assert result.err.splitlines()[-1] == "ibkeys: error: 1 port not recovered, listed above"


def test_ctrl_c_is_130_and_says_how_to_go_on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: object, progress: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recover.Recovery, "pause", interrupt)
    result = lab.recover("--topology", lab.snapshot, "--yes", "-f", "json")
    assert result.code == 130
    assert json.loads(result.out.splitlines()[-1])["summary"]["interrupted"] is True
    assert "run the same command again" in result.err
    monkeypatch.undo()
    for name in ("IBKEYS_BACKEND",):
        monkeypatch.delenv(name, raising=False)
    again = lab.recover("--topology", lab.snapshot, "--yes", "-f", "json")
    assert again.code == 0
    assert lab.stored() == {MKey(key) for key, _, _ in lab.look()}


def test_where_nothing_is_lost_it_says_so_and_asks_nothing(lab: Lab) -> None:
    lab.recover("--topology", lab.snapshot, "--yes")
    result = lab.recover()
    assert result.code == 0
    assert result.out.startswith("no key is missing")


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--set-new", "--new-m-key", "-"], "choose one"),
        (["--protect", "4"], "0..3"),
        (["--try-keys", "/nowhere/keys"], "cannot be read"),
        (["--wait", "0"], "not in 1"),
    ],
)
def test_wrong_usage(lab: Lab, args: list[str], hint: str) -> None:
    result = lab.recover(*args)
    assert result.code == 2
    assert hint in result.error
