"""`snapshot` and --from, as a user runs them."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import KEY, TWO_SWITCH, Cli, run

READING = ["pkey-show", "mkey-show", "port-show"]


def test_one_of_a_kind_is_not_many(tmp_path: Path) -> None:
    net = tmp_path / "two-hosts.net"
    net.write_text('Ca\t1 "H-1"\n[1]\t"H-2"[1]\n\nCa\t1 "H-2"\n[1]\t"H-1"[1]\n')
    result = run("snapshot", tmp_path / "taken.db", "--backend", f"sim:{net}")
    assert result.out.endswith(": 2 nodes, 2 ports, 1 link, 2 P_Keys; M_Keys as fingerprints\n")


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_snapshot_reads_as_the_fabric_did(cli: Cli, taken: Path, command: str, format: str) -> None:
    live = cli(command, "--all", "-f", format)
    assert cli(command, "--all", "-f", format, "--from", taken) == live
    for address in ([], [3], [3, 1], ["-G", "0x0002c903000a1030"], ["-N", "node03 mlx4_0"], ["-D", "0,1"]):
        assert cli(command, *address, "-f", format, "--from", taken) == cli(command, *address, "-f", format)


def test_discover_reads_a_snapshot(cli: Cli, taken: Path) -> None:
    assert cli("discover", "-f", "json", "--from", taken) == cli("discover", "-f", "json")


def test_keys_are_in_it_only_when_asked_for(cli: Cli, taken: Path, tmp_path: Path) -> None:
    result = cli("mkey-show", 4, "-K", "-f", "json", "--from", taken)
    assert result.json["ports"][0]["m_key"] is None
    assert result.json["ports"][0]["m_key_state"] == "set"
    assert "fingerprints of the M_Keys" in result.err
    assert cli("snapshot", tmp_path / "keys.db", "-K").code == 0
    shown = cli("mkey-show", 4, "-K", "-f", "json", "--from", tmp_path / "keys.db")
    assert shown.json["ports"][0]["m_key"] == f"0x{KEY:016x}"


@pytest.mark.parametrize("option", [["--backend", "sim:"], ["-y", "@x"], ["--pcap", "x"], ["--at", "x"]])
def test_from_asks_nobody(taken: Path, option: list[str]) -> None:
    result = run("pkey-show", "--from", taken, *option)
    assert result.code == 2
    assert "not the fabric" in result.error


def test_a_missing_snapshot_is_one_line(tmp_path: Path) -> None:
    for args in (["pkey-show", "--from", tmp_path / "no.db"], ["diff", tmp_path / "no.db", tmp_path / "no.db"]):
        result = run(*args)
        assert result.code == 3
        assert "there is no such snapshot" in result.error


def test_a_snapshot_that_cannot_be_written_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = cli("snapshot", tmp_path / "file" / "a.db")
    assert result.code == 3
    assert "Not a directory" in result.error


def test_what_is_no_snapshot_is_never_replaced_and_nothing_is_asked(cli: Cli, tmp_path: Path) -> None:
    text, folder, pipe, database = (tmp_path / name for name in ("partitions.conf", "folder", "pipe", "keys.db"))
    text.write_text("Default=0x7fff: ALL=full;\n")
    folder.mkdir()
    os.mkfifo(pipe)
    sqlite3.connect(database).execute("CREATE TABLE kept (text)").connection.close()
    for path in (text, folder, pipe, database):
        result = cli("snapshot", path, "-v")
        assert result.code == 3
        assert result.error == f"{path}: exists and is not a snapshot, so it is not replaced; name another file"
    assert text.read_text() == "Default=0x7fff: ALL=full;\n"
    assert pipe.is_fifo()


def test_a_snapshot_an_empty_file_and_what_a_link_leads_to_are_replaced(cli: Cli, tmp_path: Path) -> None:
    empty, link = tmp_path / "empty[1].db", tmp_path / "latest.db"
    empty.touch()
    link.symlink_to(empty.name)
    left = tmp_path / f".{empty.name}.4194305.unfinished"  # of a process number that no system gives
    journal = left.with_name(f"{left.name}-journal")
    left.touch()
    journal.touch()
    for path in (empty, empty, link):
        assert cli("snapshot", path).code == 0
    assert link.is_symlink()
    assert not left.exists()
    assert not journal.exists()
    assert run("diff", empty, link).code == 0


def test_a_directory_that_cannot_be_written_is_found_before_the_sweep(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    result = cli("snapshot", tmp_path / "a.db", "-v")
    assert result.code == 3
    assert f"no permission to write in {tmp_path}" in result.error


def test_a_full_disk_is_one_line_that_names_the_file(cli: Cli, taken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = taken.read_bytes()
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    connect = sqlite3.connect

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:  # type: ignore[override]
            if sql.startswith("VACUUM INTO"):
                raise full
            return super().execute(sql, *parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, factory=Full, **options))
    result = cli("snapshot", taken)
    assert result.code == 3
    assert result.error.startswith(f"{taken}: no space left for the snapshot")
    assert taken.read_bytes() == before
    assert [file.name for file in taken.parent.iterdir() if "unfinished" in file.name] == []


def test_port_counters_that_cannot_be_asked_are_said(cli: Cli, tmp_path: Path) -> None:
    switch = next(node for node in cli("discover", "-f", "json").json["nodes"] if node["node_type"] == "switch")
    assert cli("enforce-set", "-G", switch["node_guid"], 1, "--inbound", "on", "--outbound", "on", "--yes").code == 0
    assert cli("pkey-set", 1, "0=0x8001", "--override", "index-0", "--override", "default-pkey", "--yes").code == 0
    result = cli("snapshot", tmp_path / "a.db", "-f", "json")
    assert result.code == 0
    assert result.json["port_counters_unread"] == 1
    assert "warning: PortCounters of 1 switch port that enforce" in result.err
    assert "no P_Key of the default partition" in result.err


def test_a_silent_node_is_in_the_file_and_exit_3(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "part.db"
    state = f"{TWO_SWITCH},state={tmp_path / 'lossy'},drop=100"
    assert run("snapshot", file, "--backend", state, "-t", 10, "--retries", 0).code == 3
    result = run("discover", "-f", "json", "--from", file)
    assert result.code == 3 or not file.exists()


def test_without_a_secret_of_its_own_a_snapshot_is_taken_all_the_same(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fabric.fingerprint").write_bytes(b"short")
    (tmp_path / "fabric.fingerprint").chmod(0o600)
    result = cli("snapshot", tmp_path / "a.db")
    assert result.code == 0
    assert "cannot be compared with those of others" in result.err
    assert cli("pkey-show", 3, "--from", tmp_path / "a.db").code == 0


def test_say_what_a_sweep_cost(cli: Cli) -> None:
    err = cli("pkey-show", "--all", "-v").err
    [line] = [line for line in err.splitlines() if "the minimum is" in line]
    assert "(+0.0 %)" in line
    assert json.loads("[" + line.split(" SMPs sent, ")[0].split()[-1] + "]")[0] > 50
