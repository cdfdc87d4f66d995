"""policy-diff: what two policies mean for a fabric, for people and programs."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cli.conftest import TWO_SWITCH, Result, run

A = "Default : ALL=limited, SELF=full ;\nlustre=0x21 : 0x2c903000a1021, 0x2c903000a1031=full ;\n"
B = (
    "Default : ALL=limited, SELF=full ;\n"
    "lustre=0x21, ipoib : 0x2c903000a1021=full, 0x2c903000a1041, 0x2c903000a1051 ;\n"
    "gpu=0x30, indx0 : 0x2c903000a1061=full, 0xabc ;\n"
)
SM = ("--sm-guid", "0x0002c903000a1011")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.conf", tmp_path / "b.conf"
    a.write_text(A)
    b.write_text(B)
    return a, b


def diff(*args: object) -> Result:
    return run("policy-diff", "--backend", TWO_SWITCH, *SM, *args)


def test_ports_that_join_and_leave_alike_are_one_row(files: tuple[Path, Path]) -> None:
    result = diff(*files, "--fold")
    assert result.code == 1
    assert result.out.startswith(
        "Ports  Change\n"
        "    1  0x0021 lustre: limited -> full\n"
        "    node02 mlx4_0\n"
        "    1  0x0021 lustre: leaves, was full\n"
        "    node03 mlx4_0\n"
        "    2  0x0021 lustre: joins as limited\n"
        "    node[04-05] mlx4_0\n"
        "    1  0x0030 gpu: joins as full\n"
        "       index 0: default -> 0x8030\n"
        "    node06 mlx4_0\n"
    )
    each = diff(*files, "--each")
    assert each.out == diff(*files).out
    assert (each.code, diff(*files, "--each", "--fold").code) == (1, 2)
    assert "node05 mlx4_0  0x0002c903000a1050     1    5  0x0021     lustre  joins as limited\n" in each.out
    assert "partition 0x0021 lustre: group ff12:401b:8021::ffff:ffff: - -> mtu 4, rate 3" in result.out
    assert "pairs of end ports that gain connectivity: 2; that lose connectivity: 1" in result.out
    assert result.err == f"ibkeys: note: {files[1]}: 1 of its GUIDs are not end ports of this fabric\n"
    assert all(len(line) <= 80 for line in result.out.splitlines() if not line.startswith("partition"))


def test_equal_policies_exit_0(files: tuple[Path, Path]) -> None:
    result = diff(files[0], files[0])
    assert result.code == 0
    assert result.out.endswith("both policies mean the same for this fabric\n")


def test_json_has_each_port(files: tuple[Path, Path]) -> None:
    document = diff(*files, "-f", "json").json
    assert document["schema"] == "ibkeys.policy-diff/1"
    assert [each["partition"] for each in document["partitions"]] == ["0x0021", "0x0030"]
    assert (document["partitions"][1]["name_a"], document["partitions"][1]["name_b"]) == (None, "gpu")
    assert [
        (each["lid"], each["what"], each["before"], each["after"]) for each in document["partitions"][0]["members"]
    ] == [
        (2, "membership", "limited", "full"),
        (3, "leaves", "full", None),
        (4, "joins", None, "limited"),
        (5, "joins", None, "limited"),
    ]
    assert [each["mgid"] for each in document["partitions"][0]["groups_b"]] == ["ff12:401b:8021::ffff:ffff"]
    assert [(each["lid"], each["before"], each["after"]) for each in document["index_0"]] == [(6, None, "0x8030")]
    assert document["reach"] == {"gained": 2, "lost": 1}
    back = diff(*reversed(files), "-f", "json").json
    assert (back["partitions"][1]["name_a"], back["partitions"][1]["name_b"]) == ("gpu", None)
    assert document["not_found"] == {"a": [], "b": ["0x0000000000000abc"]}


def test_csv_has_a_line_for_each_change(files: tuple[Path, Path]) -> None:
    rows = list(csv.DictReader(io.StringIO(diff(*files, "-f", "csv").out)))
    assert [(row["partition"], row["what"], row["node_desc"], row["before"], row["after"]) for row in rows[:2]] == [
        ("0x0021", "membership", "node02 mlx4_0", "limited", "full"),
        ("0x0021", "leaves", "node03 mlx4_0", "full", ""),
    ]
    assert [row["what"] for row in rows[-2:]] == ["joins", "index-0"]


def test_the_subnet_manager_has_to_be_known_where_it_counts(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert "name it with --sm-guid" in diff(*files, "--sm-guid", "0x99").error
    bad = tmp_path / "bad.conf"
    bad.write_text("X=5 : 0xzz ;\n")
    assert diff(files[0], bad).code == 2
    snapshot = tmp_path / "monday.db"
    assert run("snapshot", "--backend", TWO_SWITCH, snapshot).code == 0
    assert run("policy-diff", *files, *SM, "--from", snapshot).code == 1
