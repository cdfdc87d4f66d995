"""policy-check and plan: output, exit codes, files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.document_reader import read_plan
from ibkeys.topology.enforcement import ENFORCEMENT_BITS
from tests.cli.conftest import TWO_SWITCH, Cli, run
from tests.corpus import DATA
from tests.fuzz.mutate import mutate
from tests.sample import SOAK

POLICIES = DATA / "policies"
GOOD = "Default : ALL=limited, SELF=full ;\nX=5 : 0x2c903000a1021=full, 0x2c903000a1031=full ;\n"
IBSIM = f"{TWO_SWITCH},port-guids=ibsim"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "partitions.conf"
    path.write_text(GOOD)
    return path


# --- policy-check ----------------------------------------------------------------------------------------------------


def test_a_good_policy_is_said_in_words(policy: Path) -> None:
    result = run("policy-check", policy)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        f"{policy}: OpenSM accepts it: 2 partitions\n"
        "no remarks\n"
        "\n"
        "Default: partition 0x7fff\n"
        "  limited: all end ports, full: the subnet manager's port (OpenSM begins with this)\n"
        "  limited: all end ports\n"
        "  full: the subnet manager's port\n"
        "X: partition 0x0005\n"
        "  full: 0x0002c903000a1021, 0x0002c903000a1031\n"
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "X=5 : 0xzz ;\n"])
def test_a_refused_or_empty_policy_makes_everybody_full_and_that_is_said_in_capitals(policy: Path, text: str) -> None:
    policy.write_text(text)
    result = run("policy-check", policy)
    assert result.code == 1
    assert "MAKE EVERY PORT A FULL MEMBER OF THE DEFAULT PARTITION" in result.out
    assert result.out.startswith(f"{policy}:1:")
    assert run("policy-check", policy, "-f", "json").json["accepted"] is False


@pytest.mark.parametrize("format", ["table", "json", "csv", "conf"])
def test_warnings_exit_1_in_every_format_and_notes_do_not(policy: Path, format: str) -> None:
    policy.write_text("X : ALL=full ;\n")
    assert run("policy-check", policy, "-f", format).code == 1
    policy.write_text("Default : ALL=full ;\n")
    assert run("policy-check", policy, "-f", format).code == 0


def test_json_has_every_remark_with_its_place(policy: Path) -> None:
    policy.write_text("X=5, ipoib, mtu=5 : ALL=FULL, 0x11=full ;\n")
    document = run("policy-check", policy, "-f", "json").json
    assert document["schema"] == "ibkeys.policy-check/1"
    assert document["problems"] == [
        {
            "line": 1,
            "column": 25,
            "severity": "warning",
            "code": "unknown-membership",
            "message": "membership 'FULL' is read as limited; OpenSM knows it as full",
        }
    ]
    (partition,) = document["partitions"]
    assert (partition["partition"], partition["name"], partition["automatic"]) == ("0x0005", "X", False)
    assert [(member["who"], member["port_guid"], member["membership"]) for member in partition["members"]] == [
        ("ALL", None, "limited"),
        ("GUID", "0x0000000000000011", "full"),
    ]
    assert partition["groups"][0]["mgid"] == "ff12:401b:8005::ffff:ffff"


def test_csv_has_a_line_for_each_remark(policy: Path) -> None:
    policy.write_text("X : 0x1, 0x1 ;\n")
    rows = list(csv.DictReader(io.StringIO(run("policy-check", policy, "-f", "csv").out)))
    assert [(row["line"], row["column"], row["code"]) for row in rows] == [
        ("1", "1", "automatic-pkey"),
        ("1", "1", "limited-only"),
        ("1", "10", "guid-twice"),
    ]


def test_the_copy_goes_to_standard_output_and_remarks_to_standard_error(policy: Path) -> None:
    policy.write_text("Auto : ALL=f ;\n")
    result = run("policy-check", policy, "-f", "conf")
    assert (result.code, result.out) == (1, "Auto : ALL=full ;\n")
    assert "[automatic-pkey]" in result.err
    assert "[abbreviated]" in result.err
    assert run("policy-check", policy, "--pin").out == "Auto=0x0001 : ALL=full ;\n"
    (partition,) = parse_policy(run("policy-check", policy, "--pin-random").out).partitions
    assert not partition.automatic


def test_a_name_that_is_no_utf_8_is_copied_byte_for_byte(policy: Path) -> None:
    policy.write_bytes(b"Gr\xf6\xdfe=0x0005 : ALL=full ;\n")
    command = [sys.executable, "-m", "ibkeys", "policy-check", str(policy)]
    done = subprocess.run([*command, "-f", "conf"], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, policy.read_bytes())
    assert b"Gr\\udcf6\\udcdfe: partition 0x0005" in subprocess.run(command, capture_output=True, timeout=60).stdout


def test_of_a_refused_policy_there_is_no_copy(policy: Path) -> None:
    policy.write_text("X=5 : ALL=full, 0xzz ;\n")
    for option in ("--pin", "--pin-random", "--format=conf"):
        result = run("policy-check", policy, option)
        assert (result.code, result.out) == (1, "")
        assert "it cannot be written out" in result.err


def test_wrong_usage(policy: Path, tmp_path: Path) -> None:
    assert "exclude" in run("policy-check", policy, "--pin", "--pin-random").error
    result = run("policy-check", tmp_path / "none.conf")
    assert result.code == 2
    assert "No such file" in result.error


def test_mutated_policies_end_with_a_line_and_never_with_a_traceback(tmp_path: Path) -> None:
    rng = random.Random(5)
    good = sorted(path for path in POLICIES.glob("*.conf") if path.stat().st_size < 2000)
    for number in range(500 if SOAK else 40):
        data = mutate(rng.choice(good).read_bytes(), rng)
        path = tmp_path / f"{number}.conf"
        path.write_bytes(data)
        result = run("policy-check", path)
        assert result.code in (0, 1)
        assert result.err == ""
        accepted = parse_policy(data).accepted
        assert ("FULL MEMBER OF THE DEFAULT PARTITION: NO ISOLATION" in result.out) == (not accepted)
        if not accepted:
            planned = run("plan", "--backend", TWO_SWITCH, "--policy", path)
            assert planned.code == 2
            assert planned.error.startswith(f"{path}:")


# --- plan ------------------------------------------------------------------------------------------------------------


def test_several_entries_share_a_line(tmp_path: Path) -> None:
    policy = tmp_path / "p.conf"
    keys = "".join(f"p{key}={key:#x} : 0x0002c903000a1021=full;\n" for key in range(1, 5))
    policy.write_text(f"Default=0x7fff : ALL=full;\n{keys}")
    folded, each = (
        run("plan", "--backend", IBSIM, "--policy", policy, *more).out for more in (("--fold",), ("--each",))
    )
    assert "ca, leaf port  1: - -> 0x8001, 2: - -> 0x8002, 3: - -> 0x8003\n" + " " * 22 + "4: - -> 0x8004\n" in folded
    assert [each.count(f"  {key}: - -> 0x800{key}\n") for key in range(1, 5)] == [2] * 4


def test_a_plan_is_shown_in_words_and_written_for_apply(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    result = run("plan", "--backend", IBSIM, "--policy", policy, "--out", out, "--fold")
    assert (result.code, result.err) == (1, "")
    assert "    4  ca, leaf port  0: 0xffff -> 0x7fff, 1: - -> 0x8005\n" in result.out
    assert "\n    node[02-03] mlx4_0\n" in result.out
    assert "    2  switch         0: 0xffff -> 0x7fff\n" in result.out
    assert "    6  off       in+out\n" in result.out
    assert "\n    MF0;switch-a:IS5023/U1 port 1-3\n" in result.out
    assert "new partitions: 0x0005 X" in result.out
    assert "pairs of end ports that gain connectivity: 0; that lose connectivity: 20" in result.out
    plan = read_plan(out)
    assert len(plan.tables) == 12
    assert plan.pending
    assert plan.policy.file == str(policy)
    assert plan.policy.text == policy.read_bytes()
    assert f"policy SHA-256: {hashlib.sha256(policy.read_bytes()).hexdigest()}" in result.out


def test_json_is_the_plan_file(policy: Path, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    result = run("plan", "--backend", IBSIM, "--policy", policy, "--out", out, "-f", "json")
    assert result.code == 1
    assert result.out == out.read_text()
    document = json.loads(result.out)
    assert document["schema"] == "ibkeys.plan/2"
    assert document["policy"]["text"] == policy.read_text()
    assert document["sm_options"]["part_enforce"] == "both"
    assert document["fabric"]["sm_guid"] == "0x0002c903000a1011"
    assert document["reach"] == {"gained": 0, "lost": 20, "unknown": 0}


def test_a_policy_may_be_typed_without_its_option(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is then the one that counts, whatever the environment has."""
    arguments = ("--backend", IBSIM, "-f", "json")
    with_option = run("plan", "--policy", policy, *arguments)
    monkeypatch.setenv("IBKEYS_POLICY", str(tmp_path / "missing.conf"))
    assert run("plan", *arguments).code == 2
    alone = run("plan", policy, *arguments)
    assert (alone.code, alone.out) == (1, with_option.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing argument FILE: the partition policy, "),
        (("POLICY", "--policy", "POLICY"), "the policy is given twice, as FILE and with --policy: omit one"),
        (("--policy", "POLICY", "POLICY"), "the policy is given twice, as FILE and with --policy: omit one"),
    ],
)
def test_a_plan_needs_one_policy(policy: Path, words: tuple[str, ...], said: str) -> None:
    result = run("plan", *(policy if word == "POLICY" else word for word in words), "--backend", "sim:/nowhere")
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(said)


