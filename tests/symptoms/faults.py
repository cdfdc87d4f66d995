"""The faults of the simulated fabric, and of hosts, by the names that tests/data/symptoms uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ibkeys.sim.subnet import Subnet
from tests.fabricsim import set_p_key_capacity
from tests.host.kernel import trees
from tests.host.kernel.trees import Tree

HOSTS = [f"node0{number} mlx4_0" for number in range(1, 7)]
M_KEY = 0x5A17C0DE90B1E2F3


def _default(net: Subnet) -> None:
    """Every port as after power-up."""


def _not_in_partition(net: Subnet) -> None:
    for name in HOSTS:
        net.port(name, 1).p_keys = [0xFFFF] if name.startswith("node02") else [0xFFFF, 0x8010]


def _limited(net: Subnet) -> None:
    for name in HOSTS:
        net.port(name, 1).p_keys = [0xFFFF, 0x8010] if name.startswith("node01") else [0x7FFF, 0x0010]


def _without_default(net: Subnet) -> None:
    net.port("node02 mlx4_0", 1).p_keys = [0x8010]


def _table_full(net: Subnet) -> None:
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, *range(0x8001, 0x8040)]


def _switch_table_small(net: Subnet) -> None:
    switch = next(node for node in net.nodes if node.is_switch)
    set_p_key_capacity(switch, enforcement_cap=2)
    net.port("node02 mlx4_0", 1).p_keys = [0xFFFF, 0x8010, 0x8011, 0x8012]


def _switch_blocks(net: Subnet) -> None:
    for name in HOSTS:
        port = net.port(name, 1)
        port.p_keys = [0x7FFF, 0x8010]
        assert port.peer is not None
        port.peer.p_keys = [0x7FFF, 0x8010]
        port.peer.inbound_enforcement = port.peer.outbound_enforcement = 1
    blocking = net.port("node02 mlx4_0", 1).peer
    assert blocking is not None
    blocking.p_keys = [0x7FFF]


def _m_key(net: Subnet) -> None:
    port = net.port("node05 mlx4_0", 1)
    port.m_key, port.protect_bits = M_KEY, 2


def _m_key_at_1(net: Subnet) -> None:
    port = net.port("node05 mlx4_0", 1)
    port.m_key, port.protect_bits = M_KEY, 1


def _own_m_key(net: Subnet) -> None:
    port = net.port("node01 mlx4_0", 1)
    port.m_key, port.protect_bits = M_KEY, 2


def _m_key_violations(net: Subnet) -> None:
    net.port("node04 mlx4_0", 1).m_key_violations = 9


def _q_key(net: Subnet) -> None:
    net.port("node03 mlx4_0", 1).q_key_violations = 7


def _silent(net: Subnet) -> None:
    net.silence("node05 mlx4_0")


def _two_sms(net: Subnet) -> None:
    net.set_sm("node04 mlx4_0")


FAULTS: dict[str, Callable[[Subnet], None]] = {
    "default": _default,
    "no-sm": _default,
    "not-in-partition": _not_in_partition,
    "limited": _limited,
    "no-default": _without_default,
    "table-full": _table_full,
    "switch-table-small": _switch_table_small,
    "switch-blocks": _switch_blocks,
    "m-key": _m_key,
    "m-key-at-1": _m_key_at_1,
    "own-m-key": _own_m_key,
    "m-key-violations": _m_key_violations,
    "q-key": _q_key,
    "silent": _silent,
    "two-sms": _two_sms,
}


def _plain(root: Path) -> Tree:
    return trees.connectx(root)


def _index_1(root: Path) -> Tree:
    return trees.connectx(root, p_keys=(0x7FFF, 0x8010))


def _limited_host(root: Path) -> Tree:
    return trees.connectx(root, p_keys=(0x7FFF, 0x0010))


def _absent(root: Path) -> Tree:
    return trees.connectx(root, p_keys=(0xFFFF, 0x8011))


def _child_absent(root: Path) -> Tree:
    tree = trees.connectx(root, p_keys=(0xFFFF,))
    tree.child_by_sysfs(0x0C42A10300A10000, 0x8020)
    return tree


def _selinux(root: Path) -> Tree:
    tree = trees.connectx(root)
    tree.selinux("1")
    return tree


def _virtual(root: Path) -> Tree:
    return trees.mlx5_virtual_function(root, in_guest=True)


SYSFS: dict[str, Callable[[Path], Tree]] = {
    "plain": _plain,
    "index-1": _index_1,
    "limited": _limited_host,
    "absent": _absent,
    "child-absent": _child_absent,
    "selinux": _selinux,
    "vf": _virtual,
    "ethernet": trees.rxe,
    "local": _plain,
}
