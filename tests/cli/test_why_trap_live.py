"""The commands that why --trap prints let the packet pass, on a policy in force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.live_cluster import LIVE, cluster
from tests.sample import SOAK

SENDER, RECEIVER = "0x2c903000a1021", "0x2c903000a1041"
STANDINGS = [
    (p_key, of_sender, of_receiver)
    for p_key in ("0x0010", "0x8010")
    for of_sender in ("", "limited", "full")
    for of_receiver in ("", "limited", "full")
]
IN_SHORT = {("0x0010", "", ""), ("0x8010", "limited", ""), ("0x0010", "limited", "limited"), ("0x0010", "full", "")}


@pytest.mark.parametrize("standing", [each for each in STANDINGS if SOAK or each in IN_SHORT], ids="-".join)
def test_after_the_printed_commands_the_packet_is_delivered(standing: tuple[str, str, str], tmp_path: Path) -> None:
    """Between any two members and ports that are none, through an OpenSM that writes the leaf switch ports too."""
    p_key, *memberships = standing
    rules = [f"{who}={how}" for who, how in zip((SENDER, RECEIVER), memberships, strict=True) if how]
    gpu = f"gpu=0x10 : {', '.join(rules)} ;\n" if rules else ""
    policy = f"Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n{gpu}"
    trap = f"why --trap '2 4 {p_key}' -f json"
    with cluster(tmp_path, policy) as scene:
        scene.type(trap)
        found = json.loads(scene.out)
        mending = [each["command"] for each in found["commands"] if not each["command"].startswith("ibkeys why ")]
        if found["no_remedy"] is not None:
            assert (p_key, memberships[0]) == ("0x0010", "full")  # never made a limited member
            assert mending == []
            assert "is a full member now and has no 0x0010" in found["no_remedy"]
            return
        assert (scene.code == 0) == any(each == "ibkeys journal" for each in mending)
        for command in mending if scene.code else ():
            scene.must(f"{command.removeprefix('ibkeys ')} {LIVE}")
        assert scene.type(trap) == 0, scene.out
        assert json.loads(scene.out)["packets"][0]["outcome"] == "delivered"


def test_one_command_makes_both_ports_members(tmp_path: Path) -> None:
    with cluster(tmp_path, "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n") as scene:
        assert scene.type("why --trap '2 4 0x0010'") == 1
    command = "  ibkeys partition-add 0x0010 --limited 0x0002c903000a1021 --full 0x0002c903000a1041   # make "
    assert command in scene.out


def test_no_command_for_a_rule_that_lets_no_limited_member_send(tmp_path: Path) -> None:
    with cluster(tmp_path, "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n") as scene:
        assert scene.type("why --trap '2 4 0x0010' --inbound-check membership") == 1
    assert "partition-add" not in scene.out
    assert "  no command lets it pass: " in scene.out
    assert "(inbound) would still stop a packet with 0x0010 if both ports were members\n" in scene.out