def test_csv_has_a_line_for_each_entry(policy: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("plan", "--backend", IBSIM, "--policy", policy, "-f", "csv").out)))
    assert {row["kind"] for row in rows} == {"pkey", *ENFORCEMENT_BITS}
    entry = next(row for row in rows if row["port_guid"] == "0x0002c903000a1021" and row["index"] == "1")
    assert (entry["before"], entry["after"]) == ("", "0x8005")


def test_warnings_of_the_policy_are_counted_on_standard_error(policy: Path) -> None:
    policy.write_text("Auto : ALL=f ;\n")
    result = run("plan", "--backend", IBSIM, "--policy", policy)
    assert result.err == f"ibkeys: warning: {policy}: 2 warnings: see ibkeys policy-check {policy}\n"


def test_nothing_to_change_exits_0(policy: Path) -> None:
    policy.write_text("Default : ALL=full ;\n")
    result = run("plan", "--backend", IBSIM, "--policy", policy, "--enforce", "off")
    assert (result.code, result.err) == (0, "")
    assert "nothing to change" in result.out


def test_a_refused_policy_is_refused_before_anything_is_asked(policy: Path) -> None:
    policy.write_text("X=5 : ALL=full, 0xzz ;\n")
    result = run("plan", "--backend", "sim:/nowhere.net", "--policy", policy)
    assert result.code == 2
    assert result.error.startswith(f"{policy}:1:17: ")
    assert "EVERY PORT A FULL MEMBER" in result.error


