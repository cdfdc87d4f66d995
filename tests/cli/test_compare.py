"""compare, as a user runs it: on a simulated subnet whose SA has a key, live and from a snapshot."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.keys.fingerprint import Fingerprints
from tests.cli.conftest import TWO_SWITCH, WITH_SA, Cli, key_argument, run
from tests.cli.saved import save
from tests.client.sasim import SA_KEY
from tests.fabricsim import subnet, tool

EVERYBODY = "Default=0x7fff : ALL=full ;\n"
COLUMNS = ["policy", "sm_file", "sa", "node"]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run commands on two-switch.net with a master SM, whose state lasts for the test."""
    spec = f"{TWO_SWITCH},state={tmp_path / 'fabric'},{WITH_SA}"
    monkeypatch.setenv("IBKEYS_BACKEND", spec)
    return run


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "wanted.conf"
    path.write_text(EVERYBODY)
    return path


def add(cli: Cli, key: str, lid: int = 3) -> None:
    assert cli("pkey-add", lid, key, "--yes", "--force").code == 0


@pytest.mark.parametrize(("words", "code"), [(("--hosts",), 3), (("--node", "node0*"), 3), (("--node", "node01"), 0)])
def test_who_did_not_answer_may_be_among_those_chosen(
    cli: Cli, policy: Path, tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    asked = ("compare", "--policy", policy, "--from", save(net, tmp_path / "a.db"), *words, "-f", "json")
    result = cli(*asked)
    assert (result.code, len(result.json["errors"])) == (code, 1 if code else 0)


def test_all_agree(cli: Cli, sa_key: str, policy: Path) -> None:
    result = cli("compare", "--policy", policy, "--smkey", sa_key)
    assert result.code == 0, result.err
    count = int(result.out.split()[0])
    assert result.out == f"{count} values compared: {count} agree, 0 differ, 0 unknown\n"
    assert "a simulated subnet has no OpenSM on this host" in result.err
    every = cli("compare", "--policy", policy, "--smkey", sa_key, "--full", "-f", "json")
    assert (every.code, len(every.json["values"])) == (0, count)
    assert every.json["schema"] == "ibkeys.compare/2"
    assert every.json["errors"] == []


@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_difference_in_each_format(cli: Cli, sa_key: str, policy: Path, format: str) -> None:
    add(cli, "0x8001")
    result = cli("compare", "--policy", policy, "--smkey", sa_key, "-f", format)
    assert result.code == 1, result.err
    if format == "json":
        [value] = result.json["values"]
        assert [value[column] for column in COLUMNS] == [[], None, ["0x8001"], ["0x8001"]]
        assert (value["node_desc"], value["lid"], value["what"], value["partition"]) == (
            *("node03 mlx4_0", 3),
            *("pkey", "0x0001"),
        )
        assert (value["state"], value["apart"], value["causes"]) == ("differs", ["sa", "node"], ["sm-file-unknown"])
        assert result.json["summary"]["causes"] == {"sm-file-unknown": 1}
        assert result.json["sm_file"] is None
        assert "simulated" in result.json["sm_file_unknown"]
        assert result.json["policy"]["file"] == str(policy)
        assert result.json["sa"]["P_KeyTableRecord"] == {"outcome": "answered", "detail": None}
    elif format == "csv":
        [row] = csv.DictReader(io.StringIO(result.out))
        assert [row[column] for column in COLUMNS] == ["-", "", "0x8001", "0x8001"]
        assert (row["state"], row["apart"], row["causes"]) == ("differs", "sa node", "sm-file-unknown")
    else:
        titles, row, summary, cause = result.out.splitlines()
        assert titles.split()[:4] == ["Node", "GUID", "Port", "LID"]
        assert row.split()[:9] == [*("node03", "mlx4_0", "0x0002c903000a1030", "1", "3", "P_Key", "0x0001"), "-", "?"]
        assert summary.endswith("1 differ, 0 unknown")
        assert cause.startswith("  1: not applied, refused, or a different policy")


def test_ports_with_the_same_difference_are_one_row(cli: Cli, sa_key: str, policy: Path) -> None:
    for lid in (3, 4, 5):
        add(cli, "0x8001", lid)
    result = cli("compare", "--policy", policy, "--smkey", sa_key, "--fold")
    titles, row, names, *_ = result.out.splitlines()
    assert (result.code, titles.split()[:2], row.split()[:3]) == (1, ["Ports", "Value"], ["3", "P_Key", "0x0001"])
    assert names.strip() == "node[03-05] mlx4_0"
    assert "--fold is for tables only" in cli("compare", "--fold", "-f", "json").error


def test_without_the_sm_key_the_sa_hides_it(cli: Cli, policy: Path) -> None:
    result = cli("compare", "--policy", policy, "-f", "json", "--full")
    assert result.code == 0
    assert "ibkeys: note: the SA does not show its P_KeyTableRecords: SubnAdmGetTable(P_KeyTableRecord)" in result.err
    assert "--smkey" in result.err
    assert {(each["what"], each["sa"] is None) for each in result.json["values"]} == {
        ("pkey", True),
        ("enforcement", False),
        ("m_key_protection", False),
    }


def test_with_a_wrong_sm_key_it_could_not_be_completed(cli: Cli, policy: Path, sa_key: str, tmp_path: Path) -> None:
    wrong = key_argument(tmp_path / "wrong.key", 0x666000000000ABCD)
    result = cli("compare", "--policy", policy, "--smkey", wrong, "-t", "10")
    assert result.code == 3
    assert "ibkeys: error: SubnAdmGetTable(PortInfoRecord)" in result.err
    count = int(cli("compare", "--policy", policy, "--smkey", sa_key).out.split()[0])
    [summary, _cause] = result.out.splitlines()[-2:]
    assert summary == f"{count} values compared: 8 agree, 0 differ, {count - 8} unknown"  # 8: of policy and node
    alone = cli("compare", "--smkey", wrong, "-t", "10", "-f", "json").json
    assert alone["summary"]["unknown"] == len(alone["values"]) == count
    assert "a wrong SM_Key" in result.err
    assert "666000000000abcd" not in result.out + result.err


def test_with_nothing_to_compare_with_it_could_not_be_completed(cli: Cli) -> None:
    result = cli("compare")
    assert result.code == 3
    assert "the result is partial: too little is known about" in result.err
    assert "there is nothing to compare it with" in result.out


def test_a_port_that_does_not_answer_outranks_a_difference(policy: Path, tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.port("node03 mlx4_0", 1).p_keys = [0xFFFF, 0x8001]
    net.silence("node05 mlx4_0")
    with tool(net) as fabric:
        save_snapshot(tmp_path / "a.db", take_snapshot(fabric, Fingerprints.generate()))
    result = run("compare", "--policy", policy, "--from", tmp_path / "a.db", "-f", "json")
    assert result.code == 3
    assert [each["partition"] for each in result.json["values"]] == ["0x0001"]
    assert len(result.json["errors"]) == 1


# --- from a snapshot -------------------------------------------------------------------------------------------------


def test_a_snapshot_with_the_word_of_the_sa(cli: Cli, sa_key: str, policy: Path, tmp_path: Path) -> None:
    add(cli, "0x8001")
    file = tmp_path / "monday.db"
    assert cli("snapshot", file, "--sa", "--smkey", sa_key).code == 0
    live = cli("compare", "--policy", policy, "--smkey", sa_key, "-f", "json", "--full")
    again = cli("compare", "--policy", policy, "--from", file, "-f", "json", "--full", "-v")
    assert (again.code, again.json["values"]) == (live.code, live.json["values"]) == (1, live.json["values"])
    assert "a snapshot does not contain the SM's own file" in again.err
    assert f"{SA_KEY:016x}".encode() not in file.read_bytes()


def test_a_snapshot_without_it(cli: Cli, policy: Path, tmp_path: Path) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    result = cli("compare", "--policy", policy, "--from", tmp_path / "a.db", "-f", "json", "--full")
    assert result.code == 0
    assert result.json["sa"] is None
    assert "taken without --sa" in result.err


def test_what_the_sa_did_not_tell_is_a_warning_and_in_the_file(cli: Cli, tmp_path: Path) -> None:
    result = cli("snapshot", tmp_path / "a.db", "--sa")
    assert result.code == 0
    assert "ibkeys: warning: part of the SA's data is missing in the snapshot: SubnAdmGetTable(P_KeyTable" in result.err
    assert "the SA does not show its" in cli("compare", "--from", tmp_path / "a.db").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "opensm"], "--policy opensm needs the fabric to find the master"),
        (["--wait", "5"], "omit --wait"),
        (["--smkey", "-"], "omit --smkey"),
        (["--sm-host", "sm1"], "omit --sm-host"),
    ],
)
def test_what_does_not_go_with_a_snapshot(cli: Cli, tmp_path: Path, words: list[str], message: str) -> None:
    assert cli("snapshot", tmp_path / "a.db").code == 0
    result = cli("compare", "--from", tmp_path / "a.db", *words)
    assert result.code == 2
    assert message in result.error


