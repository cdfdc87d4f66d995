"""diff, folded and filtered: what is said is exactly what the JSON has, of the ports that were asked for."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.cli.comparing.words import in_words
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import run
from tests.cli.saved import save
from tests.cli.unfolding import Row, unfolded, words_below
from tests.fabricsim import subnet

HOSTS = [f"node0{number} mlx4_0" for number in range(1, 7)]
SWITCH = "MF0;switch-a:IS5023/U1"


def give(net: Subnet, host: str, index: int, p_key: int) -> None:
    port = net.port(host, 1)
    port.p_keys = [p_key if at == index else key for at, key in enumerate(port.p_keys)]


def groups(out: str) -> dict[str, list[str]]:
    """Return each change that is said → the words below it."""
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        if line.startswith("    "):
            found[list(found)[-1]].append(line)
        else:
            found[line.rpartition(": ")[0]] = []
    return {change: words_below(lines) for change, lines in found.items()}


CHANGES = st.dictionaries(
    st.sampled_from(HOSTS),
    st.dictionaries(st.integers(1, 3), st.sampled_from([0x8010, 0x0010, 0x8021]), min_size=1),
    min_size=1,
)


@settings(max_examples=20, deadline=None)
@given(changes=CHANGES, violations=st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_unfolding_gives_exactly_the_changes_of_the_json(
    changes: dict[str, dict[int, int]], violations: list[int]
) -> None:
    net = subnet("two-switch")
    with tempfile.TemporaryDirectory() as name:
        before = save(net, Path(name) / "a.db")
        for host, keys in changes.items():
            for index, key in keys.items():
                give(net, host, index, key)
        for host, count in zip(HOSTS, violations, strict=True):
            net.port(host, 1).p_key_violations += count
        after = save(net, Path(name) / "b.db")
        document: dict[str, Any] = run("diff", before, after, "-f", "json").json
        folded = run("diff", before, after, "--fold").out
    rows: list[Row] = document["changes"]
    wanted = Counter((in_words(row), row["node_guid"], row["port"]) for row in rows)
    ports = [{**port.identity()} for port in _ports(net)]
    found = Counter(
        (change, guid, number) for change, words in groups(folded).items() for guid, number in unfolded(words, ports)
    )
    assert found == wanted
    assert len(wanted) >= sum(len(set(keys.values())) for keys in changes.values())


def _ports(net: Subnet) -> list[Any]:
    from tests.fabricsim import tool

    with tool(net) as fabric:
        return list(fabric.sweep().ports())


@pytest.fixture
def monday(tmp_path: Path) -> Path:
    return save(subnet("two-switch"), tmp_path / "monday.db")


@pytest.fixture
def tuesday(tmp_path: Path) -> Path:
    net = subnet("two-switch")
    for host in HOSTS[1:5]:
        give(net, host, 1, 0x8021)
    give(net, HOSTS[5], 1, 0x8010)
    net.port(SWITCH, 1).outbound_enforcement = 1
    return save(net, tmp_path / "tuesday.db")


def test_ports_to_which_the_same_happened_are_together(monday: Path, tuesday: Path) -> None:
    result = run("diff", monday, tuesday, "--fold")
    assert (result.code, result.err) == (1, "")
    assert result.out == (
        "PartitionEnforcementOutbound: 0 -> 1: 1 port\n"
        f"    {SWITCH} port 1\n"
        "P_Key 0x8021 added at index 1: 4 ports\n"
        "    node[02-05] mlx4_0\n"
        "P_Key 0x8010 added at index 1: 1 port\n"
        "    node06 mlx4_0\n"
    )
    each = run("diff", monday, tuesday).out
    assert each == run("diff", monday, tuesday, "--each").out
    assert each.count("P_Key 0x8021 added at index 1") == 4


def test_hosts_that_went_are_folded_and_each_is_named(tmp_path: Path, monday: Path) -> None:
    net = subnet("two-switch")
    for host in HOSTS[2:]:
        net.unplug(host, 1)
    out = run("diff", monday, save(net, tmp_path / "b.db"), "--fold").out
    assert "nodes removed: 4 ca\n    node[03-06] mlx4_0\n" in out
    assert f"link removed: {SWITCH} port 3 - node03 mlx4_0 port 1\n" in out


def test_hosts_of_a_type_that_no_node_can_have_are_named_too(tmp_path: Path, monday: Path) -> None:
    net = subnet("two-switch")
    for node in [node for node in net.nodes if node.description in HOSTS[4:]]:
        node.node_type = 255
    without = subnet("two-switch")
    for host in HOSTS[4:]:
        without.unplug(host, 1)
    out = run("diff", save(net, tmp_path / "a.db"), save(without, tmp_path / "b.db"), "--fold").out
    assert "nodes removed: 2 of no known type\n    node[05-06] mlx4_0\n" in out


@pytest.mark.parametrize(
    ("words", "hosts", "looked_at"),
    [
        (("--node", "node0[1-3]"), ["node02", "node03"], 3),
        (("--hosts",), ["node02", "node03", "node04", "node05", "node06"], 6),
        (("--switch",), ["MF0;switch-a:IS5023/U1"], 18),
        (("--partition", "0x8010"), ["node06"], 1),
        (("--node", "node04", "--p-key", "0x8021"), ["node04"], 1),
        (("--nonzero",), [], 0),
    ],
)
def test_a_filter_chooses_what_is_said_and_says_so(
    monday: Path, tuesday: Path, words: tuple[str, ...], hosts: list[str], looked_at: int
) -> None:
    result = run("diff", monday, tuesday, *words, "-f", "json")
    assert result.code == (1 if hosts else 0)
    changes: list[Row] = result.json["changes"]
    assert sorted(row["node_desc"].split()[0] for row in changes) == sorted(hosts)
    assert result.json["looked_at"] == {"ports": looked_at, "of": 24}
    table = run("diff", monday, tuesday, *words).out
    were = "was" if looked_at == 1 else "were"
    assert table.startswith(f"only {looked_at} of 24 ports {were} examined\n")


def test_without_a_filter_all_was_looked_at(monday: Path, tuesday: Path) -> None:
    assert run("diff", monday, tuesday, "-f", "json").json["looked_at"] is None


def test_wrong_use_is_said(monday: Path) -> None:
    assert "it cannot be combined with --reach" in run("diff", monday, monday, "--reach", "--hosts").error
    assert "nothing that was read has this name" in run("diff", monday, monday, "--node", "nobody").error
    assert run("diff", monday, monday, "--each", "--fold").error == "--each and --fold exclude each other"
