"""Virtual ports of simulated ports: given by a steering line, kept in the state, and what a sweep makes of them."""

from __future__ import annotations

import pytest

from ibkeys.errors import StoreError, UsageError
from ibkeys.sim.state.document import dump_state, load_state
from ibkeys.sim.steering.commands import execute
from tests.fabricsim import subnet, tool

HOST = "node02 mlx4_0"


def swept(net: object) -> tuple[str, int, int]:
    """Return what a sweep learns of `HOST`: whether it has virtual ports, VPortCap, VPortIndexTop."""
    with tool(net) as fabric:  # type: ignore[arg-type]
        (port,) = [port for port in fabric.sweep(p_keys=True).end_ports() if port.node.description == HOST]
    return port.virtual_ports, port.virtualization_info.vport_cap, port.virtualization_info.vport_index_top


@pytest.mark.parametrize(
    ("line", "said", "learned"),
    [
        ("on", "on, 127 possible, top index 3", ("on", 127, 3)),
        ("off possible=8 top=0", "off, 8 possible, top index 0", ("off", 8, 0)),
        ("none", "none", ("none", 0, 0)),
    ],
)
def test_a_line_gives_them_and_a_sweep_learns_of_them(line: str, said: str, learned: tuple[str, int, int]) -> None:
    net, copy = subnet("two-switch"), subnet("two-switch")
    execute(net, f'vports "{HOST}" on possible=2 top=1')
    assert execute(net, f'vports "{HOST}"[1] {line}') == f"{HOST} port 1: virtual ports {said}"
    assert (f"virtual ports: {said}" in execute(net, f'show "{HOST}"[1]')) == (line != "none")
    assert swept(net) == learned
    execute(net, f'reset "{HOST}"')
    load_state(copy, dump_state(net))
    assert net.port(HOST, 1).virtualization == copy.port(HOST, 1).virtualization
    assert swept(copy) == learned


def test_a_port_has_none_at_first() -> None:
    net = subnet("two-switch")
    assert swept(net) == ("none", 0, 0)
    assert "virtual ports" not in execute(net, f'show "{HOST}"[1]')


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("vports x maybe", "write on, off, none"),
        ("vports x on many=3", "write possible=, top="),
        ("vports x none top=1", "after none nothing"),
        ("vports x on top=65536", "not a number for top="),
        (f'vports "{HOST}"', "vports NODE"),
        ('vports "MF0;switch-a:IS5023/U1" on', "no CA"),
    ],
)
def test_lines_that_are_written_wrong_change_nothing(line: str, part: str) -> None:
    net = subnet("two-switch")
    before = dump_state(net)
    with pytest.raises(UsageError, match=part):
        execute(net, line)
    assert dump_state(net) == before


def test_a_damaged_state_is_refused() -> None:
    net = subnet("two-switch")
    execute(net, f'vports "{HOST}" on')
    document = dump_state(net)
    document["ports"][0]["virtualization"] = "00"
    with pytest.raises(StoreError, match="damaged"):
        load_state(subnet("two-switch"), document)
