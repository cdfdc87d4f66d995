"""Forwarding tables in a snapshot: taken, stored, read back, and damaged."""

from __future__ import annotations

import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import load_snapshot, save_snapshot
from ibkeys.fabric.snapshot_routes import packed_blocks, unpacked_blocks
from ibkeys.mad.attributes import LinearForwardingTable
from tests.cli.conftest import TWO_SWITCH, run
from tests.cli.saved import SECRET
from tests.fabricsim import between_switches, change_each_subnet, subnet, tool

BLOCKS = st.dictionaries(st.integers(0, 0xBFFF // 64), st.binary(min_size=64, max_size=64), max_size=8)


@given(BLOCKS)
def test_blocks_come_back_as_they_were(blocks: dict[int, bytes]) -> None:
    assert unpacked_blocks(packed_blocks(blocks)) == blocks


@given(st.binary(max_size=200))
def test_a_damaged_value_is_refused_or_is_blocks(packed: bytes) -> None:
    with suppress(ValueError):
        assert all(len(block) == 64 for block in unpacked_blocks(packed).values())


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(bytes(66 * 769), id="more blocks than there are LIDs"),
        pytest.param(bytes(65), id="a part of a block"),
        pytest.param(b"\x03\x00" + bytes(64), id="a block of no unicast LID"),
        pytest.param(bytes(10_000_000), id="a bomb"),
    ],
)
def test_a_table_that_no_switch_has_is_refused(plain: bytes) -> None:
    with pytest.raises(ValueError, match="a forwarding table"):
        unpacked_blocks(zlib.compress(plain))


def test_a_snapshot_has_the_tables_of_all_switches(tmp_path: Path) -> None:
    net = subnet("torus444")
    with tool(net) as fabric:
        fabric.routes = "all"
        taken = take_snapshot(fabric, SECRET)
    file = tmp_path / "routes.db"
    save_snapshot(file, taken)
    read = load_snapshot(file).fabric
    tables = {node.guid: node.forwarding for node in taken.fabric.nodes if node.is_switch}
    assert {node.guid: node.forwarding for node in read.nodes if node.is_switch} == tables
    assert all(table is not None and len(table) == (64 + 256) // 64 + 1 for table in tables.values())
    assert all(node.forwarding is None for node in read.nodes if not node.is_switch)


@pytest.mark.parametrize("enforces", [False, True])
def test_a_sweep_reads_them_only_where_they_decide(enforces: bool) -> None:
    net = subnet("two-switch")
    between_switches(net).outbound_enforcement = int(enforces)
    with tool(net) as fabric:
        fabric.routes = "where checked"
        fabric.sweep(p_keys=True)
        sent = fabric.client.statistics.by_attribute.get(LinearForwardingTable.attribute_id, 0)
    assert sent == (2 if enforces else 0)


def test_matrix_plan_and_diff_know_the_pairs_that_a_port_between_switches_stops(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free, cut = tmp_path / "free.db", tmp_path / "cut.db"
    live = ("--backend", TWO_SWITCH)
    assert run("snapshot", free, "--routes", *live).code == 0

    def block(net: object) -> None:
        port = between_switches(net)  # type: ignore[arg-type]
        port.p_keys, port.outbound_enforcement = [], 1

    change_each_subnet(monkeypatch, block)
    assert run("matrix", *live).code == 3
    assert "(--routes reads the forwarding tables)" in run("matrix", *live).err
    counted = run("matrix", "--routes", *live, "-f", "json")
    assert (counted.code, counted.json["unknown"]) == (0, 0)
    pairs = run("matrix", "--routes", "--pairs", *live, "-f", "json").json
    one_way = {(each["a"]["node_desc"], each["b"]["node_desc"]) for each in pairs["one_way"]}
    assert ("node04 mlx4_0", "node01 mlx4_0") in one_way  # the way back is by the other cable
    assert run("snapshot", cut, "--routes", *live).code == 0
    changed = run("diff", "--reach", free, cut, "-f", "json")
    assert (changed.code, changed.json["reach"]["unknown"]) == (1, 0)
    assert changed.json["reach"]["lost"] == len(pairs["one_way"])
    policy = tmp_path / "partitions.conf"
    policy.write_text("Default=0x7fff : ALL=full ;\n")
    planned = run("plan", "--policy", policy, "--routes", *live, "-f", "json")
    assert (planned.code, planned.json["reach"]) == (1, {"gained": len(pairs["one_way"]), "lost": 0, "unknown": 0})
