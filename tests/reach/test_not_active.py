"""Links that are not Active: no data packets pass them, whatever the P_Keys are."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from ibkeys.fabric.snapshot import take_snapshot
from ibkeys.fabric.snapshot_file import save_snapshot
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import PortPhysicalState, PortState
from ibkeys.reach.reach import Reach
from ibkeys.reach.why import Connectivity
from ibkeys.sim.notices import Packet
from ibkeys.sim.subnet import Subnet
from tests.cli.conftest import TWO_SWITCH, run
from tests.cli.saved import SECRET
from tests.fabricsim import change_each_subnet, subnet, tool
from tests.reach.packets import ends, read

A, B, C = "node01 mlx4_0", "node04 mlx4_0", "node02 mlx4_0"
SWITCH = "MF0;switch-a:IS5023/U1"  # node01 is at its port 1
NOTHING = Connectivity(False, False, False)


@pytest.mark.parametrize(("name", "number"), [(A, 1), (SWITCH, 1)])
@pytest.mark.parametrize("state", [PortState.INITIALIZE, PortState.ARMED])
def test_a_port_whose_link_is_not_active_talks_to_nobody(name: str, number: int, state: PortState) -> None:
    net = subnet("two-switch")
    port = net.port(name, number)
    PortInfo.port_state.patch(port.info, state)
    port.touch()
    fabric = read(net)
    reach = Reach(fabric)
    for (a, one), (b, other) in combinations(ends(net, fabric), 2):
        packets = Packet(a, b, 0xFFFF), Packet(b, a, 0xFFFF)
        arrives = all(net.packet(each).endswith("received") for each in packets)
        verdict = reach.why(one, other)
        assert verdict.can_talk is arrives
        assert [end.node.description for end in verdict.not_active] == ([] if arrives else [name])
    assert [(end.node.description, end.num) for end in reach.not_active] == [(name, number)]
    assert len(list(reach.talking_pairs())) == 28  # the P_Keys are as before


def test_port_0_of_a_switch_has_no_link() -> None:
    net = subnet("two-switch")
    port = net.port(SWITCH, 0)
    PortInfo.port_state.patch(port.info, PortState.INITIALIZE)
    port.touch()
    assert not Reach(read(net)).not_active


def test_why_names_the_port_and_its_state() -> None:
    where = ("--backend", f"{TWO_SWITCH},links=initialize")
    result = run("why", A, B, *where)
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[2] == "  cannot talk"
    state = "is Initialize: data packets pass only a link whose ends are Active"
    assert [line.endswith(state) for line in lines].count(True) == 2
    assert "  0xffff with 0xffff: " in result.out
    assert lines[-2:] == [
        "  SMPs (QP0): pass, whatever the P_Keys are",
        "  GMPs (QP1), raw packets and RD (reliable datagram): none get through, as above",
    ]
    document = json.loads(run("why", A, B, *where, "-f", "json").out)
    assert (document["can_talk"], document["a_to_b"], document["b_to_a"]) == NOTHING
    assert document["otherwise"] == NOTHING._asdict()
    assert [(each["node_desc"], each["state"]) for each in document["not_active"]] == [(A, 2), (B, 2)]
    assert document["traffic"] == {
        "smps": True,
        "gmps": False,
        "raw_a_to_b": False,
        "raw_b_to_a": False,
        "raw_dropped_by": [],
        "reliable_datagram": False,
    }


def test_matrix_says_that_links_are_not_active() -> None:
    where = ("--backend", f"{TWO_SWITCH},links=initialize")
    result = run("matrix", *where)
    assert result.code == 0
    assert result.err == (
        "ibkeys: note: 6 end ports have links that are not Active: the pairs are shown as if those links were Active\n"
        "ibkeys: note: 2 links between switches are not Active: the pairs are shown as if they were; "
        "ibkeys why A B says whether a route crosses such a link\n"
    )
    for more in ((), ("--pairs",)):
        document = json.loads(run("matrix", *where, "-f", "json", *more).out)
        assert [each["state"] for each in document["not_active"]] == [2] * 6
    assert run("matrix", "--backend", TWO_SWITCH).err == ""
    assert json.loads(run("matrix", "--backend", TWO_SWITCH, "-f", "json").out)["not_active"] == []


def test_matrix_counts_a_pair_whose_route_has_a_link_that_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it counts those with such a link of their own: it says so, and why says that they cannot talk now."""

    def arm(net: Subnet) -> None:
        for number in (7, 8):
            port = net.port(SWITCH, number)
            PortInfo.port_state.patch(port.info, PortState.ARMED)
            port.touch()

    change_each_subnet(monkeypatch, arm)
    shown = run("matrix", "--routes", "--backend", TWO_SWITCH)
    assert (shown.code, shown.err.count("note: 2 links between switches are not Active: ")) == (0, 1)
    assert run("why", A, B, "--backend", TWO_SWITCH).code == 1


def test_no_smp_passes_a_link_that_is_down(tmp_path: Path) -> None:
    with tool(subnet("two-switch")) as fabric:
        taken = take_snapshot(fabric, SECRET)
    port = next(port for port in taken.fabric.end_ports() if port.node.description == C)
    assert port.info is not None
    info = bytearray(port.info)
    PortInfo.port_state.patch(info, PortState.DOWN)
    PortInfo.port_physical_state.patch(info, PortPhysicalState.POLLING)
    port.info = bytes(info)
    save_snapshot(tmp_path / "down.db", taken)
    result = run("why", A, C, "--from", tmp_path / "down.db")
    assert result.code == 1
    assert "port 1 is Down: data packets pass only a link whose ends are Active\n" in result.out
    assert "  SMPs (QP0): do not pass: there is no link\n" in result.out
    assert run("why", A, C, "--from", tmp_path / "down.db", "-f", "json").json["traffic"]["smps"] is False
    said = "1 end port has a link that is not Active: the pairs are shown as if that link were Active"
    assert said in run("matrix", "--from", tmp_path / "down.db").err
