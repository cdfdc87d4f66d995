"""diff, history and audit --baseline where cables moved, hosts were swapped, HCAs replaced and nodes renamed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import Result, run
from tests.cli.saved import save
from tests.fabricsim import move_cable, replace_hca, subnet, swap_cables

SWITCH_A, SWITCH_B = "MF0;switch-a:IS5023/U1", "Infiniscale-IV Mellanox Technologies"


def rework(net: Subnet) -> None:
    """One of each: node02 and node04 swapped, node03 moved, node05's HCA replaced, node06 renamed."""
    swap_cables(net.port("node02 mlx4_0", 1), net.port("node04 mlx4_0", 1), net)
    move_cable(net.port("node03 mlx4_0", 1), net.port(SWITCH_B, 5), net)
    replace_hca(net.node("node05 mlx4_0"))
    net.set_description("node06 mlx4_0", "stage6 mlx4_0")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return save(subnet("two-switch"), tmp_path / "monday.db")


def after(change: Callable[[Subnet], object], folder: Path) -> Path:
    net = subnet("two-switch")
    change(net)
    return save(net, folder / "tuesday.db")


def test_diff_says_each_as_one_thing_and_nothing_twice(before: Path, tmp_path: Path) -> None:
    result = run("diff", before, after(rework, tmp_path))
    assert result.code == 1
    lines = [line for line in result.out.splitlines() if not line.startswith(" ")]
    assert lines[:4] == [
        f"swapped: node02 mlx4_0 port 1 (now at {SWITCH_B} port 1) and node04 mlx4_0 port 1 (now at {SWITCH_A} port 2)",
        f"cable moved: node03 mlx4_0 port 1: {SWITCH_A} port 3 -> {SWITCH_B} port 5",
        "HCA replaced: 'node05 mlx4_0', the name is the same, 0x0002c903000a1050 -> 0x0002c903000a6050 at "
        f"{SWITCH_B} port 2",
        "renamed: 'node06 mlx4_0' -> 'stage6 mlx4_0' (ca 0x0002c903000a1060)",
    ]
    assert "added" not in "".join(lines)
    assert "removed" not in "".join(lines)


def test_diff_in_json_keeps_nodes_and_links_and_adds_what_moved(before: Path, tmp_path: Path) -> None:
    document = run("diff", before, after(rework, tmp_path), "-f", "json").json
    assert document["schema"] == "ibkeys.diff/2"
    assert [len(document["nodes"][key]) for key in ("added", "removed")] == [1, 1]
    assert [len(document["links"][key]) for key in ("added", "removed")] == [4, 4]
    assert all(each["explained"] for what in ("nodes", "links") for some in document[what].values() for each in some)
    swapped, moved, replaced, renamed = document["moved"]
    identity = ("node_guid", "port_guid", "node_desc", "node_type", "port", "lid")
    for each in document["moved"]:
        assert list(each) == [*identity, "kind", "before", "after", "same_name", "places", "with"]
    assert (moved["same_name"], moved["places"], moved["with"]) == (None, None, None)
    assert (swapped["kind"], swapped["node_desc"], swapped["with"]["node_desc"]) == (
        "swapped",
        "node02 mlx4_0",
        "node04 mlx4_0",
    )
    assert (moved["before"]["node_desc"], moved["before"]["port"]) == (SWITCH_A, 3)
    assert (moved["after"]["node_desc"], moved["after"]["port"]) == (SWITCH_B, 5)
    guids = [replaced[side]["port_guid"] for side in ("before", "after")]
    assert guids == ["0x0002c903000a1051", "0x0002c903000a6051"]
    assert replaced["same_name"] is True
    assert [place["port"] for place in replaced["places"]] == [2]
    assert (renamed["kind"], renamed["before"], renamed["after"]) == ("renamed", "node06 mlx4_0", "stage6 mlx4_0")
    assert document["unknown"] == []


def test_diff_in_csv_has_a_row_for_each_port_that_moved(before: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("diff", before, after(rework, tmp_path), "-f", "csv").out)))
    places = {(row["node_desc"], row["kind"]): (row["before"], row["after"]) for row in rows}
    assert places["node04 mlx4_0", "swapped"] == (
        f"'{SWITCH_B}' 0x0002c90200401040 port 1",
        f"'{SWITCH_A}' 0x0002c90200401000 port 2",
    )
    assert {kind for _, kind in places} >= {"swapped", "cable-moved", "hca-replaced", "renamed"}


def test_a_new_name_alone_is_a_difference(before: Path, tmp_path: Path) -> None:
    result = run("diff", before, after(lambda net: net.set_description("node06 mlx4_0", "stage6"), tmp_path))
    assert (result.code, result.out) == (1, "renamed: 'node06 mlx4_0' -> 'stage6' (ca 0x0002c903000a1060)\n")


