"""policy-from: the fabric as a policy, and what of it no policy can say."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from ibkeys.partitions.reader import read_policy
from tests.cli.conftest import TWO_SWITCH, Cli, run

POLICY = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nlustre=0x21, ipoib, mtu=5 : ALL=full ;\n"


@pytest.fixture
def changed(cli: Cli) -> Cli:
    """A fabric on which two hosts were given a P_Key by hand."""
    for lid in (2, 3):
        done = cli("pkey-add", lid, "0x8021", "--yes", "--force")
        assert done.code == 0, done.err
    return cli


def test_the_policy_goes_to_standard_output_with_names_in_comments(changed: Cli) -> None:
    result = changed("policy-from")
    assert result.code == 0
    assert result.out.endswith(
        "Default=0x7fff : ALL=full ;\n"
        "=0x0021 :\n"
        "\t0x0002c903000a1021=full,  # node02 mlx4_0\n"
        "\t0x0002c903000a1031=full ;  # node03 mlx4_0\n"
    )
    assert result.out.startswith("# The P_Key tables of 8 end ports as they are")
    assert "--policy takes them from the present policy" in result.err
    assert "to plan this policy with the settings that the fabric has now, use: ibkeys plan --enforce off" in result.err


def test_a_plan_of_it_has_nothing_to_change(changed: Cli, tmp_path: Path) -> None:
    out, old = tmp_path / "today.conf", tmp_path / "old.conf"
    old.write_text(POLICY)
    result = changed("policy-from", "--policy", old, "--out", out)
    assert (result.code, result.out) == (
        0,
        f"written: {out}; to check it: ibkeys plan {out} --enforce off\n",
    )
    assert [(each.name, each.ipoib) for each in read_policy(out).definitions] == [("Default", True), ("lustre", True)]
    planned = changed("plan", "--policy", out, "--enforce", "off")
    assert planned.code == 0
    assert "nothing to change" in planned.out


def test_a_snapshot_does_too(changed: Cli, tmp_path: Path) -> None:
    snapshot = tmp_path / "monday.db"
    assert changed("snapshot", snapshot).code == 0
    result = run("policy-from", "--from", snapshot)
    assert result.code == 0
    assert f"# from the snapshot {snapshot}" in result.out


def test_what_is_not_said_is_named_and_exits_1(cli: Cli) -> None:
    done = cli("pkey-set", 2, "0=0x8021", "--yes", "--force", *_over("index-0", "default-pkey"))
    assert done.code == 0, done.err
    result = cli("policy-from")
    assert result.code == 1
    assert "not said: no P_Key of the default partition: OpenSM makes every port at least a limited member: node02" in (
        result.err
    )
    document = cli("policy-from", "-f", "json").json
    assert document["schema"] == "ibkeys.policy-from/1"
    assert (document["pending"], document["options"]) == (True, {"enforce": "off", "allow_both_pkeys": False})
    assert [(each["kind"], each["ports"][0]["lid"]) for each in document["unsaid"]] == [("no-default", 2)]
    rows = list(csv.DictReader(io.StringIO(cli("policy-from", "-f", "csv").out)))
    assert [(row["kind"], row["node_desc"]) for row in rows] == [("no-default", "node02 mlx4_0")]


def _over(*names: str) -> list[str]:
    return [word for name in names for word in ("--override", name)]


def test_a_bad_policy_for_names_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    bad = tmp_path / "bad.conf"
    bad.write_text("X=5 : 0xzz ;\n")
    assert run("policy-from", "--backend", TWO_SWITCH, "--policy", bad).code == 2
