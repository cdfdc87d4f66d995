"""A host's name without its device: all nodes of the host where ports are shown, one node where a port is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import DUAL_HOME, TWO_SWITCH, Cli, run
from tests.corpus import DATA
from tests.fabricsim import change_each_subnet


@pytest.fixture
def rails(tmp_path: Path) -> str:
    """The subnet of two switches, on which node01 has two HCAs: what was node02 is its mlx4_1."""
    file = tmp_path / "rails.net"
    text = (DATA / "fabrics" / "two-switch.net").read_text()
    file.write_text(text.replace("node02 mlx4_0", "node01 mlx4_1"))
    return f"sim:{file}"


@pytest.mark.parametrize("command", ["pkey-show", "mkey-show", "port-show"])
def test_the_one_node_of_a_host_is_shown_as_by_its_whole_name(cli: Cli, command: str) -> None:
    assert cli(command, "-N", "node03") == cli(command, "-N", "node03 mlx4_0")


def test_no_more_is_sent_for_it() -> None:
    def sent(name: str) -> str:
        return run("pkey-show", "--backend", TWO_SWITCH, "-v", "-N", name).err.splitlines()[0]

    assert "SMPs sent" in sent("node03")
    assert sent("node03") == sent("node03 mlx4_0")


@pytest.mark.parametrize("command", ["pkey-show", "mkey-show", "port-show"])
def test_of_a_host_with_several_nodes_each_is_shown(rails: str, command: str) -> None:
    result = run(command, "--backend", rails, "-N", "node01", "-f", "json")
    assert result.code == 0, result.err
    assert [port["node_desc"] for port in result.json["ports"]] == ["node01 mlx4_0", "node01 mlx4_1"]
    listed = run(command, "--backend", rails, "-N", "node01*", "-f", "json").json["ports"]
    assert result.json["ports"] == listed


def test_of_several_one_that_does_not_answer_is_listed(rails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(net: Subnet) -> None:
        net.faults.lose_next("reply", node=net.node("node01 mlx4_1"), attribute=0x16, count=100)

    change_each_subnet(monkeypatch, silent)
    result = run("pkey-show", "--backend", rails, "-t", 10, "-N", "node01", "-f", "json")
    assert result.code == 3
    assert [error["node_desc"] for error in result.json["errors"]] == ["node01 mlx4_1"]
    assert [port["node_desc"] for port in result.json["ports"]] == ["node01 mlx4_0", "node01 mlx4_1"]


def test_a_name_where_a_guid_is_meant_names_the_option() -> None:
    result = run("pkey-show", "--backend", TWO_SWITCH, "-G", "node03")
    assert result.code == 2
    assert result.error.endswith(" (for a node's name: -N)")


def test_a_similar_name_that_a_shell_would_split_is_quoted() -> None:
    result = run("port-show", "--backend", TWO_SWITCH, "-N", "MF0;switch-a", 3)
    assert result.error.endswith("; did you mean 'MF0;switch-a:IS5023/U1'?")


def test_an_adapter_that_the_host_lacks_is_answered_with_those_that_it_has(rails: str) -> None:
    for words in (("discover", "--names"), ("pkey-show", "--all", "--node")):
        result = run(*words, "node01 mlx4_7", "--backend", rails)
        assert result.code == 2
        assert result.error.endswith("; did you mean 'node01 mlx4_0' or 'node01 mlx4_1'?")


def test_history_of_an_unknown_name_has_similar_ones(rails: str, tmp_path: Path) -> None:
    assert run("snapshot", "--backend", rails, "--into", tmp_path / "taken").code == 0
    result = run("history", "nod33", tmp_path / "taken")
    assert result.code in (2, 3)
    assert result.error.endswith("taken has such a port; did you mean 'node03 mlx4_0'?")


def test_one_adapter_of_a_host_is_replaced_by_its_whole_name(rails: str, tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("Default=0x7fff : ALL=full ;\n")
    words = ("0x2c903000a1031", "node01", "--policy", tmp_path / "policy")
    result = run("replace", "--backend", rails, *words)
    assert result.code == 2
    assert "'node01 mlx4_0' 0x0002c903000a1010 (ca), 'node01 mlx4_1' 0x0002c903000a1020 (ca)" in result.error


@pytest.mark.parametrize("option", ["--host", "--standby"])
def test_a_rehearsal_on_an_unknown_host_says_which_host(rails: str, tmp_path: Path, option: str) -> None:
    assert run("snapshot", "--backend", rails, tmp_path / "a.db").code == 0
    value = {"--host": "node01", "--standby": "node01:opensm"}[option]
    who = {"--host": "OpenSM's host", "--standby": "a standby"}[option]
    result = run("rehearse", "--now", option, value, "--from", tmp_path / "a.db")
    assert result.code == 2
    assert result.error.startswith(f"{who} is not found: 'node01' is the name of 2 nodes; did you mean 'node01 mlx4_0'")


def test_a_port_number_of_several_nodes_is_refused(rails: str) -> None:
    result = run("pkey-show", "--backend", rails, "-N", "node01", 1)
    assert result.code == 2
    assert result.error == "node 'node01' stands for 2 nodes; did you mean 'node01 mlx4_0' or 'node01 mlx4_1'?"


@pytest.fixture
def taken_name(tmp_path: Path) -> str:
    """The subnet of two switches, on which what was node02 calls itself like the host node01."""
    file = tmp_path / "plain.net"
    file.write_text((DATA / "fabrics" / "two-switch.net").read_text().replace("node02 mlx4_0", "node01"))
    return f"sim:{file}"


def test_a_whole_description_hides_no_node_of_the_host(taken_name: str) -> None:
    """A node chooses its description: it could take a change that is meant for the host's adapter."""
    result = run("pkey-show", "--backend", taken_name, "-N", "node01", "-f", "json")
    assert [port["node_guid"] for port in result.json["ports"]] == ["0x0002c903000a1020", "0x0002c903000a1010"]
    assert run("why", "--backend", taken_name, "node01", "node03").out == "2 of 2 port pairs can talk with 0xffff\n"


