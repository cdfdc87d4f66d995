"""Tables of several blocks, of one port or of several: the tasks by plain calls, the wire is this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ibkeys.client.request import Destination, Envelope, Request
from ibkeys.client.smp import Task
from ibkeys.discovery.tables import AT_ONCE, read_guid_info, read_p_key_tables
from ibkeys.errors import IbkeysError, NoReply
from ibkeys.mad.attributes import NodeInfo, PortInfo, SwitchInfo
from ibkeys.mad.const import NodeType
from ibkeys.mad.smp import get_template
from ibkeys.topology.nodes import Node, Port

GETS = Envelope("node", get_template((1,), 0), Destination(0xFFFF, 1.0, 2))
PORTS = 16


def switch_ports(capacity: int) -> list[Port]:
    """Return the external ports of a switch whose P_Key tables have room for *capacity*."""
    node = Node(NodeInfo.new(node_type=NodeType.SWITCH, num_ports=PORTS, partition_cap=8).raw, (1,))
    node.switch_info_raw = SwitchInfo.new(partition_enforcement_cap=capacity).raw
    return [node.port(num) for num in range(1, PORTS + 1)]


def block(modifier: int) -> bytes:
    """Return a block that says which one it is."""
    return modifier.to_bytes(4) * 16


def run(task: Task, answer: Callable[[int], Any] = block) -> tuple[Any, list[list[int]]]:
    """Answer all that *task* asks; return what it returns, and the modifiers of each request."""
    asked: list[list[int]] = []
    outcomes = None
    while True:
        try:
            request = task.send(outcomes)
        except StopIteration as end:
            return end.value, asked
        assert isinstance(request, Request)
        asked.append(list(request.modifiers))
        outcomes = [answer(modifier) for modifier in asked[-1]]


@pytest.mark.parametrize("capacity", [0, 1, 32, 33, 128, 129, 2048, 2049, 0xFFFF])
def test_each_port_gets_the_blocks_of_its_own_table(capacity: int) -> None:
    ports = switch_ports(capacity)
    problems, asked = run(read_p_key_tables(ports, GETS))
    assert problems == []
    blocks = -(-capacity // 32)
    tables = {port.num: [port.num << 16 | number for number in range(blocks)] for port in ports}
    assert [modifier for request in asked for modifier in request] == [
        each for table in tables.values() for each in table
    ]
    assert all(0 < len(request) <= AT_ONCE for request in asked)
    for port in ports:
        assert port.p_key_raw == b"".join(map(block, tables[port.num]))[: 2 * capacity]


def test_an_error_costs_one_port_its_table() -> None:
    ports = switch_ports(64)
    error = NoReply("lost")
    problems, asked = run(read_p_key_tables(ports, GETS), lambda number: error if number == 3 << 16 else block(number))
    assert problems == [(ports[2], error)]
    assert [port.num for port in ports if port.p_key_raw is None] == [3]
    assert sum(map(len, asked)) == 2 * PORTS


def test_after_an_error_no_more_is_asked_of_a_long_table() -> None:
    [port, *_] = switch_ports(0xFFFF)
    error = NoReply("lost")
    problems, asked = run(read_p_key_tables([port], GETS), lambda number: error if number & 0xFFFF == 70 else block(0))
    assert problems == [(port, error)]
    assert port.p_key_raw is None
    assert sum(map(len, asked)) == 2 * AT_ONCE


def test_without_switch_info_nothing_is_asked() -> None:
    ports = switch_ports(8)
    ports[0].node.switch_info_raw = None
    problems, asked = run(read_p_key_tables(ports, GETS))
    assert asked == []
    assert [port for port, _ in problems] == ports
    assert all(isinstance(error, IbkeysError) for _, error in problems)


@pytest.mark.parametrize(("count", "requests"), [(0, []), (1, [1]), (9, [2]), (255, [32])])
def test_guid_info_is_read_in_blocks_of_eight(count: int, requests: list[int]) -> None:
    port = Node(NodeInfo.new(node_type=NodeType.CA, num_ports=1).raw, (1,)).port(1)
    port.info = PortInfo.new(guid_cap=count).raw
    problem, asked = run(read_guid_info(port, GETS))
    assert problem is None
    assert list(map(len, asked)) == requests
    assert (port.guid_info or b"") == b"".join(map(block, range(-(-count // 8))))[: 8 * count]
