"""discover --names: what a port is called, both ways, for people and for scripts."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import DUAL_HOME, TWO_SWITCH, Result, run
from tests.cli.saved import save
from tests.fattree import fat_tree


def names(*args: object, backend: str = TWO_SWITCH) -> Result:
    return run("discover", "--names", "--backend", backend, *args)


def test_a_port_is_found_by_each_of_its_names() -> None:
    expected = (
        "Name           Port  LID  Port GUID           Switch port\n"
        "node03 mlx4_0     1    3  0x0002c903000a1031  MF0;switch-a:IS5023/U1:3\n"
    )
    for who in ("node03", "3", "0x0002c903000a1031", "0x0002c903000a1030", "MF0;switch-a:IS5023/U1:3"):
        result = names(who)
        assert (result.code, result.out, result.err) == (0, expected, ""), who


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        ("name", "node02 mlx4_0\nMF0;switch-a:IS5023/U1\n"),
        ("host", "node02\nMF0;switch-a:IS5023/U1\n"),
        ("port-guid", "0x0002c903000a1021\n0x0002c90200401000\n"),
        ("node-guid", "0x0002c903000a1020\n0x0002c90200401000\n"),
        ("lid", "2\n7\n"),
        ("switch-port", "MF0;switch-a:IS5023/U1:2\n-\n"),
    ],
)
def test_for_scripts_one_value_stands_on_each_line_in_the_order_of_the_words(only: str, expected: str) -> None:
    result = names("--only", only, "node02", "7", "node02")
    assert (result.code, result.out, result.err) == (0, expected, "")


def test_without_words_every_end_port_is_listed_and_json_has_all_of_each() -> None:
    document = names("-f", "json", backend=DUAL_HOME).json
    assert document["schema"] == "ibkeys.discover-names/1"
    assert len(document["ports"]) == 18
    assert document["unreached"] == 1
    [second] = [port for port in document["ports"] if (port["node_desc"], port["port"]) == ("db01 mlx5_0", 2)]
    assert second == {
        "node_guid": "0x248a070300b10100",
        "port_guid": "0x248a070300b10102",
        "node_desc": "db01 mlx5_0",
        "node_type": "ca",
        "port": 2,
        "lid": 2,
        "host": "db01",
        "peer": {
            "node_guid": "0x248a070300f00200",
            "node_desc": "MF0;ib-b:SB7780/U1",
            "node_type": "switch",
            "port": 1,
        },
    }


def test_hosts_come_before_switches_and_names_stand_in_natural_order(tmp_path: Path) -> None:
    net = Subnet.from_text(fat_tree(2, 6, 1))
    hosts = [node for node in net.nodes if not node.is_switch]
    for number, node in enumerate(hosts):
        node.description_bytes = f"n{len(hosts) - number} mlx5_0".encode()
    file = save(net, tmp_path / "a.db")
    found = run("discover", "--names", "--from", file, "--only", "name").out.splitlines()
    assert found[: len(hosts)] == [f"n{number} mlx5_0" for number in range(1, 13)]
    assert run("discover", "--names", "--from", file, "n[2-10]", "--only", "host").out.split() == [
        f"n{at}" for at in range(2, 11)
    ]


def test_csv_has_the_same() -> None:
    rows = list(csv.DictReader(io.StringIO(names("-f", "csv", "node02", "7").out)))
    assert [(row["node_desc"], row["peer_node_desc"], row["peer_port"]) for row in rows] == [
        ("node02 mlx4_0", "MF0;switch-a:IS5023/U1", "2"),
        ("MF0;switch-a:IS5023/U1", "", ""),
    ]


def test_what_is_not_there_is_wrong_usage_with_names_that_are_near() -> None:
    result = names("node02", "node[05-08]", "0x0002c903000affff")
    assert (result.code, result.out) == (2, "")
    assert "'node[07-08]': nothing that was read has this name; did you mean node0" in result.error
    assert "0x0002c903000affff" not in result.error, "a GUID that is not there may be a key"


def test_one_line_for_scripts_or_a_document() -> None:
    assert names("--only", "lid", "-f", "json").code == 2


@pytest.mark.parametrize(("args", "said"), [(("node03",), "WHO goes with --names"), (("--only", "lid"), "--only goes")])
def test_without_names_nothing_is_chosen(args: tuple[str, ...], said: str) -> None:
    result = run("discover", "--backend", TWO_SWITCH, *args)
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(said)