@pytest.mark.parametrize("name", [b"\x1b[31mred\x1b[0m", b"a\nlink removed: b", b"\xff\xfe", "a\u202eb".encode(), b""])
def test_no_name_moves_the_cursor_or_makes_a_line(name: bytes, before: Path, tmp_path: Path) -> None:
    def change(net: Subnet) -> None:
        rework(net)
        for node in net.nodes:
            node.description_bytes = name

    result = run("diff", before, after(change, tmp_path))
    assert result.code == 1
    assert all(line.isprintable() for line in result.out.splitlines())
    heads = [line.partition(":")[0] for line in result.out.splitlines() if not line.startswith(" ")]
    assert heads.count("renamed") == 7
    assert not {"link removed", "link added", "node removed", "node added"} & set(heads)


def test_who_may_have_moved_is_named_and_the_exit_status_is_3(before: Path, tmp_path: Path) -> None:
    def change(net: Subnet) -> None:
        move_cable(net.port("node03 mlx4_0", 1), net.port(SWITCH_B, 5), net)
        net.silence("node03 mlx4_0")

    result = run("diff", before, after(change, tmp_path))
    assert result.code == 3
    assert "node03 mlx4_0" in result.err
    assert "whether its cable moved: in the second snapshot it may be behind a port whose far end was not" in result.err
    assert "cable moved" not in result.out


def test_history_tells_when_a_port_changed_its_place_and_its_name(tmp_path: Path) -> None:
    net = subnet("two-switch")
    save(net, tmp_path / "ibkeys-20261120T090000Z.db", 0)
    rework(net)
    save(net, tmp_path / "ibkeys-20261120T090100Z.db", 1)
    result = run("history", "0x0002c903000a1031", tmp_path)
    where = [f"'{SWITCH_A}' 0x0002c90200401000 port 3", f"'{SWITCH_B}' 0x0002c90200401040 port 5"]
    assert result.code == 0
    assert f"  2026-11-20T09:00:00Z .. 2026-11-20T09:01:00Z  cable moved: {where[0]} -> {where[1]}" in result.out
    (event,) = run("history", "0x0002c903000a1031", tmp_path, "-f", "json").json["events"]
    assert (event["kind"], event["before"], event["after"]) == ("cable-moved", *where)
    assert "renamed: 'node06 mlx4_0' -> 'stage6 mlx4_0'" in run("history", "0x0002c903000a1061", tmp_path).out


# --- audit --baseline ------------------------------------------------------------------------------------------------

FORMS = ("table", "json", "csv", "junit", "sarif", "html")
Audited = Callable[[str], Result]


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    """HY004 of the fabric after the work, held against the one before; node03 was in a partition."""
    net = subnet("two-switch")
    net.port("node03 mlx4_0", 1).p_keys = [0xFFFF, 0x8010]
    baseline = save(net, tmp_path / "baseline.db")
    rework(net)
    now = save(net, tmp_path / "now.db", 1)
    options = ("--from", now, "--baseline", baseline, "--check", "HY004", "--fail-on", "medium")
    return lambda form: run("audit", *options, "-f", form)


def test_hy004_is_in_every_form_with_one_exit_status(audited: Audited) -> None:
    results = {form: audited(form) for form in FORMS}
    assert {form: result.code for form, result in results.items()} == dict.fromkeys(FORMS, 1)
    for form, result in results.items():
        assert "HY004" in result.out, form
        assert f"'{SWITCH_B}' 0x0002c90200401040 port 5 now" in " ".join(unescape(result.out).split()), form
    (rule,) = results["json"].json["results"]
    assert [(each["node_desc"], each["port"]) for each in rule["subjects"]] == [("node03 mlx4_0", 1)]
    (finding,) = (each for each in results["sarif"].json["runs"][0]["results"] if each["kind"] == "fail")
    assert finding["ruleId"] == "HY004"


def test_what_moved_since_the_baseline_is_in_table_page_and_json(audited: Audited) -> None:
    moved = f"cable moved: node03 mlx4_0 port 1: {SWITCH_A} port 3 -> {SWITCH_B} port 5"
    table = audited("table").out.split("\nMOVED SINCE THE BASELINE\n")[1].splitlines()
    kinds = [line.partition(":")[0].strip() for line in table[:4]]
    assert kinds == ["swapped", "cable moved", "HCA replaced", "renamed"]
    assert table[1] == f"  {moved}"
    assert moved in unescape(audited("html").out)
    assert [each["kind"].split("-")[-1] for each in audited("json").json["moved"]] == [
        "swapped",
        "moved",
        "replaced",
        "renamed",
    ]


def test_hy004_without_a_baseline_is_unknown(before: Path) -> None:
    result = run("audit", "--from", before, "--check", "HY004", "-f", "json")
    assert (result.code, result.json["moved"]) == (0, None)
    assert [each["result"] for each in result.json["results"]] == ["unknown"]


def test_hy004_explains_itself() -> None:
    text = run("audit", "--explain", "hy004").out
    assert "protected or partitioned port recabled" in text
    assert "link is proven" in text
