"""A node description of quotes, newlines, escapes and rubbish spoils no line of compare, diff and history."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.fabric.snapshot_folder import SnapshotFolder
from ibkeys.keys.fingerprint import Fingerprints
from tests.cli.conftest import run
from tests.cli.hostile import HOSTILE
from tests.fabricsim import subnet, tool

RUBBISH = bytes(range(0x80, 0xC0)).decode("utf-8", "surrogateescape")
PORT = "0x0002c903000a1031"


@pytest.fixture(params=[*HOSTILE, RUBBISH], ids=ascii)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Two snapshots; in between a port with such a name got a P_Key."""
    net = subnet("two-switch")
    net.node("node03 mlx4_0").description_bytes = request.param.encode("utf-8", "surrogateescape")[:64].ljust(64, b"\0")
    places = SnapshotFolder(tmp_path / "snapshots")
    places.path.mkdir()
    for day in (1, 2):
        with tool(net) as fabric:
            taken = take_snapshot(fabric, Fingerprints.generate())
        at = f"2026-11-0{day}T00:00:00Z"
        taken.about = dataclasses.replace(taken.about, started=at, finished=at)
        save_snapshot(places.place_for(taken), taken)
        net.port("H-0002c903000a1030", 1).p_keys = [0xFFFF, 0x8123]
    return places.path


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "wanted.conf"
    path.write_text("Default=0x7fff : ALL=full ;\n")
    return path


def test_of_compare(folder: Path, policy: Path) -> None:
    asked = ("compare", "--policy", policy, "--from", SnapshotFolder(folder).last(1)[0])
    table = run(*asked)
    (row,) = [line for line in table.out.splitlines() if "0x0123" in line]
    assert "8123" in row
    assert all(line.isprintable() for line in (table.out + table.err).splitlines())
    rows = list(csv.DictReader(io.StringIO(run(*asked, "-f", "csv").out)))
    assert [each["port_guid"] for each in rows if each["partition"] == "0x0123"] == [PORT]
    values = run(*asked, "-f", "json").json["values"]
    assert [each["port_guid"] for each in values if each["partition"] == "0x0123"] == [PORT]


@pytest.mark.parametrize("what", [("diff",), ("history", "0x8123"), ("history", PORT)])
def test_of_diff_and_history(folder: Path, what: tuple[str, ...]) -> None:
    table = run(*what, folder)
    assert all(line.isprintable() for line in (table.out + table.err).splitlines())
    assert len([line for line in table.out.splitlines() if line.startswith("  ")]) == 1, table.out
    rows = list(csv.DictReader(io.StringIO(run(*what, folder, "-f", "csv").out)))
    assert [each["port_guid"] for each in rows] == [PORT]
