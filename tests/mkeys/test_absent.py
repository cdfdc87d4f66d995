"""Which ports a run misses: those that have a key by the key store, and are not on the subnet that the sweep saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibkeys.mkeys.places import settle, survey
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.sqlite import guid_text
from tests.fabricsim import tool, writer
from tests.fattree import fat_tree
from tests.mkeys.rollout import KEY, NAME, Plan, Site, deploy, remove, resume, rotate

FAR_LEAF = "Infiniscale-IV Mellanox Technologies"


def missed(site: Site) -> set[str]:
    return {str(each.port["node_desc"]) for each in site.results if each.unread}


def test_ports_of_another_subnet_in_the_same_key_store_are_not_missed(site: Site, tmp_path: Path) -> None:
    site.run(deploy())
    other = Site(Subnet.from_text(fat_tree(2, 3, 1)), tmp_path)
    other.run(deploy(), ask_unproven=True)  # without an SM nothing says that none of the others are there
    for each in (site, other):
        assert each.run(rotate()).account.skipped == 0
        assert each.current().items() >= each.keys().items()


def test_an_absent_port_has_the_name_of_the_node_name_map(site: Site) -> None:
    site.run(deploy())
    site.net.unplug(NAME, 1)
    guid = site.net.node(NAME).guid
    assert missed_with(site, {}) == {NAME}
    assert missed_with(site, {guid: "rack1-node02"}) == {"rack1-node02"}


def missed_with(site: Site, names: dict[int, str]) -> set[str]:
    """Return the names of what a rotation with this node-name map misses."""
    site.run(rotate(), node_names=names)
    return missed(site)


def test_what_is_behind_a_silent_switch_is_missed_too_and_all_of_it_resumes(site: Site) -> None:
    site.run(deploy())
    before = site.keys()
    behind = {port.peer.node.description for port in site.net.node(FAR_LEAF).ports[1:] if port.peer is not None}
    behind -= {"MF0;switch-a:IS5023/U1"}
    site.net.silence(FAR_LEAF)
    run = site.run(rotate())
    assert missed(site) == {FAR_LEAF, *behind}
    assert (run.account.done, run.account.unread) == (8 - len(missed(site)), len(missed(site)))
    site.net.silence(FAR_LEAF, False)
    assert site.run(resume).account.is_complete
    assert not set(before.values()) & set(site.keys().values())
    assert site.current() == site.keys()
    assert site.violations() == 0


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_port_that_is_settled_as_gone_is_not_missed_whatever_its_level(level: int, site: Site) -> None:
    site.run(deploy(RunOptions(protect=level, lease=60)))
    site.net.unplug(NAME, 1)
    assert not site.run(rotate(RunOptions())).account.is_complete
    assert missed(site) == {NAME}
    with tool(site.net, **site.stores) as fabric, writer(fabric) as w:
        settle(w, survey(w))
    assert site.run(rotate(RunOptions())).account.is_complete


def test_without_any_other_port_to_change_no_run_begins_and_another_is_needed(site: Site) -> None:
    site.run(deploy())
    site.net.silence(NAME)
    site.run(remove())
    run = site.plan(rotate())
    assert not run.pending
    (reason,) = (str(each.reason) for each in run.skipped if each.unread)
    assert "when it answers, run this again" in reason


def without(site: Site, guid: int) -> None:
    """Take a port out of all runs, as if it got its key after them, or a version that passed it over made them."""
    with Journal(site.stores["journal"]) as journal, journal.database.transaction() as connection:
        connection.execute("DELETE FROM run_ports WHERE port_guid = ?", (guid_text(guid),))


@pytest.mark.parametrize("plan", [rotate(), remove()], ids=["rotate", "remove"])
def test_resume_names_a_silent_port_that_was_in_no_run(plan: Plan, site: Site) -> None:
    site.run(deploy())
    site.run(plan)
    port = site.net.port(NAME, 1)
    with KeyStore(site.stores["keystore"]) as store:
        store.promote(store.put_imported(port.guid, KEY, node_guid=port.node.guid, port=1))
    without(site, port.guid)
    site.net.silence(NAME)
    run = site.plan(resume)
    assert not run.pending
    (skipped,) = run.skipped
    assert (skipped.port["node_desc"], skipped.unread) == (NAME, True)
    assert "not read, and not in operation 2, so it keeps its M_Key: when it answers, a new mkey-r" in str(
        skipped.reason
    )


def test_a_port_that_was_done_and_fell_silent_afterwards_is_not_left_behind(site: Site) -> None:
    site.run(deploy())
    site.run(rotate())
    site.net.silence(NAME)
    assert site.plan(resume).skipped == []
