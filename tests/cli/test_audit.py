"""The audit command: formats, exit codes, what it is compared with, snapshots."""

from __future__ import annotations

import csv
import io
import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ibkeys.audit.catalogue import CATALOGUE, select
from ibkeys.managers.host_facts import Device, HostFacts
from tests.cli.conftest import DUAL_HOME, KEY, Cli, run
from tests.corpus import DATA

SM_PORT = "0x0002c903000a1011"
SUBJECT = {
    *("node_guid", "port_guid", "node_desc", "node_type", "port", "lid"),
    *("result", "evidence", "message", "time", "m_key_used", "waiver", "severity"),
}


def test_json_has_an_entry_for_every_rule_and_the_keys_of_the_contract(cli: Cli) -> None:
    result = cli("audit", "-f", "json")
    assert (result.code, result.err) == (1, "")
    document = result.json
    assert list(document) == [
        *("schema", "profile", "policy", "inbound_check", "taken", "source", "looked_at", "summary", "results"),
        *("coverage", "moved"),
    ]
    assert (document["schema"], document["profile"], document["policy"]) == ("ibkeys.audit/2", "cloud-secured", None)
    assert [each["rule"] for each in document["results"]] == [rule.id for rule in CATALOGUE]
    assert sum(document["summary"].values()) == len(CATALOGUE)
    assert set(document["summary"]) == {"pass", "fail", "unknown", "n/a", "waived"}
    for each in document["results"]:
        assert {"rule", "title", "severity", "result", "subjects", "remedy"} <= each.keys()
        assert all(subject.keys() == SUBJECT for subject in each["subjects"])
    assert document["coverage"] == {
        "nodes": 8,
        "ports": 24,
        "read": 24,
        "unreadable": 0,
        "silent": 0,
        "troubles": [],
    }


def test_the_table_says_first_what_is_wrong(cli: Cli) -> None:
    result = cli("audit", "--check", "MK001,MK006", "--check", "PK002", "--skip", "MK006")
    assert result.code == 1
    assert result.out.splitlines()[1:] == [
        "1 rule fails: 1 critical; 1 rule could not be evaluated",
        "",
        "CRITICAL",
        "  MK001  M_Key unset: 8 ports",
        "         M_Key is 0: any host can change this port",
        "         - node01 mlx4_0 (ca 0x0002c903000a1010) port 1, LID 1",
        "         - MF0;switch-a:IS5023/U1 (switch 0x0002c90200401000) port 0, LID 7",
        "         - node02 mlx4_0 (ca 0x0002c903000a1020) port 1, LID 2",
        "         - node03 mlx4_0 (ca 0x0002c903000a1030) port 1, LID 3",
        "         - Infiniscale-IV Mellanox Technologies (switch 0x0002c90200401040) port 0, LID 8",
        "         - node04 mlx4_0 (ca 0x0002c903000a1040) port 1, LID 4",
        "         - node05 mlx4_0 (ca 0x0002c903000a1050) port 1, LID 5",
        "         - node06 mlx4_0 (ca 0x0002c903000a1060) port 1, LID 6",
        "         Remedy: `ibkeys harden` sets an M_Key on every port through OpenSM. Only the M_Keys, or where no SM",
        "                 runs: `ibkeys mkey-deploy --same --protect 2 --lease 60`. Another SM: m_key in its",
        "                 configuration.",
        "",
        "NOT EVALUATED",
        "  PK002",
        "         no policy to compare with (--policy)",
        "",
        "2 rules: 0 pass, 1 fail, 1 unknown, 0 not applicable, 0 waived",
        "8 nodes, 24 ports: 24 read, 0 partly read, 0 with no answer behind them",
        "next: `ibkeys mkey-deploy --same --protect 2 --lease 60 --dry-run` (MK001)",
    ]
    assert "Remedy" not in cli("audit", "--check", "MK001", "--no-remedy").out


def test_rules_that_lack_an_option_are_counted_and_listed_by_v(cli: Cli) -> None:
    short = cli("audit", "--group", "PK,HY")
    assert "NOT EVALUATED" not in short.out
    counted = f"9 of {len(select(groups=['PK', 'HY']))} rules were not evaluated without these options: "
    assert counted + "--policy 6, --baseline 2, --inventory 1; -v lists them" in " ".join(short.out.split())
    full = cli("audit", "--group", "PK,HY", "-v")
    assert "  PK010 HY004\n         no baseline to compare with (--baseline)\n" in full.out
    assert "not evaluated" not in full.out


