"""Recovery does no harm: no port is opened that need not be, no SM is worked against, no key is said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibkeys.errors import Refused
from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import Method
from ibkeys.mkeys.recovery.recover import plan_recovery
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.paths import StorePaths
from tests.fabricsim import subnet, tool, writer
from tests.mkeys.recovery.lost import (
    FIRST_KEY,
    Run,
    end_ports,
    lock,
    store_with,
    tree,
    violations,
)
from tests.spy import spy


@pytest.mark.parametrize("with_links", [True, False])
def test_ports_whose_keys_are_known_keep_their_protection(tmp_path: Path, with_links: bool) -> None:
    """One switch is lost among ports whose keys are in the store: what probes hit behind it must not open."""
    net = subnet("two-switch")
    lost = next(node for node in net.nodes if node.is_switch and node.ports[1].peer is not net.nodes[0].ports[1])
    paths = store_with(tmp_path, net, lambda port: [] if port.node is lost else [MKey(port.guid)])
    lock(net, lease=10)
    for port in end_ports(net):
        port.m_key = port.guid
    lost.ports[0].lease_period = 60
    with tool(net, keystore=paths.keystore, journal=paths.journal) as fabric, writer(fabric, "mkey-under-sm") as w:
        known = None if with_links else {}
        summary = plan_recovery(w, known).run(lambda result: None)
        assert w.keystore.current()[lost.ports[0].guid] == MKey(lost.ports[0].m_key)
    assert summary.failed == 0
    near = [port for port in end_ports(net) if _is_before(net, port)]
    assert len(near) == 4
    net.advance(1000)
    with tool(net, keystore=paths.keystore) as fabric:
        fabric.sweep()
    assert all(port.protect_bits == 2 for port in near)
    assert all(port.lease_deadline is None for port in near)


def _is_before(net: Subnet, port: SimPort) -> bool:
    """Whether *port* is on the near switch, or is it."""
    first = net.nodes[0].ports[1].peer
    assert first is not None
    return port.node is first.node or (port.peer is not None and port.peer.node is first.node)


def test_under_a_master_sm_it_refuses_and_says_which_ports_run_one() -> None:
    net = subnet("two-switch")
    lock(net, level=1)
    net.set_sm("node03 mlx4_0", 3)
    with tool(net) as fabric, writer(fabric) as w:
        recovery = plan_recovery(w)
        counted = violations(net)
        with pytest.raises(Refused, match=r"(?s)mkey-under-sm.*node03 mlx4_0") as refused:
            recovery.run(lambda result: None)
        assert w.keystore.rows() == []
    assert refused.value.interlock == "mkey-under-sm"
    assert violations(net) == counted == 0


def test_a_silent_own_port_that_is_named_as_the_sms_is_judged_by_what_the_host_says() -> None:
    net, known = tree()
    own = net.nodes[0].ports[1]
    assert own.sm_lid == own.lid
    with tool(net) as fabric, writer(fabric) as w:
        assert plan_recovery(w, known).objections() == []
    net.software.set_is_sm(own, True)
    with tool(net) as fabric, writer(fabric) as w:
        assert [each.interlock for each in plan_recovery(w, known).objections()] == ["mkey-under-sm"]


def test_a_dry_run_sends_gets_only_and_stores_nothing(tmp_path: Path) -> None:
    net, known = tree()
    with tool(net) as fabric:
        fabric.stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
        wire = spy(fabric)
        with writer(fabric, dry_run=True) as w:
            outlook = plan_recovery(w, known).outlook()
    assert {mad[3] for mad in wire} == {Method.GET}
    assert outlook.silent == len(end_ports(net))
    assert violations(net) == 1  # the local port was asked once
    assert list(tmp_path.iterdir()) == []


def results_hold_no_key(run: Run) -> Iterator[str]:
    yield from (repr(each) for each in (*run.results, run.outlook, run.summary))


def test_no_result_holds_a_key() -> None:
    net, known = tree()
    net.node("leaf 2-2").ports[0].lease_period = 0
    run = Run(net, known, RecoveryOptions(set_new=True))
    text = "".join(results_hold_no_key(run)).lower()
    for number in range(len(end_ports(net))):
        assert f"{FIRST_KEY + number:x}" not in text
        assert str(FIRST_KEY + number) not in text
