"""Recovery of lost M_Keys on the simulator, whose SMAs enforce keys and leases on a virtual clock.

The oracle is the simulator's physical side: which ports are open, what their bytes are, how many violations they have
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from ibkeys.client.limits import Limits
from ibkeys.errors import Refused, UsageError
from ibkeys.fabric.live import Fabric
from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import AttributeID, Method
from ibkeys.mkeys.recovery.found_keys import FoundKeys
from ibkeys.mkeys.recovery.recover import Recovery, plan_recovery
from ibkeys.mkeys.recovery.result import RecoveryResult, RecoverySummary, Status
from ibkeys.mkeys.recovery.wishes import Wishes
from ibkeys.sim.nodes import Port
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.keys.keystore import KeyStore
from ibkeys.store.paths import StorePaths
from tests.change.test_pkeys import sent
from tests.fabricsim import subnet, tool, writer
from tests.hostile import Answer, AnsweringPort, EndlessFabric
from tests.mkeys.recovery import FIRST_KEY, LEASE, Run, configuration, end_ports, keys_of, links, lock, tree, violations
from tests.protectedsim import sm_sweeps, swap

HOPS = 6  # from a host over leaf, spine, core, spine and leaf to the farthest host
BOUND = ceil((HOPS + 1) / 2) + 1  # leases, without links
WHOLE = (36, 18, 18, 18, 18)


def methods(run: Run) -> set[tuple[int, int]]:
    return {(mad[3], mad[16] << 8 | mad[17]) for mad in run.wire}


# --- the whole of it ----------------------------------------------------------------------------------------------


def test_with_known_links_everything_is_back_within_1_2_leases_and_the_violations_are_exact() -> None:
    net, known = tree()
    before = configuration(net)
    run = Run(net, known)
    assert run.seconds <= 1.2 * LEASE
    assert run.current == keys_of(net)
    assert (run.summary.done, run.summary.failed) == (len(end_ports(net)), 0)
    assert run.summary.violations == violations(net) <= run.outlook.violations
    assert run.summary.smps == len(run.wire)
    assert all(port.protect_bits == 0 for port in end_ports(net))
    assert configuration(net) == before
    assert {method for method, _ in methods(run)} == {Method.GET, Method.TRAP_REPRESS}


def test_without_links_two_levels_come_back_with_each_lease() -> None:
    net, _ = tree()
    before = configuration(net)
    run = Run(net, {})
    assert run.seconds <= BOUND * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)
    assert configuration(net) == before


@pytest.mark.parametrize("with_links", [True, False])
def test_a_switch_with_lease_0_is_named_with_what_hides_behind_it_and_all_else_is_back(with_links: bool) -> None:
    net, known = tree()
    dead = net.node("leaf 2-2")
    dead.ports[0].lease_period = 0
    run = Run(net, known if with_links else {}, Wishes(names={dead.guid: "leaf 2-2"}))
    expected = keys_of(net)
    del expected[dead.ports[0].guid]
    assert run.current == expected
    assert violations(net) <= run.summary.violations
    [failed] = run.of("failed")
    behind = [node.description for node in net.nodes if node.ports[1].peer and node.ports[1].peer.node is dead]
    hosts = [name for name in behind if name.startswith("node")]
    assert len(hosts) == 3
    assert all(f"{name!r}" in failed.reason for name in hosts)
    assert "3 ports are reached only through it, all of them back" in failed.reason
    assert "power cycle" in failed.reason
    if with_links:
        assert failed.port["node_guid"] == f"0x{dead.guid:016x}"
        assert failed.port["node_desc"] == "leaf 2-2"
    else:
        assert "behind 'spine 2-" in failed.reason


def test_the_own_switch_with_lease_0_hides_the_whole_fabric_and_that_comes_back_all_the_same() -> None:
    net, known = tree()
    dead = net.node("leaf 1-1")
    dead.ports[0].lease_period = 0
    run = Run(net, known)
    assert len(run.current) == len(end_ports(net)) - 1
    [failed] = run.of("failed")
    assert f"{len(end_ports(net)) - 2} ports are reached only through it, all of them back" in failed.reason


def test_level_1_has_its_leases_started_and_waited_for() -> None:
    net, known = tree(level=1)
    before = configuration(net)
    run = Run(net, known)
    assert run.seconds <= 1.2 * LEASE
    assert run.current == keys_of(net)
    assert all(port.m_key_violations == 1 for port in end_ports(net))
    assert configuration(net) == before
    assert {method for method, _ in methods(run)} == {Method.GET, Method.TRAP_REPRESS}


@pytest.mark.parametrize("with_links", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_fifth_of_all_smps_lost_everything_is_back(with_links: bool, seed: int) -> None:
    net, known = tree()
    before = configuration(net)
    net.faults.random.seed(seed)
    net.faults.drop = 0.2
    run = Run(net, known if with_links else {}, None, "mkey-under-sm")
    assert run.current == keys_of(net)
    assert violations(net) <= run.summary.violations
    assert configuration(net) == before


@pytest.mark.parametrize("shape", [(6, 8, 6, 6, 1), (12, 9, 9, 9, 3)])
def test_many_closed_switches_without_links_stay_under_the_bound(shape: tuple[int, ...]) -> None:
    """More closed switches than are probed at one time, each of them by several routes."""
    net, _ = tree(shape)
    run = Run(net, {})
    assert run.seconds <= (BOUND - 1) * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)


@pytest.mark.soak
def test_the_whole_tree_of_11_664_hosts_within_1_2_leases() -> None:
    net, known = tree(WHOLE)
    run = Run(net, known)
    assert run.seconds <= 1.2 * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)


@pytest.mark.soak
def test_the_whole_tree_without_links_stays_under_the_bound() -> None:
    net, _ = tree(WHOLE)
    run = Run(net, {})
    assert run.seconds <= (BOUND - 0.5) * LEASE
    assert run.current == keys_of(net)
    assert run.summary.violations == violations(net)


# --- keys that are still somewhere --------------------------------------------------------------------------------


def store_with(folder: Path, net: Subnet, keys: Callable[[Port], list[MKey]]) -> StorePaths:
    """Make a key store with *keys* of each port, the last one current, and the links. The subnet is open still."""
    paths = StorePaths(folder / "keys.db", folder / "journal.db")
    with KeyStore(paths.keystore) as store:
        for port in end_ports(net):
            for key in keys(port):
                store.promote(store.put_imported(port.guid, key))
        store.put_links((*near, *far) for near, far in links(net).items())
    return paths


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
    run = Run(net, None, Wishes(try_keys=keys, tries=len(keys)), "mkey-under-sm")
    assert run.current == keys_of(net)
    assert all(port.protect_bits for port in end_ports(net))
    assert violations(net) <= run.summary.violations


def test_no_more_keys_are_tried_than_allowed() -> None:
    net = subnet("two-switch")
    victim = net.port("node02 mlx4_0", 1)
    victim.m_key, victim.protect_bits, victim.lease_period = 77, 2, 0
    wrong = tuple(MKey(number) for number in range(1, 21))
    run = Run(net, None, Wishes(try_keys=wrong, tries=3, wait=5), "mkey-under-sm")
    tried = {mad[24:32] for mad in run.wire} - {bytes(8)}
    assert tried == {number.to_bytes(8) for number in (1, 2, 3)}
    assert run.outlook.tries == 3
    assert victim.m_key_violations <= run.summary.violations
    assert victim.m_key_violations <= run.outlook.violations


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


# --- harm that is not done ----------------------------------------------------------------------------------------


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


def _is_before(net: Subnet, port: Port) -> bool:
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
        with pytest.raises(Refused, match=r"mkey-under-sm.*node03 mlx4_0") as refused:
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
    net.set_is_sm(own, True)
    with tool(net) as fabric, writer(fabric) as w:
        assert [each.interlock for each in plan_recovery(w, known).objections()] == ["mkey-under-sm"]


def test_a_dry_run_sends_gets_only_and_stores_nothing(tmp_path: Path) -> None:
    net, known = tree()
    with tool(net) as fabric:
        fabric.stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
        wire = sent(net, fabric)
        with writer(fabric, dry_run=True) as w:
            outlook = plan_recovery(w, known).outlook()
    assert {mad[3] for mad in wire} == {Method.GET}
    assert outlook.silent == len(end_ports(net))
    assert violations(net) == 1  # the own port was asked once
    assert list(tmp_path.iterdir()) == []


def results_hold_no_key(run: Run) -> Iterator[str]:
    yield from (repr(each) for each in (*run.results, run.outlook, run.summary))


def test_no_result_holds_a_key() -> None:
    net, known = tree()
    net.node("leaf 2-2").ports[0].lease_period = 0
    run = Run(net, known, Wishes(set_new=True))
    text = "".join(results_hold_no_key(run)).lower()
    for number in range(len(end_ports(net))):
        assert f"{FIRST_KEY + number:x}" not in text
        assert str(FIRST_KEY + number) not in text


# --- starting leases at level 1 -----------------------------------------------------------------------------------


def without_trap_repress(fabric: Fabric) -> None:
    """Let no TrapRepress arrive anywhere, as where agents ignore it."""
    send = fabric.umad.send

    def filtered(batch: Any) -> Any:
        return send([each for each in batch if each.mad[3] != Method.TRAP_REPRESS])

    fabric.umad.send = filtered  # type: ignore[method-assign]


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


# --- setting ------------------------------------------------------------------------------------------------------


def test_new_keys_are_set_on_what_came_back_and_on_nothing_else() -> None:
    net, known = tree()
    lost = keys_of(net)
    open_port = net.port("node00002 mlx5_0", 1)
    open_port.m_key = open_port.protect_bits = open_port.lease_period = 0
    run = Run(net, known, Wishes(set_new=True, protect=2, lease=30))
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
        swap(net, one, other)
        if with_sm:
            sm_sweeps(net)
        yield from change(found, *rest)

    monkeypatch.setattr(FoundKeys, "change", after_a_swap)
    run = Run(net, known, Wishes(set_new=True))
    now = keys_of(net)
    assert {each.port["node_desc"] for each in run.of("failed")} == {one.node.description, other.node.description}
    assert {guid for guid, key in now.items() if key == lost[guid]} == {one.guid, other.guid}
    assert run.current == now


def test_the_key_that_was_found_can_be_protected_again() -> None:
    net, known = tree()
    lost = keys_of(net)
    run = Run(net, known, Wishes(protect=2))
    assert keys_of(net) == run.current == lost
    assert {(port.protect_bits, port.lease_period) for port in end_ports(net)} == {(2, LEASE)}


def test_one_new_key_for_all() -> None:
    net, known = tree()
    Run(net, known, Wishes(new_key=MKey(0x9D3C_51E7_08B6_42FA)))
    assert set(keys_of(net).values()) == {MKey(0x9D3C_51E7_08B6_42FA)}


@pytest.mark.parametrize("wrong", [{"protect": 4}, {"lease": 65536}, {"new_key": MKey(0)}])
def test_wishes_that_no_port_can_have(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Wishes(**wrong)


# --- Ctrl-C -------------------------------------------------------------------------------------------------------


class Interrupted(Run):
    """Ended by Ctrl-C while it waits, after so many words to the progress bar."""

    after = 10

    def perform(self, recovery: Recovery) -> RecoverySummary:
        def progress(status: Status) -> None:
            self.statuses.append(status)
            if len(self.statuses) == self.after:
                raise KeyboardInterrupt

        return recovery.run(self.results.append, progress)


def test_ctrl_c_keeps_what_was_found_and_the_next_run_goes_on(tmp_path: Path) -> None:
    net, _ = tree()
    stores = StorePaths(tmp_path / "keys.db", tmp_path / "journal.db")
    Interrupted.after = 30
    first = Interrupted(net, {}, stores=stores)
    assert first.summary.interrupted
    assert 0 < first.summary.done < len(end_ports(net))
    assert all("runs on" in each.reason for each in first.of("failed"))
    assert first.current.items() <= keys_of(net).items()
    with tool(net, keystore=stores.keystore, journal=stores.journal) as fabric, writer(fabric) as w:
        plan_recovery(w).run(lambda result: None)
        assert w.keystore.current() == keys_of(net)


def test_progress_tells_how_many_are_back_and_when_the_next_should_open() -> None:
    net, known = tree(level=1)
    Interrupted.after = -1
    run = Interrupted(net, known)
    assert run.statuses[0].waiting == len(end_ports(net))
    assert [status.next_opening for status in run.statuses[:3]] == pytest.approx([14, 13, 12], abs=1.2)
    assert run.current == keys_of(net)


# --- a subnet without end ----------------------------------------------------------------------------------------


def silent_behind(depth: int) -> Answer:
    """Switches without end of 30 ports each, of which those *depth* hops away and farther are silent."""
    endless = EndlessFabric(30)
    return lambda path, *what: endless(path, *what) if len(path) < depth else None


@pytest.mark.parametrize("depth", [3, 60])
def test_a_recovery_on_a_subnet_without_end_ends_and_names_the_limit(depth: int) -> None:
    with Fabric(AnsweringPort(silent_behind(depth)), limits=Limits(nodes=40)) as fabric:
        recovery = plan_recovery(writer(fabric), wishes=Wishes(wait=10))
        assert len(recovery.search.found.nodes) + len(recovery.search.waiting.silent) <= 40
        recovery.run(lambda result: None)
    [note] = recovery.limits_reached()
    assert note.endswith("the sweep found 40 nodes, its limit (--limit nodes=N raises it)")
    assert recovery.summary.failed == len(recovery.search.waiting.given_up) <= 40


def test_a_fabric_of_which_nothing_was_read_is_no_error() -> None:
    """The own port hides everything and never opens: there is nothing to change, and nothing to look at again."""
    net = subnet("two-switch")
    for port in (port for node in net.nodes for port in node.end_ports):
        port.m_key, port.protect_bits, port.lease_period = 0x83F1C05E9A2D7B46, 2, 0
    run = Run(net, {}, Wishes(wait=1), "mkey-under-sm")
    assert run.summary.done == 0
