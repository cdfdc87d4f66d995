"""`why --trap`: from a refused packet to the port that stops it and the command that mends it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import TWO_SWITCH, run
from tests.cli.saved import save
from tests.fabricsim import between_switches, change_each_subnet, subnet

LIVE = ("--backend", TWO_SWITCH)
HERE, THERE = "node01 mlx4_0", "node04 mlx4_0"


def test_the_receiver_is_not_a_member() -> None:
    found = run("why", "--trap", "1 4 0x8021", *LIVE)
    assert found.code == 1
    assert found.out.startswith(
        "a packet with P_Key 0x8021\n  from: node01 mlx4_0 (ca 0x0002c903000a1010) port 1, LID 1\n"
    )
    assert "stopped at node04 mlx4_0 port 1 (received), which counts it in P_KeyViolations\n" in found.out
    assert "  an entry that would let it pass: 0x8021 or 0x0021\n" in found.out
    assert "  ibkeys partition-add 0x0021 --full 0x0002c903000a1011 --limited 0x0002c903000a1041   # make " in found.out
    document = run("why", "--trap", "1 4 0x0021", *LIVE, "-f", "json").json
    assert document["passing_entries"] == ["0x8021"]  # the packet is limited, so the entry has to be full
    assert document["commands"][0]["command"] == (
        "ibkeys partition-add 0x0021 --limited 0x0002c903000a1011 --full 0x0002c903000a1041"
    )
    assert (document["trap"], document["refused_at"], document["since"]) == (None, None, None)


def test_a_port_between_switches_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def block(net: Subnet) -> None:
        port = between_switches(net)
        port.p_keys, port.outbound_enforcement = [0x8001], 1

    change_each_subnet(monkeypatch, block)
    document = run("why", "--trap", "1 4 0xffff", *LIVE, "-f", "json").json
    [packet] = document["packets"]
    assert (packet["outcome"], packet["counter"]) == ("stopped", "PortXmitConstraintErrors")
    command = document["commands"][0]
    assert command["command"] == "ibkeys enforce-set -G 0x0002c90200401000 7 --outbound off"
    again = run(*shlex.split(command["command"])[1:], "--dry-run", *LIVE)
    assert again.code in (1, 4)  # it is a command, and would change something
    assert "PartitionEnforcementOutbound: 1 -> 0" in again.out


def test_since_when_is_in_the_snapshots(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir()
    before, after = subnet("two-switch"), subnet("two-switch")
    before.port(THERE, 1).p_keys = [0xFFFF, 0x8021]
    for minute, net in enumerate((before, before, after, after)):
        save(net, folder / f"ibkeys-20261120T09{minute:02d}00Z.db", minute)
    document = run("why", "--trap", "1 4 0x8021", "--history", folder, *LIVE, "-f", "json").json
    assert document["since"] == {"after": "2026-11-20T09:01:00Z", "by": "2026-11-20T09:02:00Z"}
    assert "since: a P_Key of this partition changed there after 2026-11-20T09:01:00Z, by 2026-11-20T09:02:00Z" in (
        run("why", "--trap", "1 4 0x8021", "--history", folder, *LIVE).out
    )


def test_a_port_that_is_gone_and_a_q_key() -> None:
    gone = run("why", "--trap", "77 4 0x8021", *LIVE)
    assert gone.code == 3
    assert "no port of this fabric has LID 77" in gone.err
    event = {"trap": 258, "from": {"lid": 1}, "to": {"lid": 4}, "q_key": "0x00000b1b", "pkey": None}
    found = run("why", "--trap", json.dumps(event), *LIVE)
    assert found.code == 1
    assert "trap 258: a packet with Q_Key 0x00000b1b\n" in found.out
    assert "  ibkeys qkey-explain 0x00000b1b   # " in found.out


@pytest.mark.parametrize(
    "words",
    [("--trap", "hello"), ("1", "4", "--trap", "1 4 0x8001"), ("1", "4", "--history", "."), ()],
)
def test_wrong_words_are_refused(words: tuple[str, ...]) -> None:
    assert run("why", *words, *LIVE).code == 2


def test_a_packet_that_passes_now() -> None:
    found = run("why", "--trap", "1 4 0xffff", *LIVE)
    assert found.code == 0
    assert "a packet with 0xffff to LID 4: delivered\n" in found.out


@pytest.mark.parametrize(("p_key", "how"), [("0x8021", "full"), ("0x0021", "limited")])
def test_a_sender_that_its_switch_port_stops_becomes_the_member_that_it_says_it_is(
    p_key: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(net: Subnet) -> None:
        leaf = net.port(HERE, 1).peer
        assert leaf is not None
        leaf.inbound_enforcement = 1

    change_each_subnet(monkeypatch, check)
    document = run("why", "--trap", f"1 4 {p_key}", *LIVE, "-f", "json").json
    assert document["packets"][0]["counter"] == "PortRcvConstraintErrors"
    other = "full" if how == "limited" else "limited"
    assert document["commands"][0]["command"] == (
        f"ibkeys partition-add 0x0021 --{how} 0x0002c903000a1011 --{other} 0x0002c903000a1041"
    )


def test_a_lost_packet_has_no_command_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(net: Subnet) -> None:
        [first, *_] = [node for node in net.nodes if node.is_switch]
        first.routes = first.first_routes(first)
        first.routes[4] = 0xFF
        first.touch()

    change_each_subnet(monkeypatch, lose)
    document = run("why", "--trap", "1 4 0x8021", *LIVE, "-f", "json").json
    assert document["packets"][0]["lost_by"] == "no entry"
    assert [each["about"] for each in document["commands"]] == ["all P_Keys of the two"]
