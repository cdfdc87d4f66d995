"""On any fabric every port that can open comes back, and no byte of it changes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.sim.subnet import Subnet
from tests.mkeys.recovery.lost import FIRST_KEY, Run, configuration, end_ports, keys_of, links, violations
from tests.sample import SOAK


@st.composite
def fabrics(draw: st.DrawFn) -> Subnet:
    """A random connected fabric of up to 5 switches with 4 ports and hosts on what is left, each port as it likes."""
    count = draw(st.integers(1, 5))
    free = {number: list(range(1, 7)) for number in range(count)}
    edges: list[tuple[str, int, str, int]] = []
    for number in range(1, count):
        other = draw(st.integers(0, number - 1))
        edges.append((f"S-{number + 1:016x}", free[number].pop(), f"S-{other + 1:016x}", free[other].pop()))
    for _ in range(draw(st.integers(0, 3))):
        a, b = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        if a != b and len(free[a]) > 1 and len(free[b]) > 1:
            edges.append((f"S-{a + 1:016x}", free[a].pop(), f"S-{b + 1:016x}", free[b].pop()))
    hosts = draw(st.integers(1, 6))
    for number in range(hosts):
        at = draw(st.integers(0, count - 1)) if number else 0
        if free[at]:
            edges.append((f"H-{0x100 + 16 * number:016x}", 1, f"S-{at + 1:016x}", free[at].pop()))
    text = []
    names = dict.fromkeys(name for edge in edges for name in (edge[0], edge[2]))
    for name in sorted(names):
        kind, guid = ("Ca\t1", "caguid") if name.startswith("H") else ("Switch\t6", "switchguid")
        text += ["", f"{guid}=0x{int(name[2:], 16):x}", f'{kind} "{name}"\t# "{name}"']
        for one, port, far, far_port in edges:
            text += [f'[{port}]\t"{far}"[{far_port}]'] if one == name else []
            text += [f'[{far_port}]\t"{one}"[{port}]'] if far == name else []
    net = Subnet.from_text("\n".join(text) + "\n")
    for number, port in enumerate(end_ports(net)):
        port.protect_bits = draw(st.integers(0, 3))
        port.lease_period = draw(st.sampled_from([0, 4, 15, 15, 15, 40]))
        port.m_key = draw(st.sampled_from([0, FIRST_KEY + number, FIRST_KEY + number]))
    return net


def _reachable(net: Subnet, with_links: bool) -> set[int]:
    """Return the port GUIDs that a recovery must bring back: all those with known links; without, those that are not
    behind two switches in a row that never open."""
    own = net.nodes[0].ports[1]
    never = {
        node
        for node in net.nodes
        if node.is_switch and node.ports[0].protect_bits >= 2 and node.ports[0].m_key and not node.ports[0].lease_period
    }
    waiting, seen = [(own, 0)], {(own, 0)}
    while waiting:
        port, closed = waiting.pop()
        node = port.node
        ports = [each for each in node.all_ports if each.number] if node.is_switch else [own] if port is own else []
        for each in ports:
            far = each.peer
            if far is None:
                continue
            guard = far.node.ports[0] if far.node.is_switch else far
            depth = closed + 1 if node in never else 0
            if not with_links and depth > 1:
                continue
            state = (guard, min(depth, 2))
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return {port.guid for port, _ in seen}


@settings(max_examples=1000 if SOAK else 15)
@given(net=fabrics(), with_links=st.booleans())
def test_on_any_fabric_every_port_with_a_lease_comes_back_and_no_byte_changes(net: Subnet, with_links: bool) -> None:
    states = [(port, port.m_key, port.protect_bits) for port in end_ports(net)]
    for port, _, _ in states:
        port.m_key = 0
    known = links(net)
    for port, key, level in states:
        port.m_key, port.protect_bits = key, level
    before = configuration(net)
    reachable = _reachable(net, with_links)
    run = Run(net, known if with_links else {}, RecoveryOptions(wait=100), "mkey-under-sm")
    expected = {
        port.guid: MKey(key)
        for port, key, level in states
        if key and port.guid in reachable and (port.lease_period or level == 0)
    }
    assert run.current.items() >= expected.items()
    assert run.current.items() <= keys_of(net).items()
    assert configuration(net) == before
    assert violations(net) <= run.summary.violations