def test_the_masters_own_file_has_to_be_found_where_it_is_asked_for(cli: Cli) -> None:
    result = cli("compare", "--policy", "opensm")
    assert result.code == 2
    assert result.error == "a simulated subnet has no OpenSM on this host: name the policy file"


def test_a_policy_that_opensm_would_refuse_is_refused_before_anything_is_asked(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "bad.conf").write_text("Default=0x7fff : ALL=full\nTwo=0x2 0x12345 ;\n")
    result = cli("compare", "--policy", tmp_path / "bad.conf")
    assert result.code == 2
    assert "bad.conf:" in result.error


def test_waiting_looks_again_until_its_time_is_over(
    cli: Cli, sa_key: str, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ibkeys.change import clock

    now = [0.0]
    monkeypatch.setattr(clock, "REAL_TIME", clock.Clock(lambda: now[0], lambda s: now.__setitem__(0, now[0] + s)))
    assert cli("compare", "--policy", policy, "--smkey", sa_key, "--wait", 30).code == 0
    assert now == [0.0]
    add(cli, "0x8001")
    result = cli("compare", "--policy", policy, "--smkey", sa_key, "--wait", 30, "-f", "json")
    assert (result.code, len(json.loads(result.out)["values"])) == (1, 1)
    assert now == [30.0]


def test_a_filter_chooses_what_is_compared_and_says_so(cli: Cli, sa_key: str, policy: Path) -> None:
    add(cli, "0x8010")
    whole = ("compare", "--policy", policy, "--smkey", sa_key)
    assert cli(*whole).code == 1
    other = cli(*whole, "--node", "node02")
    assert (other.code, other.out.splitlines()[0]) == (0, "only 1 of 24 ports was examined")
    one = cli(*whole, "--node", "node03", "-f", "json")
    assert (one.code, one.json["looked_at"]) == (1, {"ports": 1, "of": 24})
    assert {value["node_desc"] for value in one.json["values"]} == {"node03 mlx4_0"}
    assert cli(*whole, "-f", "json").json["looked_at"] is None
    assert cli(*whole, "--node", "nobody").code == 2
