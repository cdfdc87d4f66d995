"""why, matrix, diff --reach and audit where packets get through in one direction only."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import TWO_SWITCH, run
from tests.fabricsim import change_each_subnet, limited_members, tool

LIAR, VICTIM, MANAGER = "node02 mlx4_0", "node05 mlx4_0", "node01 mlx4_0"
LIAR_GUID, OTHERS = "0x0002c903000a1021", [f"0x0002c903000a10{number}1" for number in (1, 3, 4, 5, 6)]
SECRET = Fingerprints.generate()


def taken(net: Subnet, path: Path) -> Path:
    with tool(net) as fabric:
        save_snapshot(path, take_snapshot(fabric, SECRET))
    return path


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return taken(limited_members(), tmp_path / "before.db")


@pytest.fixture
def after(tmp_path: Path) -> Path:
    return taken(limited_members(LIAR), tmp_path / "after.db")


def test_why_says_which_way_and_by_which_rule(after: Path) -> None:
    result = run("why", "--from", after, LIAR, VICTIM)
    assert result.code == 1
    lines = [line.strip() for line in result.out.splitlines()[2:]]
    assert lines[0] == f"one way, {LIAR} to {VICTIM}: packets get through, but no answer comes back"
    assert lines[1].startswith("0x8001 with 0x0001: yes")
    assert lines[2].startswith(f"{LIAR} to {VICTIM}: 'MF0;switch-a:IS5023/U1' ")
    assert lines[2].endswith(
        "port 2 passes 0x8001 (inbound enforcement: entry 1 of its P_Key table, 0x0001, belongs to that partition)"
    )
    assert lines[3].endswith("port 2 passes 0x8001 (outbound enforcement: entry 1 of its P_Key table, 0x0001, matches)")
    assert lines[5].startswith("stopped: 'MF0;switch-a:IS5023/U1' ")
    assert lines[5].endswith(
        "port 2 drops packets with 0x0001 on their way to node02 mlx4_0 "
        "(outbound enforcement: no entry of its P_Key table matches)"
    )
    assert lines[6:] == [
        "what a switch port stops is dropped, or corrupted and passed on",
        "SMPs (QP0): pass, whatever the P_Keys are",
        "GMPs (QP1): as above: no request gets an answer",
        "raw packets: pass both ways: they carry no P_Key",
        "RD (reliable datagram): as above: the EE contexts use one P_Key each",
    ]
    back = run("why", "--from", after, VICTIM, LIAR)
    assert (back.code, back.out.splitlines()[2].strip()) == (1, lines[0])


def test_the_document_of_why_has_both_ways(after: Path) -> None:
    document = run("why", "--from", after, LIAR, VICTIM, "-f", "json").json
    ways = {"can_talk": False, "a_to_b": True, "b_to_a": False}
    assert {key: document[key] for key in ways} == document["otherwise"] == ways
    pair = {"a_pkey": "0x8001", "b_pkey": "0x0001", "stopped": True, "a_to_b": True, "b_to_a": False}
    [match] = document["by"]
    checks = match.pop("checks")
    assert match == pair
    fields = ("way", "direction", "pkey", "index", "entry", "on_some_routes")
    assert [tuple(each[name] for name in fields) for each in checks] == [
        ("a_to_b", "inbound", "0x8001", 1, "0x0001", False),
        ("a_to_b", "outbound", "0x8001", 1, "0x0001", False),
        ("b_to_a", "inbound", "0x0001", 1, "0x0001", False),
        ("b_to_a", "outbound", "0x0001", None, None, False),
    ]
    assert [each["peer"]["node_desc"] for each in checks] == [LIAR, VICTIM, VICTIM, LIAR]
    assert (document["a"]["pkeys"], document["b"]["pkeys"]) == (["0x7fff", "0x8001"], ["0x7fff", "0x0001"])
    [stop] = document["stopped_by"]
    assert (stop["port"], stop["direction"], stop["pkey"], stop["way"]) == (2, "outbound", "0x0001", "b_to_a")
    assert (document["inbound_check"], document["depends_on_inbound_check"]) == ("partition", False)
    csv = run("why", "--from", after, LIAR, VICTIM, "-f", "csv").out.splitlines()
    assert csv == ["a_pkey,b_pkey,stopped,a_to_b,b_to_a", "0x8001,0x0001,1,1,0"]


def test_why_says_where_the_answer_depends_on_the_inbound_check(after: Path) -> None:
    lax = run("why", "--from", after, MANAGER, VICTIM)
    assert lax.code == 0
    assert lax.out.splitlines()[2].strip() == "can talk"
    assert (
        "this depends on what inbound enforcement checks, here the partition: with --inbound-check membership the "
        f"answer is: one way, {MANAGER} to {VICTIM}: packets get through, but no answer comes back\n"
    ) in lax.out
    strict = run("why", "--from", after, MANAGER, VICTIM, "--inbound-check", "membership")
    assert strict.code == 1
    assert strict.out.splitlines()[2].strip().startswith(f"one way, {MANAGER} to {VICTIM}")
    assert "drops packets with 0x7fff that come from node05 mlx4_0 (inbound enforcement: no entry of" in strict.out
    assert "here the membership: with --inbound-check partition the answer is: can talk\n" in strict.out
    document = run("why", "--from", after, MANAGER, VICTIM, "--inbound-check", "membership", "-f", "json").json
    assert document["depends_on_inbound_check"] is True
    assert document["otherwise"] == {"can_talk": True, "a_to_b": True, "b_to_a": True}


def test_the_inbound_check_comes_from_the_environment_too(after: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_INBOUND_CHECK", "membership")
    assert run("why", "--from", after, MANAGER, VICTIM).code == 1
    assert run("why", "--from", after, MANAGER, VICTIM, "--inbound-check", "partition").code == 0
    assert run("why", "--from", after, MANAGER, VICTIM, "--inbound-check", "both").code == 2


def test_matrix_counts_and_lists_what_is_one_way(before: Path, after: Path) -> None:
    assert "one way" not in run("matrix", "--from", before).out
    out = run("matrix", "--from", after).out
    assert "\n4 pairs are one way: packets reach the other port, but no answer comes back" in out
    assert "(for 6 ports, what they can send depends on what inbound enforcement checks: see --inbound-check)" in out
    document = run("matrix", "--from", after, "-f", "json").json
    assert (document["pairs"], document["one_way"], document["inbound_check"]) == (7, 4, "partition")
    assert document["ports_depending_on_inbound_check"] == 6
    strict = run("matrix", "--from", after, "-f", "json", "--inbound-check", "membership").json
    # of the limited members only the ports 0 of the switches, which nothing checks, still reach the manager
    assert (strict["pairs"], strict["one_way"]) == (2, 10)
    pairs = run("matrix", "--from", after, "--pairs", "-f", "json").json
    assert len(pairs["pairs"]) == 7
    assert [(pair["a"]["port_guid"], pair["b"]["port_guid"]) for pair in pairs["one_way"]] == [
        (LIAR_GUID, other) for other in OTHERS[1:]
    ]
    assert pairs["one_way"][0]["by"] == [{"a_pkey": "0x8001", "b_pkey": "0x0001"}]
    lines = run("matrix", "--from", after, "--pairs").out.splitlines()
    assert lines[7:][0] == f"{LIAR} -> one way to node03 mlx4_0: 0x8001 with 0x0001"
    csv = run("matrix", "--from", after, "--pairs", "-f", "csv").out.splitlines()
    assert [line.rpartition(",")[2] for line in csv] == ["way", *["both"] * 7, *["a_to_b"] * 4]


def test_matrix_of_one_partition_looks_at_that_partition(after: Path) -> None:
    # the liar and the manager can talk in the default partition; in this one they are one way
    pairs = run("matrix", "--from", after, "--pairs", "--partition", "0x1", "-f", "json").json
    assert pairs["pairs"] == []
    assert [pair["b"]["port_guid"] for pair in pairs["one_way"]] == OTHERS
    counted = run("matrix", "--from", after, "--partition", "0x1", "-f", "json").json
    assert (counted["pairs"], counted["one_way"]) == (0, len(OTHERS))
    assert (
        "\n0 pairs of ports can talk, by the partitions named ("
        in run("matrix", "--from", after, "--partition", "0x1").out
    )


def test_diff_says_who_is_one_way_now(before: Path, after: Path) -> None:
    result = run("diff", "--reach", before, after)
    assert result.code == 1
    assert result.out.splitlines()[:3] == ["0 pairs gained reach", "0 pairs lost reach", "4 pairs are one way now"]
    assert f"from {LIAR} to node[03-06] mlx4_0\n" in result.out
    document = run("diff", "--reach", before, after, "-f", "json").json
    counts = {"gained": 0, "lost": 0, "one_way_gained": 4, "one_way_lost": 0}
    assert {key: document["reach"][key] for key in counts} == counts
    [change] = document["reach"]["changes"]
    assert (change["change"], change["pairs"]) == ("one-way-gained", 4)
    assert [port["port_guid"] for port in change["a"]] == [LIAR_GUID]
    assert [port["port_guid"] for port in change["b"]] == OTHERS[1:]
    back = run("diff", "--reach", "--pairs", after, before)
    assert "4 pairs are no longer one way" in back.out
    assert f"  {LIAR} port 1 -> {VICTIM} port 1" in back.out
    strict = run("diff", "--reach", before, after, "-f", "json", "--inbound-check", "membership").json
    assert strict["reach"]["one_way_gained"] == 5  # with the manager, to whom no limited member's packet gets
    assert strict["inbound_check"] == "membership"


def test_the_simulated_subnet_takes_either_reading(tmp_path: Path) -> None:
    assert run("pkey-show", "--backend", f"{TWO_SWITCH},inbound-check=membership").code == 0
    assert (
        "inbound-check=strict: it must be partition or membership"
        in run("pkey-show", "--backend", f"{TWO_SWITCH},inbound-check=strict").error
    )


def test_the_report_of_an_audit_says_by_which_reading(after: Path) -> None:
    strict = run("audit", "--from", after, "--check", "PK001", "--inbound-check", "membership", "-f", "json")
    assert strict.json["inbound_check"] == "membership"
    assert run("audit", "--from", after, "--check", "PK001", "-f", "json").json["inbound_check"] == "partition"


def test_a_route_that_leads_to_another_port_with_that_lid_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    change_each_subnet(monkeypatch, lambda net: setattr(net.port("node05 mlx4_0", 1), "lid", 2))
    result = run("why", "node03 mlx4_0", "node05 mlx4_0", "--backend", TWO_SWITCH)
    assert result.code == 1
    assert "    node02 mlx4_0, port 1\n      lost: the packet comes to another port\n" in result.out
    assert "  raw packets, node03 mlx4_0 to node05 mlx4_0: lost, as above\n" in result.out
    assert "  raw packets, node05 mlx4_0 to node03 mlx4_0: pass\n" in result.out
    packet = ("why", "--packet", "0xffff", "node03 mlx4_0", "node05 mlx4_0", "--backend", TWO_SWITCH)
    assert run(*packet).code == 1
    assert run(*packet, "-f", "json").json["packets"][0]["lost_by"] == "LID of another port"
    assert run("why", "node03 mlx4_0", "node02 mlx4_0", "--backend", TWO_SWITCH).code == 0
    same = run("why", "node05 mlx4_0", "node02 mlx4_0", "--backend", TWO_SWITCH)
    assert same.code == 1
    assert "    node05 mlx4_0\n      lost: the packet comes to another port\n" in same.out
    for ports in (("node03 mlx4_0", "node05 mlx4_0"), ("node05 mlx4_0", "node02 mlx4_0")):
        anyhow = run("why", *ports, "--adaptive-routing", "--backend", TWO_SWITCH)
        assert anyhow.code == 3
        assert f"  raw packets, {ports[0]} to {ports[1]}: not known\n" in anyhow.out
        assert "  it is not known whether they can talk: it depends on the route\n" in anyhow.out
    assert result.out.count("can talk") == 1, "only: it is not known whether they can talk"
    noted = run("matrix", "--routes", "--backend", TWO_SWITCH).err
    assert "note: 2 end ports have a LID that another one has too: the pairs are shown as if each had its own" in noted