@pytest.mark.parametrize(
    "words", [("pkey-add", "-N", "node01", "0x8010"), ("mkey-set", "-N", "node01", "--protect", "1")]
)
def test_a_change_is_not_of_the_node_that_has_the_name_of_a_host(taken_name: str, words: tuple[str, ...]) -> None:
    result = run(*words, "--backend", taken_name, "--yes")
    assert result.code == 2
    assert "node 'node01' stands for 2 nodes: 0x0002c903000a1020 (ca" in result.error
    assert "0x0002c903000a1010 (ca" in result.error
    assert result.error.endswith("; name one by its GUID (-G) or route (-D)")


def test_a_change_takes_the_name_of_a_host_with_one_node(cli: Cli) -> None:
    assert cli("pkey-add", "-N", "node03", "0x8010", "--yes").code == 0
    assert "0x8010" in cli("pkey-show", "-N", "node03 mlx4_0").out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pkey-add", ("0x8010",)),
        ("pkey-set", ("1=0x8010",)),
        ("pkey-remove", ("0xffff",)),
        ("mkey-set", ("--protect", 1)),
        ("counters-clear", ()),
        ("enforce-set", (1, "--inbound", "on")),
    ],
)
def test_a_change_of_a_host_with_several_nodes_is_refused(rails: str, command: str, words: tuple[object, ...]) -> None:
    result = run(command, "--backend", rails, "-N", "node01", *words, "--yes")
    assert result.code == 2
    assert "did you mean 'node01 mlx4_0' or 'node01 mlx4_1'?" in result.err


def test_nodes_of_one_name_are_told_apart_by_guid(tmp_path: Path) -> None:
    file = tmp_path / "twins.net"
    text = (DATA / "fabrics" / "two-switch.net").read_text()
    file.write_text(text.replace("node02 mlx4_0", "node01 mlx4_0"))
    result = run("pkey-add", "--backend", f"sim:{file}", "-N", "node01", "0x8010")
    assert result.code == 2
    assert "0x0002c903000a1010 (ca" in result.error
    assert "0x0002c903000a1020 (ca" in result.error


def test_why_shows_each_pair(rails: str) -> None:
    summary = run("why", "--backend", rails, "node01", "node03")
    assert (summary.code, summary.out) == (0, "2 of 2 port pairs can talk with 0xffff\n")
    result = run("why", "--backend", rails, "node01", "node03", "-v")
    assert result.code == 0, result.err
    assert result.out.count("can talk") == 2
    assert result.out.count("node03 mlx4_0 (ca") == 2
    assert "node01 mlx4_0 (ca" in result.out
    assert "node01 mlx4_1 (ca" in result.out
    assert run("why", "--backend", TWO_SWITCH, "node01", "node03").out.count("can talk") == 1


