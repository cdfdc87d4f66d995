"""Runs of mkey-deploy and mkey-rotate that stop, as asked for or not: going on, finishing, going back."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import Refused, StoreError, UsageError
from ibkeys.mkeys.planning_options import PlanningOptions
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.rest_of_run import plan_rest
from ibkeys.mkeys.rollout.result import PortResult
from ibkeys.sim.subnet import Subnet
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.port import Outgoing
from tests.fattree import fat_tree
from tests.mkeys.rollout import KEY, NAME, Plan, Site, deploy, remove, resume, rotate, undo
from tests.spy import at_sets, sets, spy

# --- the first ports, going on, going back ---------------------------------------------------------------------------


def test_the_first_ports_then_the_others(site: Site) -> None:
    options = RunOptions(same=True, protect=2, lease=60, first=3)
    run = site.run(deploy(options))
    assert (run.account.done, run.account.waiting) == (3, 5)
    assert run.account.is_complete
    [key] = set(site.keys().values()) - {0}
    with pytest.raises(Refused, match="ibkeys resume"):
        site.plan(rotate())
    run = site.run(resume)
    assert (run.account.done, run.account.waiting) == (5, 0)
    assert set(site.keys().values()) == {key}
    assert site.plan(rotate()).pending


def test_the_others_wait_until_the_first_are_done(site: Site) -> None:
    victim = site.net.node("node04 mlx4_0")
    silence = lambda fabric: site.net.silence(victim)  # noqa: E731
    run = site.run(deploy(RunOptions(first=3)), before=silence)
    assert (run.account.done, run.account.failed, run.account.waiting) == (2, 1, 5)
    with pytest.raises(UsageError, match="not all done"):
        site.plan(lambda w: plan_rest(w, PlanningOptions(first=2)))
    site.net.silence(victim, False)
    run = site.run(resume)
    assert (run.account.done, run.account.waiting) == (1, 5)
    run = site.run(lambda w: plan_rest(w, PlanningOptions(first=2)))
    assert (run.account.done, run.account.waiting) == (2, 3)
    assert site.run(resume).account.done == 3


@pytest.mark.parametrize("level", [0, 1, 2])
def test_going_back_from_a_rotation(level: int, site: Site) -> None:
    site.run(deploy(RunOptions(protect=level, lease=60)))
    before = site.keys()
    site.run(rotate(RunOptions(protect=3, lease=90)))
    run = site.run(plan_return)
    assert run.account.done == 8
    assert (site.keys(), site.states()) == (before, {(level, 60)})
    assert site.current() == before
    assert site.violations() == 0


def test_going_back_from_a_canary_of_first_keys_leaves_no_key(site: Site) -> None:
    site.run(deploy(RunOptions(protect=2, lease=60, first=3)))
    run = site.run(plan_return)
    assert run.account.done == 3
    assert (set(site.keys().values()), site.states()) == ({0}, {(0, 0)})
    assert site.plan(deploy()).pending


def test_going_back_before_anything_was_set_leaves_no_pending_key(site: Site) -> None:
    dead = site.net.node("node04 mlx4_0")
    site.run(deploy(RunOptions(same=True, first=1, max_failures=1)), before=lambda fabric: site.net.silence(dead))
    assert set(site.keys().values()) == {0}
    site.run(plan_return)
    with KeyStore(site.stores["keystore"], create=False) as store:
        assert [row.state for row in store.rows()] == ["former"]
    assert site.plan(deploy()).pending


def test_nothing_to_go_on_with(site: Site) -> None:
    for plan in (resume, plan_return):
        with pytest.raises(UsageError, match="no run"):
            site.plan(plan)
    site.run(deploy())
    assert not site.plan(resume).pending
    with pytest.raises(UsageError, match="first="):
        site.plan(lambda w: plan_rest(w, PlanningOptions(first=2)))
    site.run(undo)
    with pytest.raises(StoreError, match="was rolled back"):
        site.plan(resume)


@pytest.mark.parametrize("begun", [rotate(RunOptions(first=7)), remove(first=7)], ids=["rotate", "remove"])
def test_a_key_that_somebody_else_set_meanwhile_is_left_alone(begun: Plan, site: Site) -> None:
    site.run(deploy(RunOptions(protect=0, lease=60)))
    site.run(begun)
    port = site.net.port(NAME, 1)
    port.m_key = KEY.reveal()
    run = site.run(plan_return)
    assert (run.account.done, run.account.unread, run.account.overtaken) == (6, 0, 1)
    assert "another user or program" in str(site.reasons("skipped")[NAME])
    assert port.m_key == KEY.reveal()


@pytest.mark.parametrize("what", ["deploy", "rotate", "remove"])
@pytest.mark.parametrize("now", ["another", "former"])
def test_what_has_ended_goes_back_only_while_every_port_holds_its_key(what: str, now: str, site: Site) -> None:
    port, former = site.net.port(NAME, 1), 0
    site.run(deploy(RunOptions(protect=0, lease=60)))
    if what != "deploy":
        former = port.m_key
        site.run({"rotate": rotate(RunOptions()), "remove": remove()}[what])
    given, port.m_key = port.m_key, {"another": KEY.reveal(), "former": former}[now]
    before = site.keys()
    with pytest.raises(Refused) as refused:
        site.run(undo)
    assert refused.value.interlock == "overtaken"
    assert NAME in str(refused.value)
    assert "node03" not in str(refused.value)
    assert "--overtaken" not in str(refused.value)  # it has ended
    assert site.keys() == before
    port.m_key = given
    assert site.run(undo).account.is_complete


@pytest.mark.parametrize("how", ["silent", "unplugged"])
def test_a_port_that_is_not_there_does_not_keep_the_others_from_going_back(how: str, site: Site) -> None:
    site.run(deploy())
    former = site.keys()
    site.run(rotate())
    site.net.silence(NAME) if how == "silent" else site.net.unplug(NAME, 1)
    run = site.run(undo)
    assert (run.account.done, run.account.unread) == (7, 1)
    guid = site.net.port(NAME, 1).guid
    assert {each: key for each, key in site.keys().items() if each != guid} == {
        each: key for each, key in former.items() if each != guid
    }


def test_after_first_keys_have_ended_the_way_back_needs_a_word_that_ports_may_be_open(site: Site) -> None:
    site.run(deploy())
    before = site.keys()
    with pytest.raises(Refused, match=r"8 ports .*leave_open=True") as refused:
        site.run(plan_return)
    assert refused.value.interlock == "confirmation"
    assert site.keys() == before
    node = site.net.node(NAME)
    run = site.run(undo, before=lambda fabric: site.net.silence(node), retries=0)
    assert run.account.failed == 1
    site.net.silence(node, False)
    assert site.run(plan_return).account.is_complete  # what was begun is finished without another word
    assert set(site.keys().values()) == {0}


@pytest.mark.parametrize(
    ("begun", "says"), [(rotate(), True), (remove(), True), (None, False)], ids=["rotate", "remove", "deploy"]
)
def test_where_former_keys_return_it_is_said_before(begun: Plan | None, says: bool, site: Site) -> None:
    site.run(deploy())
    if begun is not None:
        site.run(begun)
    assert any("former M_Keys return" in note for note in site.plan(undo).plan.notes) == says


def test_a_port_that_was_reset_in_between_is_left_to_deploy(site: Site) -> None:
    site.run(deploy(RunOptions(protect=1, lease=60)))
    site.run(rotate(RunOptions(first=3)))
    site.net.reset("node05 mlx4_0")
    run = site.run(plan_return)
    assert (run.account.done, run.account.unread, run.account.overtaken) == (2, 0, 1)
    assert "mkey-deploy" in str(site.reasons("skipped")["node05 mlx4_0"])
    site.run(deploy(), "links-initialize")  # that of the port that was reset, until an SM comes
    assert all(site.keys().values())
    assert site.current() == site.keys()


def test_on_links_that_are_not_active_keys_go_only_where_the_topology_is_trusted(tmp_path: Path) -> None:
    site = Site(Subnet.from_text(fat_tree(2, 3, 1), link_state="initialize"), tmp_path)
    site.run(deploy(), "links-initialize")
    run = site.run(rotate(), "links-initialize")
    assert (run.account.done, run.account.unread) == (1, 8)  # the local port, and all that have a key behind it
    assert site.run(plan_return, "links-initialize").account.done == 1
    assert site.run(rotate(), "links-initialize", trust_topology=True).account.done == 9


def test_a_switch_with_a_silent_neighbour_goes_on_and_back_all_the_same(site: Site) -> None:
    site.run(deploy(RunOptions(protect=2, lease=60, first=3)))
    site.net.silence(NAME)
    assert site.run(resume).account.done == 4
    run = site.run(plan_return)
    assert run.account.done == 7
    site.net.silence(NAME, False)
    assert set(site.keys().values()) == {0}


def test_a_port_that_could_not_be_read_on_the_way_back_goes_back_later(site: Site) -> None:
    site.run(deploy())
    before = site.keys()
    site.run(rotate())
    node = site.net.node(NAME)

    def fall_silent(fabric: Any) -> None:
        node.silent = 1

    run = site.run(plan_return, before=fall_silent, retries=0)
    assert run.account.failed == 1
    assert list(site.reasons("failed")) == [NAME]
    node.silent = 0
    run = site.run(plan_return)
    assert (run.account.done, run.account.failed) == (1, 0)
    assert site.keys() == before


def test_a_port_that_is_gone_does_not_keep_the_run_open(site: Site) -> None:
    site.run(deploy(RunOptions(first=2)))
    site.net.unplug(NAME, 1)
    run = site.run(resume)
    assert (run.account.done, run.account.unread) == (5, 1)
    assert "did not find it" in str([result.reason for result in site.results])
    assert site.plan(rotate()).pending


# --- what stops a run ------------------------------------------------------------------------------------------------


def test_it_stops_at_so_many_failures_and_says_what_waits(tmp_path: Path) -> None:
    site = Site(Subnet.from_text(fat_tree(4, 8, 2)), tmp_path)
    dead = [site.net.nodes[index] for index in (4, 9, 14)]
    silence = lambda fabric: [site.net.silence(node) for node in dead]  # noqa: E731
    run = site.run(deploy(RunOptions(at_once=2, max_failures=2)), before=silence)
    account = run.account
    assert account.failed == 2
    assert "the most that may" in account.stopped
    assert account.waiting > 0
    assert account.done + account.failed + account.waiting == 38
    for node in dead:
        site.net.silence(node, False)
    with pytest.raises(Refused, match="ibkeys resume"):
        site.plan(rotate())
    run = site.run(resume)
    assert run.account.is_complete
    assert site.current() == site.keys()


def test_a_store_that_fails_in_the_middle_sends_no_further_set(site: Site) -> None:
    def fill(fabric: Any) -> None:
        calls = 0
        put = KeyStore.put_pending

        def failing(*args: Any, **options: Any) -> int:
            nonlocal calls
            calls += 1
            if calls == 4:
                raise StoreError("no space left")
            return put(*args, **options)

        monkeypatch.setattr(KeyStore, "put_pending", failing)

    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(StoreError, match="no space"):
        site.run(deploy(RunOptions(at_once=1)), before=fill)
    assert len(sets(site.record)) == 3
    assert sum(key != 0 for key in site.keys().values()) == 3
    assert site.run(resume).account.is_complete
    assert site.current() == site.keys()


def test_a_listener_that_fails_ends_the_run_after_the_ports_in_change(site: Site) -> None:
    def gone(result: PortResult) -> None:
        raise BrokenPipeError("nobody listens")

    with pytest.raises(BrokenPipeError):
        site.run(deploy(RunOptions(at_once=1)), report=gone)
    assert len(sets(site.record)) == 1
    assert site.run(resume).account.is_complete


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_after_the_ports_in_change(number: int, site: Site) -> None:
    def interrupt(result: PortResult) -> None:
        site.results.append(result)
        if len(site.results) == 2:
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt, match="ibkeys resume"):
        site.run(deploy(RunOptions(at_once=2)), report=interrupt)
    assert 2 <= len(site.results) <= 4
    assert {result.result for result in site.results} == {"done"}
    assert len(sets(site.record)) == len(site.results)
    with KeyStore(site.stores["keystore"], create=False) as store, Journal.read(site.stores["journal"]) as journal:
        assert {port.state for port in Runs(journal).ports(1)} == {"done", "waiting"}
        assert {row.state for row in store.rows()} == {"current"}
    assert site.run(resume).account.is_complete


def test_an_interrupt_leaves_what_can_be_resumed(site: Site) -> None:
    def interrupt(result: PortResult) -> None:
        if len(site.results) == 3:
            raise KeyboardInterrupt
        site.results.append(result)

    with pytest.raises(KeyboardInterrupt, match="ibkeys resume"):
        site.run(deploy(), report=interrupt)
    assert site.run(resume).account.is_complete
    assert site.current() == site.keys()


def test_an_undo_that_is_cut_off_is_finished_in_the_key_store_too(site: Site) -> None:
    """Of a port that lost its first key by a Set that was not proven, the key store has to know that it has none."""

    class Killed(BaseException):
        pass

    def kill(_: Outgoing) -> None:
        raise Killed

    def die(fabric: Any) -> None:
        spy(fabric, after=at_sets(kill))

    site.run(deploy(RunOptions(protect=0)))
    with pytest.raises(Killed):
        site.run(undo, before=die)
    assert 0 in site.keys().values()
    assert site.run(undo).account.is_complete
    assert set(site.keys().values()) == {0}
    assert site.current() == site.keys()
