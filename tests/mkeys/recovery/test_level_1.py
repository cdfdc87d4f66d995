"""Recovery at level 1, where reading starts no lease: a refused SMP has to."""

from __future__ import annotations

from pathlib import Path

from ibkeys.fabric.live import LiveFabric
from ibkeys.mad.const import AttributeID, Method
from ibkeys.store.journal import Journal
from ibkeys.store.paths import StorePaths
from tests.fabricsim import subnet
from tests.mkeys.recovery.lost import (
    LEASE,
    Run,
    configuration,
    end_ports,
    keys_of,
    lock,
    methods,
)
from tests.spy import LOST, spy


def without_trap_repress(fabric: LiveFabric) -> None:
    """Let no TrapRepress arrive anywhere, as where agents ignore it."""
    spy(fabric, refuse=lambda out: LOST if out.mad[3] == Method.TRAP_REPRESS else 0)


def test_an_agent_that_ignores_trap_repress_is_made_to_refuse_the_p_keys_it_has(tmp_path: Path) -> None:
    net = subnet("two-switch")
    lock(net, level=1)
    before = configuration(net)
    stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
    run = Run(net, None, None, before=without_trap_repress, stores=stores)
    assert run.current == keys_of(net)
    assert configuration(net) == before
    assert (Method.SET, AttributeID.P_KEY_TABLE) in methods(run)
    assert (Method.SET, AttributeID.PORT_INFO) not in methods(run)
    with Journal(stores.journal) as journal:
        [operation] = journal.list_operations()
    assert operation.ports == len(end_ports(net))


def test_a_port_at_level_1_without_a_key_is_found_out_and_not_changed() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.protect_bits, port.lease_period = 1, LEASE
    port.p_keys = (0xFFFF, 0x8001, 0x0002)
    before = configuration(net)
    run = Run(net)
    [skipped] = run.results
    assert (skipped.result, "has no M_Key" in skipped.reason) == ("skipped", True)
    assert configuration(net) == before
    assert port.protect_bits == 1


def test_level_1_with_lease_0_is_named_at_once() -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    port.m_key, port.protect_bits = 5, 1
    run = Run(net)
    [failed] = run.results
    assert "lease 0" in failed.reason
    assert run.seconds < LEASE
    assert port.m_key_violations == 0
