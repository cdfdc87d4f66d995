"""`diff` of two snapshots, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, run
from tests.cli.saved import save
from tests.fabricsim import between_switches, subnet


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
