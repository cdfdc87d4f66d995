"""Raw packets: what the filters of switch ports drop."""

from __future__ import annotations

import json

import pytest

from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.reach.raw import raw_way
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.cli.conftest import TWO_SWITCH, run
from tests.fabricsim import subnet, tool

SWITCH, A, B = "MF0;switch-a:IS5023/U1", "node02 mlx4_0", "node03 mlx4_0"


@pytest.fixture
def net() -> Subnet:
    """Both hosts are on one switch, at its ports 2 and 3."""
    return subnet("two-switch")


def filtering(net: Subnet, number: int, direction: str, can: bool = True) -> None:
    port = net.port(SWITCH, number)
    getattr(PortInfo, f"filter_raw_{direction}").patch(port.info, 1)
    assert port.node.switch_info is not None
    getattr(SwitchInfo, f"filter_raw_{direction}_cap").patch(port.node.switch_info, can)


def ports(net: Subnet) -> tuple[Topology, Port, Port]:
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
    by_name = {port.node.description: port for port in found.end_ports()}
    return found, by_name[A], by_name[B]


@pytest.mark.parametrize(
    ("number", "direction", "there", "back"),
    [
        (2, "inbound", "FilterRawInbound", ""),
        (2, "outbound", "", "FilterRawOutbound"),
        (3, "outbound", "FilterRawOutbound", ""),
        (3, "inbound", "", "FilterRawInbound"),
        (1, "inbound", "", ""),
    ],
)
def test_a_filter_drops_in_its_direction_only(net: Subnet, number: int, direction: str, there: str, back: str) -> None:
    filtering(net, number, direction)
    _, a, b = ports(net)
    for way, field in ((raw_way(a, b), there), (raw_way(b, a), back)):
        assert [each.field for each in way.dropped_by] == ([field] if field else [])
        assert way.passes is not bool(field)
        assert all(each.port.num == number for each in way.dropped_by)


def test_a_switch_that_cannot_filter_drops_nothing(net: Subnet) -> None:
    filtering(net, 2, "inbound", can=False)
    _, a, b = ports(net)
    assert raw_way(a, b).passes is True


def test_a_switch_port_that_was_not_read_leaves_it_unknown(net: Subnet) -> None:
    _, a, b = ports(net)
    assert a.peer is not None
    a.peer.info = None
    assert raw_way(a, b).passes is None
    assert raw_way(b, a).passes is None


def test_why_says_it_in_words_and_in_its_document() -> None:
    out = run("why", A, B, "--backend", TWO_SWITCH).out
    assert out.endswith(
        "  SMPs (QP0): pass, whatever the P_Keys are\n"
        "  GMPs (QP1): pass with any P_Key above\n"
        "  raw packets: pass both ways: they carry no P_Key\n"
        "  RD (reliable datagram): pass with the P_Key of their EE contexts, if it is above\n"
    )
    document = json.loads(run("why", A, B, "--backend", TWO_SWITCH, "-f", "json").out)
    assert document["traffic"] == {
        "smps": True,
        "gmps": True,
        "raw_a_to_b": True,
        "raw_b_to_a": True,
        "reliable_datagram": True,
    }