def test_disconnecting_is_refused_while_an_sm_may_be_master(policy: Path) -> None:
    arguments = ("plan", "--policy", policy, "--disconnect-unconfigured", "--backend")
    result = run(*arguments, f"{IBSIM},sm=node01 mlx4_0")
    assert result.code == 4
    assert "active-sm" in result.error
    assert "is master" in result.error
    forced = run(*arguments, f"{IBSIM},sm=node01 mlx4_0", "--force")
    assert forced.code == 1
    assert "PROBLEM active-sm" in forced.out
    assert "0: 0xffff -> -" in forced.out
    assert run(*arguments, IBSIM).code == 1


def test_index_moves_are_named(policy: Path) -> None:
    policy.write_text("Default : ALL=full ;\nBoot=5, indx0 : 0x2c903000a1021=full ;\n")
    arguments = ("plan", "--backend", IBSIM, "--policy", policy)
    assert "PROBLEM index-0: 'node02 mlx4_0'" in run(*arguments).out
    for name in ("Default", "0x7fff", "all"):
        result = run(*arguments, "--allow-index-moves", name)
        assert "INDEX MOVE: 0xffff of 'node02 mlx4_0'" in result.out
        assert "PROBLEM index-0" not in result.out
    assert "no partition with this name" in run(*arguments, "--allow-index-moves", "Bot").error


def test_the_sms_port_may_be_named(policy: Path) -> None:
    result = run("plan", "--backend", IBSIM, "--policy", policy, "--sm-guid", "0x2c903000a1061", "-f", "json")
    tables = {table["port_guid"]: table for table in result.json["tables"] if table["node_type"] == "ca"}
    assert "0x0002c903000a1061" not in tables  # it stays full
    assert tables["0x0002c903000a1011"]["after"] == {"0": "0x7fff"}
    unknown = run("plan", "--backend", IBSIM, "--policy", policy, "--sm-guid", "0x99")
    assert unknown.code == 2
    assert "--sm-guid" in unknown.error


def test_a_plan_from_a_snapshot_is_the_plan_from_the_fabric(cli: Cli, policy: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "fabric.db"
    assert cli("snapshot", snapshot).code == 0
    arguments = ("plan", "--policy", policy, "-f", "json")
    live = cli(*arguments)
    assert live.code == 1
    assert cli(*arguments, "--from", snapshot).out == live.out


# --- the master's policy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["plan", "--policy"], ["audit", "--policy"], ["compare", "--ipoib", "--policy"]])
def test_a_simulated_subnet_has_no_opensm_whose_policy_could_be_meant(words: list[str]) -> None:
    result = run(*words, "opensm", "--backend", TWO_SWITCH)
    assert (result.code, "a simulated subnet has no OpenSM on this host" in result.error) == (2, True)


def test_who_is_master_is_not_asked_of_a_snapshot(tmp_path: Path) -> None:
    run("snapshot", tmp_path / "s.db", "--backend", TWO_SWITCH)
    for command in ("plan", "audit"):
        result = run(command, "--policy", "opensm", "--from", tmp_path / "s.db")
        assert (result.code, "--from reads a file: name the policy file" in result.error) == (2, True)


def test_a_file_called_opensm_is_named_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "opensm").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert run("plan", "--policy", "./opensm", "--backend", IBSIM).code == 1
