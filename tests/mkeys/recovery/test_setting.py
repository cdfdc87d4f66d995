"""What is set on ports that came back: new keys, the found ones, level and lease."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ibkeys.errors import UsageError
from ibkeys.keys.mkey import MKey
from ibkeys.mkeys.recovery.found_keys import FoundKeys
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.result import RecoveryResult
from tests.fabricsim import swap_cables
from tests.mkeys.recovery.lost import (
    LEASE,
    Run,
    end_ports,
    keys_of,
    tree,
)
from tests.protectedsim import sm_sweeps


def test_new_keys_are_set_on_what_came_back_and_on_nothing_else() -> None:
    net, known = tree()
    lost = keys_of(net)
    open_port = net.port("node00002 mlx5_0", 1)
    open_port.m_key = open_port.protect_bits = open_port.lease_period = 0
    run = Run(net, known, RecoveryOptions(set_new=True, protect=2, lease=30))
    del lost[open_port.guid]
    now = keys_of(net)
    assert now.pop(open_port.guid) == MKey(0)
    assert run.current == now
    assert all(now[guid] != key and not now[guid].is_zero for guid, key in lost.items())
    assert len(set(now.values())) == len(now)
    assert {row.m_key for row in run.rows if row.state == "former"} == set(lost.values())
    assert {(port.protect_bits, port.lease_period) for port in end_ports(net) if port is not open_port} == {(2, 30)}
    assert open_port.protect_bits == 0


@pytest.mark.parametrize("with_sm", [False, True])
def test_no_new_key_goes_to_a_port_that_was_plugged_in_there_while_leases_ran(
    with_sm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, known = tree()
    lost = keys_of(net)
    one, other = net.port("node00003 mlx5_0", 1), net.port("node00012 mlx5_0", 1)
    change = FoundKeys.change

    def after_a_swap(found: FoundKeys, *rest: Any) -> Iterator[RecoveryResult]:
        swap_cables(one, other, net)
        if with_sm:
            sm_sweeps(net)
        yield from change(found, *rest)

    monkeypatch.setattr(FoundKeys, "change", after_a_swap)
    run = Run(net, known, RecoveryOptions(set_new=True))
    now = keys_of(net)
    assert {each.port["node_desc"] for each in run.of("failed")} == {one.node.description, other.node.description}
    assert {guid for guid, key in now.items() if key == lost[guid]} == {one.guid, other.guid}
    assert run.current == now


def test_the_key_that_was_found_can_be_protected_again() -> None:
    net, known = tree()
    lost = keys_of(net)
    run = Run(net, known, RecoveryOptions(protect=2))
    assert keys_of(net) == run.current == lost
    assert {(port.protect_bits, port.lease_period) for port in end_ports(net)} == {(2, LEASE)}


def test_one_new_key_for_all() -> None:
    net, known = tree()
    Run(net, known, RecoveryOptions(new_key=MKey(0x9D3C_51E7_08B6_42FA)))
    assert set(keys_of(net).values()) == {MKey(0x9D3C_51E7_08B6_42FA)}


@pytest.mark.parametrize("wrong", [{"protect": 4}, {"lease": 65536}, {"new_key": MKey(0)}])
def test_wishes_that_no_port_can_have(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RecoveryOptions(**wrong)