def test_a_document_of_why_is_of_two_ports(rails: str) -> None:
    result = run("why", "--backend", rails, "node01", "node03", "-f", "json")
    assert result.code == 2
    assert "did you mean 'node01 mlx4_0' or 'node01 mlx4_1'?" in result.error
    result = run("why", "--backend", rails, "node01 mlx4_1", "node03", "-f", "json")
    assert result.json["can_talk"] is True


def test_why_of_a_host_with_itself_is_of_its_nodes(rails: str) -> None:
    assert run("why", "--backend", rails, "node01", "node01").code == 0
    result = run("why", "--backend", rails, "node03", "node03 mlx4_0")
    assert result.code == 2
    assert "A and B are the same port" in result.error


def test_history_tells_of_all_nodes_of_a_host(rails: str, tmp_path: Path) -> None:
    state = f"{rails},state={tmp_path / 'fabric.state'}"
    folder = tmp_path / "taken"
    assert run("snapshot", "--backend", state, "--into", folder).code == 0
    changed = run("pkey-add", "--backend", state, "-N", "node01 mlx4_1", "0x8010", "--yes")
    assert changed.code == 0, changed.err
    assert run("snapshot", "--backend", state, "--into", folder).code == 0
    result = run("history", "node01", folder, "-f", "json")
    assert result.code == 0, result.err
    assert [event["node_desc"] for event in result.json["events"]] == ["node01 mlx4_1"]


def test_why_lists_the_pairs_of_hosts_that_cannot_talk(rails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(net: Subnet) -> None:
        net.port("node01 mlx4_1", 1).p_keys = [0x8001]

    change_each_subnet(monkeypatch, leave)
    result = run("why", "--backend", rails, "node01", "node03")
    assert result.code == 1
    assert result.out.startswith("1 of 2 port pairs can talk with 0xffff\n  'node01 mlx4_1' ")
    assert " cannot talk, no P_Keys match\n" in result.out
    assert result.out.endswith("  (-v shows the proof for each pair)\n")


def test_why_of_a_host_with_two_ports_is_about_both_and_names_them() -> None:
    both = run("why", "--backend", DUAL_HOME, "db01").out
    assert both.startswith("2 ports: db01 mlx5_0 port 1-2 can talk to, by partition:\n")
    assert run("why", "--backend", DUAL_HOME, "db01/2").out.startswith(
        "db01 mlx5_0 port 2 can talk to, by partition:\n"
    )
    assert run("why", "--backend", DUAL_HOME, "0x248a070300b10101").out.startswith("db01 mlx5_0 port 1 can talk to, ")


def test_why_of_one_host_names_what_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not read may be a partner."""
    change_each_subnet(monkeypatch, lambda net: net.silence("node03 mlx4_0"))
    result = run("why", "--backend", TWO_SWITCH, "-t", 10, "node01")
    assert result.code == 3
    assert "\n  0x7fff (full): " in result.out
    assert "port 3, LID 7: nothing answers behind it" in result.err
    assert result.err.endswith("the result is partial: 1 thing that should have been read was not\n")


def test_a_name_that_may_be_where_nothing_was_read_is_no_wrong_name(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("pkey-show", "--backend", TWO_SWITCH, "-t", 10)
    for unknown in (("-N", "node99"), ("--all", "--node", "node99"), ("-N", "node0[1,9]")):
        assert run(*words, *unknown).code == (3 if unknown == ("-N", "node99") else 2)
    change_each_subnet(monkeypatch, lambda net: net.silence("node03 mlx4_0"))
    for unknown in (("-N", "node03"), ("--all", "--node", "node03"), ("-N", "node0[1,3]")):
        result = run(*words, *unknown)
        assert result.code == 3
        assert "node03" in result.error


def test_why_of_one_host_lists_its_partners_by_partition(rails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def join(net: Subnet) -> None:
        for name, keys in (("node01 mlx4_1", [0xFFFF, 0x8001]), ("node03 mlx4_0", [0x7FFF, 0x0001])):
            net.port(name, 1).p_keys = keys

    change_each_subnet(monkeypatch, join)
    result = run("why", "--backend", rails, "node01")
    assert result.code == 0
    assert result.out.startswith(
        "2 ports: node01 mlx4_[0-1] can talk to, by partition:\n"
        "  0x0001 (full, only node01 mlx4_1): 1 port: node03 mlx4_0\n"
    )
    assert "\n  0x7fff (full): " in result.out
    assert "\n  0x0001 (limited): 1 port: node01 mlx4_1" in run("why", "--backend", rails, "node03 mlx4_0").out
    assert run("why", "--backend", rails, "node03", "-f", "json").code == 2
