"""why, matrix, diff --reach, plan and audit where a port on a link between switches enforces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.cli.partitions.proof import write_proof
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import run
from tests.cli.saved import save
from tests.fabricsim import subnet

HERE, THERE, BESIDE = "node01 mlx4_0", "node04 mlx4_0", "node02 mlx4_0"


def links(net: Subnet) -> list[SimPort]:
    """The ports of the first switch that lead to another one."""
    [first, *_] = [node for node in net.nodes if node.is_switch]
    return [port for port in first.ports[1:] if port.peer is not None and port.peer.node.is_switch]


def blocked(on_all: bool) -> Subnet:
    """Two switches and two cables between them: both ends of one, or of each, enforce with an empty table."""
    net = subnet("two-switch")
    found = links(net)
    if len(found) == 1:
        free = [next(port for port in node.ports[1:] if port.peer is None) for node in net.nodes if node.is_switch]
        net.plug(free[0].node, free[0].number, free[1].node, free[1].number)
        found = links(net)
    for port in found if on_all else found[:1]:
        assert port.peer is not None
        for end in (port, port.peer):
            end.p_keys = []
            end.inbound_enforcement = end.outbound_enforcement = 1
    return net


@pytest.fixture
def some(tmp_path: Path) -> Path:
    return save(blocked(on_all=False), tmp_path / "some.db")


@pytest.fixture
def every(tmp_path: Path) -> Path:
    return save(blocked(on_all=True), tmp_path / "every.db")


def test_why_does_not_know_where_a_route_leads_through_such_a_port(some: Path) -> None:
    found = run("why", "--from", some, HERE, THERE)
    assert found.code == 3
    assert "it is not known whether they can talk: it depends on the route, and routes are not read" in found.out
    assert found.out.count("on routes through it, ") == 4  # two ports, each direction
    assert "drops packets with 0xffff on their way to " in found.out
    assert "is dropped, or corrupted and passed on" in found.out
    document = run("why", "--from", some, HERE, THERE, "-f", "json").json
    assert (document["can_talk"], document["a_to_b"], document["b_to_a"]) == (None, None, None)
    [match] = document["by"]
    checks = match.pop("checks")
    assert match == {"a_pkey": "0xffff", "b_pkey": "0xffff", "stopped": None, "a_to_b": None, "b_to_a": None}
    assert [(each["way"], each["index"], each["on_some_routes"]) for each in checks] == [
        *[("a_to_b", None, True)] * 2,
        *[("b_to_a", None, True)] * 2,
    ]
    assert {each["peer"]["node_type"] for each in checks} == {"switch"}
    assert document["stopped_by"] == []
    stops = [(each["direction"], each["way"]) for each in document["may_be_stopped_by"]]
    assert sorted(stops) == sorted((way, to) for way in ("inbound", "outbound") for to in ("a_to_b", "b_to_a"))
    assert run("why", "--from", some, HERE, BESIDE).code == 0  # on one switch


def test_why_says_no_where_every_route_leads_through_such_ports(every: Path) -> None:
    found = run("why", "--from", every, HERE, THERE)
    assert found.code == 1
    assert "  cannot talk\n" in found.out
    document = run("why", "--from", every, HERE, THERE, "-f", "json").json
    assert (document["can_talk"], document["a_to_b"], document["b_to_a"]) == (False, False, False)
    assert len(document["stopped_by"]) == 8
    assert document["may_be_stopped_by"] == []


def test_why_of_one_host_does_not_know_all_of_its_partners(some: Path, every: Path) -> None:
    found = run("why", HERE, "--from", some)
    assert found.code == 3
    assert "; of some ports it is not known\n" in found.out
    assert "the result is partial: of some pairs the routes decide" in found.error
    assert run("why", HERE, "--from", every).code == 0


def test_matrix_counts_such_pairs_and_names_the_ports(some: Path, every: Path) -> None:
    found = run("matrix", "--from", some)
    assert found.code == 3
    assert "pairs not known: whether they can talk, or one way only, depends on the route" in found.out
    assert found.err.count("is on a link between switches and stops packets with ") == 4
    counted = run("matrix", "--from", some, "-f", "json").json
    listed = run("matrix", "--from", some, "--pairs", "-f", "json").json
    assert counted["unknown"] == len(listed["unknown"]) > 0
    assert counted["pairs"] == len(listed["pairs"]) > 0
    assert {each["direction"] for each in counted["may_be_stopped_by"]} == {"inbound", "outbound"}
    csv = run("matrix", "--from", some, "--pairs", "-f", "csv").out.splitlines()
    assert sum(line.endswith(",unknown") for line in csv) == counted["unknown"]
    none = run("matrix", "--from", every)
    assert none.code == 0
    assert "not known" not in none.out
    assert run("matrix", "--from", every, "-f", "json").json["pairs"] == counted["pairs"]


def test_diff_does_not_know_what_such_a_pair_gained(tmp_path: Path, some: Path, every: Path) -> None:
    before = save(subnet("two-switch"), tmp_path / "before.db")
    document = run("diff", "--reach", some, every, "-f", "json")
    assert document.code == 3
    unknown = run("matrix", "--from", some, "-f", "json").json["unknown"]
    assert document.json["reach"]["unknown"] == unknown
    assert (document.json["reach"]["gained"], document.json["reach"]["lost"]) == (0, 0)
    assert {each["change"] for each in document.json["reach"]["changes"]} == {"unknown"}
    words = run("diff", "--reach", some, every)
    assert words.code == 3
    assert f"{unknown} pairs not known: the route decides" in words.out
    lost = run("diff", "--reach", before, every, "-f", "json")
    assert (lost.code, lost.json["reach"]["lost"]) == (1, unknown)


def test_plan_does_not_know_which_pairs_it_connects(tmp_path: Path, some: Path, every: Path) -> None:
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff : ALL=full ;\n")
    unknown = run("matrix", "--from", some, "-f", "json").json["unknown"]
    found = run("plan", "--policy", policy, "--from", some, "-f", "json")
    assert (found.code, found.json["reach"]) == (3, {"gained": 0, "lost": 0, "unknown": unknown})
    assert found.err.count("is on a link between switches and stops packets with ") == 4
    words = run("plan", "--policy", policy, "--from", some, "--enforce", "off").out
    assert f"that gain connectivity: 0; that lose connectivity: 0; not known: {unknown}\n" in words
    assert "0 P_Key tables and the enforcement of 2 switch ports would change" in words
    gained = run(
        "plan", "--policy", policy, "--from", every, "-f", "json"
    )  # it switches off what stops every packet now
    assert (gained.code, gained.json["reach"]) == (1, {"gained": unknown, "lost": 0, "unknown": 0})


def test_audit_does_not_know_whether_a_forbidden_pair_can_talk(tmp_path: Path, some: Path, every: Path) -> None:
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff : ALL=limited ;\n")
    found = run("audit", "--from", some, "--policy", policy, "--check", "PK005", "-f", "json")
    assert (found.code, none_read(found.json["coverage"])) == (3, 2)
    assert "may be able to talk to" in found.out
    assert "the routes are not known; the policy keeps them apart" in found.out
    none = run("audit", "--from", every, "--policy", policy, "--check", "PK005", "-f", "json")
    assert (none.code, none_read(none.json["coverage"])) == (1, 0)
    assert "may be able to talk to" not in none.out


def none_read(coverage: dict[str, Any]) -> int:
    """Return at how many ports the routes that lead through it were not read."""
    return sum(each["attribute"] == "LinearForwardingTable" for each in coverage["troubles"])


@pytest.mark.parametrize("fabric", ["some", "every"])
@pytest.mark.parametrize("there", [THERE, BESIDE])
def test_the_words_of_why_are_made_of_its_document_alone(
    fabric: str, there: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("why", "--from", request.getfixturevalue(fabric), HERE, there)
    write_proof(run(*words, "-f", "json").json)
    assert capsys.readouterr().out == run(*words).out