def test_a_rule_whose_data_was_not_read_is_named_without_v(cli: Cli, key_file: Path) -> None:
    locked = ("--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    assert cli("mkey-set", 6, *locked, "--keystore", key_file.with_name("aside.db")).code == 0
    lines = cli("audit", "--keystore", key_file.with_name("empty.db")).out.splitlines()
    listed = lines[lines.index("NOT EVALUATED") :]
    rules = listed[listed.index("         needs data that was not read: see NOT READ") - 1].split()
    assert "HY005" in rules
    assert "PK002" not in " ".join(listed)


def test_csv_has_a_row_for_each_subject_and_each_rule_without_one(cli: Cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("audit", "-f", "csv", "--check", "MK001,PK002,PK007").out)))
    assert [(row["rule"], row["result"], row["port_guid"]) for row in rows[-3:]] == [
        ("MK001", "fail", "0x0002c903000a1061"),
        ("PK002", "unknown", ""),
        ("PK007", "pass", ""),
    ]
    assert json.loads(rows[0]["evidence"])["PortInfo"]["m_key_protect_bits"] == 0
    assert "remedy" not in cli("audit", "-f", "csv", "--no-remedy").out


@pytest.mark.parametrize("format", ["table", "json", "csv"])
@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--check", "MK001"), 1),
        (("--check", "MK001", "--fail-on", "never"), 0),
        (("--check", "MK001", "--fail-on", "critical"), 1),
        (("--check", "PK001", "--fail-on", "critical"), 0),
        (("--check", "PK001", "--profile", "hpc"), 0),
        (("--check", "PK001", "--profile", "hpc", "--fail-on", "medium"), 1),
        (("--check", "PK007"), 0),
        (("--check", "PK002"), 0),
        (("--check", "PK007", "--check", "nonsense"), 2),
        (("--group", "PK", "--from", "missing.db"), 3),
    ],
)
def test_exit_codes_do_not_depend_on_the_format(cli: Cli, format: str, options: tuple[str, ...], code: int) -> None:
    assert cli("audit", "-f", format, *options).code == code


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_what_could_not_be_read_is_3_whatever_else_was_found(cli: Cli, format: str, key_file: Path) -> None:
    locked = ("--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    assert cli("mkey-set", 6, *locked, "--keystore", key_file.with_name("aside.db")).code == 0
    for options in ((), ("--check", "PK007"), ("--fail-on", "never")):
        result = cli("audit", "-f", format, *options, "--keystore", key_file.with_name("empty.db"))
        assert result.code == 3
        assert "nothing answers behind it" in result.err
        assert "the result is partial: 1 thing that should have been read was not" in result.err
    assert f"{KEY:x}" not in result.out + result.err


def test_the_table_names_once_what_was_not_read(cli: Cli, key_file: Path) -> None:
    locked = ("--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    assert cli("mkey-set", 6, *locked, "--keystore", key_file.with_name("aside.db")).code == 0
    result = cli("audit", "--check", "MK006,MK011,PK002,SE003", "--keystore", key_file.with_name("empty.db"))
    lines = result.out.splitlines()
    place = "Infiniscale-IV Mellanox Technologies (switch 0x0002c90200401040) port 3, LID 8"
    assert lines[1] == (
        "1 rule fails: 1 medium; 3 rules could not be evaluated; 1 thing that should have been read was not"
    )
    assert f"         - {place}: not read, see NOT READ" in lines
    (reason,) = (line for line in lines if "nothing answers behind it" in line)
    assert reason.startswith(f"  {place}: ")
    at = lines.index("NOT EVALUATED")
    assert lines[at + 1 : at + 5] == [
        "  MK006 SE003",
        "         needs data that was not read: see NOT READ",
        "  PK002",
        "         no policy to compare with (--policy)",
    ]


def test_a_baseline_names_who_does_not_answer(cli: Cli, key_file: Path) -> None:
    baseline = key_file.with_name("baseline.db")
    assert cli("snapshot", baseline).code == 0
    locked = ("--new-m-key", f"@{key_file}", "--protect", 2, "--lease", 60, "--yes")
    assert cli("mkey-set", 6, *locked, "--keystore", key_file.with_name("aside.db")).code == 0
    result = cli("audit", "--baseline", baseline, "--keystore", key_file.with_name("empty.db"))
    assert result.code == 3
    (reason,) = (line for line in result.out.splitlines() if "nothing answers behind it" in line)
    assert reason.endswith("; in the baseline 'node06 mlx4_0' 0x0002c903000a1060 port 1 was there")


def test_the_key_store_gives_the_keys_and_is_compared(cli: Cli, key_file: Path) -> None:
    assert cli("mkey-set", 6, "--new-m-key", f"@{key_file}", "--protect", 1, "--lease", 60, "--yes").code == 0
    document = cli("audit", "-f", "json", "--check", "MK009,MK010").json
    assert {(each["rule"], each["result"], each["passed"]) for each in document["results"]} == {
        ("MK009", "pass", 1),
        ("MK010", "pass", 1),
    }


def test_a_snapshot_is_audited_as_the_fabric_was(cli: Cli, tmp_path: Path) -> None:
    live = cli("audit", "-f", "json").json
    assert cli("snapshot", tmp_path / "a.db").code == 0
    later = cli("audit", "-f", "json", "--from", tmp_path / "a.db").json
    assert later["source"] == str(tmp_path / "a.db")
    for document in (live, later):
        for each in document["results"]:
            for subject in each["subjects"]:
                del subject["time"]
    assert later["results"] == live["results"]


def test_a_key_store_that_is_not_there_is_said_for_a_snapshot_too(cli: Cli, tmp_path: Path) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    result = cli("audit", "--from", tmp_path / "a.db", "--check", "MK009", "--keystore", tmp_path / "no.db")
    assert (
        result.err
        == f"ibkeys: warning: --keystore: {tmp_path / 'no.db'}: there is no such file, so its keys will not be used\n"
    )


def test_policy_registry_inventory_and_baseline_turn_rules_on(cli: Cli, tmp_path: Path) -> None:
    assert cli("snapshot", tmp_path / "before.db").code == 0
    (tmp_path / "partitions.conf").write_text("Default=0x7fff : ALL=full ;\n")
    (tmp_path / "registry").write_text("0x7fff -\n")
    guids = {each["port_guid"] for each in cli("pkey-show", "--all", "-f", "json").json["ports"]}
    (tmp_path / "inventory").write_text("".join(f"{guid}\n" for guid in guids))
    given = ("--policy", tmp_path / "partitions.conf", "--baseline", tmp_path / "before.db")
    given += ("--registry", tmp_path / "registry", "--inventory", tmp_path / "inventory", "--sm-guids", SM_PORT)
    document = cli("audit", "-f", "json", *given).json
    results = {each["rule"]: each["result"] for each in document["results"]}
    for rule in ("PK002", "PK003", "PK004", "PK005", "PK010", "PK012", "HY002"):
        assert results[rule] == "pass", rule
    assert results["PK014"] == "fail"
    assert document["policy"] == str(tmp_path / "partitions.conf")


def test_guids_of_the_policy_that_are_not_there_are_said(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "partitions.conf"
    path.write_text("Default=0x7fff : ALL=full ;\nA=0x10 : 0x1234567, 0x2345678=full ;\n")
    result = cli("audit", "--policy", path, "--check", "PK002")
    assert result.err == (
        "ibkeys: note: the policy names 2 GUIDs that are not on this fabric: 0x0000000001234567, 0x0000000002345678\n"
    )


def test_a_snapshot_of_this_hosts_fabric_is_audited_with_this_host(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_device = Device(Path("/dev/infiniband/umad0"), 0o666, 0, 0)
    facts = HostFacts((), (), (), (open_device,), None)
    monkeypatch.setattr("ibkeys.audit.gather.host_facts", lambda **_: facts)
    monkeypatch.setattr("ibkeys.store.paths.default_directory", lambda: tmp_path)
    snapshot = tmp_path / "a.db"
    cli("snapshot", snapshot)
    options = ("audit", "--from", snapshot, "--check", "HY001,QK003,KF001", "-f", "json")
    for simulated, host, expected in (
        (1, socket.gethostname(), {"HY001": "n/a", "QK003": "n/a", "KF001": "n/a"}),
        (0, "elsewhere", {"HY001": "n/a", "QK003": "n/a", "KF001": "n/a"}),
        (0, socket.gethostname(), {"HY001": "fail", "QK003": "unknown", "KF001": "n/a"}),
    ):
        with closing(sqlite3.connect(snapshot)) as database, database:
            database.execute("UPDATE about SET value = ? WHERE name = 'simulated'", (str(simulated),))
            database.execute("UPDATE about SET value = ? WHERE name = 'host'", (host,))
        document = run(*options).json
        assert {each["rule"]: each["result"] for each in document["results"]} == expected


def test_mistakes_in_files_show_before_anything_is_sent(cli: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("Default 0x7fff ALL ;\n")
    for option in ("--policy", "--registry", "--inventory", "--sm-guids"):
        value = f"@{bad}" if option == "--sm-guids" else bad
        result = cli("audit", option, value, "--at", "nobody")
        assert result.code == 2
        assert str(bad) in result.error
    assert cli("audit", "--sm-guids", "12").code == 2


def test_waivers_are_applied_and_named(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text(
        '[[waiver]]\nrule = "MK001"\nports = ["*"]\nreason = "a lab"\nexpires = 2999-12-31\n'
        '[[waiver]]\nrule = "MK001"\nports = ["*"]\nreason = "old"\nexpires = 2001-12-31\n'
    )
    result = cli("audit", "--check", "MK001", "--waivers", path)
    assert result.code == 0
    assert "WAIVED\n  MK001  M_Key unset: 8 findings: a lab (until 2999-12-31)\n" in result.out
    assert result.err == (
        f"ibkeys: warning: {path}: waiver 2 for MK001 (old) expired on 2001-12-31 and no longer applies\n"
    )


def test_explain_reads_no_fabric() -> None:
    result = run("audit", "--explain", "se002", "--backend", "sim:missing.net")
    assert result.code == 0
    assert result.out.startswith("SE002  leaf table differs from node table\n  Group:        Switch enforcement\n")
    document = run("audit", "--explain", "SE001", "-f", "json").json
    assert (document["schema"], document["severity"]["hpc"]) == ("ibkeys.audit-explain/1", "medium")
    assert run("audit", "--explain", "SE001", "-f", "csv").out.startswith("rule,title,group,severity,evidence,why,")
    assert "there is no rule 'SE9'" in run("audit", "--explain", "SE9").error


def test_from_asks_nobody(cli: Cli, tmp_path: Path) -> None:
    cli("snapshot", tmp_path / "a.db")
    result = cli("audit", "--from", tmp_path / "a.db", "--probe-sa")
    assert result.code == 2
    assert "omit --probe-sa" in result.error


def test_sm_keys_are_probed_only_when_asked_for(tmp_path: Path) -> None:
    backend = f"{DUAL_HOME},state={tmp_path / 'state'}"
    silent = run("audit", "--backend", backend, "--check", "SM002,SM003", "--probe-sa", "-t", 10, "--retries", 0)
    assert silent.code == 0
    assert "the SA gave no clear answer" in silent.out
    assert (
        "the SA was not queried (`ibkeys audit --probe-sa` queries it)"
        in run("audit", "--backend", backend, "--group", "SM", "-v").out
    )


@pytest.mark.parametrize(("wildcards", "result"), [("accepted", "fail"), ("refused", "pass")])
def test_sm004_is_whether_the_sa_takes_a_wildcard_from_a_stranger(wildcards: str, result: str) -> None:
    backend = f"sim:{DATA / 'fabrics' / 'two-switch.net'},sm=node01 mlx4_0,sa-wildcards={wildcards}"
    (found,) = run("audit", "--backend", backend, "--check", "SM004", "--probe-sa", "-f", "json").json["results"]
    assert (found["result"], found["severity"]) == (result, "high")


def test_v_says_that_the_sweep_was_one_pass(cli: Cli) -> None:
    result = cli("audit", "-v", "--check", "MK001")
    assert "the minimum is" in result.err


def test_options_come_from_the_environment(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IBKEYS_CHECK", "MK001 PK007")
    monkeypatch.setenv("IBKEYS_PROFILE", "lab")
    document = cli("audit", "-f", "json").json
    assert [each["rule"] for each in document["results"]] == ["MK001", "PK007"]
    assert document["profile"] == "lab"


def test_a_snapshot_keeps_what_the_sa_said(tmp_path: Path) -> None:
    backend = ("--backend", f"{DUAL_HOME},state={tmp_path / 'state'}")
    assert run("snapshot", tmp_path / "a.db", *backend, "--probe-sa", "-t", 10, "--retries", 0).code == 0
    asked = run("audit", "--from", tmp_path / "a.db", "--group", "SM", "-f", "json").json
    said = {each["rule"]: each["subjects"][0]["message"] for each in asked["results"] if each["rule"] != "SM001"}
    assert all("the SA gave no clear answer" in message for message in said.values())
