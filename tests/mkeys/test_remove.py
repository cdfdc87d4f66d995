"""mkey-remove over simulated fabrics: no port keeps a key, none is locked out, and every former key is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ibkeys.errors import Refused
from ibkeys.keys.mkey import MKey
from ibkeys.mad.const import Method, SMState
from ibkeys.mkeys.rollout.going_back import plan_return
from ibkeys.mkeys.rollout.removal import plan_removal
from ibkeys.mkeys.rollout.run_plan import carry_out
from ibkeys.sim.faults import LossDirection
from ibkeys.store.journal import Journal
from ibkeys.store.journal.runs import RunOptions, Runs
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.umad.port import Outgoing
from tests.fabricsim import interlocks, tool, writer
from tests.mkeys.rollout import KEY, LEVEL_2, NAME, Site, deploy, remove, resume, rotate, site_of
from tests.sample import in_soak
from tests.spy import is_set, sets, spy

LEVELS = [0, 1, 2, 3]
OPEN = {(0, 0)}
SILENT = "node04 mlx4_0"


def deployed(site: Site, level: int, lease: int = 60) -> dict[int, int]:
    """Give every port a key; return them by port GUID."""
    site.run(deploy(RunOptions(protect=level, lease=lease)), "lease-0")
    return site.keys()


def is_open(site: Site) -> bool:
    """Whether no port has a key, level or lease, no violation was counted, and the key store knows it."""
    return (set(site.keys().values()), site.states(), site.violations()) == ({0}, OPEN, 0) and (
        site.current() == site.keys()
    )


# --- the ordinary course ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["two-switch", "dual-home", in_soak("torus444")])
def test_every_port_loses_key_level_and_lease_in_one_set_with_its_own_key(
    name: str, level: int, tmp_path: Path
) -> None:
    site = site_of(name, tmp_path)
    former = deployed(site, level)
    run = site.run(remove())
    assert (run.account.done, run.account.failed, run.account.waiting) == (len(former), 0, 0)
    assert is_open(site)
    assert sorted(int.from_bytes(mad[24:32], "big") for mad in sets(site.record)) == sorted(former.values())


def test_every_former_key_stays_in_the_store(site: Site) -> None:
    former = deployed(site, 2)
    site.run(remove())
    with KeyStore(site.stores["keystore"], create=False) as store:
        assert all(store.all_keys().get(guid, []) == [MKey(0), MKey(key)] for guid, key in former.items())


def test_afterwards_the_fabric_is_read_and_given_keys_again_without_a_violation(site: Site) -> None:
    deployed(site, 2)
    site.run(remove())
    with tool(site.net, **site.stores) as fabric:
        found = fabric.sweep()
    assert (found.troubles, {port.m_key_state for port in found.end_ports()}) == ([], {"zero"})
    assert not site.plan(remove()).pending
    assert site.run(deploy()).account.done == 8
    assert site.violations() == 0


def test_the_own_port_is_last_and_the_port_of_an_sm_before_it(site: Site) -> None:
    deployed(site, 2)
    site.net.set_sm("node03 mlx4_0", SMState.NOT_ACTIVE)
    site.run(remove())
    assert [result.port["lid"] for result in site.results][-2:] == [3, 1]


# --- losses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("what", "sent_in_all"), [("reply", 8), ("request", 9)])
def test_one_set_is_safe_when_it_or_its_reply_is_lost(
    what: LossDirection, sent_in_all: int, level: int, site: Site
) -> None:
    """The old key alone tells whether it arrived: a port that has lost its key answers to any. Nobody counts a
    violation, and a Set that was lost is sent again."""
    deployed(site, level)
    victim = site.net.node(NAME)
    run = site.run(remove(), before=lambda fabric: site.net.faults.lose_next(what, node=victim, method=Method.SET))
    account = run.account
    assert (account.done, account.replies_lost, account.sets_lost) == (8, what == "reply", what == "request")
    assert account.violations == 0
    assert len(sets(site.record)) == sent_in_all
    assert is_open(site)


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("level", LEVELS)
def test_a_port_that_falls_silent_at_its_set_is_open_or_has_its_key(level: int, arrives: bool, site: Site) -> None:
    """Both are in the key store, so it can be finished whichever it is."""
    former = deployed(site, level)
    victim = site.net.port(NAME, 1)

    def cut(fabric: Any) -> None:
        def silence_first(out: Outgoing) -> None:
            if not arrives and is_set(out) and out.mad[80:82] == b"\0\2":
                site.net.silence(NAME)

        def silence_then(out: Outgoing) -> None:
            if not victim.m_key:
                site.net.silence(NAME)

        spy(fabric, before=silence_first, after=silence_then)

    run = site.run(remove(), before=cut)
    assert (run.account.done, run.account.failed, run.account.unresolved) == (7, 1, 1)
    assert (victim.m_key, victim.protect_bits) == ((0, 0) if arrives else (former[victim.guid], level))
    site.net.silence(NAME, False)
    run = site.run(resume)
    assert run.account.is_complete
    assert is_open(site)


# --- ports that are left alone, and ports without a key ---------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_port_whose_key_is_not_known_is_left_alone_and_named(level: int, site: Site) -> None:
    deployed(site, 2)
    port = site.net.port(NAME, 1)
    port.m_key, port.protect_bits = KEY.reveal(), level
    run = site.run(remove())
    assert (run.account.done, run.account.unread) == (7, 1)
    assert not run.account.is_complete
    assert (port.m_key, port.protect_bits, port.lease_period) == (KEY.reveal(), level, 60)
    assert all(mad[80:82] != b"\0\2" for mad in sets(site.record))


@pytest.mark.parametrize(("level", "lease", "more"), [(2, 60, {}), (3, 0, {}), (0, 60, {}), (1, 9, {"m_key": MKey(0)})])
def test_a_level_and_lease_without_a_key_go_too_and_come_back(
    level: int, lease: int, more: dict[str, Any], site: Site
) -> None:
    """Level 1 with key 0 reads as a hidden key: it needs ``-y 0``, which says that there is none."""
    port = site.net.port(NAME, 1)
    port.protect_bits, port.lease_period = level, lease
    run = site.run(remove(), **more)
    assert (run.account.done, run.account.skipped) == (1, 7)
    assert site.states() == OPEN
    assert run.plan.questions == []
    assert site.current() == {port.guid: 0}
    site.run(plan_return)
    assert (port.m_key, port.protect_bits, port.lease_period) == (0, level, lease)


def test_without_y_0_level_1_without_a_key_is_named_as_hidden(site: Site) -> None:
    site.net.port(NAME, 1).protect_bits = 1
    site.run(remove())
    assert str(site.reasons("skipped")[NAME]).endswith("m_key=0 if it has none")
    assert site.net.port(NAME, 1).protect_bits == 1


def test_where_ports_have_keys_the_advice_says_where_else_that_key_would_go(site: Site) -> None:
    site.net.port(NAME, 1).protect_bits = 1
    site.run(deploy(RunOptions(protect=2, lease=60)))
    site.run(remove())
    why = str(site.reasons("skipped")[NAME])
    assert "m_key= goes to all ports, and those at level 2 or 3 with another key count a violation" in why


def test_a_key_that_is_gone_already_is_noted_in_the_store(site: Site) -> None:
    deployed(site, 2)
    port = site.net.port(NAME, 1)
    port.m_key = port.protect_bits = port.lease_period = 0
    run = site.run(remove())
    assert (run.account.done, len(run.already_set), len(sets(site.record))) == (8, 1, 7)
    assert site.current() == site.keys()


def test_nothing_to_take_away(site: Site) -> None:
    run = site.plan(remove())
    assert not run.pending
    assert {result.reason for result in run.skipped} == {"no M_Key, no level and no lease"}


# --- in parts, on and back --------------------------------------------------------------------------------------------


def test_the_first_ports_then_the_others(site: Site) -> None:
    deployed(site, 2)
    run = site.run(remove(first=3))
    assert (run.account.done, run.account.waiting) == (3, 5)
    assert sorted(site.keys().values()).count(0) == 3
    with pytest.raises(Refused, match="ibkeys resume"):
        site.plan(remove())
    assert site.run(resume).account.done == 5
    assert is_open(site)


def test_a_run_that_was_stopped_is_resumed(site: Site) -> None:
    deployed(site, 2)
    site.run(remove(max_failures=1, at_once=1), before=lambda fabric: site.net.silence(SILENT))
    assert 0 not in site.keys().values()
    site.net.silence(SILENT, False)
    assert site.run(resume).account.is_complete
    assert is_open(site)


@pytest.mark.parametrize("level", LEVELS)
def test_abort_gives_the_former_keys_levels_and_leases_back(level: int, site: Site) -> None:
    former = deployed(site, level)
    site.run(remove())
    run = site.run(plan_return)
    assert run.account.done == 8
    assert (site.keys(), site.states(), site.violations()) == (former, {(level, 60)}, 0)
    assert site.current() == former
    assert site.run(remove()).account.done == 8


@pytest.mark.parametrize("what", ["reply", "request"])
def test_abort_with_a_loss_counts_no_violation(what: Any, site: Site) -> None:
    former = deployed(site, 2)
    site.run(remove(first=4))
    lose = lambda fabric: site.net.faults.lose_next(what, method=Method.SET)  # noqa: E731
    run = site.run(plan_return, before=lose)
    assert (run.account.done, run.account.violations, site.violations()) == (4, 0, 0)
    assert (site.keys(), site.states()) == (former, {(2, 60)})


# --- interlocks and the question --------------------------------------------------------------------------------------


def test_under_a_master_it_refuses_and_says_how_opensm_does_it(site: Site) -> None:
    former = deployed(site, 2)
    site.net.set_sm("node03 mlx4_0")
    run = site.plan(remove())
    assert interlocks(run.plan) == {"mkey-under-sm"}
    text = " ".join([*(each.message for each in run.plan.objections), *run.procedure])
    for words in ("the keys come back", "runs an SM: 'node03 mlx4_0'", "mkey-remove --via opensm", "mkey-show --all"):
        assert words in text
    with pytest.raises(Refused, match="mkey-under-sm"):
        site.run(remove())
    assert site.keys() == former
    site.run(remove(), "mkey-under-sm")
    assert site.states() == OPEN


def test_an_opensm_conf_with_the_key_is_spoken_of(site: Site) -> None:
    deployed(site, 1)
    assert any("put m_key 0 there before that SM starts" in note for note in site.plan(remove()).plan.notes)


def test_a_fabric_left_open_is_a_question_unless_it_is_meant(site: Site) -> None:
    deployed(site, 2)
    [question] = site.plan(remove()).plan.questions
    assert question.text.startswith("8 ports lose their M_Keys: afterwards every host of the fabric may change ")
    assert question.answer == "leave_open=True"
    assert site.plan(remove(leaves_open=True)).plan.questions == []


def test_a_dry_run_makes_and_sends_nothing(site: Site) -> None:
    deployed(site, 2)
    before = (site.folder / "keys.db").read_bytes()
    with tool(site.net, **site.stores) as fabric, writer(fabric, dry_run=True) as w:
        record = spy(fabric)
        assert len(plan_removal(w).jobs) == 8
    assert sets(record) == []
    assert (site.folder / "keys.db").read_bytes() == before


def test_the_run_is_kept_as_one_of_mkey_remove(site: Site) -> None:
    deployed(site, 2)
    site.run(rotate(LEVEL_2))
    site.run(remove(first=2))
    with Journal.read(site.stores["journal"]) as journal:
        last = Runs(journal).last()
    assert last is not None
    assert (last.command, last.operation.state, last.options.protect, last.options.lease) == (
        "mkey-remove",
        "open",
        0,
        0,
    )
    with tool(site.net, **site.stores) as fabric, writer(fabric) as w:
        run = plan_return(w)
        carry_out(w, run, lambda result: None)
    assert 0 not in site.keys().values()
