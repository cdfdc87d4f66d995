"""`matrix` and `why` of a snapshot, as a user runs them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from tests.cli.conftest import Cli, run
from tests.cli.saved import save
from tests.cli.unfolding import Row, unfolded
from tests.corpus import DATA
from tests.fabricsim import subnet, tool


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
        if at % 2:  # not all hosts, and not all but a few
            node.end_ports[0].p_keys = [0xFFFF, 0x8010]
    file = tmp_path / "a.db"
    with tool(net) as fabric:
        save_snapshot(file, take_snapshot(fabric, Fingerprints.generate()))
    out = run("matrix", "--from", file).out.partition("\n0x7fff")[0]
    assert len([line for line in out.splitlines() if line.startswith("    ")]) == 9
    assert " more lines of them: --partition 0x0010" in out
    assert " more line" not in run("matrix", "--from", file, "--partition", "0x0010").out


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
    [match] = document["by"]
    assert {name: match[name] for name in ("a_pkey", "b_pkey", *stopped)} == {
        "a_pkey": "0x8009",
        "b_pkey": "0x8009",
        **stopped,
    }
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
