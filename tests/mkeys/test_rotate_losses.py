"""mkey-deploy and mkey-rotate where replies and Sets get lost: which it was is found out, and no key goes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import Method
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal.runs import RunOptions
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.port import Outgoing
from tests.fattree import fat_tree
from tests.mkeys.rollout import NAME, Site, deploy, remove, resume, rotate
from tests.spy import is_set, sets, spy


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_lost_reply_is_told_apart_and_counts_nothing(level: int, site: Site) -> None:
    site.run(deploy(RunOptions(protect=level, lease=60)))
    victim = site.net.node(NAME)
    lose = lambda fabric: site.net.faults.lose_next("reply", node=victim, method=Method.SET)  # noqa: E731
    run = site.run(rotate(), before=lose)
    assert (run.account.done, run.account.replies_lost, run.account.sets_lost) == (8, 1, 0)
    assert (run.account.violations, site.violations()) == (0, 0)
    assert len(sets(site.record)) == 8


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_lost_set_is_sent_again_only_when_the_old_key_was_answered(level: int, site: Site) -> None:
    site.run(deploy(RunOptions(protect=level, lease=60)))
    victim = site.net.node(NAME)
    old = site.keys()[site.net.port(NAME, 1).guid]
    lose = lambda fabric: site.net.faults.lose_next("request", node=victim, method=Method.SET)  # noqa: E731
    run = site.run(rotate(), before=lose)
    assert (run.account.done, run.account.replies_lost, run.account.sets_lost) == (8, 0, 1)
    assert run.account.violations == site.violations() == (1 if level == 2 else 0)
    assert site.current() == site.keys()
    routes = {mad[128:192] for mad in sets(site.record)}
    assert len(sets(site.record)) == len(routes) + 1
    twice = next(route for route in routes if sum(mad[128:192] == route for mad in sets(site.record)) == 2)
    course = [mad for mad in site.record if mad[128:192] == twice]
    again = max(index for index, mad in enumerate(course) if mad[3] == Method.SET)
    if level:  # level 0 shows the old key to the question with the new one
        assert int.from_bytes(course[again - 1][24:32], "big") == old


def test_a_port_that_falls_silent_keeps_both_keys_and_holds_up_only_what_is_nearer(tmp_path: Path) -> None:
    site = Site(Subnet.from_text(fat_tree(4, 16, 2)), tmp_path)
    site.run(deploy())
    victim = site.net.nodes[5]
    before = site.keys()
    finished: list[float] = []

    def cut(fabric: Any) -> None:
        spy(fabric, after=lambda out: site.net.silence(victim) if is_set(out) else None)

    started = site.net.now
    run = site.run(
        rotate(RunOptions(at_once=8)), before=cut, report=lambda result: finished.append(site.net.now - started)
    )
    assert (run.account.done, run.account.failed) == (len(site.ports()) - 1, 1)
    # all but it, the switch before it, and the local port, which is last; 3 s of it wait for an SA that is not there
    assert sum(when < 3.0 + 1.0 + 3.0 for when in finished) >= len(site.ports()) - 3
    with KeyStore(site.stores["keystore"], create=False) as store:
        guid = victim.end_ports[0].guid
        assert MKey(victim.end_ports[0].m_key) in store.all_keys().get(guid, [])
        assert MKey(before[guid]) in store.all_keys().get(guid, [])
    site.net.silence(victim, False)
    run = site.run(resume)
    assert run.account.is_complete
    assert site.current() == site.keys()
    assert not set(before.values()) & set(site.keys().values())


def test_no_look_goes_through_a_switch_that_is_getting_its_key(tmp_path: Path) -> None:
    """The Get that looks at the link to a host is lost, and sent again a second later with the same key. In that second
    the switch that it asks must not get another one."""
    site = Site(Subnet.from_text(fat_tree(2, 4, 2)), tmp_path)
    for host in ("node00005 mlx5_0", "node00006 mlx5_0"):  # so that a second goes by and links are looked at again
        site.net.faults.lose_next("request", node=site.net.node(host), method=Method.SET)

    def lose_a_look(fabric: Any) -> None:
        leaf, started, orders = site.net.node("leaf 1-2"), site.net.now, [PortInfo.attribute_id]

        def order(_out: Outgoing) -> None:
            if orders and site.net.now - started >= 1:
                site.net.faults.lose_next("request", node=leaf, method=Method.GET, attribute=orders.pop())

        spy(fabric, before=order)

    run = site.run(deploy(RunOptions(protect=2, lease=60, at_once=2, max_failures=1)), before=lose_a_look)
    assert site.reasons("failed") == {}
    assert (run.account.done, run.account.sets_lost, site.violations()) == (len(site.ports()), 2, 0)
    assert not site.net.faults.active


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_under_losses_a_fabric_of_2048_hosts_completes_with_a_whole_account(seed: int, tmp_path: Path) -> None:
    site = Site(Subnet.from_text(fat_tree(64, 32, 8), seed=seed), tmp_path)
    everything = len(site.ports())
    site.run(deploy(RunOptions(protect=1, lease=60, at_once=256)))

    def spoil(fabric: Any) -> None:
        site.net.faults.drop = 0.2

    run = site.run(rotate(RunOptions(protect=2, lease=60, max_failures=1000)), before=spoil)
    account = run.account
    assert account.done + account.failed == len(site.results) == everything == 2120
    assert account.failed <= 20
    assert account.replies_lost > 100
    assert account.sets_lost > 100
    site.net.faults.clear()
    current, keys = site.current(), site.keys()
    failed = {int(result.port["port_guid"], 16) for result in site.results if result.result == "failed"}
    assert {guid for guid in keys if current[guid] != keys[guid]} <= failed
    if failed:
        assert site.run(resume).account.is_complete
    assert site.current() == site.keys()


# --- silence at the worst moment --------------------------------------------------------------------------------------


def test_a_key_that_the_port_may_have_is_not_abandoned(site: Site) -> None:
    """The first Set is lost, the second arrives, and then nothing answers any more."""
    site.run(deploy())
    victim = site.net.port(NAME, 1)
    old = victim.m_key

    def mischief(fabric: Any) -> None:
        site.net.faults.lose_next("request", method=Method.SET, node=victim.node)
        recv = fabric.umad.recv

        def cut(seconds: float) -> Any:
            if victim.m_key != old:
                site.net.silence(NAME)
            return recv(seconds)

        fabric.umad.recv = cut

    run = site.run(rotate(), before=mischief, retries=1)
    assert (run.account.failed, run.account.unresolved) == (1, 1)
    assert "neither to the new nor to the old" in str(site.reasons("failed")[NAME])
    with KeyStore(site.stores["keystore"], create=False) as store:
        states = {row.m_key.reveal(): row.state for row in store.rows() if row.port_guid == victim.guid}
    assert victim.m_key != old
    assert states[victim.m_key] == "pending"
    site.net.silence(NAME, False)
    site.run(resume)
    assert site.current()[victim.guid] == victim.m_key


def test_a_first_key_after_a_removal_is_resumed_at_a_port_that_fell_silent(site: Site) -> None:
    """Its key in the store is 0, and it refuses 0: it is asked with the key that it may have."""
    site.run(deploy())
    site.run(remove(leaves_open=True))
    victim = site.net.port(NAME, 1)

    def cut(fabric: Any) -> None:
        spy(fabric, after=lambda out: site.net.silence(NAME) if victim.m_key else None)

    assert site.run(deploy(), before=cut).account.failed == 1
    assert victim.protect_bits == 2
    site.net.silence(NAME, False)
    assert site.run(resume).account.is_complete
    assert site.current()[victim.guid] == victim.m_key
    assert site.violations() == 0


def test_a_port_that_falls_silent_while_it_is_asked_again_is_in_the_account(site: Site) -> None:
    """Its first read is lost, the second is not, its Set leaves, and then nothing answers any more."""
    site.run(deploy())
    victim = site.net.port(NAME, 1)
    old = victim.m_key

    def mischief(fabric: Any) -> None:
        lost = 0
        recv = fabric.umad.recv

        def lose_the_first_read(out: Outgoing) -> None:
            nonlocal lost
            if not lost and out.mad[24:32] == old.to_bytes(8):
                lost = 1
                site.net.faults.lose_next("request", node=victim.node)

        def cut(seconds: float) -> Any:
            if victim.m_key != old:
                site.net.silence(NAME)
            return recv(seconds)

        spy(fabric, before=lose_the_first_read)
        fabric.umad.recv = cut

    run = site.run(rotate(), before=mischief, retries=0)
    account = run.account
    assert victim.m_key != old
    assert (account.failed, account.unresolved, account.waiting, account.done) == (1, 1, 0, 7)
    assert list(site.reasons("failed")) == [NAME]
