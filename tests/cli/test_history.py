"""snapshot --into, diff DIR and history, as a user runs them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.fabric.snapshot_folder import SnapshotFolder
from ibkeys.keys.fingerprint import Fingerprints
from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.fabricsim import subnet, tool

GUID = "0x0002c903000a1031"


@pytest.fixture
def folder(cli: Cli, tmp_path: Path) -> Path:
    """Three snapshots: at LID 3 a P_Key came, then its membership was lowered."""
    folder = tmp_path / "snapshots"
    assert cli("snapshot", "--into", folder).code == 0
    assert cli("pkey-add", 3, "0x8001", "--yes").code == 0
    assert cli("snapshot", "--into", folder).code == 0
    assert cli("pkey-set", 3, "1=0x0001", "--yes").code == 0
    assert cli("snapshot", "--into", folder, "--keep", "30d").code == 0
    return folder


def test_a_snapshot_into_a_folder_is_named_linked_and_read(cli: Cli, tmp_path: Path) -> None:
    result = cli("snapshot", "--into", tmp_path / "made", "-f", "json")
    assert result.code == 0
    file = Path(result.json["file"])
    assert file.parent == tmp_path / "made"
    assert file.name == f"ibkeys-{result.json['started'].replace('-', '').replace(':', '')}.db"
    assert result.json["removed"] == []
    assert run("pkey-show", "--all", "--from", file.parent / "latest").code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "no destination: give FILE or --into DIR"),
        (["a.db", "--into", "x"], "give FILE or --into DIR, not both"),
        (["a.db", "--keep", "30d"], "--keep requires --into DIR"),
        (["--keep", "30d"], "no destination: give FILE or --into DIR with --keep"),
        (["--into", "x", "--keep", "30"], "is not a length of time: write 90s, 15m, 12h, 30d or 8w"),
        (["--into", "x", "--keep", "0d"], "is not a length of time"),
    ],
)
def test_usage(args: list[str], said: str) -> None:
    result = run("snapshot", "--backend", TWO_SWITCH, *args)
    assert result.code == 2
    assert said in result.err


def test_diff_of_a_folder_takes_its_last_two(folder: Path) -> None:
    result = run("diff", folder, "-f", "json")
    assert result.code == 1
    assert [change["kind"] for change in result.json["changes"]] == ["membership"]
    assert result.json["b"] == str((folder / "latest").resolve())
    assert "is not a folder of snapshots" in run("diff", next(folder.glob("*.db"))).error


def test_diff_of_a_folder_with_one_snapshot_is_one_line(cli: Cli, tmp_path: Path) -> None:
    assert cli("snapshot", "--into", tmp_path / "one").code == 0
    result = run("diff", tmp_path / "one")
    assert result.code == 3
    assert "has 1 snapshot, and 2 are needed" in result.error


@pytest.mark.parametrize("what", [["3"], ["3", "1"], [GUID], ["node03 mlx4_0"], ["0,1,3"], ["0x8001"], ["0x1:full"]])
def test_when_a_port_or_a_partition_changed(folder: Path, what: list[str]) -> None:
    result = run("history", *what, folder, "-f", "json")
    assert result.code == 0
    assert result.json["schema"] == "ibkeys.history/2"
    assert result.json["snapshots"] == 3
    assert [(each["kind"], each["before"], each["after"]) for each in result.json["events"]] == [
        ("pkey-added", None, "0x8001"),
        ("membership", "0x8001", "0x0001"),
    ]
    assert all(each["port_guid"] == GUID for each in result.json["events"])
    assert result.json["unread"] == []


def test_the_table_and_csv_name_the_port_and_the_two_times(folder: Path) -> None:
    lines = run("history", 3, folder).out.splitlines()
    assert lines[0].startswith("2 changes in 3 snapshots, ")
    assert lines[1].startswith("node03 mlx4_0 (ca ")
    assert lines[2].endswith("Z  P_Key 0x8001 added at index 1")
    assert lines[3].endswith("Z  membership lowered to limited at index 1: 0x8001 -> 0x0001")
    assert len(run("history", 3, folder, "-f", "csv").out.splitlines()) == 3
    assert run("history", 4, folder).out.startswith("no change in 3 snapshots, ")


def test_what_is_not_there_is_said(folder: Path, tmp_path: Path) -> None:
    for what in (["999"], ["nobody"], ["0x0002c903000a1031", "9"]):
        result = run("history", *what, folder)
        assert result.code == 2
        assert "has such a port" in result.error
    nobody = run("history", "0x77", folder)
    assert nobody.code == 0
    assert nobody.err == "ibkeys: note: no port is in partition 0x0077 in any of these snapshots\n"
    assert "there is no such folder" in run("history", 3, tmp_path / "no").error
    assert "it has no snapshot" in run("history", 3, tmp_path).error
    assert "omit PORTNUM" in run("history", "0x8001", "1", folder).error
    assert run("history", "3").code == 2


def test_a_port_that_is_silent_in_the_newest_snapshot_is_named_and_exit_3(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    net = subnet("two-switch")
    for started in ("2026-11-20T09:30:00Z", "2026-11-21T09:30:00Z"):
        with tool(net) as fabric:
            taken = take_snapshot(fabric, Fingerprints.generate())
        taken.about = dataclasses.replace(taken.about, started=started)
        save_snapshot(folder.place_for(taken), taken)
        net.silence("node03 mlx4_0")
    result = run("history", GUID, tmp_path, "-f", "json")
    assert result.code == 3
    assert [(port["node_desc"], port["attribute"]) for port in result.json["unread"]] == [("node03 mlx4_0", "PortInfo")]
    assert "was not read in the newest snapshot" in result.err


def test_a_node_that_no_snapshot_has_may_be_a_member_of_the_partition(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.silence("node03 mlx4_0")
    with tool(net) as fabric:
        taken = take_snapshot(fabric, Fingerprints.generate())
        save_snapshot(SnapshotFolder(tmp_path).place_for(taken), taken)
    for partition in ("0x7fff", "0x0077"):
        result = run("history", partition, tmp_path, "-f", "json")
        assert result.code == 3
        assert [(port["port"], port["attribute"]) for port in result.json["unread"]] == [(3, "NodeInfo")]
        assert "1 port: NodeInfo was not read in the newest snapshot" in result.err
    assert run("history", "node01", tmp_path).code == 0


def test_what_was_not_read_is_said_once_for_all_ports(tmp_path: Path) -> None:
    folder = tmp_path / "taken"
    assert run("snapshot", "--backend", TWO_SWITCH, "--into", folder).code == 0
    net = subnet("two-switch")
    for number in (2, 3, 4):
        net.faults.lose_next("reply", node=net.node(f"node0{number} mlx4_0"), attribute=0x16, count=100)
    with tool(net) as fabric:
        taken = take_snapshot(fabric, Fingerprints.generate())
        save_snapshot(SnapshotFolder(folder).place_for(taken), taken)
    result = run("history", "0x7fff", folder)
    assert result.code == 3
    said = [line for line in result.err.splitlines() if "was not read in the newest snapshot" in line]
    assert len(said) == 1
    assert said[0].startswith("ibkeys: error: 3 ports: P_KeyTable was not read")
    assert said[0].endswith(": node[02-04] mlx4_0")
    each = run("history", "0x7fff", folder, "-f", "json")
    assert len(each.json["unread"]) == 3
