"""What pkey-show, why, matrix, plan and audit say of ports with virtual ports and of alias GUIDs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ibkeys.fabric.recorded import RecordedFabric
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import AttributeID
from ibkeys.umad.port import Outgoing, SendFailure
from ibkeys.umad.simulated import SimulatedPort
from tests.audit.looking import SECRET, taken
from tests.cli.conftest import Cli, between_commands
from tests.fabricsim import subnet, tool, virtualize
from tests.spy import LOST, spy

ALIAS = 0x0002C9FFFE001234
HOST_2 = 0x0002C903000A1021


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A snapshot of a fabric with a virtualized port, LID 2, and an alias GUID on LID 3."""
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


def test_diff_of_reach_says_whose_may_be_more(cli: Cli, recorded: Path, tmp_path: Path) -> None:
    net = subnet("two-switch")
    for number in range(1, 7):
        net.port(f"node0{number} mlx4_0", 1).p_keys = [0x7FFF, 0x8001] if number in (2, 3) else [0x7FFF]
    save_snapshot(tmp_path / "b.db", taken(net))
    result = cli("diff", "--reach", recorded, tmp_path / "b.db")
    assert (result.code, result.err) == (1, "")
    assert "1 pair gained reach" in result.out
    said = "(1 port with virtual ports, whose P_Keys cannot be read, so this may differ for them: node02 mlx4_0)"
    assert said in result.out
    document = cli("diff", "--reach", recorded, tmp_path / "b.db", "-f", "json").json
    assert [port["node_desc"] for port in document["virtualized"]] == ["node02 mlx4_0"]
    assert document["unknown"] == []
    same = cli("diff", "--reach", recorded, recorded)
    assert same.code == 0
    assert same.out.startswith("no pair of ports gained or lost reach, as far as was read\n(1 port with virtual ports")
    assert "virtual" not in cli("diff", "--reach", tmp_path / "b.db", tmp_path / "b.db").out


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


def _policy(folder: Path, *guids: int) -> Path:
    policy = folder / "p.conf"
    members = ", ".join(f"0x{guid:016x}=full" for guid in guids)
    policy.write_text(f"Default=0x7fff: ALL=limited, SELF=full;\nred=0x10: {members};\n")
    return policy


def _asked_for_guids(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that grows with each Get of GUIDInfo that a command sends."""
    asked: list[bytes] = []
    send = SimulatedPort.send

    def listen(port: SimulatedPort, batch: Sequence[Outgoing]) -> list[SendFailure]:
        asked.extend(bytes(each.mad) for each in batch if each.mad[16:18] == AttributeID.GUID_INFO.to_bytes(2))
        return send(port, batch)

    monkeypatch.setattr(SimulatedPort, "send", listen)
    return asked


@pytest.fixture
def asked(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A live fabric whose host 3 has an alias GUID; a list that grows with each Get of GUIDInfo."""
    assert cli("discover").code == 0
    with between_commands(tmp_path) as net:
        port = net.port("node03 mlx4_0", 1)
        port.guids = {1: ALIAS}
        port.touch()
    return _asked_for_guids(monkeypatch)


LIVE = {
    "plan": ("plan", "--policy", "POLICY"),
    "policy-diff": ("policy-diff", "POLICY", "POLICY"),
    "compare": ("compare", "--policy", "POLICY"),
}


@pytest.mark.parametrize("command", LIVE)
def test_a_live_command_knows_an_alias(cli: Cli, asked: list[bytes], tmp_path: Path, command: str) -> None:
    policy = str(_policy(tmp_path, ALIAS, HOST_2))
    result = cli(*(policy if word == "POLICY" else word for word in LIVE[command]))
    assert "is alias GUID 1 of 'node03 mlx4_0'" in result.out + result.err
    assert asked


@pytest.mark.parametrize("command", LIVE)
def test_a_policy_of_port_guids_costs_no_get_more(cli: Cli, asked: list[bytes], tmp_path: Path, command: str) -> None:
    policy = str(_policy(tmp_path, HOST_2))
    result = cli(*(policy if word == "POLICY" else word for word in LIVE[command]))
    assert result.code != 2
    assert asked == []


def test_only_ports_with_room_for_an_alias_are_asked(cli: Cli, asked: list[bytes], tmp_path: Path) -> None:
    with between_commands(tmp_path) as net:
        for port in (port for node in net.nodes for port in node.end_ports):
            room = 9 if str(port) == "node03 mlx4_0 port 1" else 1
            PortInfo.guid_cap.patch(port.info, room)
            port.touch()
    said = cli("plan", "--policy", _policy(tmp_path, ALIAS), "-f", "json").json["problems"]
    assert [each for each in said if "is alias GUID 1 of 'node03" in each["message"]]
    assert len(asked) == 2  # one port with 9 GUIDs: two blocks


@pytest.mark.parametrize("named", [ALIAS, HOST_2])
def test_an_alias_that_could_not_be_read_is_missing_only_where_it_matters(named: int) -> None:
    with tool(subnet("two-switch"), retries=0) as fabric:
        found = fabric.sweep()
        assert not found.troubles
        spy(fabric, refuse=lambda outgoing: LOST if outgoing.mad[16:18] == AttributeID.GUID_INFO.to_bytes(2) else 0)
        fabric.read_alias_guids(found, [named])
        snapshot = fabric.take_snapshot()
    assert {each.attribute for each in found.troubles} == ({"GUIDInfo"} if named == ALIAS else set())
    recorded = RecordedFabric(snapshot)
    again = recorded.sweep()
    assert not again.troubles
    for _ in range(2):
        recorded.read_alias_guids(again, [named])
    assert len(again.troubles) == len(found.troubles)
