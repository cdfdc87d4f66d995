"""snapshot, --from, diff, matrix and why, as a user runs them."""

from __future__ import annotations

import json
import os
import sqlite3
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from tests.cli.conftest import KEY, TWO_SWITCH, Cli, run
from tests.cli.saved import save
from tests.cli.unfolding import Row, unfolded
from tests.corpus import DATA
from tests.fabricsim import between_switches, subnet, tool

READING = ["pkey-show", "mkey-show", "caps-show", "counters-show", "enforce-show"]


@pytest.fixture
def taken(cli: Cli, tmp_path: Path, key_file: Path) -> Path:
    """A snapshot of a fabric with some P_Keys and one M_Key."""
    assert cli("pkey-add", 3, "0x8001", "--yes").code == 0
    assert cli("mkey-set", 4, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes").code == 0
    file = tmp_path / "monday.db"
    result = cli("snapshot", file)
    assert result.code == 0
    assert result.out == (
        f"{file}: 8 nodes, {result.out.split()[3]} ports, 8 links, {result.out.split()[7]} P_Keys; "
        "M_Keys as fingerprints\n"
    )
    return file


def test_one_of_a_kind_is_not_many(tmp_path: Path) -> None:
    net = tmp_path / "two-hosts.net"
    net.write_text('Ca\t1 "H-1"\n[1]\t"H-2"[1]\n\nCa\t1 "H-2"\n[1]\t"H-1"[1]\n')
    result = run("snapshot", tmp_path / "taken.db", "--backend", f"sim:{net}")
    assert result.out.endswith(": 2 nodes, 2 ports, 1 link, 2 P_Keys; M_Keys as fingerprints\n")


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_snapshot_reads_as_the_fabric_did(cli: Cli, taken: Path, command: str, format: str) -> None:
    live = cli(command, "--all", "-f", format)
    assert cli(command, "--all", "-f", format, "--from", taken) == live
    for address in ([], [3], [3, 1], ["-G", "0x0002c903000a1030"], ["-N", "node03 mlx4_0"], ["-D", "0,1"]):
        assert cli(command, *address, "-f", format, "--from", taken) == cli(command, *address, "-f", format)


def test_discover_reads_a_snapshot(cli: Cli, taken: Path) -> None:
    assert cli("discover", "-f", "json", "--from", taken) == cli("discover", "-f", "json")


def test_keys_are_in_it_only_when_asked_for(cli: Cli, taken: Path, tmp_path: Path) -> None:
    result = cli("mkey-show", 4, "-K", "-f", "json", "--from", taken)
    assert result.json["ports"][0]["m_key"] is None
    assert result.json["ports"][0]["m_key_state"] == "set"
    assert "fingerprints of the M_Keys" in result.err
    assert cli("snapshot", tmp_path / "keys.db", "-K").code == 0
    shown = cli("mkey-show", 4, "-K", "-f", "json", "--from", tmp_path / "keys.db")
    assert shown.json["ports"][0]["m_key"] == f"0x{KEY:016x}"


@pytest.mark.parametrize("option", [["--backend", "sim:"], ["-y", "@x"], ["--pcap", "x"], ["--at", "x"]])
def test_from_asks_nobody(taken: Path, option: list[str]) -> None:
    result = run("pkey-show", "--from", taken, *option)
    assert result.code == 2
    assert "not the fabric" in result.error


def test_a_missing_snapshot_is_one_line(tmp_path: Path) -> None:
    for args in (["pkey-show", "--from", tmp_path / "no.db"], ["diff", tmp_path / "no.db", tmp_path / "no.db"]):
        result = run(*args)
        assert result.code == 3
        assert "there is no such snapshot" in result.error


def test_a_snapshot_that_cannot_be_written_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = cli("snapshot", tmp_path / "file" / "a.db")
    assert result.code == 3
    assert "Not a directory" in result.error


def test_what_is_no_snapshot_is_never_replaced_and_nothing_is_asked(cli: Cli, tmp_path: Path) -> None:
    text, folder, pipe, database = (tmp_path / name for name in ("partitions.conf", "folder", "pipe", "keys.db"))
    text.write_text("Default=0x7fff: ALL=full;\n")
    folder.mkdir()
    os.mkfifo(pipe)
    sqlite3.connect(database).execute("CREATE TABLE kept (text)").connection.close()
    for path in (text, folder, pipe, database):
        result = cli("snapshot", path, "-v")
        assert result.code == 3
        assert result.error == f"{path}: exists and is not a snapshot, so it is not replaced; name another file"
    assert text.read_text() == "Default=0x7fff: ALL=full;\n"
    assert pipe.is_fifo()


def test_a_snapshot_an_empty_file_and_what_a_link_leads_to_are_replaced(cli: Cli, tmp_path: Path) -> None:
    empty, link = tmp_path / "empty[1].db", tmp_path / "latest.db"
    empty.touch()
    link.symlink_to(empty.name)
    left = tmp_path / f".{empty.name}.4194305.unfinished"  # of a process number that no system gives
    journal = left.with_name(f"{left.name}-journal")
    left.touch()
    journal.touch()
    for path in (empty, empty, link):
        assert cli("snapshot", path).code == 0
    assert link.is_symlink()
    assert not left.exists()
    assert not journal.exists()
    assert run("diff", empty, link).code == 0


def test_a_directory_that_cannot_be_written_is_found_before_the_sweep(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    result = cli("snapshot", tmp_path / "a.db", "-v")
    assert result.code == 3
    assert f"no permission to write in {tmp_path}" in result.error


def test_a_full_disk_is_one_line_that_names_the_file(cli: Cli, taken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = taken.read_bytes()
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    connect = sqlite3.connect

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:  # type: ignore[override]
            if sql.startswith("VACUUM INTO"):
                raise full
            return super().execute(sql, *parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, factory=Full, **options))
    result = cli("snapshot", taken)
    assert result.code == 3
    assert result.error.startswith(f"{taken}: no space left for the snapshot")
    assert taken.read_bytes() == before
    assert [file.name for file in taken.parent.iterdir() if "unfinished" in file.name] == []


def test_port_counters_that_cannot_be_asked_are_said(cli: Cli, tmp_path: Path) -> None:
    switch = next(node for node in cli("discover", "-f", "json").json["nodes"] if node["node_type"] == "switch")
    assert cli("enforce-set", "-G", switch["node_guid"], 1, "--inbound", "on", "--outbound", "on", "--yes").code == 0
    assert cli("pkey-set", 1, "0=0x8001", "--override", "index-0", "--override", "default-pkey", "--yes").code == 0
    result = cli("snapshot", tmp_path / "a.db", "-f", "json")
    assert result.code == 0
    assert result.json["port_counters_unread"] == 1
    assert "warning: PortCounters of 1 switch port that enforce" in result.err
    assert "no P_Key of the default partition" in result.err


def test_a_silent_node_is_in_the_file_and_exit_3(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "part.db"
    state = f"{TWO_SWITCH},state={tmp_path / 'lossy'},drop=100"
    assert run("snapshot", file, "--backend", state, "-t", 10, "--retries", 0).code == 3
    result = run("discover", "-f", "json", "--from", file)
    assert result.code == 3 or not file.exists()


def test_without_a_secret_of_its_own_a_snapshot_is_taken_all_the_same(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fabric.fingerprint").write_bytes(b"short")
    (tmp_path / "fabric.fingerprint").chmod(0o600)
    result = cli("snapshot", tmp_path / "a.db")
    assert result.code == 0
    assert "cannot be compared with those of others" in result.err
    assert cli("pkey-show", 3, "--from", tmp_path / "a.db").code == 0


# --- diff ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def later(cli: Cli, taken: Path) -> Path:
    """A later snapshot: node03 lost a P_Key, node04 got another key and one more P_Key."""
    assert cli("pkey-remove", 3, "0x8001", "--yes").code == 0
    assert cli("pkey-add", 4, "0x8002", "--yes").code == 0
    file = taken.with_name("tuesday.db")
    assert cli("snapshot", file).code == 0
    return file


def test_diff_says_what_changed_and_exits_1(taken: Path, later: Path) -> None:
    result = run("diff", taken, later)
    assert result.code == 1
    assert "P_Key 0x8001 removed from index 1" in result.out
    assert "P_Key 0x8002 added at index 1" in result.out
    assert run("diff", taken, taken).code == 0
    assert run("diff", taken, taken).out == "no difference\n"


def test_diff_in_json_has_the_shape_of_the_contract(taken: Path, later: Path) -> None:
    document = run("diff", taken, later, "-f", "json").json
    assert document["schema"] == "ibkeys.diff/2"
    assert (document["a"], document["b"]) == (str(taken), str(later))
    assert document["nodes"] == {"added": [], "removed": []}
    identity = {"node_guid", "port_guid", "node_desc", "node_type", "port", "lid"}
    assert all(identity | {"kind", "before", "after"} <= change.keys() for change in document["changes"])
    assert {(change["kind"], change["before"], change["after"]) for change in document["changes"]} == {
        ("pkey-removed", "0x8001", None),
        ("pkey-added", None, "0x8002"),
    }


def test_keys_with_fingerprints_of_other_secrets_are_said_to_be_incomparable(
    cli: Cli, taken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fabric.fingerprint").unlink()
    assert cli("snapshot", tmp_path / "b.db").code == 0
    result = run("diff", taken, tmp_path / "b.db")
    assert result.code == 0
    assert "cannot be compared" in result.err


def test_hidden_keys_are_named_and_no_change(cli: Cli, tmp_path: Path, key_file: Path) -> None:
    assert cli("mkey-set", 4, "--new-m-key", f"@{key_file}", "--protect", 1, "--lease", 60, "--yes").code == 0
    without, with_it = tmp_path / "without.db", tmp_path / "with.db"
    assert cli("snapshot", without, "--keystore", tmp_path / "none").code == 0
    assert cli("snapshot", with_it).code == 0
    result = run("diff", without, with_it)
    assert (result.code, result.out) == (0, "no difference in what was read\n")
    assert "1 port hid the M_Key in one of the snapshots or both (node04 mlx4_0): " in result.err
    document = run("diff", without, with_it, "-f", "json").json
    assert [port["node_desc"] for port in document["m_keys_hidden"]] == ["node04 mlx4_0"]


def test_who_gained_and_lost_reach(cli: Cli, taken: Path) -> None:
    for lid in (3, 4):
        assert cli("pkey-set", lid, "0=0x7fff", "--override", "index-0", "--yes").code == 0
    middle = taken.with_name("middle.db")
    assert cli("snapshot", middle).code == 0
    lost = run("diff", "--reach", taken, middle)
    assert lost.code == 1
    assert "1 pair lost reach" in lost.out
    assert "node03 mlx4_0 port 1" in lost.out or "node03" in lost.out
    back = run("diff", "--reach", middle, taken, "-f", "json").json
    assert (back["reach"]["gained"], back["reach"]["lost"]) == (1, 0)
    guids = ["0x0002c903000a1031", "0x0002c903000a1041"]
    [group] = back["reach"]["changes"]
    assert (group["change"], group["pairs"]) == ("gained", 1)
    assert [port["port_guid"] for port in (*group["a"], *group["b"])] == guids
    assert [port["node_desc"] for port in (*group["a"], *group["b"])] == ["node03 mlx4_0", "node04 mlx4_0"]
    assert back["unknown"] == []
    each = run("diff", "--reach", "--pairs", middle, taken, "-f", "json").json["reach"]["changes"]
    assert [(pair["a"]["port_guid"], pair["b"]["port_guid"]) for pair in each] == [tuple(guids)]
    assert run("diff", "--reach", taken, taken, "-f", "json").json["reach"]["changes"] == []
    assert run("diff", "--reach", "--pairs", middle, taken, "-f", "csv").out.count("gained") == 1
    assert run("diff", "--reach", taken, taken).code == 0


def test_who_came_or_went_is_named_beside_the_reach_of_the_others(tmp_path: Path) -> None:
    net = subnet("two-switch")
    whole = save(net, tmp_path / "whole.db")
    net.unplug("node05 mlx4_0", 1)
    net.unplug("node06 mlx4_0", 1)
    part = save(net, tmp_path / "part.db")
    gone = ["node05 mlx4_0", "node06 mlx4_0"]
    both = (whole, part, "only_in_a", "only_in_b", "A"), (part, whole, "only_in_b", "only_in_a", "B")
    for a, b, here, there, which in both:
        result = run("diff", "--reach", a, b)
        assert (result.code, result.out.splitlines()) == (
            1,
            [
                "no pair of ports that are in both snapshots gained or lost reach",
                f"2 ports are only in {which}, and in no pair: node[05-06] mlx4_0",
            ],
        )
        result = run("diff", "--reach", a, b, "-f", "json")
        assert [port["node_desc"] for port in result.json[here]] == gone
        assert (result.code, result.json[there], result.json["reach"]["changes"]) == (1, [], [])
        assert run("diff", "--reach", a, b, "-f", "csv").code == 1
    same = run("diff", "--reach", part, part, "-f", "json")
    assert (same.code, same.json["only_in_a"], same.json["only_in_b"]) == (0, [], [])


def test_half_of_a_fabric_that_is_gone_is_named(tmp_path: Path) -> None:
    net = subnet("two-switch")
    whole = save(net, tmp_path / "whole.db")
    near = between_switches(net)
    for number, port in enumerate(near.node.ports):
        if port.peer is not None and port.peer.node.is_switch:
            net.unplug(near.node, number)
    result = run("diff", "--reach", whole, save(net, tmp_path / "split.db"), "-f", "json")
    assert (result.code, len(result.json["only_in_a"])) == (1, 4), "three hosts and port 0 of their switch"


def test_matrix_takes_no_names_of_a_file_that_opensm_refuses(tmp_path: Path) -> None:
    fabric = save(subnet("two-switch"), tmp_path / "a.db")
    files = {
        "guid.conf": b"blue=0x10: ALL=full;\nred=0x11: 0x00zz=full;\n",
        "crlf.conf": b"blue=0x10: ALL=full;\r\nred=0x11: ALL=full;\r\n",
        "binary.conf": bytes(range(256)),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        result = run("matrix", "--from", fabric, "--policy", tmp_path / name)
        assert (result.code, result.out) == (2, ""), name
        assert result.error == run("compare", "--from", fabric, "--policy", tmp_path / name).error


# --- matrix and why --------------------------------------------------------------------------------------------------


def test_matrix_lists_members_with_guid_and_name(cli: Cli, taken: Path) -> None:
    document = cli("matrix", "--from", taken, "-f", "json").json
    assert document["schema"] == "ibkeys.matrix/2"
    first, default = document["partitions"]
    assert (first["partition"], first["name"], first["limited"]) == ("0x0001", None, [])
    (member,) = first["full"]
    assert (member["port_guid"], member["node_desc"], member["port"]) == ("0x0002c903000a1031", "node03 mlx4_0", 1)
    assert default["partition"] == "0x7fff"
    assert len(default["full"]) == 8
    assert document["pairs"] == 28
    assert cli("matrix", "-f", "json").json == document


def test_every_pair_is_listed_when_asked(taken: Path) -> None:
    listed = run("matrix", "--from", taken, "--pairs", "-f", "json").json["pairs"]
    assert len(listed) == 28
    assert listed[0]["by"] == [{"a_pkey": "0xffff", "b_pkey": "0xffff"}]
    assert len(run("matrix", "--from", taken, "--pairs", "-f", "csv").out.splitlines()) == 29
    assert len(run("matrix", "--from", taken, "--pairs").out.splitlines()) == 28
    assert run("matrix", "--from", taken, "--pairs", "--partition", "0x8001").out == ""


def test_the_list_of_pairs_says_what_is_missing(tmp_path: Path) -> None:
    with tool(net := subnet("two-switch")) as fabric:
        net.faults.lose_next("reply", node=net.node("node02 mlx4_0"), attribute=0x16, count=100)
        save_snapshot(tmp_path / "a.db", take_snapshot(fabric, Fingerprints.generate()))
    result = run("matrix", "--from", tmp_path / "a.db", "--pairs", "-f", "json")
    assert result.code == 3
    assert len(result.json["pairs"]) == 21
    assert [port["node_desc"] for port in result.json["unread"]] == ["node02 mlx4_0"]
    assert [port["node_desc"] for port in result.json["errors"]] == ["node02 mlx4_0"]


def test_matrix_names_every_member(taken: Path) -> None:
    fabric = DATA / "fabrics" / "torus444.net"
    out = run("matrix", "--backend", f"sim:{fabric}", "--partition", "0x7fff").out
    document = run("matrix", "--backend", f"sim:{fabric}", "--partition", "0x7fff", "-f", "json").json
    words = [line.removeprefix("    full: ") for line in out.splitlines() if line.startswith("    full: ")]
    ports: list[Row] = run("mkey-show", "--all", "--backend", f"sim:{fabric}", "-f", "json").json["ports"]
    members = [(port["node_guid"], port["port"]) for port in document["partitions"][0]["full"]]
    assert sorted(unfolded(words, ports)) == sorted(members)


def test_matrix_says_how_to_see_the_members_that_it_leaves_out(tmp_path: Path) -> None:
    net = subnet("torus444")
    for at, node in enumerate(node for node in net.nodes if not node.is_switch):
        net.set_description(node, f"{chr(97 + at % 26)}{at // 26 * 'x'}")  # names that do not fold
    file = tmp_path / "a.db"
    with tool(net) as fabric:
        save_snapshot(file, take_snapshot(fabric, Fingerprints.generate()))
    out = run("matrix", "--from", file).out
    assert len([line for line in out.splitlines() if line.startswith("    ")]) == 9
    assert " more lines of them: --partition 0x7fff\n" in out
    assert " more line" not in run("matrix", "--from", file, "--partition", "0x7fff").out


def test_a_partition_that_nobody_is_in_is_said(taken: Path) -> None:
    result = run("matrix", "--from", taken, "--partition", "0x77", "--partition", "0x1")
    assert result.code == 1
    assert result.err == "ibkeys: note: no port is in partition 0x0077\n"
    assert run("matrix", "--from", taken, "--partition", "0x1").code == 0


def test_a_snapshot_is_read_without_the_secret_too(
    taken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "fingerprint.secret"
    secret.write_bytes(b"short")
    secret.chmod(0o600)
    monkeypatch.setattr("ibkeys.store.paths.default_directory", lambda: tmp_path)
    result = run("pkey-show", "--from", taken)
    assert result.code == 0
    assert f"warning: {secret}: is not a secret of fingerprints" in result.err


def test_matrix_takes_names_from_a_policy(taken: Path, tmp_path: Path) -> None:
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff: ALL=full;\nblue=0x1: 0x0002c903000a1031=full;\n")
    names = [
        each["name"] for each in run("matrix", "--from", taken, "--policy", policy, "-f", "json").json["partitions"]
    ]
    assert names == ["blue", "Default"]


def test_pictures(taken: Path) -> None:
    svg = run("matrix", "--from", taken, "-f", "svg").out
    assert ET.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "0x0001" in svg
    assert "<svg" in run("matrix", "--from", taken, "-f", "html").out
    dot = run("matrix", "--from", taken, "-f", "dot").out
    assert dot.startswith("graph fabric {")
    assert dot.count("taillabel") == 8
    assert "picture" in run("matrix", "--from", taken, "-f", "svg", "--pairs").error


@pytest.mark.parametrize("words", [[3, 4], ["-N", "node03 mlx4_0", "node04 mlx4_0/1"], ["node03 mlx4_0", 4]])
def test_why_two_ports_can_talk(taken: Path, words: list[object]) -> None:
    result = run("why", "--from", taken, *words)
    assert result.code == 0
    assert "can talk" in result.out
    assert "0xffff with 0xffff: yes: same partition 0x7fff" in result.out


def test_why_two_ports_cannot_talk(cli: Cli) -> None:
    for lid in (3, 4):
        assert cli("pkey-set", lid, "0=0x7fff", "--override", "index-0", "--yes").code == 0
    result = cli("why", 3, 4)
    assert result.code == 1
    assert "both are limited" in result.out
    document = cli("why", 3, 4, "-f", "json").json
    assert (document["can_talk"], document["by"], document["stopped_by"]) == (False, [], [])


def test_why_names_the_switch_port_that_stops_them(cli: Cli) -> None:
    assert cli("pkey-add", 3, "0x8009", "--yes").code == 0
    assert cli("pkey-add", 4, "0x8009", "--yes").code == 0
    for lid in (3, 4):
        assert (
            cli("pkey-remove", lid, "0xffff", "--override", "index-0", "--override", "default-pkey", "--yes").code == 0
        )
    link = next(
        port["peer"]
        for node in cli("discover", "-f", "json").json["nodes"]
        if node["lid"] == 3 and node["node_type"] == "ca"
        for port in node["ports"]
    )
    where = ["-G", link["node_guid"], link["port"]]
    assert cli("enforce-set", *where, "--inbound", "on", "--outbound", "on", "--yes").code == 0
    result = cli("why", 3, 4)
    assert result.code == 1
    assert "(inbound enforcement: no entry of its P_Key table belongs to that partition)" in result.out
    assert "(outbound enforcement: no entry of its P_Key table matches)" in result.out
    document = cli("why", 3, 4, "-f", "json").json
    assert document["can_talk"] is False
    stopped = {"stopped": True, "a_to_b": False, "b_to_a": False}
    assert document["by"] == [{"a_pkey": "0x8009", "b_pkey": "0x8009", **stopped}]
    assert [(stop["node_guid"], stop["port"], stop["direction"]) for stop in document["stopped_by"]] == [
        (link["node_guid"], link["port"], "inbound"),
        (link["node_guid"], link["port"], "outbound"),
    ]
    [stopped] = [
        each["stopped"] for each in cli("matrix", "-f", "json").json["partitions"] if each["partition"] == "0x0009"
    ]
    assert {stop["direction"] for stop in stopped} == {"inbound", "outbound"}


def test_why_refuses_what_is_no_pair_of_end_ports(cli: Cli) -> None:
    assert "same port" in cli("why", 3, 3).error
    assert cli("why", 3, 3).code == 2
    switch = next(node for node in cli("discover", "-f", "json").json["nodes"] if node["node_type"] == "switch")
    result = cli("why", "-G", switch["node_guid"] + "/1", switch["node_guid"])
    assert result.code == 2
    assert "external port" in result.error
    assert cli("why", 3, 4711).code == 3


def test_say_what_a_sweep_cost(cli: Cli) -> None:
    err = cli("pkey-show", "--all", "-v").err
    [line] = [line for line in err.splitlines() if "the minimum is" in line]
    assert "(+0.0 %)" in line
    assert json.loads("[" + line.split(" SMPs sent, ")[0].split()[-1] + "]")[0] > 50
