"""What a script meets: the names of `ibkeys`, what it opens, what it reads, what it changes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

import ibkeys
from ibkeys.keys.pkey import EMPTY
from ibkeys.umad.tap import Tap
from tests.corpus import DATA
from tests.fabricsim import subnet

ROOT = DATA.parent.parent


def test_every_name_is_there() -> None:
    assert all(getattr(ibkeys, name) is not None for name in ibkeys.__all__)
    assert set(ibkeys.__all__) <= set(dir(ibkeys))
    with pytest.raises(AttributeError, match="no attribute 'pkeys'"):
        _ = ibkeys.pkeys
    for package in (ibkeys.audit, ibkeys.mkeys, ibkeys.partitions):
        assert all(getattr(package, name) is not None for name in package.__all__)


def test_help_shows_the_types_of_arguments() -> None:
    for arguments in (ibkeys.How, ibkeys.NewKeys):
        assert "ForwardRef" not in repr(arguments.__annotations__)
    assert ibkeys.NewKeys.__annotations__["confirm_within"] == int | None


def test_an_edited_policy_has_its_text() -> None:
    policy = ibkeys.partitions.parse_policy("Default=0x7fff: ALL=full;\n", "p.conf")
    with ibkeys.open(subnet("two-switch")) as fabric:
        found = fabric.sweep()
        port = found.port_of("node02 mlx4_0")
        edited = ibkeys.partitions.add_member(policy, found, port, ibkeys.PKey(0x8010))
    assert edited.data is not None
    assert f"0x{port.port_guid:016x}=full".encode() in edited.data
    assert edited.digest == hashlib.sha256(edited.data).hexdigest() != policy.digest


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; old = set(sys.modules); import ibkeys; print(*sorted(set(sys.modules) - old))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "ibkeys"]


@pytest.mark.parametrize("what", ["spec", "subnet", "port", "tapped"])
def test_what_can_be_opened(what: str) -> None:
    net = subnet("two-switch")
    backend = {
        "spec": f"sim:{DATA / 'fabrics' / 'two-switch.net'}",
        "subnet": net,
        "port": ibkeys.open_port(net, ibkeys.Local(at="node01 mlx4_0")),
        "tapped": Tap(ibkeys.open_port(net, ibkeys.Local(at="node01 mlx4_0")), []),
    }[what]
    with ibkeys.open(backend) as fabric:
        assert fabric.is_simulated
        assert fabric.stores.keystore is None
        assert fabric.find_port().read_p_keys()[0] == 0xFFFF


def test_a_port_is_where_it_is() -> None:
    net = subnet("two-switch")
    port = ibkeys.open_port(net)
    with pytest.raises(ibkeys.errors.UsageError, match="omit local="):
        ibkeys.open(port, local=ibkeys.Local(at="node02 mlx4_0"))
    with pytest.raises(ibkeys.errors.ClosedError):
        port.recv(0.0)
    with pytest.raises(ibkeys.errors.UsageError, match="backend 'ibsim' is not known"):
        ibkeys.open("ibsim")


def test_only_verbs_send() -> None:
    net = subnet("two-switch")
    with ibkeys.open(net) as fabric:
        handle = fabric.find_port("0,1", 2)
        sent = fabric.client.statistics.sent
        assert (handle.name, handle.num, handle.lid, handle.guid) == (
            "MF0;switch-a:IS5023/U1",
            2,
            None,
            handle.node.port(0).guid,
        )
        assert handle.identity() == handle.port.identity()
        assert handle.is_external
        assert not handle.is_end_port
        assert fabric.client.statistics.sent == sent
        assert handle.read_port_info().port_state == 4
        assert handle.lid == 7
        assert handle.read_capacity() == len(handle.read_p_keys())
        topology = fabric.sweep(p_keys=True)
        sent = fabric.client.statistics.sent
        again = [fabric.handle(port) for port in topology.ports()]
        assert [each.num for each in again] == [port.num for port in topology.ports()]
        assert all(port.p_keys is not None or port.is_external for port in topology.ports())
        assert fabric.client.statistics.sent == sent


def read(source: ibkeys.Source) -> list[object]:
    """What a script reads, whatever it reads from."""
    handle = source.find_port("node02 mlx4_0")
    topology = source.sweep(p_keys=True)
    return [
        handle.identity(),
        handle.read_p_keys(),
        handle.read_capacity(),
        handle.read_port_info().lid,
        [port.identity() for port in topology.ports()],
        [source.handle(port).read_p_keys() for port in topology.end_ports()],
        source.warnings,
    ]


def test_a_snapshot_in_the_place_of_a_fabric(tmp_path: Path) -> None:
    net = subnet("two-switch")
    net.silence("node05 mlx4_0")
    with ibkeys.open(net, node_names={net.node("node02 mlx4_0").guid: "node02 mlx4_0"}) as fabric:
        live = read(fabric)
        ibkeys.save(fabric.take_snapshot(), tmp_path / "monday.db")
    with ibkeys.load(tmp_path / "monday.db") as recorded:
        assert read(recorded) == live
        assert not recorded.holds_m_keys
        assert recorded.take_snapshot() is recorded.snapshot
        [(_, reading)] = recorded.read_port_counters([recorded.find_port().port])
        assert isinstance(reading, ibkeys.errors.NotRecorded)
        switch = recorded.find_port("0,1", 2)
        switch.port.p_key_raw = None
        with pytest.raises(ibkeys.errors.NotRecorded, match="P_KeyTable was not read"):
            switch.read_p_keys()
        switch.node.switch_info_raw = None
        with pytest.raises(ibkeys.errors.NotRecorded, match="SwitchInfo was not read"):
            switch.read_capacity()
    names = {net.node("node02 mlx4_0").guid: "login2"}
    with ibkeys.load(tmp_path / "monday.db", node_names=names) as recorded:
        assert recorded.find_port("login2").lid == 2


def test_changes() -> None:
    net = subnet("two-switch")
    port, leaf = net.port("node02 mlx4_0", 1), net.port("MF0;switch-a:IS5023/U1", 2)
    port.p_key_violations = 3
    with ibkeys.open(net) as fabric, fabric.change("test") as change:
        handle = fabric.find_port(2)
        assert change.apply(change.plan_add_p_keys(handle, [0x8010, ibkeys.PKey(0x8011)]))
        assert not change.apply(change.plan_add_p_keys(handle, [0x8010]))
        assert change.apply(change.plan_set_p_keys(handle, {3: 0x8012, 1: EMPTY}))
        assert change.apply(change.plan_remove_p_keys(handle, [0x8011]))
        assert port.p_keys[:4] == [0xFFFF, 0, 0, 0x8012]
        assert change.apply(change.plan_clear_counters([handle]))
        assert port.p_key_violations == 0
        assert change.apply(change.plan_set_enforcement(fabric.find_port(7, 2), inbound=True))
        assert (leaf.inbound_enforcement, leaf.outbound_enforcement) == (1, 0)
        assert change.apply(change.plan_set_m_key(handle, ibkeys.MKey(0x1A2B6C0D3E4F2021), protect=1, lease=60))
        assert (port.m_key, port.protect_bits, port.lease_period) == (0x1A2B6C0D3E4F2021, 1, 60)


def test_a_port_of_a_sweep_can_be_changed() -> None:
    net = subnet("two-switch")
    with ibkeys.open(net) as fabric, fabric.change("test") as change:
        found = fabric.sweep().find_lid(2)
        assert found is not None
        change.apply(change.plan_add_p_keys(found, [0x8010]))
    assert 0x8010 in net.port("node02 mlx4_0", 1).p_keys


def test_interlocks_and_a_dry_run() -> None:
    net = subnet("two-switch")
    before = list(net.port("node02 mlx4_0", 1).p_keys)
    with ibkeys.open(net) as fabric:
        with fabric.change("test", dry_run=True) as change:
            assert not change.apply(change.plan_add_p_keys(fabric.find_port(2), [0x8010]))
            plan = change.plan_set_p_keys(fabric.find_port(2), {0: 0x7FFF})
            assert [each.interlock for each in change.refusals(plan)] == ["index-0"]
            with pytest.raises(ibkeys.errors.Refused, match="index-0"):
                change.apply(plan)
        assert net.port("node02 mlx4_0", 1).p_keys == before
        with fabric.change("test", ibkeys.Consent(overrides=frozenset({"index-0"}))) as change:
            assert change.apply(change.plan_set_p_keys(fabric.find_port(2), {0: 0x7FFF}))
    assert net.port("node02 mlx4_0", 1).p_keys[0] == 0x7FFF


def test_a_run_of_m_keys_and_the_way_back(tmp_path: Path) -> None:
    net = subnet("two-switch")
    port = net.port("node02 mlx4_0", 1)
    stores = ibkeys.Stores(tmp_path / "keys.db", tmp_path / "journal.db")
    consent = {"consent": lambda proposal: ibkeys.Consent(), "via": ibkeys.Direct()}
    with ibkeys.open(net, stores=stores) as fabric:
        result = fabric.deploy_m_keys(same=True, protect=1, lease=60, **consent)
        assert (result.proven, port.m_key != 0, port.protect_bits, port.lease_period) == (True, True, 1, 60)
        [operation] = ibkeys.operations(stores)
        assert operation.undo(fabric, leave_open=True, **consent).proven
    assert (port.m_key, port.protect_bits, port.lease_period) == (0, 0, 0)
