"""Filters: which ports of a sweep are listed, the same on every showing command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import Cli
from tests.cli.saved import save
from tests.fabricsim import change_each_subnet, subnet

SHOWING = ["pkey-show", "mkey-show", "port-show"]


def listed(cli: Cli, command: str, *words: object) -> list[tuple[str, int]]:
    """Return name and number of each port of the JSON."""
    result = cli(command, *words, "-f", "json")
    assert result.code == 0, result.err
    ports: list[dict[str, Any]] = result.json["ports"]
    return [(port["node_desc"].split()[0], port["port"]) for port in ports]


HOSTS = [(f"node0{number}", 1) for number in range(1, 7)]


@pytest.mark.parametrize("command", SHOWING)
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--node", "node0[2-3]"), HOSTS[1:3]),
        (("--node", "node02", "--node", "*05"), [HOSTS[1], HOSTS[4]]),
        (("--hosts",), HOSTS),
        (("--hosts", "--switch"), []),
        (("--switch", "--node", "MF0*"), [("MF0;switch-a:IS5023/U1", number) for number in range(9)]),
        (("--node", "MF0;switch-a:IS5023/U1:3"), HOSTS[2:3]),
        (("--level", 1), []),
        (("--level", 0, "--level", 1, "--hosts"), HOSTS),
        (("--p-key", "0x7fff"), []),
        (("--partition", "0x7fff", "--hosts"), HOSTS),
        (("--nonzero",), []),
    ],
)
def test_a_port_has_to_fit_each_kind_and_one_value_of_it(
    cli: Cli, command: str, words: tuple[object, ...], wanted: list[tuple[str, int]]
) -> None:
    if command == "mkey-show":  # external ports of a switch have the key of its port 0
        assert sorted(listed(cli, command, "--all", "--each", *words)) == wanted
        wanted = [each for each in wanted if each in HOSTS or each[1] == 0]
    assert sorted(listed(cli, command, "--all", *words)) == wanted


@pytest.mark.parametrize("command", SHOWING)
def test_a_set_of_names_after_N_chooses_among_all(cli: Cli, command: str) -> None:
    assert sorted(listed(cli, command, "-N", "node0[4-6]")) == HOSTS[3:]
    assert sorted(listed(cli, command, "-N", "*", "--hosts")) == HOSTS


@pytest.mark.parametrize("command", SHOWING)
def test_p_keys_levels_and_counts_choose(cli: Cli, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("pkey-add", 2, "0x8010", "--yes")
    cli("pkey-add", 3, "0x0010", "--yes")
    assert listed(cli, command, "--all", "--p-key", "0x8010") == HOSTS[1:2]
    assert sorted(listed(cli, command, "--all", "--partition", "0x8010")) == HOSTS[1:3]

    def counted(net: Subnet) -> None:
        net.port("node04 mlx4_0", 1).p_key_violations = 3

    change_each_subnet(monkeypatch, counted)
    assert listed(cli, command, "--all", "--nonzero") == HOSTS[3:4]


@pytest.mark.parametrize("command", SHOWING)
def test_what_differs_from_a_snapshot_is_listed(cli: Cli, command: str, tmp_path: Path) -> None:
    before = tmp_path / "monday.db"
    assert cli("snapshot", before).code == 0
    assert listed(cli, command, "--all", "--changed-since", before) == []
    cli("pkey-add", 2, "0x8010", "--yes")
    assert listed(cli, command, "--all", "--changed-since", before) == HOSTS[1:2]
    after = tmp_path / "tuesday.db"
    assert cli("snapshot", after).code == 0
    assert listed(cli, command, "--from", after, "--all", "--changed-since", before) == HOSTS[1:2]


def test_what_could_not_be_read_of_other_nodes_does_not_matter(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(net: Subnet) -> None:
        net.faults.lose_next("reply", node=net.node("node02 mlx4_0"), attribute=0x16, count=100)

    change_each_subnet(monkeypatch, silent)
    assert cli("pkey-show", "--all", "--timeout", 1).code == 3
    assert cli("pkey-show", "--all", "--timeout", 1, "--node", "node03").code == 0
    assert cli("pkey-show", "--all", "--timeout", 1, "--partition", "0x8010").code == 3, "it may be a member"


@pytest.fixture
def silent(tmp_path: Path) -> Path:
    """A snapshot of the usual fabric without an answer of node05."""
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    return save(net, tmp_path / "silent.db")


def every_port_of(command: str) -> tuple[str, ...]:
    """Return what asks *command* about every port."""
    return {"discover": (), "discover --names": ("--names",)}.get(command, ("--all",))


@pytest.mark.parametrize("command", [*SHOWING, "discover", "discover --names"])
@pytest.mark.parametrize(
    "words", [("--hosts",), ("--switch",), ("--node", "node0*"), ("--node", "node01", "--node", "node0?")]
)
def test_who_did_not_answer_may_fit_what_names_nobody(
    cli: Cli, silent: Path, command: str, words: tuple[str, ...]
) -> None:
    result = cli(command.split()[0], *every_port_of(command), *words, "--from", silent, "-f", "json")
    assert (result.code, [each["port"] for each in result.json["errors"]]) == (3, [2])
    assert "port 2, LID 8: nothing answers behind it" in result.err


@pytest.mark.parametrize("command", SHOWING)
def test_nor_is_it_known_of_a_pattern_after_N(cli: Cli, silent: Path, command: str) -> None:
    assert cli(command, "-N", "node0*", "--from", silent).code == 3
    assert cli(command, "-N", "node0[1-4]", "--from", silent).code == 0


@pytest.mark.parametrize("command", [*SHOWING, "discover", "discover --names"])
@pytest.mark.parametrize("names", [("node01",), ("node01", "node0[2-3]")])
def test_where_each_is_named_nobody_else_matters(cli: Cli, silent: Path, command: str, names: tuple[str, ...]) -> None:
    asked = [word for name in names for word in ("--node", name)]
    for hosts in ([], ["--hosts"]):
        result = cli(command.split()[0], *every_port_of(command), *asked, *hosts, "--from", silent, "-f", "json")
        assert (result.code, result.json["errors"]) == (0, [])


def test_a_host_at_level_2_is_among_those_at_level_2_as_far_as_is_known(cli: Cli, tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port("node05 mlx4_0", 1).m_key, net.port("node05 mlx4_0", 1).protect_bits = 0x9C4E21D7B05A63F8, 2
    result = cli("mkey-show", "--all", "--level", 2, "--hosts", "--from", save(net, tmp_path / "a.db"), "-f", "json")
    assert (result.code, result.json["ports"], len(result.json["errors"])) == (3, [], 1)


@pytest.fixture
def keyed(tmp_path: Path) -> Path:
    """A snapshot in which all ports but those of node02 and the switches have an M_Key, node03 a hidden one."""
    net = subnet("two-switch")
    for number in (1, 3, 4, 5, 6):
        port = net.port(f"node0{number} mlx4_0", 1)
        port.m_key, port.protect_bits = 0x9C4E21D7B05A63F8, 1 if number == 3 else 0
    return save(net, tmp_path / "keyed.db")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), [HOSTS[1], ("Infiniscale-IV", 0), ("MF0;switch-a:IS5023/U1", 0)]),
        (("--all",), [HOSTS[1], ("Infiniscale-IV", 0), ("MF0;switch-a:IS5023/U1", 0)]),
        (("--hosts",), HOSTS[1:2]),
        (("--hosts", "--level", 1), []),
        (("-N", "node0[2-4]"), HOSTS[1:2]),
    ],
)
def test_ports_without_an_m_key(
    cli: Cli, keyed: Path, words: tuple[object, ...], wanted: list[tuple[str, int]]
) -> None:
    assert sorted(listed(cli, "mkey-show", "--zero", *words, "--from", keyed)) == sorted(wanted)


def test_of_a_port_that_was_not_read_it_is_not_known_whether_it_has_an_m_key(cli: Cli, silent: Path) -> None:
    result = cli("mkey-show", "--zero", "--hosts", "--from", silent, "-f", "json")
    assert (result.code, len(result.json["errors"])) == (3, 1)
    assert "node05 mlx4_0" not in {port["node_desc"] for port in result.json["ports"]}


def test_no_key_is_no_question_about_one_port(cli: Cli) -> None:
    result = cli("mkey-show", 2, "--zero")
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith("a filter selects among the ports of --all")


@pytest.mark.parametrize("command", SHOWING)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((2, "--hosts"), "a filter selects among the ports of --all"),
        (("--all", "--node", "nobody"), "'nobody': nothing that was read has this name"),
        (("-N", "node0[7-8]"), "nothing that was read has this name"),
        (("-N", "node0[1-2]", "1-3"), "'node01 mlx4_0' has 1 port, and no port 2, 3"),
        (("-N", "node0[1-2]", 0), "'node01 mlx4_0' has 1 port, and no port 0"),
        (("-N", "MF0*", 9), "'MF0;switch-a:IS5023/U1' has 8 ports, and no port 9"),
        (("--all", "--partition", "lustre"), "'lustre': no partition has this name"),
        (("--all", "--changed-since", "/nowhere/s.db"), "/nowhere/s.db"),
    ],
)
def test_wrong_use_is_said(cli: Cli, command: str, words: tuple[object, ...], said: str) -> None:
    result = cli(command, *words)
    assert result.code in (2, 3)
    assert said in result.err


def nodes_of(result: Any) -> list[str]:
    return [node["node_desc"].split()[0] for node in result.json["nodes"]]


def test_discover_lists_nodes_of_which_a_port_fits(cli: Cli, tmp_path: Path) -> None:
    result = cli("discover", "--node", "node0[2-3]", "-f", "json")
    assert nodes_of(result) == ["node02", "node03"]
    leaf = cli("discover", "--switch", "--p-key", "0x8010", "-f", "json")
    assert leaf.json["nodes"] == []
    before = tmp_path / "monday.db"
    assert cli("snapshot", before).code == 0
    cli("pkey-add", 7, 3, "0x8010", "--yes")
    leaf = cli("discover", "--changed-since", before, "-f", "json")
    assert nodes_of(leaf) == ["MF0;switch-a:IS5023/U1"]
    (node,) = leaf.json["nodes"]
    assert (node["port"], [port["port"] for port in node["ports"]]) == (0, [3])
    assert cli("discover", "--hosts", "-f", "csv").out.count("\n") == 7
    table = cli("discover", "--hosts").out
    assert table.splitlines()[-1] == "6 listed of 8 nodes (6 ca, 2 switch), 8 links"
    assert cli("discover", "--node", "nobody").code == 2


def test_names_of_those_that_fit(cli: Cli) -> None:
    cli("pkey-add", 2, "0x8010", "--yes")
    assert cli("discover", "--names", "--partition", "0x8010", "--only", "host").out == "node02\n"
    assert cli("discover", "--names", "node0[1-3]", "--hosts", "--only", "host").out == "node01\nnode02\nnode03\n"
    assert cli("discover", "--names", "node01", "--switch", "--only", "host").out == ""
    assert cli("discover", "--names", "--switch", "-f", "csv").out.count("\n") == 3
