"""keystore list --settle: ports that moved, were replaced or vanished, and where a key goes afterwards."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ibkeys.errors import MKeyNeeded, NoReply, StoreError
from ibkeys.keys.classkey import ClassKey
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY
from ibkeys.mad.classes.gmp import KEY_CLASSES
from ibkeys.mkeys.rollout.new_keys import plan_run
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.class_keys import ClassKeyStore
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.topology.model import Topology
from tests.corpus import DATA
from tests.fabricsim import subnet, tool, writer
from tests.keyedsite import Site

LEAF = "MF0;switch-a:IS5023/U1"
HOST = "node02 mlx4_0"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def names(found: Topology) -> set[str | None]:
    return {node.description for node in found.nodes}


def free_port(net: Subnet) -> int:
    return next(port.number for port in net.node(LEAF).ports[1:] if port.peer is None)


def test_an_untouched_fabric_has_nothing_to_settle(site: Site) -> None:
    places = site.settle()
    assert not places.pending
    assert not places.found.troubles
    assert site.quiet()


def test_a_host_that_moved_is_not_asked_until_it_is_settled(site: Site) -> None:
    number = free_port(site.net)
    site.move(HOST, LEAF, number)
    found = site.sweep()
    assert HOST not in names(found)
    [trouble] = found.troubles
    assert trouble.reading == "not-asked"
    assert "is known as protected, so it moved" in trouble.error
    places = site.settle()
    assert [(each.end[0], each.near.num) for each in places.moved] == [(site.net.port(HOST, 1).guid, number)]
    found = site.sweep()
    assert HOST in names(found)
    assert not found.troubles
    assert site.quiet()


def test_a_host_that_vanished_is_not_waited_for_but_new_places_are_still_identified(site: Site) -> None:
    host, number = site.net.port(HOST, 1), free_port(site.net)
    site.net.unplug(HOST, 1)
    assert site.settle().vanished == [host.guid]
    assert not site.sweep().troubles
    site.net.plug(HOST, 1, LEAF, number)
    site.sm_sweeps()
    [trouble] = site.sweep().troubles
    assert "so it moved" in trouble.error
    assert [each.end[0] for each in site.settle().moved] == [host.guid]
    assert HOST in names(site.sweep())
    assert site.quiet()


def test_a_vanished_port_that_comes_back_to_its_place_is_read(site: Site) -> None:
    peer = site.net.unplug(HOST, 1)
    assert peer is not None
    site.settle()
    site.net.plug(HOST, 1, peer.node.guid, peer.number)
    site.sm_sweeps()
    found = site.sweep()
    assert HOST in names(found)
    assert not found.troubles
    assert site.quiet()


def test_a_replaced_adapter_is_asked_once_and_its_place_kept(site: Site) -> None:
    host = site.net.port(HOST, 1)
    peer = site.net.unplug(HOST, 1)
    assert peer is not None
    old, host.guid, host.node.guid = host.guid, 0x5001, 0x5000
    host.m_key = host.protect_bits = 0
    site.net.plug(HOST, 1, peer.node.guid, peer.number)
    site.sm_sweeps()
    found = site.sweep()
    assert HOST in names(found)
    places = site.settle()
    assert [(each.known[0], each.now[0]) for each in places.replaced] == [(old, 0x5001)]
    assert places.vanished == [old]
    with KeyStore(site.stores["keystore"]) as store:
        assert store.all_keys().get(old, []), "no key is deleted"
    assert site.quiet()


def test_two_hosts_that_were_swapped_are_settled_together(site: Site) -> None:
    one, other = site.net.port(HOST, 1), site.net.port("node03 mlx4_0", 1)
    site.swap(HOST, "node03 mlx4_0")
    site.sm_sweeps()
    assert len(site.sweep().troubles) == 2
    assert {each.end[0] for each in site.settle().moved} == {one.guid, other.guid}
    assert not site.sweep().troubles
    assert site.quiet()


def test_without_an_sa_the_forwarding_table_names_a_host_that_moved(tmp_path: Path) -> None:
    site = Site(tmp_path, sm=False)
    number = free_port(site.net)
    site.move(HOST, LEAF, number)
    [trouble] = site.sweep().troubles
    assert "named by the forwarding table" in trouble.error
    assert [each.end[0] for each in site.settle().moved] == [site.net.port(HOST, 1).guid]
    found = site.sweep()
    assert HOST in names(found)
    assert site.quiet()


def test_a_place_that_nothing_identifies_is_asked_only_when_nobody_is_missed(tmp_path: Path) -> None:
    site = Site(tmp_path, sm=False)
    site.net.unplug(HOST, 1)
    stranger = site.net.port("node03 mlx4_0", 1)
    site.net.unplug("node03 mlx4_0", 1)
    stranger.guid, stranger.node.guid, stranger.m_key, stranger.protect_bits = 0x5001, 0x5000, 0, 0
    site.net.plug("node03 mlx4_0", 1, LEAF, free_port(site.net))  # the link stays Initialize
    [trouble] = site.sweep().troubles
    assert "2 ports known as protected may be there" in trouble.error
    places = site.settle()
    assert (len(places.vanished), len(places.unidentified)) == (2, 1)
    found = site.sweep()
    assert "node03 mlx4_0" in names(found)
    assert not found.troubles


def test_a_guid_at_two_places_is_not_settled(site: Site) -> None:
    host, liar = site.net.port(HOST, 1), site.net.port("node03 mlx4_0", 1)
    number = free_port(site.net)
    liar.m_key = liar.protect_bits = 0
    liar.guid = liar.node.guid = host.guid
    site.move("node03 mlx4_0", LEAF, number)
    places = site.settle()
    assert host.guid in places.claimed
    assert host.guid not in {each.end[0] for each in places.moved}
    found = site.sweep()
    assert HOST in names(found)
    assert site.quiet()


def test_over_links_that_no_sm_brought_up_a_continued_run_names_the_way_on(tmp_path: Path) -> None:
    """The first ports are taken as they are recorded; nothing proves that they are still there, so none is asked."""
    net = Subnet.from_file(DATA / "fabrics" / "two-switch.net", link_state="initialize")
    stores = {"keystore": tmp_path / "keys.db", "journal": tmp_path / "journal.db"}
    with tool(net, **stores) as fabric, writer(fabric, "links-initialize") as changes:
        carry_out(changes, plan_run(changes, "mkey-deploy", RunOptions(protect=2, lease=60, first=3)), lambda _: None)
    protected = [port for node in net.nodes for port in node.end_ports if port.protect_bits == 2]
    assert len(protected) == 3
    with tool(net, **stores) as fabric, writer(fabric) as changes:
        run = plan_rest(changes)
    assert any("trust_topology=True" in note for note in run.plan.notes)
    for _ in range(20):
        with tool(net, **stores) as fabric:
            assert [trouble.reading for trouble in fabric.sweep().troubles] == ["not-asked"]
        net.advance(3600)
    assert {port.protect_bits for port in protected} == {2}
    assert sum(port.m_key_violations for port in protected) == 0
    with tool(net, **stores, trust_topology=True) as fabric, writer(fabric, "links-initialize") as changes:
        run = plan_rest(changes)
        carry_out(changes, run, lambda _: None)
    assert run.account.is_complete
    assert {port.protect_bits for node in net.nodes for port in node.end_ports} == {2}


@pytest.mark.parametrize(
    ("level", "lease", "violations", "stops"),
    [(2, 60, 0, True), (3, 0, 0, True), (0, 60, 1, True), (0, 60, 0, False), (0, 0, 3, False), (1, 60, 2, False)],
)
def test_without_a_key_the_own_port_is_asked_first_and_may_end_the_sweep(
    level: int, lease: int, violations: int, stops: bool
) -> None:
    net = subnet("two-switch")
    for port in (port for node in net.nodes for port in node.end_ports):
        port.m_key, port.protect_bits, port.lease_period = 0xA0B1C2D300000000 + port.lid, level, lease
        port.m_key_violations = violations
    own, others = net.nodes[0].end_ports[0], [port for node in net.nodes[1:] for port in node.end_ports]
    for where in (None, 3, "0,1"):
        with tool(net) as fabric:
            if stops:
                with pytest.raises((MKeyNeeded, NoReply), match=r"security_keys=.*ask_unproven=True"):
                    fabric.sweep() if where is None else fabric.find_port(where)
            else:
                assert len(fabric.sweep().nodes) == 8
    assert {port.m_key_violations for port in others} == {violations}
    assert own.m_key_violations == violations + (3 if level >= 2 else 0), "asked once by each of the three"


def test_ask_unproven_asks_once(site: Site) -> None:
    number = free_port(site.net)
    site.move(HOST, LEAF, number)
    with tool(site.net, timeout=0.1, **site.stores, ask_unproven=True) as fabric:
        [trouble] = fabric.sweep().troubles
    assert "asked with 1 SMP without a key" in trouble.error or "1 attempt" in trouble.error
    assert site.net.port(HOST, 1).m_key_violations == 1


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("UPDATE keys SET port_guid = '0.0' WHERE id = 1", "levels"),
        ("UPDATE links SET link_downed = 999", "link_downed"),
        ("INSERT INTO settled VALUES ('nobody', '2026-01-01T00:00:00Z')", "settled"),
    ],
)
def test_a_damaged_place_is_an_error_of_the_store(site: Site, change: str, read: str) -> None:
    import sqlite3

    with contextlib.closing(sqlite3.connect(site.stores["keystore"])) as connection, connection:
        connection.execute(change)
    with KeyStore(site.stores["keystore"]) as store, pytest.raises(StoreError, match="has an impossible value"):
        getattr(store, read)()


class ClassKeyed:
    """A host that has a CC_Key and no M_Key. ``others``: whether all other ports have an M_Key."""

    def __init__(self, folder: Path, others: bool) -> None:
        self.site = Site(folder, level=2 if others else 0)
        self.host = self.site.net.port(HOST, 1)
        unkeyed = [self.host] if others else self.site.ports()
        with KeyStore(self.site.stores["keystore"]) as store:
            ClassKeyStore(store).put_all_imported("cc", {self.host.guid: ClassKey(0xA1A2A3A4A5A6A7A8)})
            for port in unkeyed:
                store.promote(
                    store.put_pending(port.node.guid, port.guid, port.number, KeySetting(NO_MKEY, 0, 0), None)
                )
                port.m_key = port.protect_bits = port.lease_period = 0

    def withheld(self) -> list[str]:
        """Return why the CC_Key is sent to no port that has the GUID of the host; "" for one that gets it."""
        with self.site.open() as fabric:
            found = fabric.sweep(p_keys=True)
            ports = [port for port in found.end_ports() if port.guid == self.host.guid]
            return [str(each.why_not or "") for each in fabric.class_key_questions(ports, [KEY_CLASSES["cc"]])]


@pytest.mark.parametrize("others", [True, False], ids=["others-protected", "no-m-key"])
def test_a_port_that_has_only_the_key_of_a_class_is_settled_where_it_moved(tmp_path: Path, others: bool) -> None:
    keyed = ClassKeyed(tmp_path, others)
    was = keyed.host.peer
    assert was is not None
    assert keyed.withheld() == [""]
    assert not keyed.site.settle().pending
    number = free_port(keyed.site.net)
    keyed.site.move(HOST, LEAF, number)
    assert "is known behind" in keyed.withheld()[0]
    [moved] = keyed.site.settle().moved
    assert (moved.end[0], moved.was, moved.near.num) == (keyed.host.guid, (was.node.guid, was.number), number)
    assert keyed.withheld() == [""]
    assert not keyed.site.settle().pending


@pytest.mark.parametrize("others", [True, False], ids=["others-protected", "no-m-key"])
def test_a_second_port_with_the_guid_of_a_class_key_is_not_settled(tmp_path: Path, others: bool) -> None:
    keyed = ClassKeyed(tmp_path, others)
    liar = keyed.site.net.port("node03 mlx4_0", 1)
    liar.m_key = liar.protect_bits = 0
    liar.guid = keyed.host.guid
    keyed.site.move("node03 mlx4_0", LEAF, free_port(keyed.site.net))
    places = keyed.site.settle()
    assert keyed.host.guid in places.claimed
    assert keyed.host.guid not in {each.end[0] for each in places.moved}
    assert all(keyed.withheld())
