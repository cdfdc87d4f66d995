"""What pkey-show, why, matrix, plan and audit say of ports with virtual ports and of alias GUIDs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.looking import SECRET, taken
from tests.cli.conftest import Cli
from tests.fabricsim import subnet, virtualize

ALIAS = 0x0002C9FFFE001234


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A snapshot of a fabric with a virtualized port, LID 2, and an alias GUID on LID 3."""
    from ibkeys.fabric.snapshot_file import save_snapshot

    net = subnet("two-switch")
    for number in range(1, 7):
        net.port(f"node0{number} mlx4_0", 1).p_keys = [0x7FFF]
    virtualize(net, "node02 mlx4_0")
    net.port("node03 mlx4_0", 1).guids = {1: ALIAS}
    snapshot = taken(net)
    assert snapshot.fingerprints is SECRET
    save_snapshot(tmp_path / "a.db", snapshot)
    return tmp_path / "a.db"


def test_pkey_show_says_that_there_are_more_tables(cli: Cli, recorded: Path) -> None:
    result = cli("pkey-show", "--all", "--from", recorded)
    assert "(node02 mlx4_0 port 1 has virtual ports, or may have them: their P_Key tables cannot be read)" in result.out
    assert "virtual ports" in cli("pkey-show", "2", "--from", recorded).out
    assert "virtual ports" not in cli("pkey-show", "3", "--from", recorded).out
    rows = {
        row["lid"]: row["virtual_ports"]
        for row in cli("pkey-show", "--all", "--from", recorded, "-f", "json").json["ports"]
    }
    assert rows[2] == {"state": "on", "possible": 127, "top_index": 3}
    assert {value for lid, value in rows.items() if lid != 2 and value is not None} == set()


def test_why_and_matrix_do_not_say_no(cli: Cli, recorded: Path) -> None:
    result = cli("why", "2", "4", "--from", recorded)
    assert "node02 mlx4_0 has virtual ports, or may have them: their P_Keys cannot be read" in result.out
    assert cli("why", "2", "4", "--from", recorded, "-f", "json").json["can_talk"] is None
    assert cli("why", "5", "4", "--from", recorded, "-f", "json").json["can_talk"] is False
    assert "(1 port with virtual ports, whose P_Keys cannot be read" in cli("matrix", "--from", recorded).out


def test_an_alias_in_a_policy_is_named_with_what_becomes_of_it(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.conf"
    policy.write_text(
        f"Default=0x7fff: ALL=limited, SELF=full;\nred=0x10: 0x{ALIAS:016x}=full, 0x0002c903000a1021=full;\n"
    )
    said = cli("plan", "--policy", policy, "--from", recorded, "-f", "json").json["problems"]
    (problem,) = [each for each in said if f"0x{ALIAS:016x}" in each["message"]]
    assert "is alias GUID 1 of 'node03 mlx4_0'" in problem["message"]
    assert "upstream OpenSM gives an alias nothing" in problem["message"]
    assert "which is alias GUID 1 of 'node03 mlx4_0'" in cli("audit", "--policy", policy, "--from", recorded).err


def test_the_dialect_of_nvidia_is_not_refused(cli: Cli, tmp_path: Path) -> None:
    policy = tmp_path / "p.conf"
    policy.write_text("Default=0x7fff: ALL=limited, SELF=full;\nred=0x10: ALL_VCAS=full;\n")
    assert "OPENSM WOULD REFUSE" in cli("policy-check", policy).out
    result = cli("policy-check", "--dialect", "nvidia", policy)
    assert result.code == 1
    assert "not checked" in result.out
    assert "REFUSE" not in result.out
    document = cli("policy-check", "--dialect", "nvidia", policy, "-f", "json").json
    assert (document["accepted"], document["dialect"]) == (None, "nvidia")
