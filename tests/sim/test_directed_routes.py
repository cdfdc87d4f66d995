"""Directed routes that were walked are kept; what happens to the subnet meanwhile must show at once."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from pytest_mock import MockerFixture

from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import AttributeID, Method, PortState
from ibkeys.mad.smp import build_smp
from ibkeys.sim import routing
from ibkeys.sim.subnet import Subnet
from tests.fattree import fat_tree

NET = fat_tree(3, 2, 2)


def paths(net: Subnet) -> list[bytes]:
    """Return some of all paths, of up to four hops."""
    throw = random.Random(7)
    most = max(node.num_ports for node in net.nodes)
    return [
        bytes(throw.randrange(most + 2) for _ in range(length)) for length in range(5) for _ in range(1 + 20 * length)
    ]


def unplug(net: Subnet, node: int, number: int) -> None:
    net.unplug(net.nodes[node], number)


def plug_elsewhere(net: Subnet, node: int, number: int) -> None:
    free = [port for each in net.nodes for port in each.all_ports if port.number and port.peer is None]
    if len(free) > 1:
        one, other = free[0], free[-1]
        if one.node is not other.node:
            net.plug(one.node, one.number, other.node, other.number)


def set_state(net: Subnet, node: int, number: int) -> None:
    port = net.nodes[node].ports[number]
    port.state = PortState.DOWN if port.state != PortState.DOWN else PortState.INITIALIZE


def silence(net: Subnet, node: int, number: int) -> None:
    net.silence(net.nodes[node], on=bool(number % 2), forwards=False)


def reset(net: Subnet, node: int, number: int) -> None:
    net.reset(net.nodes[node])


def send_set(net: Subnet, node: int, number: int, attribute: int, modifier: int, data: bytes) -> None:
    port = net.nodes[node].ports[number]
    assert net.send(build_smp(Method.SET, attribute, modifier, path=(), data=data), port.guard)


def set_state_by_smp(net: Subnet, node: int, number: int) -> None:
    info = PortInfo(bytes(net.nodes[node].ports[number].info))
    state = random.Random(node << 8 | number).choice(list(PortState))
    asked = info.replace(port_state=state, port_physical_state=number % 4 if state <= PortState.DOWN else 0)
    send_set(net, node, number, AttributeID.PORT_INFO, number, asked.raw)


def set_table_by_smp(net: Subnet, node: int, number: int) -> None:
    attribute = AttributeID.LINEAR_FORWARDING_TABLE if net.nodes[node].is_switch else AttributeID.P_KEY_TABLE
    send_set(net, node, number, attribute, 0, bytes([number]) * 64)


Step = Callable[[Subnet, int, int], None]
STEPS: list[Step] = [unplug, plug_elsewhere, set_state, silence, reset, set_state_by_smp, set_table_by_smp]


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 10**6))))
def test_a_kept_route_is_the_one_that_would_be_walked(steps: list[tuple[Step, int]]) -> None:
    net = Subnet.from_text(NET)
    routes = routing.DirectedRoutes(net.history)
    home = next(node for node in net.nodes if not node.is_switch)
    tried = paths(net)
    for step, number in steps:
        node = net.nodes[number % len(net.nodes)]
        step(net, node.index, 1 + number // len(net.nodes) % node.num_ports)
        for path in tried:
            assert routes.walk(home, 1, path) == routing.directed(home, 1, path)


def test_a_route_is_walked_once_while_there_is_room(mocker: MockerFixture) -> None:
    mocker.patch.object(routing, "MAX_WALKED", 3)
    net = Subnet.from_text(NET)
    home = next(node for node in net.nodes if not node.is_switch)
    *three, fourth = [bytes((1, number)) for number in range(1, 20) if routing.directed(home, 1, bytes((1, number)))][
        :4
    ]
    walked = mocker.spy(routing, "directed")
    routes = routing.DirectedRoutes(net.history)
    for path in [*three, *reversed(three)]:
        routes.walk(home, 1, path)
    assert walked.call_count == 3
    routes.walk(home, 1, fourth)
    routes.walk(home, 1, three[0])
    assert walked.call_count == 5
