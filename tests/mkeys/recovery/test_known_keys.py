"""Lost M_Keys that are still somewhere: in the key store, given by the user, or shown by the port itself."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.mad import offsets as at
from ibkeys.mad.const import Method
from ibkeys.mkeys.recovery.recover import plan_recovery
from ibkeys.mkeys.recovery.recovery_options import RecoveryOptions
from ibkeys.mkeys.recovery.result import RecoveryResult
from ibkeys.umad.port import Outgoing, SendFailure
from ibkeys.umad.simulated import SimulatedPort
from tests.fabricsim import subnet, tool, writer
from tests.mkeys.recovery.lost import (
    Run,
    configuration,
    end_ports,
    keys_of,
    lock,
    methods,
    store_with,
    violations,
)


def test_a_former_key_of_the_store_opens_its_port_without_waiting(tmp_path: Path) -> None:
    net = subnet("two-switch")
    lock(net)
    keys = {port: port.m_key for port in end_ports(net)}
    for port in keys:
        port.m_key = 0
    paths = store_with(tmp_path, net, lambda port: [MKey(keys[port]), MKey(keys[port] + 1000)])
    for port, key in keys.items():
        port.m_key = key
    before = configuration(net)
    with tool(net, keystore=paths.keystore, journal=paths.journal) as fabric, writer(fabric, "mkey-under-sm") as w:
        results: list[RecoveryResult] = []
        summary = plan_recovery(w).run(results.append)
        assert w.keystore.current() == keys_of(net)
    assert summary.failed == 0
    assert any("answered to one of the keys that were tried" in each.reason for each in results)
    assert configuration(net) == before


def test_given_keys_are_tried_on_silent_and_on_hiding_ports_and_open_them_at_once() -> None:
    net = subnet("two-switch")
    lock(net)
    for port in end_ports(net)[::2]:
        port.protect_bits = 1
    keys = tuple(MKey(port.m_key) for port in end_ports(net))
    run = Run(net, None, RecoveryOptions(try_keys=keys, tries=len(keys)), "mkey-under-sm")
    assert run.current == keys_of(net)
    assert all(port.protect_bits for port in end_ports(net))
    assert violations(net) <= run.summary.violations


def test_no_more_keys_are_tried_than_allowed() -> None:
    net = subnet("two-switch")
    victim = net.port("node02 mlx4_0", 1)
    victim.m_key, victim.protect_bits, victim.lease_period = 77, 2, 0
    wrong = tuple(MKey(number) for number in range(1, 21))
    run = Run(net, None, RecoveryOptions(try_keys=wrong, tries=3, wait=5), "mkey-under-sm")
    tried = {mad[24:32] for mad in run.wire} - {bytes(8)}
    assert tried == {number.to_bytes(8) for number in (1, 2, 3)}
    assert run.outlook.tries == 3
    assert victim.m_key_violations <= run.summary.violations
    assert victim.m_key_violations <= run.outlook.violations


def test_no_stored_key_is_tried_before_the_user_agreed_and_then_no_more_than_allowed(tmp_path: Path) -> None:
    net = subnet("two-switch")
    victim = net.port("node02 mlx4_0", 1)
    wrong = [MKey(number) for number in range(1, 8)]
    paths = store_with(tmp_path, net, lambda port: wrong if port is victim else [MKey(port.guid)])
    lock(net, lease=600)
    for port in end_ports(net):
        port.m_key = port.m_key if port is victim else port.guid
        port.sm_lid = net.port("node03 mlx4_0", 1).lid
    stores = {"keystore": paths.keystore, "journal": paths.journal}
    with tool(net, **stores) as fabric, writer(fabric, dry_run=True) as w:
        recovery = plan_recovery(w, options=RecoveryOptions(tries=2))
        recovery.objections()
    assert victim.m_key_violations == 1
    assert recovery.outlook().tries == 2
    run = Run(net, None, RecoveryOptions(tries=2), "mkey-under-sm", **stores)
    tried = {int.from_bytes(mad[24:32]) for mad in run.wire} & {key.reveal() for key in wrong}
    assert tried == {7, 6, 5}


def test_a_key_of_the_user_that_is_also_in_the_store_is_tried_once(tmp_path: Path) -> None:
    net = subnet("two-switch")
    victim = net.port("node02 mlx4_0", 1)
    former, current, other = MKey(1), MKey(2), MKey(3)
    paths = store_with(tmp_path, net, lambda port: [former, current] if port is victim else [MKey(port.guid)])
    lock(net, lease=600)
    for port in end_ports(net):
        port.m_key = port.m_key if port is victim else port.guid
        port.sm_lid = net.port("node03 mlx4_0", 1).lid
    options = RecoveryOptions(try_keys=(current, former, other), wait=5)
    run = Run(net, None, options, "mkey-under-sm", keystore=paths.keystore, journal=paths.journal)
    tried = [int.from_bytes(mad[24:32]) for mad in run.wire]
    # The current key is also the one with which the first sweep, and the sweep with the further keys, query the port.
    assert [tried.count(key.reveal()) for key in (former, current, other)] == [1, 2, 1]


def test_a_key_of_the_store_that_was_not_sent_is_tried_where_the_user_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = subnet("two-switch")
    victim = net.port("node02 mlx4_0", 1)
    keys = MKey(1), MKey(2)
    paths = store_with(tmp_path, net, lambda port: [*keys] if port is victim else [MKey(port.guid)])
    lock(net, lease=600)
    for port in end_ports(net):
        port.m_key = port.m_key if port is victim else port.guid
        port.sm_lid = net.port("node03 mlx4_0", 1).lid
    send, refused, sent = SimulatedPort.send, set[MKey](), set[MKey]()

    def refuse_once(port: SimulatedPort, batch: Sequence[Outgoing]) -> list[SendFailure]:
        failures = []
        for index, outgoing in enumerate(batch):
            key = MKey(int.from_bytes(outgoing.mad[at.M_KEY]))
            if key in keys and key not in refused:
                refused.add(key)
                failures.append(SendFailure(index, errno.EINVAL))
            else:
                sent.add(key)
                failures += [SendFailure(index, failure.errno) for failure in send(port, [outgoing])]
        return failures

    monkeypatch.setattr(SimulatedPort, "send", refuse_once)
    options = RecoveryOptions(try_keys=keys, wait=5)
    Run(net, None, options, "mkey-under-sm", keystore=paths.keystore, journal=paths.journal)
    assert refused == sent.intersection(keys) == {*keys}


def test_a_key_that_everybody_can_read_is_stored_and_no_lease_is_started() -> None:
    net = subnet("two-switch")
    lock(net, level=0)
    run = Run(net)
    assert run.current == keys_of(net)
    assert (run.outlook.shown, run.outlook.silent, run.outlook.hidden) == (len(end_ports(net)), 0, 0)
    assert violations(net) == 0
    assert {method for method, _ in methods(run)} == {Method.GET}


def test_where_no_key_is_missing_nothing_is_reported() -> None:
    net = subnet("two-switch")
    run = Run(net)
    assert run.outlook.is_empty
    assert run.results == []
    assert (run.summary.violations, run.rows) == (0, [])
