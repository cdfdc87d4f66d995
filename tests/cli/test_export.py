"""export as a user runs it: its numbers are those of the other commands, and a failure is one that shows."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.fabric.snapshot_folder import SnapshotFolder
from tests.audit.looking import taken
from tests.cli.conftest import TWO_SWITCH, Cli, Result, run
from tests.cli.exported import a_bit_of_everything, saved
from tests.export.exposition import Series, parse, total, value
from tests.export.running import Exporter
from tests.fabricsim import subnet

READING = "ibkeys_sweep_success"


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    return saved(taken(a_bit_of_everything()), tmp_path / "monday.db")


def ports(command: str, snapshot: Path) -> list[dict[str, Any]]:
    result = run(command, "--all", "-f", "json", "--from", snapshot)
    assert result.code == 3
    listed: list[dict[str, Any]] = result.json["ports"]
    return listed


def page_of(result: Result) -> dict[str, Series]:
    return parse(result.out)


def labelled(series: Series, *names: str) -> dict[tuple[str, ...], float]:
    """Return the series by the values of these labels, zeros left out."""
    return {tuple(dict(labels)[name] for name in names): value for labels, value in series.items() if value}


def test_the_numbers_are_those_of_mkey_show_and_the_other_commands(snapshot: Path) -> None:
    result = run("export", "--from", snapshot)
    assert result.code == 3
    page = page_of(result)
    shown = [each for each in ports("mkey-show", snapshot) if each["node_type"] != "switch" or each["port"] == 0]
    assert {"hidden", "unreadable", "zero"} <= {each["m_key_state"] for each in shown}
    level = [(each["m_key_state"], str(each["m_key_protect_bits"]).replace("None", "unknown")) for each in shown]
    assert labelled(page["ibkeys_mkey_ports"], "m_key_state", "protect_level") == Counter(level)
    for kind in ("m_key", "p_key", "q_key"):
        listed = shown if kind == "m_key" else ports("port-show", snapshot)
        counts = [each[f"{kind}_violations"] for each in listed if each[f"{kind}_violations"] is not None]
        assert total(page, "ibkeys_violations", kind=kind) == sum(counts) > 0
        assert value(page, "ibkeys_violation_ports", kind=kind, level="nonzero") == sum(map(bool, counts))
        assert value(page, "ibkeys_violation_ports", kind=kind, level="saturated") == counts.count(65535)
    external = [each for each in ports("port-show", snapshot) if each["node_type"] == "switch" and each["port"]]
    for direction in ("inbound", "outbound"):
        bits = Counter(each[f"partition_enforcement_{direction}"] for each in external)
        for state, bit in (("on", 1), ("off", 0), ("unknown", None)):
            assert value(page, "ibkeys_enforcement_ports", direction=direction, state=state) == bits[bit]
    matrix = run("matrix", "--from", snapshot, "-f", "json").json["partitions"]
    assert value(page, "ibkeys_partitions") == len(matrix) == 3
    for each in matrix:
        for membership in ("full", "limited"):
            labels = {"partition": each["partition"], "membership": membership}
            assert value(page, "ibkeys_partition_members", **labels) == len(each[membership])
    tables = [each for each in ports("pkey-show", snapshot) if each["capacity"] and each["pkeys"] is not None]
    fills = [len(each["pkeys"]) / each["capacity"] for each in tables]
    assert value(page, "ibkeys_pkey_table_fill_max_ratio") == max(fills)


def test_the_numbers_are_those_of_audit(snapshot: Path) -> None:
    page = page_of(run("export", "--from", snapshot))
    report = run("audit", "--from", snapshot, "-f", "json").json
    assert {reading: report["coverage"][reading] for reading in ("read", "unreadable", "silent")} == {
        labels[0][1]: count for labels, count in page["ibkeys_coverage_ports"].items()
    }
    assert report["coverage"]["silent"] == 1
    assert report["coverage"]["unreadable"] == 2
    rules = Counter((each["severity"], each["result"]) for each in report["results"])
    assert labelled(page["ibkeys_audit_rules"], "severity", "result") == rules
    findings = Counter(
        (each["rule"], each["severity"], subject["result"])
        for each in report["results"]
        for subject in each["subjects"]
    )
    assert labelled(page["ibkeys_audit_findings"], "rule", "severity", "result") == findings
    assert total(page, "ibkeys_nodes") == report["coverage"]["nodes"]


def test_a_partial_sweep_says_so_and_keeps_what_it_read(snapshot: Path) -> None:
    result = run("export", "--from", snapshot)
    page = page_of(result)
    assert value(page, READING) == 0
    assert "ibkeys_sweep_last_success_timestamp_seconds" not in page
    assert value(page, "ibkeys_sweep_last_run_timestamp_seconds") is not None
    assert "the result is partial" in result.err
    assert "ibkeys_sweep_smps" not in page, "a file was read, nobody was asked"


def test_a_whole_sweep_of_a_fabric(cli: Cli) -> None:
    result = cli("export")
    assert (result.code, result.err) == (0, "")
    page = page_of(result)
    assert value(page, READING) == 1
    assert value(page, "ibkeys_sweep_smps", outcome="answered") == 115
    assert value(page, "ibkeys_sweep_smps", outcome="lost") == 0
    assert page["ibkeys_sweep_last_success_timestamp_seconds"] == page["ibkeys_sweep_last_run_timestamp_seconds"]
    assert "ibkeys_port_info" not in page
    named = page_of(cli("export", "--port-info", "--all-ports"))
    assert len(named["ibkeys_port_info"]) == 24
    assert len(named["ibkeys_port_violations"]) == 56


def test_waivers_profile_and_policy_count_as_in_an_audit(cli: Cli, tmp_path: Path) -> None:
    waivers, policy = tmp_path / "waivers.toml", tmp_path / "partitions.conf"
    waivers.write_text('[[waiver]]\nrule = "MK001"\nports = ["*"]\nreason = "a lab"\nexpires = 2999-01-01\n')
    policy.write_text("Default=0x7fff: ALL=full;\n")
    options = ["--waivers", waivers, "--policy", policy, "--profile", "lab"]
    page = page_of(cli("export", *options))
    report = cli("audit", *options, "-f", "json").json
    waived = next(each for each in report["results"] if each["rule"] == "MK001")
    assert waived["result"] == "waived"
    labels = {"rule": "MK001", "severity": waived["severity"], "result": "waived"}
    assert value(page, "ibkeys_audit_findings", **labels) == len(waived["subjects"])


# --- where they go ----------------------------------------------------------------------------------------------------


def test_a_text_file_also_of_a_failure(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "ibkeys.prom"
    result = cli("export", "--textfile", file)
    assert (result.code, result.out) == (0, "")
    assert value(parse(file.read_text()), READING) == 1
    failed = run("export", "--textfile", file, "--from", tmp_path / "no.db")
    assert failed.code == 3
    assert "there is no such snapshot" in failed.err
    page = parse(file.read_text())
    assert value(page, READING) == 0
    assert sorted(page) == ["ibkeys_build_info", "ibkeys_sweep_last_run_timestamp_seconds", READING]


def test_a_silent_fabric_is_a_failure_without_numbers(tmp_path: Path) -> None:
    file = tmp_path / "ibkeys.prom"
    dead = f"{TWO_SWITCH},drop=100"
    result = run("export", "--textfile", file, "--backend", dead, "-t", 10, "--retries", 0)
    assert result.code == 3
    assert "no reply" in result.err
    assert sorted(parse(file.read_text())) == ["ibkeys_build_info", "ibkeys_sweep_last_run_timestamp_seconds", READING]
    assert value(parse(file.read_text()), READING) == 0


def test_the_newest_snapshot_of_a_folder_with_its_own_time(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    for day in (1, 2):
        times = {name: f"2026-11-0{day}T00:00:0{second}Z" for name, second in (("started", 0), ("finished", 5))}
        each = taken(subnet("two-switch"))
        each.about = dataclasses.replace(each.about, **times)
        save_snapshot(folder.place_for(each), each)
    page = page_of(run("export", "--from", tmp_path))
    finished = datetime(2026, 11, 2, 0, 0, 5, tzinfo=UTC).timestamp()
    assert value(page, "ibkeys_sweep_last_run_timestamp_seconds") == finished
    assert value(page, "ibkeys_sweep_last_success_timestamp_seconds") == finished
    assert value(page, "ibkeys_sweep_duration_seconds") == 5


def test_a_snapshot_that_is_too_old_is_a_failure(tmp_path: Path) -> None:
    finished = (datetime.now(UTC) - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    file = saved(taken(subnet("two-switch")), tmp_path / "old.db", finished=finished)
    assert run("export", "--from", file, "--max-age", "4h").code == 0
    result = run("export", "--from", file, "--max-age", "2h")
    assert result.code == 3
    assert f"was taken 3.0 hours ago, at {finished}, and --max-age is 2.0 hours" in result.err
    assert value(page_of(result), READING) == 0
    assert "ibkeys_nodes" not in page_of(result)


@pytest.mark.parametrize("options", [(), ("--max-age", "2h")])
def test_a_snapshot_of_the_future_is_a_failure_and_not_the_newest_for_ever(tmp_path: Path, options: tuple[str]) -> None:
    finished = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    file = saved(taken(subnet("two-switch")), tmp_path / "ahead.db", finished=finished)
    result = run("export", "--from", file, *options)
    assert result.code == 3
    assert f"its time {finished} is in the future" in result.err
    assert value(page_of(result), READING) == 0
    assert "ibkeys_nodes" not in page_of(result)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--interval", "5m"], "--interval requires --textfile or --listen"),
        (["--max-age", "5m"], "--max-age is for --from"),
        (["--listen", "0", "--tls-cert", "x"], "--tls-cert and --tls-key must be given together"),
        (["--token-file", "x"], "--listen is missing"),
        (["--listen", "0.0.0.0:0"], "give a TLS certificate with its key and a token"),
        (["--listen", "0", "--token-file", "/nowhere"], "cannot be read"),
        (["--from", "x", "--policy", "opensm"], "--policy opensm needs the fabric"),
        (["--from", "x", "--probe-sa"], "omit --probe-sa"),
        (
            ["--listen", "0", "-y", "-"],
            "-y: it is needed for every read of the fabric, and there is no terminal for a prompt: give @FILE",
        ),
        (["--listen", "0", "--keystore-passphrase", "-"], "no terminal for a prompt: give @FILE"),
        (["--policy", "/nowhere"], "/nowhere"),
        (["--at", "nobody"], "nobody"),
    ],
)
def test_wrong_usage_is_said_before_anything_runs(args: list[str], said: str) -> None:
    backend = [] if "--from" in args else ["--backend", TWO_SWITCH]
    result = run("export", *args, *backend)
    assert result.code == 2
    assert said in result.error
    assert result.out == ""


def test_a_token_that_is_none_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("short-secret\n")
    result = run("export", "--backend", TWO_SWITCH, "--listen", "0", "--token-file", file)
    assert result.code == 2
    assert "16 printable ASCII characters or more" in result.error
    assert "short-secret" not in result.err


def test_without_prometheus_client_the_package_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    result = cli("export")
    assert result.code == 2
    assert result.error.endswith(" -m pip install prometheus-client")


# --- running on -------------------------------------------------------------------------------------------------------


def test_the_endpoint_serves_until_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    file = tmp_path / "ibkeys.prom"
    exporter = Exporter("--backend", TWO_SWITCH, "--textfile", file, "--interval", "1h")
    try:
        page = exporter.page()
        assert value(page, READING) == 1
        assert parse(file.read_text()) == page
    finally:
        ended = exporter.end()
    assert ended == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["ibkeys.prom"]


def test_sigterm_in_the_middle_of_a_sweep_ends_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ibkeys.prom"

    def told_to_end(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the sweep went on")

    monkeypatch.setattr("ibkeys.cli.audit.exporting.input_of", told_to_end)
    before = signal.getsignal(signal.SIGTERM)
    result = run("export", "--backend", TWO_SWITCH, "--textfile", file, "--interval", "1h")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert signal.getsignal(signal.SIGTERM) == before
    assert not file.exists()


def test_a_snapshot_that_goes_away_takes_its_numbers_along(tmp_path: Path) -> None:
    file = saved(taken(subnet("two-switch")), tmp_path / "a.db")
    exporter = Exporter("--from", file, "--interval", "1s")
    try:
        before = exporter.page()
        assert value(before, READING) == 1
        file.unlink()
        while value(after := exporter.page(), READING) == 1:
            assert exporter.process.poll() is None
        assert sorted(after) == [
            "ibkeys_build_info",
            "ibkeys_sweep_last_run_timestamp_seconds",
            "ibkeys_sweep_last_success_timestamp_seconds",
            READING,
        ]
        assert (
            after["ibkeys_sweep_last_success_timestamp_seconds"]
            == before["ibkeys_sweep_last_success_timestamp_seconds"]
        )
    finally:
        code, err = exporter.end()
    assert code == 0
    assert err.count("there is no such snapshot") == 1, "said once, not at every reading"


def test_no_key_is_in_the_output(cli: Cli, key_file: Path) -> None:
    assert cli("mkey-set", 4, "--new-m-key", f"@{key_file}", "--protect", 0, "--yes").code == 0
    result = cli("export", "--port-info", "--all-ports", "-K")
    assert result.code == 0
    assert key_file.read_text().strip()[2:] not in (result.out + result.err).lower()
