"""mkey-list --settle: ports that moved, were replaced or vanished, and where a key goes afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.fabric.model import Fabric
from ibkeys.sim.subnet import Subnet
from ibkeys.store.keystore import KeyStore
from tests.keyedsite import Site

LEAF = "MF0;switch-a:IS5023/U1"
HOST = "node02 mlx4_0"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def names(found: Fabric) -> set[str | None]:
    return {node.description for node in found.nodes}


def free_port(net: Subnet, switch: str) -> int:
    return next(port.number for port in net.node(switch).ports[1:] if port.peer is None)


def test_an_untouched_fabric_has_nothing_to_settle(site: Site) -> None:
    places = site.settle()
    assert not places.pending
    assert not places.found.troubles
    assert site.quiet()


def test_a_host_that_moved_is_not_asked_until_it_is_settled(site: Site) -> None:
    number = free_port(site.net, LEAF)
    site.move(HOST, LEAF, number)
    found = site.discover()
    assert HOST not in names(found)
    [trouble] = found.troubles
    assert trouble.reading == "not-asked"
    assert "is known as protected, so it moved" in trouble.error
    places = site.settle()
    assert [(each.end[0], each.near.num) for each in places.moved] == [(site.net.port(HOST, 1).guid, number)]
    found = site.discover()
    assert HOST in names(found)
    assert not found.troubles
    assert site.quiet()


def test_a_host_that_vanished_is_not_waited_for_but_new_places_are_still_identified(site: Site) -> None:
    host, number = site.net.port(HOST, 1), free_port(site.net, LEAF)
    site.net.unplug(HOST, 1)
    assert site.settle().vanished == [host.guid]
    assert not site.discover().troubles
    site.net.plug(HOST, 1, LEAF, number)
    site.sm_sweeps()
    [trouble] = site.discover().troubles
    assert "so it moved" in trouble.error
    assert [each.end[0] for each in site.settle().moved] == [host.guid]
    assert HOST in names(site.discover())
    assert site.quiet()


def test_a_vanished_port_that_comes_back_to_its_place_is_read(site: Site) -> None:
    peer = site.net.unplug(HOST, 1)
    assert peer is not None
    site.settle()
    site.net.plug(HOST, 1, peer.node.guid, peer.number)
    site.sm_sweeps()
    found = site.discover()
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
    found = site.discover()
    assert HOST in names(found)
    places = site.settle()
    assert [(each.known[0], each.now[0]) for each in places.replaced] == [(old, 0x5001)]
    assert places.vanished == [old]
    with KeyStore(site.stores["keystore"]) as store:
        assert store.keys_for(old), "no key is deleted"
    assert site.quiet()


def test_two_hosts_that_were_swapped_are_settled_together(site: Site) -> None:
    one, other = site.net.port(HOST, 1), site.net.port("node03 mlx4_0", 1)
    site.swap(HOST, "node03 mlx4_0")
    site.sm_sweeps()
    assert len(site.discover().troubles) == 2
    assert {each.end[0] for each in site.settle().moved} == {one.guid, other.guid}
    assert not site.discover().troubles
    assert site.quiet()


def test_without_an_sa_the_forwarding_table_names_a_host_that_moved(tmp_path: Path) -> None:
    site = Site(tmp_path, sm=False)
    number = free_port(site.net, LEAF)
    site.move(HOST, LEAF, number)
    [trouble] = site.discover().troubles
    assert "named by the forwarding table" in trouble.error
    assert [each.end[0] for each in site.settle().moved] == [site.net.port(HOST, 1).guid]
    found = site.discover()
    assert HOST in names(found)
    assert site.quiet()


def test_a_place_that_nothing_identifies_is_asked_only_when_nobody_is_missed(tmp_path: Path) -> None:
    site = Site(tmp_path, sm=False)
    site.net.unplug(HOST, 1)
    stranger = site.net.port("node03 mlx4_0", 1)
    site.net.unplug("node03 mlx4_0", 1)
    stranger.guid, stranger.node.guid, stranger.m_key, stranger.protect_bits = 0x5001, 0x5000, 0, 0
    site.net.plug("node03 mlx4_0", 1, LEAF, free_port(site.net, LEAF))  # the link stays Initialize
    [trouble] = site.discover().troubles
    assert "2 ports known as protected may be there" in trouble.error
    places = site.settle()
    assert (len(places.vanished), len(places.unidentified)) == (2, 1)
    found = site.discover()
    assert "node03 mlx4_0" in names(found)
    assert not found.troubles


def test_a_guid_at_two_places_is_not_settled(site: Site) -> None:
    host, liar = site.net.port(HOST, 1), site.net.port("node03 mlx4_0", 1)
    number = free_port(site.net, LEAF)
    liar.m_key = liar.protect_bits = 0
    liar.guid = liar.node.guid = host.guid
    site.move("node03 mlx4_0", LEAF, number)
    places = site.settle()
    assert host.guid in places.claimed
    assert host.guid not in {each.end[0] for each in places.moved}
    found = site.discover()
    assert HOST in names(found)
    assert site.quiet()
