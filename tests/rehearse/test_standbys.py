"""The standby SMs of a rehearsal: which there are, and what stands in for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.errors import AddressError, UsageError
from ibkeys.fabric.snapshot import Snapshot
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import CapabilityMask, SMState
from ibkeys.rehearse.standbys import RehearsedStandby, simulate_standbys, standbys_of
from tests.fabricsim import subnet, tool


def snapshot_with_standby() -> tuple[Snapshot, int, int]:
    net = subnet("two-switch")
    net.set_sm("node01 mlx4_0")
    net.set_sm("node05 mlx4_0", int(SMState.STANDBY))
    with tool(net) as fabric:
        return fabric.take_snapshot(), net.port("node01 mlx4_0", 1).guid, net.port("node05 mlx4_0", 1).guid


def test_the_sms_of_the_snapshot_but_the_master_are_standbys() -> None:
    snapshot, master, standby = snapshot_with_standby()
    assert standbys_of(snapshot, master, ()) == [RehearsedStandby(standby, None)]


def test_a_named_standby_has_its_opensm(tmp_path: Path) -> None:
    program = tmp_path / "opensm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    snapshot, master, _ = snapshot_with_standby()
    first, _ = standbys_of(snapshot, master, [f"node06 mlx4_0:{program} -P p"])
    assert first.host == "node06 mlx4_0"
    assert first.opensm is not None
    assert first.opensm.words == ("-P", "p")


@pytest.mark.parametrize("text", ["node06", ":opensm", "node06: "])
def test_a_standby_without_node_or_command_is_refused(text: str) -> None:
    snapshot, master, _ = snapshot_with_standby()
    with pytest.raises(UsageError, match="give NODE:COMMAND"):
        standbys_of(snapshot, master, [text])


def test_a_stand_in_has_the_bit_and_answers_as_standby_but_not_on_the_masters_node() -> None:
    net = subnet("two-switch")
    guid = net.port("node05 mlx4_0", 1).guid
    standbys = [
        RehearsedStandby(guid, None),
        RehearsedStandby("node05 mlx4_0", None),
        RehearsedStandby("node01 mlx4_0", None),
    ]
    assert [node.description for node in simulate_standbys(net, standbys, net.node("node01 mlx4_0"))] == [
        "node05 mlx4_0"
    ]
    sm = net.node("node05 mlx4_0").sm
    assert sm is not None
    assert (sm.state, sm.priority) == (SMState.STANDBY, 0)
    assert PortInfo(bytes(net.port("node05 mlx4_0", 1).info)).capability_mask & CapabilityMask.IS_SM
    with pytest.raises(AddressError):
        list(simulate_standbys(net, [RehearsedStandby("nobody", None)], net.node("node01 mlx4_0")))
