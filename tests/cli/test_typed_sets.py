"""What is printed folded can be typed: sets of names and GUIDs, where a command takes several ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

SOME = "0x0002c903000a[1020,1040]"


def shown(cli: Cli, *words: object) -> list[tuple[str, int]]:
    """Return node and port number of what a command shows."""
    result = cli(*words, "-f", "json")
    assert result.code == 0, result.err
    return [(row["node_desc"].split()[0], row["port"]) for row in result.json["ports"]]


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (("-G", SOME), ["node02", "node04"]),
        (("-G", "0x0002c903000a1021,0x0002c903000a1030"), ["node02", "node03"]),
        (("-N", "node[02,04] mlx4_0"), ["node02", "node04"]),
        (("-N", "node02,node04"), ["node02", "node04"]),
        (("-N", "node[02,04]", 1), ["node02", "node04"]),
        (("-G", SOME, "1"), ["node02", "node04"]),
        (("--all", "--node", SOME), ["node02", "node04"]),
    ],
)
@pytest.mark.parametrize("command", ["pkey-show", "mkey-show"])
def test_a_showing_command_takes_a_set(cli: Cli, command: str, words: tuple[object, ...], nodes: list[str]) -> None:
    assert sorted(shown(cli, command, *words)) == [(node, 1) for node in nodes]


def test_port_numbers_of_a_set_are_those_of_each_node(cli: Cli) -> None:
    switches = "MF0;switch-a:IS5023/U1,MF0;switch-a:IS5023/U1"
    assert shown(cli, "pkey-show", "-N", switches, "1-2,4") == [("MF0;switch-a:IS5023/U1", each) for each in (1, 2, 4)]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("-G", "0x0002c903000a[1020,affe]"), 2, "0x0002c903000aaffe"),
        (("-N", "node[02,77]"), 2, "node77"),
        (("-N", "node[02,04]", 2), 2, "'node02 mlx4_0'"),
        (("-N", "node[02,04]", "2-1"), 2, "2-1"),
        (("-N", "node[02,04]", "all"), 2, "'all'"),
        (("-G", "0x0002c903000a[1020-1040]"), 2, "is not a set of GUIDs"),
        (("-G", SOME, 1, 1), 2, "3 words"),
        (("-G", SOME, "--all"), 2, "--all"),
        (("-G", "-N", SOME), 2, "-G and -N exclude each other"),
    ],
)
def test_what_a_set_names_and_is_not_there_is_refused(
    cli: Cli, words: tuple[object, ...], code: int, text: str
) -> None:
    result = cli("pkey-show", *words)
    assert (result.code, result.out) == (code, "")
    assert text in result.err


@pytest.mark.parametrize(
    "words",
    [
        ("pkey-add", "-N", "node[02,04]", "0x8010", "--yes"),
        ("pkey-add", "-G", SOME, "0x8010", "--yes"),
        ("mkey-set", "-G", SOME, "--protect", 1, "--yes"),
        ("why", "node[02,04]", "node03"),
        ("why", "-G", SOME, "0x0002c903000a1030"),
        ("counters-clear", "-N", "node02,node04", "--yes"),
    ],
)
def test_a_command_for_one_port_refuses_a_set(cli: Cli, words: tuple[object, ...]) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, "")
    assert "one port" in result.err
    assert cli("pkey-show", "-N", "node[02,04]", "--p-key", "0x8010", "-f", "json").json["ports"] == []


def test_a_policy_takes_guids_as_they_are_printed(cli: Cli, tmp_path: Path) -> None:
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff : ALL=full;\n")
    assert cli("partition-add", "tank=0x44", "--full", SOME, "--policy", policy).code == 0
    text = policy.read_text()
    assert "0x0002c903000a1021" in text
    assert "0x0002c903000a1041" in text
    missing = cli("partition-add", "tank", "--full", "0x0002c903000a[1020,affe]", "--policy", policy)
    assert missing.code == 2
    assert "0x0002c903000aaffe" in missing.err
