"""Raw packets: what the filters of switch ports drop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ibkeys.mad.attributes import PortInfo, SwitchInfo
from ibkeys.reach.raw import RawPackets
from ibkeys.sim.subnet import Subnet
from ibkeys.topology.model import Topology
from ibkeys.topology.nodes import Port
from tests.cli.conftest import TWO_SWITCH, run
from tests.cli.saved import save
from tests.fabricsim import subnet, tool

SWITCH, A, B = "MF0;switch-a:IS5023/U1", "node02 mlx4_0", "node03 mlx4_0"
OTHER_SWITCH, FAR = "Infiniscale-IV Mellanox Technologies", "node04 mlx4_0"


@pytest.fixture
def net() -> Subnet:
    """Both hosts are on one switch, at its ports 2 and 3."""
    return subnet("two-switch")


def filtering(net: Subnet, number: int, direction: str, can: bool = True, name: str = SWITCH) -> None:
    port = net.port(name, number)
    getattr(PortInfo, f"filter_raw_{direction}").patch(port.info, 1)
    assert port.node.switch_info is not None
    getattr(SwitchInfo, f"filter_raw_{direction}_cap").patch(port.node.switch_info, can)


def ports(net: Subnet, other: str = B) -> tuple[Topology, Port, Port]:
    with tool(net) as fabric:
        found = fabric.sweep(p_keys=True)
    by_name = {port.node.description: port for port in found.end_ports()}
    return found, by_name[A], by_name[other]


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
    found, a, b = ports(net)
    raw = RawPackets(found)
    for way, field in ((raw.path(a, b), there), (raw.path(b, a), back)):
        assert [each.field for each in way.dropped_by] == ([field] if field else [])
        assert way.passes is not bool(field)
        assert all(each.port.num == number for each in way.dropped_by)


def test_a_switch_that_cannot_filter_drops_nothing(net: Subnet) -> None:
    filtering(net, 2, "inbound", can=False)
    found, a, b = ports(net)
    assert RawPackets(found).path(a, b).passes is True


def test_a_switch_port_that_was_not_read_leaves_it_unknown(net: Subnet) -> None:
    found, a, b = ports(net)
    assert a.peer is not None
    a.peer.info = None
    assert RawPackets(found).path(a, b).passes is None
    assert RawPackets(found).path(b, a).passes is None


BETWEEN = (7, 8)
"""The ports of both switches that lead to the other one."""


@pytest.mark.parametrize(
    ("filters", "there", "back"),
    [
        ([], True, True),
        ([(SWITCH, 7, "outbound")], None, True),
        ([(SWITCH, 7, "outbound"), (SWITCH, 8, "outbound")], False, True),
        ([(SWITCH, 7, "outbound"), (OTHER_SWITCH, 8, "inbound")], False, True),
        ([(SWITCH, 7, "inbound"), (SWITCH, 8, "inbound")], True, False),
        ([(SWITCH, 7, "inbound"), (SWITCH, 8, "outbound")], None, None),
    ],
)
def test_a_filter_between_switches_drops_on_the_routes_through_it(
    net: Subnet, filters: list[tuple[str, int, str]], there: bool | None, back: bool | None
) -> None:
    assert {net.port(SWITCH, 7).peer, net.port(SWITCH, 8).peer} == {net.port(OTHER_SWITCH, each) for each in BETWEEN}
    for name, number, direction in filters:
        filtering(net, number, direction, name=name)
    found, a, b = ports(net, FAR)
    raw = RawPackets(found)
    assert (raw.path(a, b).passes, raw.path(b, a).passes) == (there, back)
    ways = [raw.path(a, b), raw.path(b, a)]
    dropped, may = (
        {(each.port.node.description, each.port.num) for way in ways for each in all_of(way)}
        for all_of in (lambda way: way.dropped_by, lambda way: way.may_be_dropped_by)
    )
    assert dropped | may == {(name, number) for name, number, _ in filters}
    assert bool(dropped) is (False in (there, back))
    _, a, b = ports(net)
    assert RawPackets(found).path(a, b).passes is True  # on one switch


def test_a_port_between_switches_that_was_not_read_leaves_it_unknown(net: Subnet) -> None:
    found, a, b = ports(net, FAR)
    port = next(port for port in found.ports() if port.node.description == SWITCH and port.num == 7)
    port.info = None
    assert RawPackets(found).path(a, b).passes is None


def test_a_switch_that_cannot_filter_drops_nothing_between_switches(net: Subnet) -> None:
    for number in BETWEEN:
        filtering(net, number, "outbound", can=False)
    found, a, b = ports(net, FAR)
    assert RawPackets(found).path(a, b).passes is True


def test_why_names_the_filters_between_switches(net: Subnet, tmp_path: Path) -> None:
    filtering(net, 7, "outbound")
    some = save(net, tmp_path / "some.db")
    for number in BETWEEN:
        for name in (SWITCH, OTHER_SWITCH):
            filtering(net, number, "inbound", name=name)
    every = save(net, tmp_path / "every.db")
    out = run("why", A, FAR, "--from", some).out
    assert (
        "  raw packets, node02 mlx4_0 to node04 mlx4_0: not known: on some routes dropped by "
        "'MF0;switch-a:IS5023/U1' 0x0002c90200401000 port 7 (FilterRawOutbound)\n"
        "  raw packets, node04 mlx4_0 to node02 mlx4_0: pass\n"
    ) in out
    traffic = run("why", A, FAR, "--from", some, "-f", "json").json["traffic"]
    assert (traffic["raw_a_to_b"], traffic["raw_b_to_a"]) == (None, True)
    fields = ("node_desc", "port", "field", "way", "on_some_routes")
    assert [[each[name] for name in fields] for each in traffic["raw_dropped_by"]] == [
        [SWITCH, 7, "FilterRawOutbound", "a_to_b", True]
    ]
    out = run("why", A, FAR, "--from", every).out
    assert "node04 mlx4_0 to node02 mlx4_0: dropped by 'MF0;switch-a:IS5023/U1' 0x0002c90200401000 port 7 (" in out
    traffic = run("why", A, FAR, "--from", every, "-f", "json").json["traffic"]
    assert (traffic["raw_a_to_b"], traffic["raw_b_to_a"]) == (False, False)
    assert {each["way"] for each in traffic["raw_dropped_by"]} == {"a_to_b", "b_to_a"}
    assert not any(each["on_some_routes"] for each in traffic["raw_dropped_by"])


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
        "raw_dropped_by": [],
        "reliable_datagram": True,
    }
