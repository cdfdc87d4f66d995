"""matrix with filters: the partitions of the chosen ports, with all members, and the pairs with such a port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import run
from tests.fabricsim import limited_members, subnet, tool

SECRET = Fingerprints.generate()


def saved(net: Subnet, path: Path) -> Path:
    with tool(net) as fabric:
        save_snapshot(path, take_snapshot(fabric, SECRET))
    return path


def tenants() -> Subnet:
    """Hosts 1 to 3 share 0x0010, of which the third is limited; 4 and 5 share 0x0020; 6 has a P_Key of no other."""
    net = subnet("two-switch")
    for node in net.nodes:
        net.port(node, 0 if node.is_switch else 1).p_keys = [0x7FFF]
    tables = [[0x8010], [0x8010], [0x0010], [0x8020], [0x8020], [0x8030]]
    for number, table in enumerate(tables, 1):
        net.port(f"node0{number} mlx4_0", 1).p_keys = [0x7FFF, *table]
    return net


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    return saved(tenants(), tmp_path / "taken.db")


def partitions(document: Any) -> dict[str, set[str]]:
    return {
        each["partition"]: {port["node_desc"].split()[0] for port in each["full"] + each["limited"]}
        for each in document["partitions"]
        if each["partition"] != "0x7fff"
    }


def test_the_partitions_of_a_host_stand_with_all_their_members(taken: Path) -> None:
    document = run("matrix", "--from", taken, "--node", "node03", "-f", "json").json
    assert partitions(document) == {"0x0010": {"node01", "node02", "node03"}}
    assert document["looked_at"] == {"ports": 1, "of": 8}
    assert document["pairs"] == 2, "limited with two full members"


def test_without_a_filter_it_is_the_whole(taken: Path) -> None:
    document = run("matrix", "--from", taken, "-f", "json").json
    assert document["looked_at"] is None
    assert document["pairs"] == 4
    assert set(partitions(document)) == {"0x0010", "0x0020", "0x0030"}


@pytest.mark.parametrize(
    ("words", "shown", "pairs"),
    [
        (("--node", "node0[4-5]"), {"0x0020"}, 1),
        (("--node", "node06"), {"0x0030"}, 0),
        (("--p-key", "0x0010"), {"0x0010"}, 2),
        (("--p-key", "0x8010", "--p-key", "0x8020"), {"0x0010", "0x0020"}, 4),
        (("--hosts",), {"0x0010", "0x0020", "0x0030"}, 4),
        (("--switch",), set(), 0),
        (("--level", 1), set(), 0),
        (("--nonzero",), set(), 0),
        (("--node", "node01", "--partition", "0x0010"), {"0x0010"}, 2),
    ],
)
def test_each_filter_chooses(taken: Path, words: tuple[object, ...], shown: set[str], pairs: int) -> None:
    result = run("matrix", "--from", taken, *words, "-f", "json")
    assert result.code == 0, result.err
    assert set(partitions(result.json)) == shown
    assert result.json["pairs"] == pairs
    listed = run("matrix", "--from", taken, *words, "--pairs", "-f", "json")
    assert listed.json["looked_at"] == result.json["looked_at"]
    assert len(listed.json["pairs"]) == pairs, "they are counted as they are listed"


def test_one_way_pairs_are_those_with_such_a_port(tmp_path: Path) -> None:
    file = saved(limited_members("node02 mlx4_0"), tmp_path / "one-way.db")
    ends = [(pair["a"]["node_desc"], pair["b"]["node_desc"]) for pair in one_way(file)]
    assert ends
    for number in range(1, 7):
        name = f"node0{number} mlx4_0"
        counted = run("matrix", "--from", file, "--node", name, "-f", "json").json["one_way"]
        assert counted == len(one_way(file, "--node", name)) == sum(name in pair for pair in ends)


def one_way(file: Path, *words: str) -> list[dict[str, Any]]:
    pairs: list[dict[str, Any]] = run("matrix", "--from", file, "--pairs", *words, "-f", "json").json["one_way"]
    return pairs


def test_what_changed_since_a_snapshot_chooses(taken: Path, tmp_path: Path) -> None:
    net = tenants()
    net.port("node06 mlx4_0", 1).p_keys = [0x7FFF, 0x8020]
    later = saved(net, tmp_path / "later.db")
    document = run("matrix", "--from", later, "--changed-since", taken, "-f", "json").json
    assert partitions(document) == {"0x0020": {"node04", "node05", "node06"}}
    assert document["pairs"] == 2


def test_the_table_says_that_it_is_a_part(taken: Path) -> None:
    lines = run("matrix", "--from", taken, "--node", "node03").out.splitlines()
    assert lines[0] == "only 1 of 8 ports was examined; below are the partitions of these ports, with all members"
    assert "2 pairs with at least one of these ports can talk, over all partitions (each: --pairs)" in lines
    lines = run("matrix", "--from", taken, "--node", "node03", "--pairs").out.splitlines()
    assert lines[0] == "only 1 of 8 ports was examined; each pair below has at least one of these ports"
    assert len(lines) == 3


def test_a_partition_without_such_a_port_is_said(taken: Path) -> None:
    result = run("matrix", "--from", taken, "--node", "node06", "--partition", "0x0010")
    assert result.code == 1
    assert "no port that the filter selects is in partition 0x0010" in result.err


@pytest.mark.parametrize("format", ["svg", "html", "map", "dot"])
def test_a_picture_takes_no_filter(taken: Path, format: str) -> None:
    result = run("matrix", "--from", taken, "--hosts", "-f", format)
    assert result.code == 2
    assert result.error.startswith(f"-f {format} is a picture of all ports")


def test_a_name_that_is_not_there_is_said(taken: Path) -> None:
    result = run("matrix", "--from", taken, "--node", "node7")
    assert result.code == 2
    assert "nothing that was read has this name" in result.error
