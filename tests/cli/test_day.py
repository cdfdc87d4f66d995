"""A day of looking: twenty reading commands on a fabric at level 2 whose keys are known, whatever state its links are
in and whatever was moved or replaced. Nothing counts a violation, no lease starts, no trap is sent, and every port is
as protected in the evening as it was in the morning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys import opening
from ibkeys.sim.agents import mkey_check
from ibkeys.sim.nodes import SimNode, SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.umad.simulated import port_on
from tests.cli.conftest import Result, run
from tests.fabricsim import move_cable, subnet
from tests.protectedsim import (
    end_ports,
    keep_counters,
    listen,
    protect_all,
    provoked,
    replug,
    sm_sweeps,
    store_of,
)

DAY = 24 * 3600.0
HOST, LEAF = "node05 mlx4_0", "Infiniscale-IV Mellanox Technologies"
COMMANDS = [
    ("discover",),
    ("pkey-show", "--all"),
    ("mkey-show", "--all"),
    ("port-show", "--caps", "--all"),
    ("port-show", "--enforcement", "--all"),
    ("port-show", "--counters", "--all"),
    ("snapshot", "{folder}/now.db"),
    ("audit",),
    ("matrix",),
    ("why", "-L", "1", "2"),
    ("pkey-show",),
    ("pkey-show", "2"),
    ("pkey-show", "-L", "5"),
    ("pkey-show", "-D", "0,1,7"),
    ("pkey-show", "-G", "0x0002c903000a1051"),
    ("pkey-show", "-N", HOST),
    ("mkey-show", "5"),
    ("mkey-show", "-D", "0,1,2"),
    ("port-show", "--counters", "-G", "0x0002c90200401040"),
    ("compare", "--ipoib", "--policy", "{folder}/partitions.conf"),
]


def as_it_was(net: Subnet) -> None:
    """Nobody touched anything."""


def host_moved(net: Subnet) -> None:
    move_cable(net.port(HOST, 1), net.port(LEAF, 5), net)


def hca_replaced(net: Subnet) -> None:
    """Another HCA, from its box, at the same place."""
    port = net.port(HOST, 1)
    peer = net.unplug(HOST, 1)
    assert peer is not None
    renew(port.node)
    replug(net, port, peer)


def leaf_replaced(net: Subnet) -> None:
    """Another switch, from its box, with all cables plugged as before."""
    leaf = net.node(LEAF)
    cables = [(port, peer) for port in leaf.all_ports if (peer := net.unplug(leaf, port.number) if port.peer else None)]
    renew(leaf)
    for port, peer in cables:
        replug(net, port, peer)


def renew(node: SimNode) -> None:
    node.guid = node.system_image_guid = node.guid + 0x0000_0100_0000_0000
    for port in node.end_ports:
        port.guid += 0x0000_0100_0000_0000
        port.m_key = port.protect_bits = port.lease_period = 0


def nothing(net: Subnet) -> None:
    """No SM looks after the fabric."""


def initialize(net: Subnet) -> None:
    for node in net.nodes:
        for port in node.all_ports:
            if port.is_up:
                port.set_states(2, 5)


def armed(net: Subnet) -> None:
    for node in net.nodes:
        for port in node.all_ports:
            if port.is_up:
                port.set_states(3, 5)


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subnet:
    made = subnet("two-switch")
    monkeypatch.setattr(opening, "open_port", lambda _backend, local: port_on(made, local.ca, local.port, local.at))
    (tmp_path / "partitions.conf").write_text("Default=0x7fff, ipoib : ALL=full;\n")
    return made


def spend_a_day(net: Subnet, folder: Path, *options: object) -> dict[tuple[str, ...], Result]:
    results = {}
    for command in COMMANDS:
        words = [word.format(folder=folder) for word in command]
        results[command] = run(*words, *options, "--backend", "sim:", "-t", 100)
        assert "internal error" not in results[command].err
        assert "usage" not in results[command].err.lower(), results[command].err
        net.advance(DAY / len(COMMANDS))
    return results


def protected(net: Subnet) -> dict[SimPort, tuple[int, int]]:
    for port in end_ports(net):
        mkey_check.expire(port)
    return {port: (port.m_key, port.protect_bits) for port in end_ports(net)}


@pytest.mark.parametrize("sa", [False, True], ids=["no-sm", "sm"])
@pytest.mark.parametrize("links", [nothing, initialize, armed, sm_sweeps], ids=["left", "initialize", "armed", "swept"])
@pytest.mark.parametrize("change", [as_it_was, host_moved, hca_replaced, leaf_replaced], ids=lambda f: f.__name__)
def test_a_day_of_looking_unlocks_nothing(
    change: Callable[[Subnet], None], links: Callable[[Subnet], None], sa: bool, net: Subnet, tmp_path: Path
) -> None:
    if sa:
        net.set_sm("node01 mlx4_0")
    ring = protect_all(net)
    keep_counters(net, ring)
    store_of(net, ring, tmp_path / "keys.db")
    change(net)
    links(net)
    net.events.clear()
    wire = listen(net)
    morning = protected(net)
    results = spend_a_day(net, tmp_path, "--keystore", tmp_path / "keys.db")
    assert wire.strays() == []
    assert provoked(net) == []
    assert protected(net) == morning
    whole = results["discover",]
    is_read = change is as_it_was and links in (nothing, sm_sweeps)
    is_read |= change is hca_replaced and links is sm_sweeps and sa  # the SA says that it is another one
    assert whole.code == (0 if is_read else 3), whole.err
    assert ("was not queried" in whole.err) is not is_read


@pytest.mark.parametrize("change", [as_it_was, host_moved], ids=lambda f: f.__name__)
@pytest.mark.parametrize("links", [nothing, initialize, armed], ids=["left", "initialize", "armed"])
def test_without_any_key_the_own_port_is_asked_once_and_nobody_else(
    change: Callable[[Subnet], None], links: Callable[[Subnet], None], net: Subnet, tmp_path: Path
) -> None:
    """A cron job of somebody who has no keys here."""
    protect_all(net)
    change(net)
    links(net)
    net.events.clear()
    own = net.port(net.nodes[0], 1)
    wire = listen(net)
    before = own.m_key_violations
    result = run("discover", "--backend", "sim:", "-t", 100)
    assert result.code == 3
    assert "--security-keys" in result.err
    assert "--ask-unproven" in result.err
    assert wire.keyless == {own: 1}
    assert wire.heard == {}
    assert own.m_key_violations == before + 1
